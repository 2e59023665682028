"""Projections: the fields of each kind that the reconciler looks at, decoded straight from the API's bytes.

A child's body is kept only until it has been compared once (see `Child.body`): what stays is a hash of it, and of what it was found equal
to. So a drifted field is noticed whatever its name is, and 5,000 children cost no bodies.
"""

from __future__ import annotations

from typing import Any

import msgspec

from memcached_operator.api import names
from memcached_operator.gvr import DEPLOYMENTS, GVR, MEMCACHEDS, PODDISRUPTIONBUDGETS, PODS, SERVICES
from memcached_operator.runtime.store import Decode, JSONBytes, Key, Object, Watch

MANAGED = f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY}"
REVISION_ANNOTATION = "deployment.kubernetes.io/revision"  # the Deployment controller's own: changes at every roll-out
AUTOSCALER_MANAGER = "kube-controller-manager"  # whose /scale writes are those of a HorizontalPodAutoscaler

COALESCE_SECONDS = 0.15
"""How long news of a child that may change the status is gathered before the resource is looked at."""
LAZY_SECONDS = 2.0
"""The same for news that changes numbers at most: the many steps of a roll-out between its start and its end."""

# Wire shapes: camelCase as the API writes it.


class _Owner(msgspec.Struct, gc=False):
    apiVersion: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    blockOwnerDeletion: bool = False


class _Managed(msgspec.Struct, gc=False):
    manager: str = ""
    operation: str = ""
    subresource: str = ""


class _Meta(msgspec.Struct, gc=False):
    name: str
    namespace: str
    uid: str
    resourceVersion: str
    generation: int = 0
    deletionTimestamp: str | None = None
    finalizers: list[str] = []
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    ownerReferences: list[_Owner] = []
    managedFields: list[_Managed] = []


class _Condition(msgspec.Struct, gc=False):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class _DeploymentStatus(msgspec.Struct, gc=False):
    observedGeneration: int = 0
    replicas: int = 0
    updatedReplicas: int = 0
    readyReplicas: int = 0
    conditions: list[_Condition] = []


class _Replicas(msgspec.Struct, gc=False):
    replicas: int = 1


class _Selector(msgspec.Struct, gc=False):
    selector: dict[str, str] = {}


class _ChildWire(msgspec.Struct, gc=False):
    metadata: _Meta
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class _DeploymentWire(_ChildWire, gc=False):
    status: _DeploymentStatus = msgspec.field(default_factory=_DeploymentStatus)


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
    conditions: list[_Condition] = []
    containerStatuses: list[_Container] = []


class _PodMeta(msgspec.Struct, gc=False):
    name: str
    namespace: str
    uid: str
    resourceVersion: str
    deletionTimestamp: str | None = None
    labels: dict[str, str] = {}
    ownerReferences: list[_Owner] = []


class _PodWire(msgspec.Struct, gc=False):
    metadata: _PodMeta
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class _MemcachedWire(msgspec.Struct, gc=False):
    metadata: _Meta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


# Projections


class MemcachedView(Object, gc=False):
    """A Memcached as it is stored: `spec` and `status` are JSON, parsed when they are needed."""

    generation: int
    deleted_at: str | None
    finalizers: tuple[str, ...]
    spec: bytes
    status: bytes

    def status_json(self) -> dict[str, Any]:
        """The status in the cluster, as a dict."""
        status: dict[str, Any] = msgspec.json.decode(self.status)
        return status


class Child(Object, gc=False):
    """An object that the operator writes. Ownership is a controller reference, or the annotation with the owner's uid."""

    instance: str
    owner_uid: str  # of the annotation
    controller_uid: str  # of the controller reference
    controller_kind: str
    desired_hash: str  # of the annotation: what was last applied
    deleting: bool
    applied: bool  # our fields are tracked as `Apply`; a POST makes them `Update`, and an apply would then remove nothing
    fingerprint: int
    body: bytes | None  # metadata and spec as JSON, until compared
    verified: str = ""  # the desired hash that this fingerprint is known to satisfy

    def satisfies(self, desired_hash: str) -> None:
        """Compared and found equal: from now on the fingerprint stands for the body."""
        self.verified = desired_hash
        self.body = None


class DeploymentView(Child, gc=False):
    """A Deployment: `progress` and `failure` are its own words for what is wrong, if anything."""

    generation: int = 0
    replicas: int = 1
    autoscaled: bool = False  # an autoscaler was the last to set replicas
    observed_generation: int = 0
    current: int = 0
    updated: int = 0
    ready: int = 0
    progress: str = ""  # reason of a Progressing condition that is False
    failure: str = ""  # message of ReplicaFailure


class ServiceView(Child, gc=False):
    """A Service: whether it leads clients to the pods, or a drain has begun to send them away."""

    serving: bool = True


