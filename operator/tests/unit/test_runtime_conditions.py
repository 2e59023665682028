import datetime
from typing import Any

from memcached_operator.runtime.conditions import condition

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


def at(hour: int, previous: list[dict[str, Any]], *, status: bool, message: str = "") -> dict[str, Any]:
    now = NOON.replace(hour=hour)
    return condition(previous, "Available", status=status, reason="Because", message=message, now=lambda: now)


def test_a_new_condition_has_the_time_of_now() -> None:
    assert at(12, [], status=True, message="2/2") == {
        "type": "Available",
        "status": "True",
        "reason": "Because",
        "message": "2/2",
        "lastTransitionTime": "2026-01-01T12:00:00Z",
    }


def test_an_equal_status_keeps_its_time_whatever_the_message() -> None:
    old = at(12, [], status=False, message="0/2")
    new = at(13, [old], status=False, message="1/2")
    assert new == {**old, "message": "1/2"}


def test_another_status_has_another_time() -> None:
    old = at(12, [], status=False)
    assert at(13, [old], status=True)["lastTransitionTime"] == "2026-01-01T13:00:00Z"


def test_the_time_of_another_type_does_not_count() -> None:
    other = {**at(12, [], status=True), "type": "Progressing"}
    assert at(13, [other], status=True)["lastTransitionTime"] == "2026-01-01T13:00:00Z"


def test_the_real_clock_is_the_default() -> None:
    time = condition([], "Available", status=True, reason="Because", message="")["lastTransitionTime"]
    assert datetime.datetime.fromisoformat(time).tzinfo == datetime.UTC
