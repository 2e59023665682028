"""Step 1: everything that one reconcile looks at, gathered once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import msgspec

from memcached_operator.api import names
from memcached_operator.controller.autoscaler import find_autoscaler
from memcached_operator.controller.pods import PodView
from memcached_operator.controller.views import Child, DeploymentView, MemcachedView, ServiceView
from memcached_operator.controller.watches import CHILD_WATCHES
from memcached_operator.errors import NotFoundError, OperatorError
from memcached_operator.gvr import DEPLOYMENTS, HORIZONTALPODAUTOSCALERS, MEMCACHEDS, NAMESPACES, PODS, SERVICES
from memcached_operator.runtime.ports import Api
from memcached_operator.runtime.store import Key, Stores


@dataclass(frozen=True, slots=True)
class Observed:
    """One Memcached and what the cluster has for it. `children` by kind; an absent kind is an absent object.

    `autoscaler` names one that scales the Deployment behind our back. `namespace_going` is looked up for a drain alone.
    `errors` are (kind, error) of what could not be looked at.
    """

    memcached: MemcachedView
    children: dict[str, Child]
    pods: tuple[PodView, ...]  # those that count, sorted by name
    autoscaler: str = ""
    namespace_going: bool = False
    errors: tuple[tuple[str, OperatorError], ...] = ()

    @property
    def deployment(self) -> DeploymentView | None:
        """The Deployment of the resource's name, whoever it belongs to."""
        return cast("DeploymentView | None", self.children.get(DEPLOYMENTS.kind))

    @property
    def service(self) -> ServiceView | None:
        """The Service of the resource's name, whoever it belongs to."""
        return cast("ServiceView | None", self.children.get(SERVICES.kind))

    @property
    def ready_pods(self) -> tuple[PodView, ...]:
        """Pods that serve."""
        return tuple(pod for pod in self.pods if pod.ready)

    @property
    def deleting(self) -> bool:
        """Whether the resource is being deleted."""
        return self.memcached.deleted_at is not None

    @property
    def held(self) -> bool:
        """Whether our finalizer is on the resource."""
        return names.DRAIN_FINALIZER in self.memcached.finalizers


def snapshot(stores: Stores, key: Key) -> Observed | None:
    """What the stores know of `key`; None when there is no such Memcached."""
    memcached = stores[MEMCACHEDS].get(key)
    if memcached is None:
        return None
    children = {
        kind: child for kind, watch in CHILD_WATCHES.items() if (child := stores[watch.gvr].get(key)) is not None
    }
    pods = sorted((pod for pod in stores[PODS].owned_by(key) if pod.counted), key=lambda pod: pod.name)
    return Observed(memcached, children, tuple(pods))


async def observe(api: Api, stores: Stores, key: Key) -> Observed | None:
    """The snapshot, and what no watch shows, in the rare cases in which something depends on it. Raises nothing."""
    observed = snapshot(stores, key)
    if observed is None:
        return None
    if observed.deleting:
        return (
            replace(observed, namespace_going=await _namespace_is_going(api, key.namespace))
            if observed.held
            else observed
        )
    if observed.deployment is None or not observed.deployment.autoscaled:
        return observed
    try:
        return replace(observed, autoscaler=await find_autoscaler(api, key))
    except OperatorError as error:
        return replace(observed, errors=((HORIZONTALPODAUTOSCALERS.kind, error),))


async def _namespace_is_going(api: Api, namespace: str) -> bool:
    """A drain must not hold a namespace hostage: its pods go anyway. Not knowing is no harm: a drain ends in time."""
    try:
        raw = await api.get(NAMESPACES, "", namespace)
    except NotFoundError:
        return True
    except OperatorError:
        return False
    return bool(msgspec.json.decode(raw).get("metadata", {}).get("deletionTimestamp"))
