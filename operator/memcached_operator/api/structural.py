"""Checks raw JSON against a structural schema with rules, as the API server does for the CRD."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memcached_operator.api.core_v1 import RULES, Schema
from memcached_operator.api.problems import Problem, shown

_TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
_ARTICLES = {
    "object": "an object",
    "array": "a list",
    "string": "a string",
    "integer": "a whole number",
    "boolean": "true or false",
}


def check(schema: Schema, value: object, path: str) -> Iterator[Problem]:
    """Everything wrong with `value`, found at `path`. Rules are asked only where the schema holds.

    Never deeper than the schema, whatever the value; never raises.
    """
    problems = list(_shape(schema, value, path))
    yield from problems
    if problems:
        return
    for rule in schema.get(RULES, ()):
        if not rule.holds(value):
            yield Problem(f"{path}{rule.field}", rule.words(value))


def _shape(schema: Schema, value: object, path: str) -> Iterator[Problem]:
    if schema.get("x-kubernetes-int-or-string"):
        yield from (
            _scalar(schema, value, path)
            if _is(value, "integer") or _is(value, "string")
            else iter([Problem(path, f"must be a whole number or a string, not {shown(value)}")])
        )
    elif not _is(value, schema["type"]):
        yield Problem(path, f"must be {_ARTICLES[schema['type']]}, not {shown(value)}")
    elif isinstance(value, dict):
        yield from _object(schema, value, path)
    elif isinstance(value, list):
        yield from _array(schema, value, path)
    else:
        yield from _scalar(schema, value, path)


def _is(value: object, json_type: str) -> bool:
    # bool is a subclass of int in Python, and no integer in JSON.
    return isinstance(value, _TYPES[json_type]) and (json_type == "boolean" or not isinstance(value, bool))


def _object(schema: Schema, value: dict[str, Any], path: str) -> Iterator[Problem]:
    for key in schema.get("required", ()):
        if key not in value:
            yield Problem(f"{path}.{key}", "is required")
    if len(value) > schema.get("maxProperties", len(value)):
        yield Problem(path, f"has {len(value)} entries; at most {schema['maxProperties']} are allowed")
        return
    for key, inner in schema.get("properties", {}).items():
        if key in value:
            yield from check(inner, value[key], f"{path}.{key}")
    if "additionalProperties" in schema:
        for key, item in value.items():
            yield from check(schema["additionalProperties"], item, f"{path}[{key}]")


def _array(schema: Schema, value: list[Any], path: str) -> Iterator[Problem]:
    if len(value) > schema.get("maxItems", len(value)):
        yield Problem(path, f"has {len(value)} items; at most {schema['maxItems']} are allowed")
        return
    if len(value) < schema.get("minItems", 0):
        yield Problem(path, f"needs at least {schema['minItems']} item")
    for index, item in enumerate(value):
        yield from check(schema["items"], item, f"{path}[{index}]")


def _scalar(schema: Schema, value: Any, path: str) -> Iterator[Problem]:
    if "enum" in schema and value not in schema["enum"]:
        allowed = ", ".join(word or '""' for word in schema["enum"])
        yield Problem(path, f"must be one of {allowed}, not {shown(value)}")
    elif isinstance(value, str):
        yield from _text(schema, value, path)
    elif isinstance(value, int):
        yield from _number(schema, value, path)


_INT_RANGE = {"int32": 2**31, "int64": 2**63}


def _number(schema: Schema, value: int, path: str) -> Iterator[Problem]:
    limit = _INT_RANGE[schema.get("format", "int64")]
    low, high = schema.get("minimum", -limit), schema.get("maximum", limit - 1)
    if not low <= value <= high:
        yield Problem(path, f"must be between {low} and {high}, not {shown(value)}")


def _text(schema: Schema, value: str, path: str) -> Iterator[Problem]:
    if len(value) > schema.get("maxLength", len(value)):
        yield Problem(path, f"is {len(value)} characters long; at most {schema['maxLength']} are allowed")