class PodView(Object, gc=False):
    """A pod: whether it counts for its resource, whether it serves, and what ails it."""

    instance: str
    counted: bool  # of a ReplicaSet of the Deployment, not terminating, not finished
    ready: bool
    ip: str
    problem: str = ""  # the kubelet's or scheduler's reason
    message: str = ""


_memcached = msgspec.json.Decoder(_MemcachedWire).decode
_child = msgspec.json.Decoder(_ChildWire).decode
_deployment = msgspec.json.Decoder(_DeploymentWire).decode
_replicas = msgspec.json.Decoder(_Replicas).decode
_selector = msgspec.json.Decoder(_Selector).decode
_pod = msgspec.json.Decoder(_PodWire).decode
_encode = msgspec.json.Encoder().encode


def decode_memcached(raw: JSONBytes) -> MemcachedView:
    """A Memcached."""
    wire = _memcached(raw)
    meta = wire.metadata
    return MemcachedView(
        meta.namespace,
        meta.name,
        meta.uid,
        meta.resourceVersion,
        meta.generation,
        meta.deletionTimestamp,
        tuple(meta.finalizers),
        bytes(wire.spec),
        bytes(wire.status),
    )


def _identity(meta: _Meta, spec: msgspec.Raw) -> dict[str, Any]:
    """The fields of `Child`."""
    controller = next((owner for owner in meta.ownerReferences if owner.controller), None)
    meta.annotations.pop(REVISION_ANNOTATION, None)
    body = _encode(
        {
            "metadata": {
                "labels": meta.labels,
                "annotations": meta.annotations,
                "ownerReferences": meta.ownerReferences,
            },
            "spec": spec,
        }
    )
    ours = {m.operation for m in meta.managedFields if m.manager == names.FIELD_MANAGER and not m.subresource}
    return {
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "resource_version": meta.resourceVersion,
        "instance": meta.labels.get(names.LABEL_INSTANCE, ""),
        "owner_uid": meta.annotations.get(names.OWNER_UID_ANNOTATION, ""),
        "controller_uid": controller.uid if controller else "",
        "controller_kind": controller.kind if controller else "",
        "desired_hash": meta.annotations.get(names.DESIRED_HASH_ANNOTATION, ""),
        "deleting": meta.deletionTimestamp is not None,
        "applied": "Update" not in ours,
        "fingerprint": hash(body),
        "body": body,
    }


def decode_child(raw: JSONBytes) -> Child:
    """A PodDisruptionBudget."""
    wire = _child(raw)
    return Child(**_identity(wire.metadata, wire.spec))


def decode_service(raw: JSONBytes) -> ServiceView:
    """A Service."""
    wire = _child(raw)
    serving = names.SERVING_LABEL not in _selector(wire.spec).selector
    return ServiceView(**_identity(wire.metadata, wire.spec), serving=serving)


def decode_deployment(raw: JSONBytes) -> DeploymentView:
    """A Deployment."""
    wire = _deployment(raw)
    status = wire.status
    conditions = {condition.type: condition for condition in status.conditions}
    progressing, failure = conditions.get("Progressing"), conditions.get("ReplicaFailure")
    return DeploymentView(
        **_identity(wire.metadata, wire.spec),
        generation=wire.metadata.generation,
        replicas=_replicas(wire.spec).replicas,
        autoscaled=any(m.subresource == "scale" and m.manager == AUTOSCALER_MANAGER for m in wire.metadata.managedFields),
        observed_generation=status.observedGeneration,
        current=status.replicas,
        updated=status.updatedReplicas,
        ready=status.readyReplicas,
        progress=progressing.reason if progressing and progressing.status == "False" else "",
        failure=failure.message if failure and failure.status == "True" else "",
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
    for container in status.containerStatuses:
        waiting, last = container.state.waiting, container.lastState.terminated
        if waiting and waiting.reason not in ("", "ContainerCreating", "PodInitializing"):
            if last and waiting.reason == "CrashLoopBackOff":
                words = last.message.strip() or f"{last.reason}, exit code {last.exitCode}"
                return waiting.reason, f"{waiting.message}; last exit: {words}"
            return waiting.reason, waiting.message
        if container.state.terminated:
            ended = container.state.terminated
            return ended.reason or "Error", ended.message.strip() or f"exit code {ended.exitCode}"
    return "", ""


def decode_pod(raw: JSONBytes) -> PodView:
    """A pod."""
    wire = _pod(raw)
    meta, status = wire.metadata, wire.status
    ready = any(c.type == "Ready" and c.status == "True" for c in status.conditions)
    problem, message = ("", "") if ready else _ailment(status)
    return PodView(
        meta.namespace,
        meta.name,
        meta.uid,
        meta.resourceVersion,
        meta.labels.get(names.LABEL_INSTANCE, ""),
        _counts(meta, status.phase),
        ready,
        status.podIP,
        problem,
        message[:1024],
    )


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
    """What a condition may turn on: whether it goes away, and of a Deployment, whether it is complete and what it complains of."""
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


MEMCACHED_WATCH = Watch(MEMCACHEDS, decode_memcached)
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
