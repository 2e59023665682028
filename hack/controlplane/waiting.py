"""Waiting for a condition: poll what is really there, and on time-out say what was seen last."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class NotYet(Exception):  # noqa: N818 - it reports a state, not an error
    """Raised by an observation that has nothing to return yet; its text is the state that a time-out reports."""


class WaitTimeoutError(AssertionError):
    """The condition did not come true in time. It is an assertion error, so that a test fails instead of erring."""


def wait_until(
    observe: Callable[[], T],
    timeout: float,
    what: str,
    *,
    until: Callable[[T], object] = bool,
    interval: float = 0.05,
    tolerate: tuple[type[Exception], ...] = (),
) -> T:
    """Call `observe` until its result satisfies `until` (default: is truthy), and return that result.

    `timeout` and `interval` are seconds. `what` completes the sentence "waited ... for WHAT". `observe` may raise
    `NotYet(state)`, or anything in `tolerate` (an API server that is down, say): both count as "not yet".
    Raises WaitTimeoutError with the last state seen. `observe` runs at least once, also with a time-out of 0.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            state = observe()
        except NotYet as state_so_far:
            last = str(state_so_far)
        except tolerate as error:
            last = f"{type(error).__name__}: {error}"
        else:
            if until(state):
                return state
            last = repr(state)
        if time.monotonic() >= deadline:
            raise WaitTimeoutError(f"waited {timeout:g} s for {what}; last seen: {last}")
        time.sleep(interval)
