"""MyApp: owns a Deployment and a Service, repairs them, and reports in two conditions and in events.

Run: python examples/my_app.py run --no-leader-elect
"""

from memcached_operator import app
from memcached_operator.errors import OperatorError
from memcached_operator.gvr import DEPLOYMENTS, GVR, SERVICES
from memcached_operator.resources.comparison import covers
from memcached_operator.runtime import Controller, Key, Result, Stores, Unstructured, Watch, decode_unstructured, done
from memcached_operator.runtime.children import Manifest, controller_uid, ensure, owner_reference
from memcached_operator.runtime.conditions import condition

MYAPPS = GVR("tutorial.example.com", "v1", "myapps", "MyApp")


def desired_children(me: Unstructured) -> dict[GVR, Manifest]:
    """What has to exist for one MyApp. Pure, and it cannot fail: the CRD's schema has checked the spec."""
    spec, labels, owner = me.body["spec"], {"my-app": me.name}, owner_reference(MYAPPS, me)
    metadata = {"name": me.name, "namespace": me.namespace, "labels": labels, "ownerReferences": [owner]}
    container = {"name": "app", "image": spec["image"], "ports": [{"containerPort": spec["port"], "protocol": "TCP"}]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    deployment = {"replicas": spec["replicas"], "selector": {"matchLabels": labels}, "template": template}
    service = {"selector": labels, "ports": [{"port": 80, "targetPort": spec["port"], "protocol": "TCP"}]}
    pairs = ((DEPLOYMENTS, deployment), (SERVICES, service))
    return {gvr: {"apiVersion": gvr.api_version, "kind": gvr.kind, "metadata": metadata, "spec": s} for gvr, s in pairs}


def difference(wanted: Manifest, found: Manifest) -> str | None:
    """What is not as we want it. Fields that we do not name are not ours: the API server and others fill them in."""
    want, have = (body["spec"].get("replicas") for body in (wanted, found))  # covers() does not look at replicas
    return covers(wanted, found) or (f"{want} replicas wanted, {have} found" if want != have else None)


class MyAppReconciler:
    """Children first, then the status, also when a child was refused."""

    def __init__(self, context: app.Context, stores: Stores) -> None:
        self._api, self._record, self._stores = context.api, context.recorder.record, stores

    async def reconcile(self, key: Key) -> Result:
        """Make what is there what should be there. Over the same state, a second run writes nothing."""
        me = self._stores[MYAPPS].get(key)
        if me is None or "deletionTimestamp" in me.body["metadata"]:
            return done()  # the garbage collector deletes the children: making them again would be a fight
        try:
            for gvr, manifest in desired_children(me).items():
                if change := await ensure(self._api, self._stores[gvr], manifest, difference):
                    self._record(MYAPPS, me, "Normal", change.reason, "Reconcile", change.note)
        except OperatorError as error:
            self._record(MYAPPS, me, "Warning", "Failed", "Reconcile", str(error))
            await self._report(me, failure=str(error))
            raise  # the machinery tries again, later and later
        await self._report(me)
        return done()

    async def _report(self, me: Unstructured, failure: str = "") -> None:
        """Write the status, if it is another one."""
        deployment = self._stores[DEPLOYMENTS].get(me.key)
        body = deployment.body if deployment and controller_uid(deployment.body) == me.uid else {"metadata": {}}
        counts = body.get("status", {})
        ready, wanted = counts.get("readyReplicas", 0), me.body["spec"]["replicas"]
        current = counts.get("observedGeneration") == body["metadata"].get("generation")
        settled = current and all(counts.get(c, 0) == wanted for c in ("replicas", "updatedReplicas", "readyReplicas"))
        stage = "Failed" if failure else "Settled" if settled else "RollingOut"
        old = me.body.get("status", {}).get("conditions", [])
        new = [
            condition(old, "Available", status=ready >= wanted, reason="PodCount", message=f"{ready}/{wanted} ready"),
            condition(old, "Progressing", status=stage == "RollingOut", reason=stage, message=failure),
        ]
        if new != old:
            patch = {"metadata": {"uid": me.uid}, "status": {"conditions": new}}
            self._stores[MYAPPS].remember(await self._api.patch(MYAPPS, *me.key, patch, subresource="status"))


def controllers(context: app.Context) -> list[Controller]:
    """Children bear their owner's name, so that is whom an event of theirs wakes."""
    owned = [Watch(gvr, decode_unstructured, owner=lambda child: child.key) for gvr in (DEPLOYMENTS, SERVICES)]
    watch = Watch(MYAPPS, decode_unstructured)
    return [Controller("my-app", for_=watch, owns=owned, reconciler=lambda stores: MyAppReconciler(context, stores))]


if __name__ == "__main__":
    raise SystemExit(app.main(controllers, name="my-app-controller"))
