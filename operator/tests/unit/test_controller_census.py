"""What /metrics says about the Memcacheds."""

from __future__ import annotations

from typing import Any

import msgspec

from memcached_operator.controller.census import by_condition, everyone, unobserved
from memcached_operator.controller.watches import MEMCACHED_WATCH
from memcached_operator.runtime.store import Store


def store(*bodies: dict[str, Any]) -> Store[Any]:
    filled: Store[Any] = Store(MEMCACHED_WATCH)
    for body in bodies:
        filled.put(msgspec.json.encode(body))
    return filled


def memcached(name: str, *conditions: tuple[str, str, str], seen: int = 1, **metadata: Any) -> dict[str, Any]:
    meta = {"namespace": "shop", "name": name, "uid": name, "resourceVersion": "7", "generation": 1, **metadata}
    listed = [{"type": type_, "status": status, "reason": reason} for type_, status, reason in conditions]
    return {"metadata": meta, "status": {"observedGeneration": seen, "conditions": listed} if listed else {}}


WELL = (("Ready", "True", "AllReady"), ("Degraded", "False", "AsExpected"))


def test_memcacheds_are_counted_by_condition() -> None:
    caches = store(
        memcached("a", *WELL), memcached("b", *WELL), memcached("c", ("Ready", "False", "Unschedulable"), WELL[1])
    )
    assert by_condition(everyone(caches)) == {
        ("Ready", "True", "AllReady"): 2.0,
        ("Ready", "False", "Unschedulable"): 1.0,
        ("Degraded", "False", "AsExpected"): 3.0,
    }


def test_without_a_status_it_is_unknown_and_unobserved() -> None:
    caches = store(memcached("new"))
    assert by_condition(everyone(caches)) == {("Ready", "Unknown", ""): 1.0}
    assert unobserved(everyone(caches)) == {(): 1.0}


def test_a_new_generation_is_unobserved_until_the_status_speaks_of_it() -> None:
    assert unobserved(everyone(store(memcached("a", *WELL, generation=2)))) == {(): 1.0}
    assert unobserved(everyone(store(memcached("a", *WELL, generation=2, seen=2)))) == {(): 0.0}


def test_what_is_being_deleted_is_not_counted() -> None:
    caches = store(memcached("gone", *WELL, deletionTimestamp="2026-01-01T00:00:00Z", generation=2))
    assert by_condition(everyone(caches)) == {}
    assert unobserved(everyone(caches)) == {(): 0.0}


def test_words_of_others_become_no_label_values() -> None:
    caches = store(memcached("a", ("Ready", "True", "SomebodyWasHere"), ("example.com/Backup", "True", "Done")))
    assert by_condition(everyone(caches)) == {("Ready", "True", ""): 1.0}
