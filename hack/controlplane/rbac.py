"""Rights for a cluster's users: exactly the rules given, by RBAC."""

import functools
from typing import Any

from controlplane.api import Api, object_path
from controlplane.waiting import wait_until

_RBAC = "rbac.authorization.k8s.io/v1"
_FORCE = "?fieldManager=controlplane&force=true"


def bind(
    api: Api, user: str, rules: list[dict[str, Any]], *, namespace: str | None = None, name: str | None = None
) -> None:
    """Give `user` the RBAC `rules`, in `namespace` or (None) in the whole cluster. A second call replaces the rules.

    Returns when the API server acts on them: it reads RBAC through a cache. `name` names the role and its binding, by
    default as the user. Raises ApiError, and WaitTimeoutError after 30 s.
    """
    name = name or user
    kind = "Role" if namespace else "ClusterRole"
    subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
    role = {"rules": rules}
    binding = {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [subject],
    }
    for object_kind, content in ((kind, role), (f"{kind}Binding", binding)):
        path = object_path(_RBAC, object_kind.lower() + "s", namespace, name)
        body = {"apiVersion": _RBAC, "kind": object_kind, "metadata": {"name": name}, **content}
        api.patch(path + _FORCE, body, "apply")
    for rule in rules:
        attributes = {
            "namespace": namespace,
            "verb": rule["verbs"][-1],
            "group": rule["apiGroups"][0],
            "resource": rule["resources"][0].partition("/")[0],
            "subresource": rule["resources"][0].partition("/")[2],
            "name": rule.get("resourceNames", [None])[0],
        }
        review = {"spec": {"user": user, "resourceAttributes": attributes}}
        wait_until(functools.partial(_allowed, api, review), 30, f"{user} to be allowed {attributes}")


def unbind(api: Api, name: str) -> None:
    """Take back what `bind` gave under `name` in the whole cluster. The API server acts on it a moment later."""
    for kind in ("clusterrolebindings", "clusterroles"):
        api.delete(object_path(_RBAC, kind, None, name))


def _allowed(api: Api, review: dict[str, Any]) -> bool:
    """Ask the API server's own authorizer, by a SubjectAccessReview."""
    answer = api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])
