"""What a deletion does to the children. Pure: a drain is a state machine whose state is in the cluster, so a restart resumes it."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

import msgspec

from memcached_operator.api import defaults, names
from memcached_operator.api.v1alpha1 import DeletionPolicy, Memcached
from memcached_operator.controller.observe import Observed
from memcached_operator.controller.plan import Action, Scale, StopServing, is_ours, plan_removal
from memcached_operator.controller.views import ServiceView
from memcached_operator.gvr import SERVICES

ORPHAN_FINALIZER = "orphan"  # kubectl delete --cascade=orphan: the user wants the children to stay
STOP_SECONDS = 60.0
"""How long a drain waits for pods that were told to stop before it deletes their Deployment all the same."""


class _Spec(msgspec.Struct, gc=False):
    deletionPolicy: str = DeletionPolicy.DELETE.value
    drainSeconds: int = defaults.DEFAULT_DRAIN_SECONDS


def drain_seconds(spec: bytes) -> int:
    """`spec.drainSeconds` of a spec that may be invalid in any other way: a deletion must not hang on a typing error."""
    try:
        return min(max(msgspec.json.decode(spec, type=_Spec).drainSeconds, 0), defaults.MAX_DRAIN_SECONDS)
    except msgspec.MsgspecError:
        return defaults.DEFAULT_DRAIN_SECONDS


def wants_finalizer(memcached: Memcached) -> bool:
    """Only a drain has work to do on deletion: the other policies leave none of our finalizers behind."""
    return memcached.spec.deletion_policy is DeletionPolicy.DRAIN


def has_finalizer(observed: Observed) -> bool:
    """Whether ours is on the resource."""
    return names.DRAIN_FINALIZER in observed.memcached.finalizers


@dataclass(frozen=True, slots=True)
class DrainStep:
    """What to do now: `actions`, look again in `after` seconds, and let the resource go when `release`. `words` are for the status."""

    words: str
    actions: tuple[Action, ...] = ()
    after: float | None = None
    release: bool = False


def drain(observed: Observed, now: datetime.datetime) -> DrainStep:
    """The step that a drain is at: clients away, wait, scale to zero, delete, release. It needs no valid spec."""
    deployment = observed.deployment
    if ORPHAN_FINALIZER in observed.memcached.finalizers:
        return DrainStep("the deletion asked for the children to be left behind", release=True)
    if deployment is None or not is_ours(deployment, observed.memcached.uid):
        return DrainStep("the Deployment is gone", actions=plan_removal(observed), release=True)
    seconds = drain_seconds(observed.memcached.spec)
    left = seconds - (now - _time(observed.memcached.deleted_at)).total_seconds()
    if left > 0:
        return DrainStep(f"clients are sent away for {seconds} s before the pods stop", _stop_serving(observed), after=left)
    stopped = deployment.current == 0 and deployment.observed_generation >= deployment.generation and not observed.pods
    if deployment.replicas != 0:
        scale = Scale(deployment, 0, f"drain: replicas {deployment.replicas} -> 0")
        return DrainStep("the pods are stopped", (*_stop_serving(observed), scale), after=STOP_SECONDS)
    if not stopped and -left < STOP_SECONDS:
        return DrainStep("the pods are stopped", after=STOP_SECONDS + left)
    return DrainStep("the children are removed", plan_removal(observed), after=STOP_SECONDS)


def _stop_serving(observed: Observed) -> tuple[Action, ...]:
    service = observed.children.get(SERVICES.kind)
    if isinstance(service, ServiceView) and service.serving and is_ours(service, observed.memcached.uid):
        return (StopServing(service, "drain: clients are sent away"),)
    return ()


def _time(stamp: str | None) -> datetime.datetime:
    return datetime.datetime.fromisoformat(stamp) if stamp else datetime.datetime.now(datetime.UTC)
