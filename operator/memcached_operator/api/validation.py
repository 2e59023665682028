"""Raw JSON in, a valid `Memcached` or the list of its problems out. Never raises, whatever it is given.

The API server checks the same when an object is written; this is for the objects that were stored before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from memcached_operator.api import core_v1, structural
from memcached_operator.api.problems import Invalid, Problem, shown
from memcached_operator.api.rules import Rule
from memcached_operator.api.shape import shape_problems
from memcached_operator.api.spec_rules import FIELD_RULES, NAME_RULES, SPEC_RULES, VALUE_RULES
from memcached_operator.api.v1alpha1 import Memcached, MemcachedSpec

__all__ = ["Invalid", "Problem", "parse"]


def parse(name: str, namespace: str, uid: str, generation: int, spec: object) -> Memcached | Invalid:
    """The resource of this metadata and raw `spec`, or everything that the user has to correct in it."""
    parsed = _parse_spec(spec)
    wrong_name = tuple(_broken(NAME_RULES, name, ""))
    if isinstance(parsed, ValidationError):
        return Invalid((*wrong_name, *shape_problems(parsed)))
    problems = (*wrong_name, *_spec_problems(parsed))
    return Invalid(problems) if problems else Memcached(name, namespace, uid, generation, parsed)


def _parse_spec(spec: object) -> MemcachedSpec | ValidationError:
    try:
        return MemcachedSpec.model_validate(spec)
    except ValidationError as error:
        return _again_without_nulls(spec, error)


def _again_without_nulls(spec: object, error: ValidationError) -> MemcachedSpec | ValidationError:
    """The API server drops `null` from objects before it looks closer; so does this, off the fast path."""
    if not isinstance(spec, dict):
        return error
    try:
        return MemcachedSpec.model_validate(_without_nulls(spec))
    except ValidationError as second:
        return second


def _without_nulls(spec: dict[str, Any]) -> dict[str, Any]:
    def kept(value: dict[str, Any]) -> dict[str, Any]:
        return {key: inner for key, inner in value.items() if inner is not None}

    # Two levels are all that pydantic looks at: the fields, and those of rollout or the entries of a map.
    return {key: kept(value) if isinstance(value, dict) else value for key, value in kept(spec).items()}


def _broken(rules: Iterable[Rule[Any]], value: object, path: str) -> Iterator[Problem]:
    for rule in rules:
        if not rule.holds(value):
            yield Problem(f"{path}{rule.field}".removeprefix("."), rule.words(value))


def _spec_problems(spec: MemcachedSpec) -> Iterator[Problem]:
    # Defaults keep every rule (a test sees to it), so that only what was given has to be looked at.
    given = spec.model_fields_set
    problems = [problem for field in _CHECKED if field.name in given for problem in _field_problems(spec, field)]
    yield from problems
    # As in the API server: rules that compare fields are asked only when each field is right by itself.
    if not problems:
        yield from _broken(SPEC_RULES, spec, "spec")


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of the spec that pydantic alone cannot judge."""

    name: str
    path: str
    rules: tuple[Rule[Any], ...]
    value_rules: tuple[Rule[Any], ...]
    definition: str
    keys: tuple[str, ...]


def _checked_fields() -> Iterator[_Field]:
    for name, info in MemcachedSpec.model_fields.items():
        extra: Any = info.json_schema_extra or {}
        rules, definition = FIELD_RULES.get(name, ()), extra.get("x-core-v1", "")
        if rules or definition:
            keys = tuple(extra.get("x-kubernetes-list-map-keys", ()))
            yield _Field(name, f"spec.{to_camel(name)}", rules, VALUE_RULES.get(name, ()), definition, keys)


_CHECKED = tuple(_checked_fields())


def _field_problems(spec: MemcachedSpec, field: _Field) -> Iterator[Problem]:
    value = getattr(spec, field.name)
    if value is None:
        return
    yield from _broken(field.rules, value, field.path)
    if field.value_rules:
        for key, item in value.items():
            yield from _broken(field.value_rules, item, f"{field.path}[{key}]")
    if field.definition and isinstance(value, list):
        yield from _list_problems(field, value)
    elif field.definition:
        yield from structural.check(core_v1.schema(field.definition), value, field.path)


def _list_problems(field: _Field, items: list[Any]) -> Iterator[Problem]:
    schema = core_v1.schema(field.definition)
    seen: set[tuple[Any, ...]] = set()
    for index, item in enumerate(items):
        path = f"{field.path}[{index}]"
        problems = list(structural.check(schema, item, path))
        yield from problems
        if field.keys and not problems:
            identity = tuple(item[key] for key in field.keys)
            if identity in seen:
                yield Problem(path, f"repeats {' and '.join(map(shown, identity))}: remove one of them")
            seen.add(identity)
