"""The one table of what the operator may do: RBAC in config, bundle and chart, and the docs are rendered from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Permission:
    """Verbs on one resource. `group` is empty for core/v1; `resource` may be `memcacheds/status`.

    `names` empty: objects of any name.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    why: str
    names: tuple[str, ...] = ()


_WATCHED = ("get", "list", "watch")
_OWNED = (*_WATCHED, "create", "patch", "delete")
_CACHE = "cache.example.com"
LEASE = "memcached-operator"
"""The only Lease that may be held: another `--leader-election-id` needs another Role."""

WATCHED_NAMESPACES: tuple[Permission, ...] = (
    Permission(
        _CACHE,
        "memcacheds",
        (*_WATCHED, "patch"),
        "The resource itself. patch adds and removes the finalizer of deletionPolicy Drain; the spec is never written.",
    ),
    Permission(_CACHE, "memcacheds/status", ("patch",), "Status and conditions."),
    Permission(
        _CACHE,
        "memcacheds/finalizers",
        ("update",),
        "Owner references with blockOwnerDeletion, where OwnerReferencesPermissionEnforcement is on.",
    ),
    Permission("apps", "deployments", _OWNED, "The Deployment of each Memcached."),
    Permission("apps", "deployments/scale", ("patch",), "A change of size alone: no other field is touched."),
    Permission("", "services", _OWNED, "The headless Service of each Memcached."),
    Permission("policy", "poddisruptionbudgets", _OWNED, "The disruption budget of each Memcached."),
    Permission("", "pods", ("list", "watch"), "Names, addresses, readiness and failures of the memcached pods."),
    Permission("", "namespaces", ("get",), "Whether a namespace is being deleted: then nothing is drained."),
    Permission(
        "autoscaling",
        "horizontalpodautoscalers",
        ("list",),
        "Naming the autoscaler, when one scales the Deployment instead of the Memcached.",
    ),
    Permission("events.k8s.io", "events", ("create", "patch"), "Events about each Memcached; patch counts repeats."),
)
"""Needed in every namespace whose Memcacheds the operator serves."""

OWN_NAMESPACE: tuple[Permission, ...] = (
    Permission(
        "coordination.k8s.io",
        "leases",
        ("create",),
        "Leader election: the Lease is made once. RBAC cannot tell the name of what is only being made.",
    ),
    Permission(
        "coordination.k8s.io",
        "leases",
        ("get", "watch", "update"),
        "Leader election: the Lease is watched by the standbys and renewed by the leader.",
        names=(LEASE,),
    ),
)
"""Needed in the namespace of the Lease only."""


def cluster_role_rules() -> list[JsonObject]:
    """`rules` of the ClusterRole, or of a Role in each watched namespace."""
    return [_rule(permission) for permission in WATCHED_NAMESPACES]


def leader_election_rules() -> list[JsonObject]:
    """`rules` of the Role in the operator's own namespace."""
    return [_rule(permission) for permission in OWN_NAMESPACE]


def allows(verb: str, group: str, resource: str, subresource: str = "") -> bool:
    """Whether the table has this request, in whichever namespace it is made."""
    wanted = f"{resource}/{subresource}" if subresource else resource
    return any(
        permission.group == group and permission.resource == wanted and verb in permission.verbs
        for permission in (*WATCHED_NAMESPACES, *OWN_NAMESPACE)
    )


def _rule(permission: Permission) -> JsonObject:
    return {
        "apiGroups": [permission.group],
        "resources": [permission.resource],
        **({"resourceNames": list(permission.names)} if permission.names else {}),
        "verbs": list(permission.verbs),
    }
