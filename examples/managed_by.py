"""Keeps the label `managed-by: my-operator` on every Deployment of the watched namespaces, with two workers.

Run: python examples/managed_by.py run --no-leader-elect --watch-namespace default
"""

from memcached_operator import app
from memcached_operator.gvr import DEPLOYMENTS
from memcached_operator.runtime import Controller, Key, Result, Stores, Unstructured, Watch, decode_unstructured, done

LABELS = {"managed-by": "my-operator"}


class LabelReconciler:
    """Puts the label on, and back on."""

    def __init__(self, context: app.Context, stores: Stores) -> None:
        self._api, self._deployments = context.api, stores[DEPLOYMENTS]

    async def reconcile(self, key: Key) -> Result:
        """Which event woke us does not matter, only what is there and what should be."""
        deployment: Unstructured | None = self._deployments.get(key)
        if deployment is None:
            return done()
        if LABELS.items() <= deployment.body["metadata"].get("labels", {}).items():
            return done()
        # A merge patch changes what it names and nothing else. The uid: this Deployment, not a new one of its name.
        patch = {"metadata": {"uid": deployment.uid, "labels": LABELS}}
        answer = await self._api.patch(DEPLOYMENTS, key.namespace, key.name, patch)
        self._deployments.remember(answer)
        return done()


def controllers(context: app.Context) -> list[Controller]:
    """Two workers: two Deployments are worked on at the same time, but never one by both."""
    watch = Watch(DEPLOYMENTS, decode_unstructured)
    return [
        Controller("managed-by", for_=watch, reconciler=lambda stores: LabelReconciler(context, stores), workers=2),
    ]


if __name__ == "__main__":
    raise SystemExit(app.main(controllers, name="my-operator"))
