"""Projections of a Memcached and its children: the fields that the reconciler looks at, decoded from the API's bytes.

A child's body is kept only until it has been compared once (see `Child.body`): what stays is a hash of it, and of what
it was found equal to. So a drifted field is noticed whatever its name is, and 5,000 children cost no bodies.
"""

from __future__ import annotations

from sys import intern  # many objects say the same words: names, namespaces, uids of owners
from typing import Any

import msgspec

from memcached_operator.api import names
from memcached_operator.controller.wire import Condition, Owner
from memcached_operator.runtime.store import JSONBytes, Object

REVISION_ANNOTATION = "deployment.kubernetes.io/revision"  # the Deployment controller's own: changes at every roll-out
AUTOSCALER_MANAGER = "kube-controller-manager"  # whose /scale writes are those of a HorizontalPodAutoscaler


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
    ownerReferences: list[Owner] = []
    managedFields: list[_Managed] = []


class _DeploymentStatus(msgspec.Struct, gc=False):
    observedGeneration: int = 0
    replicas: int = 0
    updatedReplicas: int = 0
    readyReplicas: int = 0
    conditions: list[Condition] = []


class _DeploymentSpec(msgspec.Struct, gc=False):
    replicas: int = 1
    paused: bool = False


class _Selector(msgspec.Struct, gc=False):
    selector: dict[str, str] = {}


class _ChildWire(msgspec.Struct, gc=False):
    metadata: _Meta
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class _DeploymentWire(_ChildWire, gc=False):
    status: _DeploymentStatus = msgspec.field(default_factory=_DeploymentStatus)


class _Told(msgspec.Struct, gc=False):
    observedGeneration: int = 0


class _MemcachedWire(msgspec.Struct, gc=False):
    metadata: _Meta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


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


def edited(old: MemcachedView, new: MemcachedView) -> bool:
    """Whether its spec was changed, it was deleted, or it is another one of the name. We do none of these."""
    return (old.uid, old.generation, old.deleted_at) != (new.uid, new.generation, new.deleted_at)


def waits(memcached: MemcachedView) -> bool:
    """Whether the user changed something that no status tells of yet, or deletes a resource that we hold."""
    told = _told(memcached.status).observedGeneration
    return told != memcached.generation or memcached.deleted_at is not None


class Child(Object, gc=False):
    """An object that the operator writes.

    It is owned by controller reference, or by the annotation with the owner's uid. `applied`: our fields are tracked as
    `Apply`; a POST makes them `Update`, and an apply would then remove nothing.
    """

    instance: str
    owner_uid: str  # of the annotation
    controller_uid: str  # of the controller reference
    of_namesake: bool  # its controller is a Memcached of its own name
    desired_hash: str  # of the annotation: what was last applied
    deleting: bool
    applied: bool
    fingerprint: int
    body: bytes | None  # metadata and spec as JSON, until compared
    verified: str = ""  # the desired hash that this fingerprint is known to satisfy

    def satisfies(self, desired_hash: str) -> None:
        """Compared and found equal: from now on the fingerprint stands for the body."""
        self.verified = intern(desired_hash)
        self.body = None


class DeploymentView(Child, gc=False):
    """A Deployment: `progress` and `failure` are its own words for what is wrong, if anything."""

    generation: int = 0
    replicas: int = 1
    autoscaled: bool = False  # an autoscaler was the last to set replicas
    paused: bool = False  # kubectl rollout pause
    observed_generation: int = 0
    current: int = 0
    updated: int = 0
    ready: int = 0
    progress: str = ""  # reason of a Progressing condition that is False
    failure: str = ""  # message of ReplicaFailure


class ServiceView(Child, gc=False):
    """A Service: whether it leads clients to the pods, or a drain has begun to send them away."""

    serving: bool = True


_memcached = msgspec.json.Decoder(_MemcachedWire).decode
_told = msgspec.json.Decoder(_Told).decode
_child = msgspec.json.Decoder(_ChildWire).decode
_deployment = msgspec.json.Decoder(_DeploymentWire).decode
_deployment_spec = msgspec.json.Decoder(_DeploymentSpec).decode
_selector = msgspec.json.Decoder(_Selector).decode
_encode = msgspec.json.Encoder().encode


def decode_memcached(raw: JSONBytes) -> MemcachedView:
    """A Memcached."""
    wire = _memcached(raw)
    meta = wire.metadata
    return MemcachedView(
        intern(meta.namespace),
        intern(meta.name),
        intern(meta.uid),
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
        "namespace": intern(meta.namespace),
        "name": intern(meta.name),
        "uid": meta.uid,
        "resource_version": meta.resourceVersion,
        "instance": intern(meta.labels.get(names.LABEL_INSTANCE, "")),
        "owner_uid": intern(meta.annotations.get(names.OWNER_UID_ANNOTATION, "")),
        "controller_uid": intern(controller.uid) if controller else "",
        "of_namesake": controller is not None
        and (controller.apiVersion, controller.kind, controller.name) == (names.API_VERSION, names.KIND, meta.name),
        "desired_hash": intern(meta.annotations.get(names.DESIRED_HASH_ANNOTATION, "")),
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
    spec, status = _deployment_spec(wire.spec), wire.status
    conditions = {condition.type: condition for condition in status.conditions}
    progressing, failure = conditions.get("Progressing"), conditions.get("ReplicaFailure")
    return DeploymentView(
        **_identity(wire.metadata, wire.spec),
        generation=wire.metadata.generation,
        replicas=spec.replicas,
        autoscaled=any(
            m.subresource == "scale" and m.manager == AUTOSCALER_MANAGER for m in wire.metadata.managedFields
        ),
        paused=spec.paused,
        observed_generation=status.observedGeneration,
        current=status.replicas,
        updated=status.updatedReplicas,
        ready=status.readyReplicas,
        progress=progressing.reason if progressing and progressing.status == "False" else "",
        failure=failure.message if failure and failure.status == "True" else "",
    )
