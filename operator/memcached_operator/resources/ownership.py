"""Who a child belongs to: the metadata that says so, by deletion policy."""

from __future__ import annotations

from typing import Any

from memcached_operator.api.names import OWNER_UID_ANNOTATION, child_labels
from memcached_operator.api.v1alpha1 import DeletionPolicy, Memcached
from memcached_operator.gvr import GVR, MEMCACHEDS
from memcached_operator.resources.manifest import Manifest


def child(resource: GVR, memcached: Memcached, spec: dict[str, Any]) -> Manifest:
    """A child of `memcached`, of its own name: type, metadata and `spec`."""
    metadata: dict[str, Any] = {
        "name": memcached.name,
        "namespace": memcached.namespace,
        "labels": child_labels(memcached.name),
        "annotations": {OWNER_UID_ANNOTATION: memcached.uid},
    }
    if memcached.spec.deletion_policy is DeletionPolicy.DELETE:
        metadata["ownerReferences"] = [owner_reference(memcached)]
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


def owner_reference(memcached: Memcached) -> dict[str, Any]:
    """The reference that makes the garbage collector delete a child after its Memcached.

    Only for the policy Delete: under foreground deletion the collector removes every child that has one before a
    controller can act, so a cache that must outlive its Memcached, or be drained first, has to go without.
    """
    return {
        "apiVersion": MEMCACHEDS.api_version,
        "kind": MEMCACHEDS.kind,
        "name": memcached.name,
        "uid": memcached.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
