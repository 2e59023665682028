"""The CustomResourceDefinition, made from the models and the rules. The running operator does not use it.

pydantic speaks JSON Schema; a CRD accepts a structural subset of OpenAPI 3.0. What differs is rewritten here, and a
keyword that a CRD does not know is an error, not a surprise in the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from memcached_operator.api import core_v1, names
from memcached_operator.api.rules import Rule
from memcached_operator.api.spec_rules import FIELD_RULES, NAME_RULES, SPEC_RULES, VALUE_RULES
from memcached_operator.api.v1alpha1 import MemcachedSpec, MemcachedStatus

Schema = dict[str, Any]

KEYWORDS = frozenset(
    {
        *("description", "type", "format", "default", "enum", "required", "items", "anyOf", "properties"),
        *("additionalProperties", "maximum", "minimum", "maxLength", "minLength", "pattern", "maxItems", "minItems"),
        *("maxProperties", "x-kubernetes-int-or-string", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"),
        *("x-kubernetes-map-type", "x-kubernetes-validations"),
    }
)
"""What this generator emits, a part of apiextensions/v1 JSONSchemaProps."""

_IGNORED = ("title", "$defs")
_RULE_ORDER = ("rule", "message", "messageExpression", "reason", "fieldPath")


class UnsupportedSchemaError(Exception):
    """A model uses something that has no counterpart in a CRD."""


def custom_resource_definition() -> dict[str, Any]:
    """The CRD as a manifest."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names.PLURAL}.{names.GROUP}"},
        "spec": {
            "group": names.GROUP,
            "names": {
                "kind": names.KIND,
                "listKind": f"{names.KIND}List",
                "plural": names.PLURAL,
                "singular": names.SINGULAR,
                "shortNames": list(names.SHORT_NAMES),
                "categories": list(names.CATEGORIES),
            },
            "scope": "Namespaced",
            "conversion": {"strategy": "None"},
            "versions": [_version()],
        },
    }


def _version() -> dict[str, Any]:
    return {
        "name": names.VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": _columns(),
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.size",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "schema": {"openAPIV3Schema": root_schema()},
    }


def _columns() -> list[dict[str, Any]]:
    def condition(kind: str, field: str) -> str:
        return f'.status.conditions[?(@.type=="{kind}")].{field}'

    return [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "Pods asked for."},
        {"name": "Ready", "type": "integer", "jsonPath": ".status.readyReplicas", "description": "Pods that serve."},
        {
            "name": "Available",
            "type": "string",
            "jsonPath": condition("Available", "status"),
            "description": "Whether the cache serves at all.",
        },
        {
            "name": "Reason",
            "type": "string",
            "jsonPath": condition("Ready", "reason"),
            "description": "Why it is ready, or why not yet.",
        },
        {
            "name": "Image",
            "type": "string",
            "jsonPath": ".spec.image",
            "description": "Image, where the spec gives one.",
            "priority": 1,
        },
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]


def root_schema() -> Schema:
    """Structural schema of the whole object."""
    return {
        "description": "A memcached cache: a set of equal memcached pods behind one Service.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"description": f"Version of this API: {names.API_VERSION}.", "type": "string"},
            "kind": {"description": f"Always {names.KIND}.", "type": "string"},
            "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
            "spec": spec_schema(),
            "status": status_schema(),
        },
        "x-kubernetes-validations": [_validation(rule) for rule in NAME_RULES],
    }


def spec_schema() -> Schema:
    """Structural schema of the spec, with the defaults that the API server fills in, and with all rules."""
    schema = structural(MemcachedSpec)
    for attribute, rules in FIELD_RULES.items():
        schema["properties"][to_camel(attribute)]["x-kubernetes-validations"] = [_validation(rule) for rule in rules]
    for attribute, rules in VALUE_RULES.items():
        values = schema["properties"][to_camel(attribute)]["additionalProperties"]
        values["x-kubernetes-validations"] = [_validation(rule) for rule in rules]
    return {**schema, "x-kubernetes-validations": [_validation(rule) for rule in SPEC_RULES]}


def status_schema() -> Schema:
    """Structural schema of the status. It has no defaults: what the operator has not said stays unsaid."""
    schema: Schema = _without_defaults(structural(MemcachedStatus))
    return schema


def structural(model: type[BaseModel]) -> Schema:
    """The model's schema as a CRD accepts it. Raises UnsupportedSchemaError for what a CRD cannot say."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    return _structural(schema, schema.get("$defs", {}))


def _structural(node: Schema, definitions: dict[str, Schema]) -> Schema:
    node = _one_type(_dereferenced(node, definitions), definitions)
    if "x-core-v1" in node:
        node = _with_core(node)
    result = dict(pair for key, value in node.items() for pair in _keyword(key, value, definitions))
    if result.get("type") == "integer":
        result.setdefault("format", "int32")
    return result


def _keyword(key: str, value: Any, definitions: dict[str, Schema]) -> Iterator[tuple[str, Any]]:
    """The keyword as a CRD writes it; nothing for those that only pydantic needs."""
    if key == "properties":
        yield key, {name: _structural(inner, definitions) for name, inner in value.items()}
    elif key in ("items", "additionalProperties"):
        # `additionalProperties: true` says nothing here: fields that a CRD does not know are pruned.
        if value is not True:
            yield key, _structural(value, definitions)
    elif key == "x-rules":
        yield "x-kubernetes-validations", [_validation(rule) for rule in value]
    elif key in KEYWORDS:
        if key != "default" or value not in (None, {}, []):
            yield key, value
    elif key not in _IGNORED:
        raise UnsupportedSchemaError(f"a CRD schema has no keyword {key!r}, which stands for {value!r}")


def _dereferenced(node: Schema, definitions: dict[str, Schema]) -> Schema:
    if "$ref" not in node:
        return node
    target = definitions[node["$ref"].rsplit("/", maxsplit=1)[-1]]
    return {**target, **{key: value for key, value in node.items() if key != "$ref"}}


def _one_type(node: Schema, definitions: dict[str, Schema]) -> Schema:
    """`anyOf` resolved: X or null is X, not required; integer or string is Kubernetes' int-or-string."""
    if "anyOf" not in node or "x-kubernetes-int-or-string" in node:
        return node
    rest = {key: value for key, value in node.items() if key != "anyOf"}
    branches = [branch for branch in node["anyOf"] if branch.get("type") != "null"]
    if len(branches) == 1:
        return _one_type({**_dereferenced(branches[0], definitions), **rest}, definitions)
    if [branch.get("type") for branch in branches] != ["integer", "string"]:
        raise UnsupportedSchemaError(f"a CRD field has one type, or is int-or-string: {node}")
    bounds = {key: value for branch in branches for key, value in branch.items() if key != "type"}
    return {
        **rest,
        **bounds,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
    }


def _with_core(node: Schema) -> Schema:
    core = core_v1.schema(node["x-core-v1"])
    own = {key: value for key, value in node.items() if key not in ("x-core-v1", "items", "additionalProperties")}
    return {**own, "items": core} if node["type"] == "array" else {**core, **own}


def _validation(rule: Rule[Any]) -> dict[str, str]:
    parts = {
        "rule": rule.cel,
        "message": rule.message,
        "messageExpression": rule.message_cel,
        "reason": rule.why,
        "fieldPath": rule.field,
    }
    return {key: parts[key] for key in _RULE_ORDER if parts[key]}


def _without_defaults(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_defaults(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {key: _without_defaults(value) for key, value in node.items() if key != "default"}
