"""Rights for a cluster's users: exactly the rules given, by RBAC."""

from typing import Any

from controlplane.api import Api, object_path

_RBAC = "rbac.authorization.k8s.io/v1"
_FORCE = "?fieldManager=controlplane&force=true"


def bind(
    api: Api, user: str, rules: list[dict[str, Any]], *, namespace: str | None = None, name: str | None = None
) -> None:
    """Give `user` the RBAC `rules`, in `namespace` or (None) in the whole cluster. A second call replaces the rules.

    `name` names the role and its binding, by default as the user. Raises ApiError.
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
