import pytest

from controlplane import NotYet, WaitTimeoutError, wait_until


def test_returns_the_first_state_that_satisfies() -> None:
    states = iter([[], [1], [1, 2]])
    assert wait_until(lambda: next(states), 60, "two", until=lambda seen: len(seen) == 2, interval=0) == [1, 2]


def test_without_a_condition_any_truthy_state_will_do() -> None:
    states = iter([0, "", "there"])
    assert wait_until(lambda: next(states), 60, "a text", interval=0) == "there"


def test_time_out_tells_what_was_awaited_and_seen() -> None:
    with pytest.raises(WaitTimeoutError, match=r"^waited 0 s for three pods; last seen: \['a', 'b'\]$"):
        wait_until(lambda: ["a", "b"], 0, "three pods", until=lambda pods: len(pods) == 3)


def test_not_yet_carries_the_state() -> None:
    def observe() -> int:
        raise NotYet("1 of 3 ready")

    with pytest.raises(WaitTimeoutError, match="last seen: 1 of 3 ready"):
        wait_until(observe, 0, "pods")


def refused() -> str:
    raise ConnectionRefusedError("down")


def test_tolerated_errors_are_a_state_too() -> None:
    with pytest.raises(WaitTimeoutError, match="last seen: ConnectionRefusedError: down"):
        wait_until(refused, 0, "an answer", tolerate=(OSError,))


def test_other_errors_are_raised_at_once() -> None:
    with pytest.raises(ConnectionRefusedError):
        wait_until(refused, 60, "an answer", tolerate=(ValueError,))


def test_a_test_that_times_out_fails_rather_than_errs() -> None:
    assert issubclass(WaitTimeoutError, AssertionError)
