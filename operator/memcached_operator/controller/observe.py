"""Step 1: everything that one reconcile looks at, gathered once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from memcached_operator.controller.views import CHILD_WATCHES, Child, DeploymentView, MemcachedView, PodView
from memcached_operator.gvr import DEPLOYMENTS, MEMCACHEDS, PODS
from memcached_operator.runtime.store import Key, Stores


@dataclass(frozen=True, slots=True)
class Observed:
    """One Memcached and what the cluster has for it. `children` by kind; an absent kind is an absent object."""

    memcached: MemcachedView
    children: dict[str, Child]
    pods: tuple[PodView, ...]  # those that count, sorted by name

    @property
    def deployment(self) -> DeploymentView | None:
        """The Deployment of the resource's name, whoever it belongs to."""
        return cast("DeploymentView | None", self.children.get(DEPLOYMENTS.kind))

    @property
    def ready_pods(self) -> tuple[PodView, ...]:
        """Pods that serve."""
        return tuple(pod for pod in self.pods if pod.ready)


def observe(stores: Stores, key: Key) -> Observed | None:
    """What the stores know of `key`; None when there is no such Memcached."""
    memcached = stores[MEMCACHEDS].get(key)
    if memcached is None:
        return None
    children = {kind: child for kind, watch in CHILD_WATCHES.items() if (child := stores[watch.gvr].get(key)) is not None}
    pods = sorted((pod for pod in stores[PODS].owned_by(key) if pod.counted), key=lambda pod: pod.name)
    return Observed(memcached, children, tuple(pods))
