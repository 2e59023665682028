"""The parts of core/v1 that the spec passes through: schemas from a pinned OpenAPI document, narrowed, with rules.

The CRD gets these schemas, and `structural.check` applies the same ones in Python.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from memcached_operator.api import defaults
from memcached_operator.api.core_v1_rules import (
    CORE_RULES,
    IS_KEY,
    IS_KEY_OR_EMPTY,
    IS_LABEL_VALUE,
    IS_NAMESPACE,
    IS_OBJECT_NAME,
    IS_QUANTITY,
    RESOURCE_NAMES,
)
from memcached_operator.api.quantity import MAX_QUANTITY_LENGTH, QUANTITY_PATTERN

Schema = dict[str, Any]

RULES = "x-rules"
"""Key under which a schema node carries its rules, a tuple of `Rule`."""

QUANTITY: Schema = {
    "description": 'A quantity as in Kubernetes: "500m", "1.5", "64Mi", 2.',
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
    "pattern": QUANTITY_PATTERN,
    "maxLength": MAX_QUANTITY_LENGTH,
    "minimum": 0,
    RULES: (IS_QUANTITY,),
}

_KEY: Schema = {"maxLength": defaults.MAX_LABEL_KEY_LENGTH, RULES: (IS_KEY,)}
_VALUE: Schema = {"maxLength": defaults.MAX_LABEL_VALUE_LENGTH, RULES: (IS_LABEL_VALUE,)}
_KEYS: Schema = {"maxItems": 16, "items": {"type": "string", **_KEY}}
_VALUES: Schema = {"maxItems": 32, "items": {"type": "string", **_VALUE}}
_WEIGHT: Schema = {"minimum": 1, "maximum": 100}
_POLICY: Schema = {"enum": ["Honor", "Ignore"]}
_TERMS: Schema = {"maxItems": 16}
_AMOUNTS: Schema = {"maxProperties": len(RESOURCE_NAMES), "additionalProperties": QUANTITY}
_POD_TERMS: Mapping[str, Schema] = MappingProxyType(
    {
        "preferredDuringSchedulingIgnoredDuringExecution": _TERMS,
        "requiredDuringSchedulingIgnoredDuringExecution": _TERMS,
    }
)

NARROWED: Mapping[str, Mapping[str, Schema]] = MappingProxyType(
    {
        "ResourceRequirements": {"limits": _AMOUNTS, "requests": _AMOUNTS},
        "Toleration": {
            "key": {"maxLength": defaults.MAX_LABEL_KEY_LENGTH, RULES: (IS_KEY_OR_EMPTY,)},
            "operator": {
                "description": "Equal (the default) compares key and value; Exists matches any value of the key.",
                "enum": ["", "Equal", "Exists"],
            },
            "effect": {"enum": ["", "NoExecute", "NoSchedule", "PreferNoSchedule"]},
            "value": _VALUE,
        },
        "NodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": _TERMS},
        "PodAffinity": _POD_TERMS,
        "PodAntiAffinity": _POD_TERMS,
        "PreferredSchedulingTerm": {"weight": _WEIGHT},
        "WeightedPodAffinityTerm": {"weight": _WEIGHT},
        "NodeSelector": {"nodeSelectorTerms": {"minItems": 1, "maxItems": 16}},
        "NodeSelectorTerm": {"matchExpressions": {"maxItems": 16}, "matchFields": {"maxItems": 4}},
        "NodeSelectorRequirement": {"key": _KEY, "values": _VALUES},
        "PodAffinityTerm": {
            "topologyKey": _KEY,
            "namespaces": {"maxItems": 16, "items": {"type": "string", "maxLength": 63, RULES: (IS_NAMESPACE,)}},
            "matchLabelKeys": _KEYS,
            "mismatchLabelKeys": _KEYS,
        },
        "LabelSelector": {
            "matchLabels": {"maxProperties": 16, "additionalProperties": {"type": "string", **_VALUE}},
            "matchExpressions": {"maxItems": 16},
        },
        "LabelSelectorRequirement": {
            "key": _KEY,
            "operator": {"enum": ["DoesNotExist", "Exists", "In", "NotIn"]},
            "values": _VALUES,
        },
        "TopologySpreadConstraint": {
            "maxSkew": {"minimum": 1},
            "minDomains": {"minimum": 1},
            "topologyKey": _KEY,
            "matchLabelKeys": _KEYS,
            "nodeAffinityPolicy": _POLICY,
            "nodeTaintsPolicy": _POLICY,
        },
        "LocalObjectReference": {"name": {"maxLength": 253, RULES: (IS_OBJECT_NAME,)}},
    }
)
"""Definition -> property -> keywords laid over the pinned ones: bounds (CEL's cost estimate needs each of them), and
what the API server checks in a pod but does not state in its schema."""

REQUIRED: Mapping[str, list[str]] = MappingProxyType({"LocalObjectReference": ["name"]})

# The document lists enum values in prose too; the schema's own `enum` says it better.
_ENUM_PROSE = re.compile(r"\s*Possible enum values:.*", re.DOTALL)
_PATCH_KEYS = ("x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key", "default")


@cache
def schema(definition: str) -> Schema:
    """The definition, `$ref`s inlined, narrowed, each node with its rules under RULES. Shared: do not change it.

    Raises KeyError when the pinned document has no such definition. The definitions are not recursive.
    """
    return _inline(definition, _definitions())


@cache
def _definitions() -> Mapping[str, Schema]:
    text = files(__package__).joinpath("core_v1.json").read_text(encoding="utf-8")
    definitions: dict[str, Schema] = json.loads(text)["definitions"]
    return definitions


def _inline(name: str, definitions: Mapping[str, Schema]) -> Schema:
    node = definitions[name]
    narrowed = NARROWED.get(name, {})
    properties = {
        key: {**_node(value, definitions), **narrowed.get(key, {})} for key, value in node["properties"].items()
    }
    required = REQUIRED.get(name, node.get("required", []))
    result = {**_plain(node), "properties": properties, **({"required": required} if required else {})}
    return {**result, RULES: CORE_RULES[name]} if name in CORE_RULES else result


def _node(node: Schema, definitions: Mapping[str, Schema]) -> Schema:
    if "$ref" in node:
        return {**_reference(node["$ref"], definitions), **_plain({k: v for k, v in node.items() if k != "$ref"})}
    inner: Schema = {key: _node(node[key], definitions) for key in ("items", "additionalProperties") if key in node}
    return {**_plain(node), **inner}


def _reference(ref: str, definitions: Mapping[str, Schema]) -> Schema:
    name = ref.rsplit("/", maxsplit=1)[-1].rsplit(".", maxsplit=1)[-1]
    return QUANTITY if name == "Quantity" else _inline(name, definitions)


def _plain(node: Schema) -> Schema:
    kept = {key: value for key, value in node.items() if key not in _PATCH_KEYS}
    if "description" in kept:
        kept["description"] = _ENUM_PROSE.sub("", kept["description"])
    return kept
