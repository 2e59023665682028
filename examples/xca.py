"""Xca: whenever one is seen that is not active, make it active and note the time. Once, and never again.

Run: python examples/xca.py run --no-leader-elect
"""

import datetime

from memcached_operator import app
from memcached_operator.gvr import GVR
from memcached_operator.runtime import Controller, Key, Result, Stores, Unstructured, Watch, decode_unstructured, done

XCAS = GVR("tutorial.example.com", "v1", "xcas", "Xca")


class XcaReconciler:
    """Sets `status.active` and `status.last_update_time`."""

    def __init__(self, context: app.Context, stores: Stores) -> None:
        self._api, self._xcas = context.api, stores[XCAS]

    async def reconcile(self, key: Key) -> Result:
        """Compare, and write only when there is a difference."""
        xca: Unstructured | None = self._xcas.get(key)
        if xca is None:  # deleted meanwhile: nothing to do, and no error
            return done()
        if xca.body.get("status", {}).get("active") is True:
            return done()
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        patch = {
            # What we looked at. If somebody was faster, perhaps we ourselves, the API answers 409 and we look again.
            "metadata": {"resourceVersion": xca.resource_version},
            "status": {"active": True, "last_update_time": now},
        }
        answer = await self._api.patch(XCAS, key.namespace, key.name, patch, subresource="status")
        self._xcas.remember(answer)  # the next reconcile sees our own write, however late its event is
        return done()


def controllers(context: app.Context) -> list[Controller]:
    """One controller, for one kind."""
    watch = Watch(XCAS, decode_unstructured)
    return [Controller("xca", for_=watch, reconciler=lambda stores: XcaReconciler(context, stores))]


if __name__ == "__main__":
    raise SystemExit(app.main(controllers, name="xca-controller"))
