"""Conditions: one small function each, over the same facts; Ready is the summary of the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memcached_operator.api.conditions import ConditionType, Reason
from memcached_operator.controller.apply import Applied
from memcached_operator.controller.observe import Observed
from memcached_operator.controller.views import PodView
from memcached_operator.errors import NotFoundError, OperatorError, TerminalError

Verdict = tuple[bool, Reason, str]
"""(status, reason, message)"""

_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable"})
_NOT_YET = frozenset({"", "Completed"})


@dataclass(frozen=True, slots=True)
class Facts:
    """What the conditions are judged by. `size` is what the spec asks for; `trouble` the worst thing that is wrong, if anything."""

    observed: Observed
    size: int
    settled: bool
    deleting: str
    paused: bool
    trouble: tuple[Reason, str] | None
    stage: tuple[Reason, str]


def settled(observed: Observed, size: int) -> bool:
    """Whether the Deployment controller has done all that there is to do, and the pods that we see agree with it."""
    deployment = observed.deployment
    return (
        deployment is not None
        and not deployment.deleting
        and deployment.replicas == size
        and deployment.observed_generation >= deployment.generation
        and deployment.current == deployment.updated == deployment.ready == size
        and len(observed.pods) == len(observed.ready_pods) == size
    )


def stage(observed: Observed, size: int) -> tuple[Reason, str]:
    """What a resource that is not settled is doing."""
    deployment, pods, ready = observed.deployment, len(observed.pods), len(observed.ready_pods)
    counts = f"{ready} of {size} pods are ready"
    if deployment is None or not deployment.observed_generation:
        return Reason.CREATING, f"Deployment {observed.memcached.name} is being created; {counts}"
    if deployment.updated < min(deployment.current, size) or deployment.current > max(deployment.updated, size):
        return Reason.ROLLING_OUT, f"{deployment.updated} of {size} pods have the new template; {counts}"
    if deployment.current != size or pods != size:
        return Reason.SCALING, f"{pods} of {size} pods exist; {counts}"
    return Reason.WAITING_FOR_PODS, counts


def trouble(observed: Observed, applied: Applied, autoscaler: str) -> tuple[Reason, str] | None:
    """The worst thing that is wrong, in the words of whoever said it; None when nothing is."""
    if applied.conflicts:
        return Reason.NAME_CONFLICT, " ".join(conflict.reason for conflict in applied.conflicts)
    for kind, error in applied.errors:
        if reason := _error_reason(error):
            return reason, f"{kind} {observed.memcached.name}: {error.message}"
    if autoscaler:
        return (
            Reason.FOREIGN_AUTOSCALER,
            f"HorizontalPodAutoscaler {autoscaler} scales Deployment {observed.memcached.name}: its size is left to it. "
            f"Point the autoscaler's scaleTargetRef at Memcached {observed.memcached.name} instead.",
        )
    deployment = observed.deployment
    if deployment and deployment.failure:
        quota = "exceeded quota" in deployment.failure
        return Reason.QUOTA_EXCEEDED if quota else Reason.POD_CREATION_FAILED, deployment.failure
    for pod in observed.pods:
        if pod.problem not in _NOT_YET:
            return _pod_reason(pod), f"pod {pod.name}: {pod.problem}: {pod.message}"
    if deployment and deployment.progress == "ProgressDeadlineExceeded":
        return Reason.PROGRESS_DEADLINE_EXCEEDED, f"Deployment {deployment.name} made no progress for ten minutes"
    return None


def _error_reason(error: OperatorError) -> Reason | None:
    if error.status == 403:
        return Reason.QUOTA_EXCEEDED if "exceeded quota" in error.message else Reason.FORBIDDEN
    if isinstance(error, TerminalError):
        return Reason.REJECTED
    if error.status == 409 or isinstance(error, NotFoundError):
        return None  # our view was stale: the next try sees better
    return Reason.API_ERROR


def _pod_reason(pod: PodView) -> Reason:
    if pod.problem in _IMAGE:
        return Reason.IMAGE_PULL_FAILED
    if pod.problem in ("Unschedulable", "SchedulerError", "SchedulingGated"):
        return Reason.UNSCHEDULABLE
    if pod.problem in ("CrashLoopBackOff", "Error", "OOMKilled", "StartError"):
        return Reason.CRASH_LOOPING
    return Reason.CONTAINER_FAILED


def ready(facts: Facts) -> Verdict:
    """Everything is as the spec asks for."""
    if facts.deleting:
        return False, Reason.DELETING, facts.deleting
    if facts.trouble:
        return False, *facts.trouble
    if facts.settled and facts.size == 0:
        return True, Reason.SCALED_TO_ZERO, "no pods are wanted, and there are none"
    if facts.settled:
        return True, Reason.ALL_READY, f"{facts.size} of {facts.size} pods are ready"
    return False, *facts.stage


def available(facts: Facts) -> Verdict:
    """Somebody answers. Only what our view of the pods and the Deployment agree on counts, so that it turns with Ready, not before."""
    if facts.size == 0:
        return True, Reason.SCALED_TO_ZERO, "no pods are wanted"
    deployment, exist = facts.observed.deployment, len(facts.observed.pods)
    serving = min(len(facts.observed.ready_pods), deployment.ready if deployment else 0)
    if serving:
        all_of_them = serving >= facts.size
        return True, Reason.ALL_READY if all_of_them else Reason.MINIMUM_AVAILABLE, f"{serving} pods serve"
    return False, Reason.NO_PODS_READY, f"none of {exist} pods serves"


def progressing(facts: Facts) -> Verdict:
    """Something is still being done."""
    if facts.deleting:
        return True, Reason.DELETING, facts.deleting
    if facts.paused:
        return False, Reason.PAUSED, "spec.paused is true: children are left as they are; set it to false to go on"
    if facts.trouble and facts.trouble[0] in (Reason.INVALID_SPEC, Reason.NAME_CONFLICT, Reason.FOREIGN_AUTOSCALER):
        return False, *facts.trouble
    if facts.settled:
        return False, Reason.ALL_READY if facts.size else Reason.SCALED_TO_ZERO, "there is nothing left to do"
    return True, *facts.stage


def degraded(facts: Facts) -> Verdict:
    """Something is wrong."""
    if facts.trouble:
        return True, *facts.trouble
    return False, Reason.AS_EXPECTED, ""


_ALL = (
    (ConditionType.READY, ready),
    (ConditionType.AVAILABLE, available),
    (ConditionType.PROGRESSING, progressing),
    (ConditionType.DEGRADED, degraded),
)


def conditions(facts: Facts, previous: list[dict[str, Any]], now: str) -> list[dict[str, Any]]:
    """All conditions as JSON, in a fixed order. `lastTransitionTime` changes only with the status; conditions of others are kept."""
    before = {condition.get("type"): condition for condition in previous}
    judged = []
    for type_, judge in _ALL:
        holds, reason, message = judge(facts)
        status = "True" if holds else "False"
        old = before.pop(type_.value, None)
        since = old["lastTransitionTime"] if old and old.get("status") == status and "lastTransitionTime" in old else now
        judged.append(
            {
                "type": type_.value,
                "status": status,
                "reason": reason.value,
                "message": message[:2048],
                "lastTransitionTime": since,
                "observedGeneration": facts.observed.memcached.generation,
            }
        )
    return judged + list(before.values())
