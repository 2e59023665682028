"""An event loop whose clock jumps to the next timer: tests of minutes take milliseconds, and every run is the same.

`run(main())` runs a coroutine on it. When nothing is ready and no timer is set, nothing will ever happen: that is an
error, not a hang.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class StuckError(AssertionError):
    """Every task waits, and no timer is set."""


class _Selector(selectors.DefaultSelector):
    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        if events or timeout == 0:
            return events
        if timeout is None:
            raise StuckError("every task waits for something that no timer and no other task will bring")
        self.loop.now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its time() starts at 1,000 s and passes only while everybody waits."""

    def __init__(self) -> None:
        self.now = 1000.0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now


def run(main: Coroutine[Any, Any, T]) -> T:
    """The coroutine's result, at once."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def clock() -> float:
    """The loop's time, for what takes a clock as an argument."""
    return asyncio.get_running_loop().time()


async def settle(turns: int = 50) -> None:
    """Let everybody run who can; no time passes."""
    for _ in range(turns):
        await asyncio.sleep(0)
