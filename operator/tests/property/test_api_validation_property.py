"""Whatever JSON `parse` is given: it answers, it takes what is right, it refuses what is wrong."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memcached_operator.api.sizing import memory_need_mib
from memcached_operator.api.v1alpha1 import Memcached, MemcachedSpec
from memcached_operator.api.validation import Invalid, parse
from memcached_specs import broken_specs, valid_specs

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=20,
)
no_hurry = settings(suppress_health_check=[HealthCheck.too_slow])
FIELDS = [field.alias or name for name, field in MemcachedSpec.model_fields.items()]


def parsed(spec: object) -> Memcached | Invalid:
    return parse("cache", "shop", "uid-1", 1, spec)


@given(JSON)
@no_hurry
def test_any_json_gets_an_answer(spec: object) -> None:
    answer = parsed(spec)
    assert isinstance(answer, Memcached | Invalid)


@given(st.dictionaries(st.sampled_from(FIELDS), JSON))
@no_hurry
def test_any_json_in_our_fields_gets_an_answer(spec: dict[str, Any]) -> None:
    answer = parsed(spec)
    assert isinstance(answer, Memcached | Invalid)
    if isinstance(answer, Invalid):
        assert answer.problems
        assert all(problem.path and problem.message for problem in answer.problems)


@given(st.text())
@no_hurry
def test_any_name_gets_an_answer(name: str) -> None:
    assert isinstance(parse(name, "shop", "uid-1", 1, {"size": 1}), Memcached | Invalid)


@given(valid_specs())
@no_hurry
def test_a_right_spec_is_taken_as_it_is(spec: dict[str, Any]) -> None:
    answer = parsed(spec)
    assert isinstance(answer, Memcached), answer
    kept = answer.spec.model_dump(by_alias=True, mode="json", exclude_unset=True)
    assert kept == spec


@given(broken_specs())
@no_hurry
def test_a_mistake_is_found(spec: dict[str, Any]) -> None:
    assert isinstance(parsed(spec), Invalid)


@given(st.integers(1, 1_048_576), st.integers(1, 65_536))
@no_hurry
def test_the_integer_formula_is_the_documented_one(memory: int, connections: int) -> None:
    tenth_of_kib = max(
        11 * memory * 1024 + 10 * (32 * 1024 + 20 * connections),
        11 * memory * 1024 + 10 * 64 * 1024,
    )
    assert memory_need_mib(memory, connections) == -(-tenth_of_kib // 10_240)
