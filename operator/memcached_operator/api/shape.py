"""pydantic's errors in the words of a user who has never heard of pydantic."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from memcached_operator.api import defaults
from memcached_operator.api.problems import Problem, shown

_MAPS = ("podAnnotations", "podLabels", "nodeSelector")
_INT_OR_PERCENT = ("maxSurge", "maxUnavailable")

_TYPES = {
    "int_type": "a whole number",
    "string_type": "a string",
    "bool_type": "true or false",
    "dict_type": "an object",
    "list_type": "a list",
    "model_type": "an object",
    "string_unicode": "a string of valid Unicode",
}

_TEMPLATES = {
    "missing": "is required",
    "greater_than_equal": "must be at least {ge}, not {given}",
    "less_than_equal": "must be at most {le}, not {given}",
    "too_long": "has {length} {counted}; at most {max_length} are allowed",
    "string_too_long": "is {length} characters long; at most {max_length} are allowed",
    "string_too_short": "must not be empty: give a value or remove the field",
    "enum": "must be {expected}, not {given}",
}


def shape_problems(error: ValidationError) -> tuple[Problem, ...]:
    """What is wrong with the spec that pydantic refused, each place once."""
    details = error.errors(include_url=False)
    # A field that may be a number or a text gives an error for each; they become one and the same.
    return tuple(dict.fromkeys(Problem(_path(detail["loc"]), _words(detail)) for detail in details))


def _path(location: tuple[int | str, ...]) -> str:
    if not location:
        return "spec"
    # Below rollout there is one level of fields, and then pydantic's names for the branches of a union.
    field, *inner = location[:2] if location[0] == "rollout" else location
    steps = (f"[{step}]" if field in _MAPS or isinstance(step, int) else f".{step}" for step in inner)
    return f"spec.{field}{''.join(steps)}"


def _words(detail: ErrorDetails) -> str:
    context: dict[str, Any] = detail.get("ctx", {})
    given = shown(detail["input"])
    if any(step in _INT_OR_PERCENT for step in detail["loc"]):
        return f'must be a whole number from 0 to {defaults.MAX_SIZE}, or a percentage from "0%" to "100%", not {given}'
    if detail["type"] in _TYPES:
        return f"must be {_TYPES[detail['type']]}, not {given}"
    template = _TEMPLATES.get(detail["type"])
    if template is None:
        return f"{detail['msg'][:1].lower()}{detail['msg'][1:]}"
    counted = "entries" if isinstance(detail["input"], dict) else "items"
    length = len(detail["input"]) if isinstance(detail["input"], str | list | dict) else 0
    expected = str(context.get("expected", "")).replace("'", "")
    return template.format_map({**context, "given": given, "counted": counted, "length": length, "expected": expected})
