"""What a deletion does to the children.

Pure: a drain is a state machine whose state is in the cluster, so that a restart resumes it.
"""

from __future__ import annotations

import datetime

import msgspec

from memcached_operator.api import defaults
from memcached_operator.api.conditions import Reason
from memcached_operator.api.v1alpha1 import DeletionPolicy
from memcached_operator.controller.actions import Action, Plan, Release, Scale, SetServing
from memcached_operator.controller.observe import Observed
from memcached_operator.controller.plan import is_ours, plan_removal
from memcached_operator.controller.views import DeploymentView

STOP_SECONDS = 60.0
"""How long a drain waits for pods that were told to stop before it deletes their Deployment all the same."""


def plan_deletion(observed: Observed, now: datetime.datetime) -> Plan:
    """What to do about a resource that is being deleted and has our finalizer. It needs no valid spec.

    The policy counts that the spec has now, so that a drain can be cut short, or called off, by changing it. How the
    deletion was propagated does not count: the finalizer `orphan` of --cascade=orphan is gone in milliseconds, because
    the garbage collector sees no dependents, so that only chance would decide whether we see it.
    """
    deployment = observed.deployment
    policy, seconds = _wishes(observed.memcached.spec)
    if observed.namespace_going:
        return Plan((Release("the namespace is being deleted"),))
    if policy == DeletionPolicy.ORPHAN:
        return Plan((*_serve(observed, serving=True), Release("the children are left behind")))
    if policy == DeletionPolicy.DELETE or deployment is None or not is_ours(deployment, observed.memcached.uid):
        return Plan((*plan_removal(observed), Release("nothing is left to drain")))
    return _drain(observed, deployment, seconds, now)


def _drain(observed: Observed, deployment: DeploymentView, seconds: int, now: datetime.datetime) -> Plan:
    """The step that a drain is at: clients away, wait, scale to zero, delete and release."""
    deleted_at = observed.memcached.deleted_at
    since = datetime.datetime.fromisoformat(deleted_at) if deleted_at else now
    left = seconds - (now - since).total_seconds()
    if left > 0:
        draining = Reason.DRAINING, f"clients are sent away for {seconds} s before the pods stop"
        return Plan(_serve(observed, serving=False), deleting=draining, after=left)
    deleting = Reason.DELETING, "the cache is drained, and its pods are stopped"
    if deployment.replicas != 0:
        scale = Scale(deployment, 0, f"drain: replicas {deployment.replicas} -> 0")
        return Plan((*_serve(observed, serving=False), scale), deleting=deleting, after=STOP_SECONDS)
    stopped = deployment.current == 0 and deployment.observed_generation >= deployment.generation and not observed.pods
    if not stopped and left + STOP_SECONDS > 0:
        return Plan(deleting=deleting, after=left + STOP_SECONDS)
    return Plan((*plan_removal(observed), Release("drained")))


def _serve(observed: Observed, *, serving: bool) -> tuple[Action, ...]:
    service = observed.service
    if service is None or service.serving == serving or not is_ours(service, observed.memcached.uid):
        return ()
    reason = "the drain was called off" if serving else "drain: clients are sent away"
    return (SetServing(service, serving, reason),)


def _wishes(spec: bytes) -> tuple[object, int]:
    """Policy and drain seconds of a spec that may be invalid: a deletion must not hang on a typing error.

    Whatever makes no sense is read as a drain of the usual time: that is what the finalizer was put there for.
    """
    raw = msgspec.json.decode(spec)
    wishes = raw if isinstance(raw, dict) else {}
    seconds = wishes.get("drainSeconds")
    if not isinstance(seconds, int):
        seconds = defaults.DEFAULT_DRAIN_SECONDS
    return wishes.get("deletionPolicy", DeletionPolicy.DELETE), min(max(seconds, 0), defaults.MAX_DRAIN_SECONDS)
