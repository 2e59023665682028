"""Which kinds are watched, whose they are, and how soon their news are looked at."""

from __future__ import annotations

from typing import Any

from memcached_operator.api import names
from memcached_operator.controller.pods import PodView, decode_pod
from memcached_operator.controller.views import (
    Child,
    DeploymentView,
    decode_child,
    decode_deployment,
    decode_memcached,
    decode_service,
    edited,
    waits,
)
from memcached_operator.gvr import DEPLOYMENTS, GVR, MEMCACHEDS, PODDISRUPTIONBUDGETS, PODS, SERVICES
from memcached_operator.runtime.store import Decode, Key, Watch

MANAGED = f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY}"

COALESCE_SECONDS = 0.15
"""How long news of a child that may change the status is gathered before the resource is looked at."""
LAZY_SECONDS = 2.0
"""The same for news that changes numbers at most: the many steps of a roll-out between its start and its end."""


def _carry(old: Child, new: Child) -> None:
    """Same body as before: what was found out about it still holds."""
    if old.fingerprint == new.fingerprint and old.verified:
        new.satisfies(old.verified)


def _owner(thing: Child | PodView) -> Key | None:
    return Key(thing.namespace, thing.instance) if thing.instance else None


def _child_delay(old: Child | None, new: Child | None) -> float:
    """Drift is repaired at once; news of a roll-out is gathered first."""
    if old is None or new is None or old.fingerprint != new.fingerprint:
        return 0.0
    return LAZY_SECONDS if _outlook(old) == _outlook(new) else COALESCE_SECONDS


def _outlook(child: Child) -> tuple[Any, ...]:
    """What a condition may turn on: whether it goes; of a Deployment, whether it is complete, and its complaints."""
    if not isinstance(child, DeploymentView):
        return (child.deleting,)
    deployment = child
    complete = (
        deployment.observed_generation >= deployment.generation
        and deployment.current == deployment.updated == deployment.ready == deployment.replicas
    )
    return complete, deployment.progress, deployment.failure, deployment.deleting


def _pod_delay(old: PodView | None, new: PodView | None) -> float:
    """A pod that becomes ready, stops being so, falls ill or goes is news; one that is on its way is not."""
    before = (old.ready, old.problem, old.counted) if old else (False, "", True)
    after = (new.ready, new.problem, new.counted) if new else (False, "", False)
    return LAZY_SECONDS if before == after else COALESCE_SECONDS


def _child_watch(gvr: GVR, decode: Decode[Any]) -> Watch[Any]:
    return Watch(gvr, decode, labels=MANAGED, owner=_owner, delay=_child_delay, carry=_carry)


MEMCACHED_WATCH = Watch(MEMCACHEDS, decode_memcached, waits=waits, news=edited)
DEPLOYMENT_WATCH = _child_watch(DEPLOYMENTS, decode_deployment)
SERVICE_WATCH = _child_watch(SERVICES, decode_service)
PDB_WATCH = _child_watch(PODDISRUPTIONBUDGETS, decode_child)
POD_WATCH = Watch(
    PODS,
    decode_pod,
    labels=f"{names.LABEL_APP}=memcached,{names.LABEL_INSTANCE}",
    owner=_owner,
    delay=_pod_delay,
    indexed=True,
)

OWNED = (DEPLOYMENT_WATCH, SERVICE_WATCH, PDB_WATCH, POD_WATCH)
CHILD_WATCHES: dict[str, Watch[Any]] = {watch.gvr.kind: watch for watch in (DEPLOYMENT_WATCH, SERVICE_WATCH, PDB_WATCH)}
