"""What the conditions are judged by: is everything done, what is under way, what is wrong."""

from __future__ import annotations

from dataclasses import dataclass

from memcached_operator.api.conditions import Reason
from memcached_operator.api.problems import Invalid
from memcached_operator.api.v1alpha1 import Memcached
from memcached_operator.controller.apply import Applied
from memcached_operator.controller.errors import QUOTA, reason_of
from memcached_operator.controller.observe import Observed
from memcached_operator.controller.pods import PodView
from memcached_operator.controller.views import DeploymentView

_IMAGE = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
    }
)
_SCHEDULING = frozenset({"Unschedulable", "SchedulerError", "SchedulingGated"})
_EXITED = frozenset({"CrashLoopBackOff", "Error", "OOMKilled", "StartError"})
_NOT_YET = frozenset({"", "Completed"})

Finding = tuple[Reason, str]
"""(reason, message)"""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about one resource at one moment.

    `size` is what the spec asks for, `pods` exist, `serving` of them answer. `stage` says what is under way when not
    `settled`. `trouble` is the worst thing that is wrong, if anything; `deleting` what a deletion is doing.
    """

    generation: int
    size: int
    pods: int
    serving: int
    settled: bool
    stage: Finding
    trouble: Finding | None
    paused: bool
    deleting: Finding | None


def assess(observed: Observed, parsed: Memcached | Invalid, applied: Applied, *, deleting: Finding | None) -> Facts:
    """The facts after a reconcile did what it could."""
    deployment = observed.deployment
    if isinstance(parsed, Invalid):  # the children stay as they are
        size, paused = deployment.replicas if deployment else 0, False
        wrong: Finding | None = (Reason.INVALID_SPEC, parsed.summary())
    else:
        size, paused = parsed.spec.size, parsed.spec.paused
        wrong = _trouble(observed, applied)
    return Facts(
        generation=observed.memcached.generation,
        size=size,
        pods=len(observed.pods),
        # Only what our view of the pods and the Deployment agree on: so Available turns with Ready, not before.
        serving=min(len(observed.ready_pods), deployment.ready if deployment else 0),
        settled=not applied.waits and _is_settled(observed, size),
        stage=_stage(observed, applied, size),
        trouble=wrong,
        paused=paused,
        deleting=deleting,
    )


def _is_settled(observed: Observed, size: int) -> bool:
    """Whether the Deployment controller has done all that there is to do, and the pods that we see agree with it."""
    deployment, service = observed.deployment, observed.service
    return (
        service is not None
        and not service.deleting
        and deployment is not None
        and not deployment.deleting
        and deployment.replicas == size
        and deployment.observed_generation >= deployment.generation
        and deployment.current == deployment.updated == deployment.ready == size
        and len(observed.pods) == len(observed.ready_pods) == size
    )


def _stage(observed: Observed, applied: Applied, size: int) -> Finding:
    """What a resource that is not settled is doing."""
    name, deployment, pods = observed.memcached.name, observed.deployment, len(observed.pods)
    counts = f"{len(observed.ready_pods)} of {max(size, pods)} pods are ready"
    if applied.waits:
        return Reason.CREATING, " ".join(wait.reason for wait in applied.waits)
    if observed.service is None or deployment is None:
        return Reason.CREATING, f"{'Service' if observed.service is None else 'Deployment'} {name} is missing; {counts}"
    if not deployment.observed_generation:
        return Reason.CREATING, f"Deployment {name} is being created; {counts}"
    if _is_rolling(deployment, size):
        halted = f"Deployment {name} is paused (kubectl rollout resume); " if deployment.paused else ""
        old = deployment.current - deployment.updated
        return Reason.ROLLING_OUT, f"{halted}{deployment.updated} of {size} pods are new, {old} old ones left; {counts}"
    if deployment.current != size or pods != size:
        return Reason.SCALING, f"{pods} of {size} pods exist; {counts}"
    return Reason.WAITING_FOR_PODS, counts


def _is_rolling(deployment: DeploymentView, size: int) -> bool:
    return deployment.updated < min(deployment.current, size) or deployment.current > max(deployment.updated, size)


def _trouble(observed: Observed, applied: Applied) -> Finding | None:
    """The worst thing that is wrong, in the words of whoever said it; None when nothing is."""
    return (
        _trouble_of_writing(observed, applied)
        or _trouble_of_autoscaling(observed)
        or _trouble_of_creating_pods(observed)
        or _trouble_of_pods(observed)
        or _trouble_of_progress(observed)
    )


def _trouble_of_writing(observed: Observed, applied: Applied) -> Finding | None:
    if applied.conflicts:
        return Reason.NAME_CONFLICT, " ".join(conflict.reason for conflict in applied.conflicts)
    for kind, error in (*observed.errors, *applied.errors):
        if reason := reason_of(error):
            return reason, f"{kind} {observed.memcached.name}: {error.message}"
    return None


def _trouble_of_autoscaling(observed: Observed) -> Finding | None:
    if not observed.autoscaler:
        return None
    name = observed.memcached.name
    words = (
        f"HorizontalPodAutoscaler {observed.autoscaler} scales Deployment {name}: its size is left to it. "
        f"Point the autoscaler's scaleTargetRef at Memcached {name} instead."
    )
    return Reason.FOREIGN_AUTOSCALER, words


def _trouble_of_creating_pods(observed: Observed) -> Finding | None:
    deployment = observed.deployment
    if deployment is None or not deployment.failure:
        return None
    reason = Reason.QUOTA_EXCEEDED if QUOTA in deployment.failure else Reason.POD_CREATION_FAILED
    return reason, f"Deployment {deployment.name}: {deployment.failure}"


def _trouble_of_pods(observed: Observed) -> Finding | None:
    for pod in observed.pods:
        if pod.problem not in _NOT_YET:
            return _pod_reason(pod), f"pod {pod.name}: {pod.problem}: {pod.message}"
    return None


def _trouble_of_progress(observed: Observed) -> Finding | None:
    deployment = observed.deployment
    if deployment is None or deployment.progress != "ProgressDeadlineExceeded":
        return None
    return Reason.PROGRESS_DEADLINE_EXCEEDED, f"Deployment {deployment.name} made no progress for ten minutes"


def _pod_reason(pod: PodView) -> Reason:
    if pod.problem in _IMAGE:
        return Reason.IMAGE_PULL_FAILED
    if pod.problem in _SCHEDULING:
        return Reason.UNSCHEDULABLE
    if pod.problem in _EXITED:
        return Reason.CRASH_LOOPING
    return Reason.CONTAINER_FAILED
