"""The reference pages of docs/reference: fields, conditions, permissions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from memcached_operator.api import names
from memcached_operator.api.conditions import ConditionType, Reason
from memcached_operator.kube.permissions import OWN_NAMESPACE, WATCHED_NAMESPACES, Permission

Schema = dict[str, Any]

_CORE = {
    "resources": "core/v1 ResourceRequirements",
    "tolerations": "list of core/v1 Toleration",
    "affinity": "core/v1 Affinity",
    "topologySpreadConstraints": "list of core/v1 TopologySpreadConstraint",
    "imagePullSecrets": "list of core/v1 LocalObjectReference",
}


def fields_page(crd: dict[str, Any]) -> str:
    """Every field of spec and status, and the rules between them, from the CRD's own schema."""
    version = crd["spec"]["versions"][0]
    root = version["schema"]["openAPIV3Schema"]
    spec, status = root["properties"]["spec"], root["properties"]["status"]
    return f"""# Memcached, {names.API_VERSION}

{root["description"]} Short name `{names.SHORT_NAMES[0]}`, category `{names.CATEGORIES[0]}`. The scale subresource
reads and writes `spec.size`, so that `kubectl scale` and autoscalers work on the Memcached itself.

`kubectl explain memcached.spec --recursive` shows the same, down to the last field of the core/v1 types.

## spec

{table(("Field", "Type", "Default", "Allowed", "Meaning"), _field_rows(spec))}
Fields of core/v1 types take what Kubernetes takes, with bounds on lists and texts. `resources` speaks of `cpu`,
`memory` and `ephemeral-storage` only.

## Rules

The API server refuses a resource that breaks one of these, with these words. A resource that was stored before a rule
existed stays; the operator leaves its children as they are, and says the same in the condition `Ready`, reason
`InvalidSpec`.

{_bullets(dict.fromkeys(_rules(root, "")))}
## status

{table(("Field", "Type", "Default", "Allowed", "Meaning"), _field_rows(status))}
## Columns of `kubectl get`

{table(("Column", "From", "Meaning"), _column_rows(version["additionalPrinterColumns"]))}"""


def conditions_page() -> str:
    """Condition types and reasons."""
    types = [(f"`{kind}`", kind.description) for kind in ConditionType]
    reasons = [(f"`{reason}`", reason.description) for reason in Reason]
    return f"""# Conditions of a Memcached

`kubectl wait --for=condition=Ready memcached/NAME` waits for the summary. `lastTransitionTime` changes only when the
status of a condition does.

{table(("Type", "Meaning"), types)}
## Reasons

A closed list: no other word appears in `reason`.

{table(("Reason", "Meaning"), reasons)}"""


def permissions_page() -> str:
    """The operator's RBAC."""
    header = ("API group", "Resource", "Verbs", "Why")
    return f"""# Permissions of the operator

All that the operator may do. It reads no Secrets and has no wildcard. Whoever may write a Memcached can run pods
with an image of their choice in that namespace, as with a Deployment.

In the namespaces that it watches (a ClusterRole, or a Role in each):

{table(header, map(_permission_row, WATCHED_NAMESPACES))}
In its own namespace (a Role):

{table(header, map(_permission_row, OWN_NAMESPACE))}
It asks nobody who scrapes it: metrics are served over plain HTTP to whoever reaches the port, so it has no right to
TokenReviews or SubjectAccessReviews. config/network-policy limits who reaches it. The ClusterRole `metrics-reader` is
for scrapers behind a proxy that does ask; the operator does not look at it.
"""


def _permission_row(permission: Permission) -> tuple[str, ...]:
    group = f"`{permission.group}`" if permission.group else "core"
    names = f", only {', '.join(f'`{name}`' for name in permission.names)}" if permission.names else ""
    return group, f"`{permission.resource}`{names}", ", ".join(permission.verbs), permission.why


def _field_rows(schema: Schema, prefix: str = "") -> Iterator[tuple[str, ...]]:
    required = schema.get("required", [])
    for name, node in schema["properties"].items():
        default = "required" if name in required else _code(node.get("default"))
        yield f"`{prefix}{name}`", _type(name, node), default, _allowed(node), node["description"]
        if "properties" in node and name not in _CORE:
            yield from _field_rows(node, f"{prefix}{name}.")
        if name == "conditions":
            yield from _field_rows(node["items"], f"{prefix}{name}[].")


def _code(value: object) -> str:
    return (
        ""
        if value is None or isinstance(value, dict)
        else f"`{str(value).lower() if value in (True, False) else value}`"
    )


def _type(name: str, node: Schema) -> str:
    if name in _CORE:
        return _CORE[name]
    if node.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if node["type"] == "array":
        return f"list of {node['items']['type']}"
    return "map of string" if "additionalProperties" in node else str(node["type"])


def _allowed(node: Schema) -> str:
    parts = []
    if "enum" in node:
        parts.append(", ".join(f"`{word}`" for word in node["enum"]))
    if node.get("x-kubernetes-int-or-string"):
        parts.append(f"{node['minimum']} to {node['maximum']}, or `0%` to `100%`")
    elif "minimum" in node and "maximum" in node:
        parts.append(f"{node['minimum']} to {node['maximum']}")
    elif "minimum" in node:
        parts.append(f"at least {node['minimum']}")
    bounds = (("maxLength", "characters"), ("maxItems", "items"), ("maxProperties", "entries"))
    parts += [f"up to {node[key]} {word}" for key, word in bounds if key in node and "pattern" not in node]
    return "; ".join(parts)


def _rules(node: Schema, path: str) -> Iterator[str]:
    for rule in node.get("x-kubernetes-validations", ()):
        where = f"{path}{rule.get('fieldPath', '')}".removeprefix(".")
        yield f"`{_shortened(where)}`: {rule['message']}"
    for name, inner in node.get("properties", {}).items():
        yield from _rules(inner, f"{path}.{name}")
    if "items" in node:
        yield from _rules(node["items"], f"{path}[]")
    if "additionalProperties" in node:
        yield from _rules(node["additionalProperties"], f"{path}[]")


def _shortened(path: str) -> str:
    """The same rule at many places of affinity is one line: `spec.affinity ... topologyKey`."""
    first, *rest = path.removeprefix("spec.").split(".")
    return f"spec.{first} ... {rest[-1]}" if first == "affinity" and rest else path


def _column_rows(columns: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    for column in columns:
        wide = " With `-o wide`." if column.get("priority") else ""
        yield column["name"], f"`{column['jsonPath']}`", f"{column.get('description', '')}{wide}"


def table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [header, tuple("---" for _ in header), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _bullets(items: Iterable[str]) -> str:
    return "".join(f"- {item}\n" for item in items)
