"""The workqueue of client-go, for one event loop: a key is queued once, and never worked on twice at the same time.

A key added while it is being processed is marked dirty and queued again when it is done. Keys of live events go
before those of an initial list or a resync, so that a restart with 5,000 resources does not hide the one that
somebody is editing; yet every eighth turn is theirs, so that a resource that never rests does not hide the 5,000.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import OrderedDict, deque
from collections.abc import Callable

from memcached_operator.runtime.store import Key

BACKGROUND_TURN = 8


class ShutDown(Exception):  # noqa: N818 - client-go's word, and no error
    """The queue is closed."""


class Backoff:
    """Per-key exponential back-off: `base * 2**failures` seconds up to `ceiling`, its upper half at random."""

    def __init__(self, base: float = 0.005, ceiling: float = 300.0, rng: Callable[[], float] = random.random) -> None:
        self._base = base
        self._ceiling = ceiling
        self._rng = rng
        self._failures: dict[Key, int] = {}

    def next_delay(self, key: Key) -> float:
        """Seconds until the next try; counts one failure more."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(self._ceiling, self._base * 2.0 ** min(failures, 40))
        return delay * (0.5 + 0.5 * self._rng())

    def failures(self, key: Key) -> int:
        """How often the key failed in a row."""
        return self._failures.get(key, 0)

    def forget(self, key: Key) -> None:
        """The key succeeded."""
        self._failures.pop(key, None)


class WorkQueue:
    """Keys to reconcile. `clock` gives seconds on the clock of the loop's `call_at`."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._live: OrderedDict[Key, None] = OrderedDict()  # a key is in one of the two at most, and not while in work
        self._background: OrderedDict[Key, None] = OrderedDict()
        self._dirty: dict[Key, float] = {}  # queued or to be queued -> since when
        self._processing: set[Key] = set()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._deadlines: dict[Key, float] = {}
        self._heap: list[tuple[float, Key]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._turns = 0
        self._closed = False
        self._clock = clock or (lambda: asyncio.get_running_loop().time())

    def __len__(self) -> int:
        return len(self._dirty)

    @property
    def in_flight(self) -> int:
        """Keys being processed now."""
        return len(self._processing)

    def add(self, key: Key, *, background: bool = False) -> None:
        """Queue a key now; no-op when it is queued. A live add lifts a key that waits in the background."""
        if self._closed:
            return
        self._deadlines.pop(key, None)
        if key in self._dirty:
            if not background and key in self._background:
                del self._background[key]
                self._live[key] = None
            return
        self._dirty[key] = self._clock()
        if key not in self._processing:
            (self._background if background else self._live)[key] = None
            self._wake()

    def add_after(self, key: Key, seconds: float) -> None:
        """Queue a key in `seconds`; of several deadlines the earliest holds, and a queued key needs none."""
        if seconds <= 0:
            self.add(key)
            return
        if self._closed or (key in self._dirty and key not in self._processing):
            return
        at = self._clock() + seconds
        if at >= self._deadlines.get(key, float("inf")):
            return
        self._deadlines[key] = at
        heapq.heappush(self._heap, (at, key))
        self._arm()

    async def get(self) -> tuple[Key, float]:
        """Take the next key; returns it and the seconds that it waited. Every get is answered by one done.

        Raises ShutDown once the queue is closed, also when keys are left: the next leader looks at every key anyway.
        """
        while True:
            if self._closed:
                raise ShutDown
            if self._live or self._background:
                key = self._pop()
                since = self._dirty.pop(key)
                self._processing.add(key)
                return key, self._clock() - since
            await self._wait()

    def done(self, key: Key) -> None:
        """The key's turn is over; if it was added meanwhile, it is queued again."""
        self._processing.discard(key)
        if key in self._dirty and not self._closed:
            self._live[key] = None
            self._wake()

    def waiting_counts_from_now(self) -> None:
        """What was queued while nobody was to work (no lease) has not waited."""
        now = self._clock()
        self._dirty = dict.fromkeys(self._dirty, now)

    def close(self) -> None:
        """Wake everybody; nothing is accepted any more."""
        self._closed = True
        if self._timer:
            self._timer.cancel()
        while self._waiters:
            self._wake()

    def _pop(self) -> Key:
        self._turns += 1
        behind = self._background and (not self._live or self._turns % BACKGROUND_TURN == 0)
        key, _ = (self._background if behind else self._live).popitem(last=False)
        return key

    async def _wait(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._wake()  # woken and cancelled at once: pass the wake-up on
            raise
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _arm(self) -> None:
        at = self._heap[0][0]
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer_at = at
        self._timer = asyncio.get_running_loop().call_at(at, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = self._clock()
        while self._heap and self._heap[0][0] <= now:
            at, key = heapq.heappop(self._heap)
            if self._deadlines.get(key) == at:  # otherwise an earlier deadline or an add() has overtaken it
                del self._deadlines[key]
                self.add(key)
        if self._heap and not self._closed:
            self._arm()
