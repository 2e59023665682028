"""Waiting for things to stop: nothing announces that no more is to come, so only time can show it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from controlplane import NotYet, wait_until

T = TypeVar("T")


def wait_unchanged(
    observe: Callable[[], T],
    timeout: float,
    what: str,
    *,
    interval: float,
    same: Callable[[T, T], bool] = lambda before, after: before == after,
) -> T:
    """Return the second of two observations, `interval` seconds apart, that are the `same`.

    `what` completes the sentence "waited ... for WHAT". Raises WaitTimeoutError after `timeout` seconds.
    """
    seen: list[T] = []

    def unchanged() -> tuple[T]:
        seen.append(observe())
        if len(seen) < 2 or not same(seen[-2], seen[-1]):
            raise NotYet(f"{len(seen)} observations, the last one {seen[-1]!r:.200}")
        return (seen[-1],)

    return wait_until(unchanged, timeout, what, interval=interval)[0]
