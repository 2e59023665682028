"""RBAC manifests from `kube.permissions`, in kubebuilder's layout: config/default adds namespace and name prefix."""

from __future__ import annotations

from typing import Any

from memcached_operator.api import names
from memcached_operator.kube import permissions

Manifest = dict[str, Any]

_PREFIX = "memcached-operator-"
_NAMESPACE = "system"
_ACCOUNT = "controller-manager"
_RBAC = "rbac.authorization.k8s.io"
_LABELS = {"app.kubernetes.io/name": "memcached-operator", "app.kubernetes.io/managed-by": "kustomize"}
_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]


def manifests() -> dict[str, Manifest]:
    """File name without suffix -> manifest."""
    return {
        "service_account": {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": _metadata(_ACCOUNT, namespace=_NAMESPACE),
        },
        "role": _role("ClusterRole", _metadata("manager-role"), permissions.cluster_role_rules()),
        "role_binding": _binding("ClusterRole", "manager-role", _metadata("manager-rolebinding")),
        "leader_election_role": _role(
            "Role", _metadata("leader-election-role", namespace=_NAMESPACE), permissions.leader_election_rules()
        ),
        "leader_election_role_binding": _binding(
            "Role", "leader-election-role", _metadata("leader-election-rolebinding", namespace=_NAMESPACE)
        ),
        # For a scraper, where a proxy asks who may read: the operator itself does not.
        "metrics_reader_role": _role(
            "ClusterRole", _metadata("metrics-reader"), [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
        ),
        # For people: what they may do with Memcacheds. Aggregated into Kubernetes' own admin, edit and view.
        "memcached_admin_role": _user_role("admin", [*_READ, *_WRITE]),
        "memcached_editor_role": _user_role("editor", [*_READ, *_WRITE]),
        "memcached_viewer_role": _user_role("viewer", _READ),
    }


def watched_namespace_manifests() -> dict[str, Manifest]:
    """The operator's rights in one namespace, which is given when they are applied: instead of the ClusterRole.

    No overlay of config/default renames them, so they have its prefix and namespace already.
    """
    role = f"{_PREFIX}manager-role"
    subject = {"kind": "ServiceAccount", "name": f"{_PREFIX}{_ACCOUNT}", "namespace": f"{_PREFIX}{_NAMESPACE}"}
    binding = _binding("Role", role, _metadata(f"{_PREFIX}manager-rolebinding"))
    return {
        "role": _role("Role", _metadata(role), permissions.cluster_role_rules()),
        "role_binding": {**binding, "subjects": [subject]},
    }


def _metadata(name: str, *, namespace: str = "", labels: dict[str, str] | None = None) -> Manifest:
    return {"name": name, **({"namespace": namespace} if namespace else {}), "labels": {**_LABELS, **(labels or {})}}


def _role(kind: str, metadata: Manifest, rules: list[Manifest]) -> Manifest:
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata, "rules": rules}


def _binding(role_kind: str, role: str, metadata: Manifest) -> Manifest:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{role_kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": role_kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": _ACCOUNT, "namespace": _NAMESPACE}],
    }


_AGGREGATED_TO = {"admin": ("admin",), "editor": ("edit", "admin"), "viewer": ("view", "edit", "admin")}


def _user_role(word: str, verbs: list[str]) -> Manifest:
    labels = {f"{_RBAC}/aggregate-to-{role}": "true" for role in _AGGREGATED_TO[word]}
    rules = [
        {"apiGroups": [names.GROUP], "resources": [names.PLURAL], "verbs": verbs},
        {"apiGroups": [names.GROUP], "resources": [f"{names.PLURAL}/status"], "verbs": ["get"]},
        {
            "apiGroups": [names.GROUP],
            "resources": [f"{names.PLURAL}/scale"],
            "verbs": ["get"] if word == "viewer" else ["get", "patch", "update"],
        },
    ]
    return _role("ClusterRole", _metadata(f"memcached-{word}-role", labels=labels), rules)
