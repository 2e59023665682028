"""The projection of a pod: whether it counts, whether it serves, and what ails it."""

from __future__ import annotations

from sys import intern

import msgspec

from memcached_operator.api import names
from memcached_operator.controller.wire import Condition, Owner
from memcached_operator.runtime.store import JSONBytes, Object

_MESSAGE_CHARACTERS = 1024
_ON_ITS_WAY = frozenset({"", "ContainerCreating", "PodInitializing"})


class _State(msgspec.Struct, gc=False):
    reason: str = ""
    message: str = ""
    exitCode: int = 0


class _States(msgspec.Struct, gc=False):
    waiting: _State | None = None
    terminated: _State | None = None


class _Container(msgspec.Struct, gc=False):
    state: _States = msgspec.field(default_factory=_States)
    lastState: _States = msgspec.field(default_factory=_States)


class _PodStatus(msgspec.Struct, gc=False):
    phase: str = ""
    podIP: str = ""
    conditions: list[Condition] = []
    initContainerStatuses: list[_Container] = []
    containerStatuses: list[_Container] = []


class _PodMeta(msgspec.Struct, gc=False):
    name: str
    namespace: str
    uid: str
    resourceVersion: str
    deletionTimestamp: str | None = None
    labels: dict[str, str] = {}
    ownerReferences: list[Owner] = []


class _PodWire(msgspec.Struct, gc=False):
    metadata: _PodMeta
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class PodView(Object, gc=False):
    """A pod: whether it counts for its resource, whether it serves, and what ails it."""

    instance: str
    counted: bool  # of a ReplicaSet of the Deployment, not terminating, not finished
    ready: bool
    ip: str
    problem: str = ""  # the kubelet's or scheduler's reason
    message: str = ""


_pod = msgspec.json.Decoder(_PodWire).decode


def decode_pod(raw: JSONBytes) -> PodView:
    """A pod."""
    wire = _pod(raw)
    meta, status = wire.metadata, wire.status
    ready = any(c.type == "Ready" and c.status == "True" for c in status.conditions)
    problem, message = ("", "") if ready else _ailment(status)
    return PodView(
        intern(meta.namespace),
        meta.name,
        meta.uid,
        meta.resourceVersion,
        intern(meta.labels.get(names.LABEL_INSTANCE, "")),
        _counts(meta, status.phase),
        ready,
        status.podIP,
        problem,
        message[:_MESSAGE_CHARACTERS],
    )


def _counts(meta: _PodMeta, phase: str) -> bool:
    """Of our Deployment's ReplicaSets (named after it and the pod's own hash), and not on its way out."""
    if meta.deletionTimestamp is not None or phase in ("Failed", "Succeeded"):
        return False
    expected = f"{meta.labels.get(names.LABEL_INSTANCE, '')}-{meta.labels.get('pod-template-hash', '')}"
    return any(o.controller and o.kind == "ReplicaSet" and o.name == expected for o in meta.ownerReferences)


def _ailment(status: _PodStatus) -> tuple[str, str]:
    """(reason, message) of what keeps a pod from running, in the words of the kubelet or the scheduler."""
    for condition in status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.reason, condition.message
    for container in (*status.initContainerStatuses, *status.containerStatuses):
        waiting, ended, last = container.state.waiting, container.state.terminated, container.lastState.terminated
        if waiting and waiting.reason not in _ON_ITS_WAY:
            told = f"; last exit: {_exit(last)}" if last and waiting.reason == "CrashLoopBackOff" else ""
            return waiting.reason, f"{waiting.message}{told}"
        if ended:
            return ended.reason or "Error", _exit(ended)
        if last:  # it runs again, for the moment: a container that keeps exiting is not well in between
            return last.reason or "Error", f"it was started again; last exit: {_exit(last)}"
    return "", ""


def _exit(ended: _State) -> str:
    return ended.message.strip() or f"{ended.reason or 'Error'}, exit code {ended.exitCode}"
