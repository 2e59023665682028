"""Whatever is done to the queue, no key has two workers, and none that was added is lost."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from virtual_time import VirtualLoop

from memcached_operator.runtime.store import Key
from memcached_operator.runtime.workqueue import WorkQueue

KEYS = st.sampled_from([Key("ns", name) for name in "abcd"])
SECONDS = st.sampled_from([0.0, 0.1, 1.0, 5.0, 60.0])


class QueueMachine(RuleBasedStateMachine):
    """Workers take and finish keys, events and deadlines come in between; a model counts what is owed."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=VirtualLoop)
        self.loop = self.runner.get_loop()
        self.queue = self.on_loop(WorkQueue)
        self.waiting: list[asyncio.Task[Any]] = []
        self.working: list[Key] = []
        self.owed: set[Key] = set()  # added, and not taken since
        self.due: dict[Key, float] = {}  # by when it must be owed or taken

    def teardown(self) -> None:
        self.runner.close()

    def on_loop(self, work: Any) -> Any:
        async def main() -> Any:
            result = work()
            for _ in range(10):
                await asyncio.sleep(0)
            return result

        return self.runner.run(main())

    def collect(self) -> None:
        """What workers have got since the last look."""
        now = self.loop.time()
        for key in [key for key, at in self.due.items() if at <= now]:
            self.owed.add(key)
            del self.due[key]
        for task in [task for task in self.waiting if task.done()]:
            self.waiting.remove(task)
            if task.cancelled():
                continue
            key, waited = task.result()
            assert waited >= 0
            assert key not in self.working, "two workers on one key"
            assert key in self.owed, "a key that nobody added"
            self.owed.discard(key)
            self.working.append(key)

    @rule(key=KEYS, background=st.booleans())
    def add(self, *, key: Key, background: bool) -> None:
        self.owed.add(key)
        self.due.pop(key, None)
        self.on_loop(lambda: self.queue.add(key, background=background))
        self.collect()

    @rule(key=KEYS, seconds=SECONDS)
    def add_after(self, key: Key, seconds: float) -> None:
        if not seconds:
            self.owed.add(key)
            self.due.pop(key, None)
        elif key not in self.owed or key in self.working:
            self.due[key] = min(self.due.get(key, float("inf")), self.loop.time() + seconds)
        self.on_loop(lambda: self.queue.add_after(key, seconds))
        self.collect()

    @rule()
    def a_worker_comes(self) -> None:
        self.waiting.append(self.on_loop(lambda: asyncio.ensure_future(self.queue.get())))
        self.collect()

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def a_worker_is_done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.working)))
        self.working.remove(key)
        self.on_loop(lambda: self.queue.done(key))
        self.collect()

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def a_worker_is_cancelled_as_a_key_comes(self, data: st.DataObject) -> None:
        task = data.draw(st.sampled_from(self.waiting))
        key = data.draw(KEYS)
        self.owed.add(key)
        self.due.pop(key, None)

        def both() -> None:
            self.queue.add(key)
            task.cancel()

        self.on_loop(both)
        self.collect()

    @rule(seconds=SECONDS)
    def time_passes(self, seconds: float) -> None:
        async def wait() -> None:
            await asyncio.sleep(seconds)
            for _ in range(10):
                await asyncio.sleep(0)

        self.runner.run(wait())
        self.collect()

    @invariant()
    def nobody_waits_while_there_is_work(self) -> None:
        assert not (self.waiting and self.owed - set(self.working)), "a wake-up was lost"

    @invariant()
    def nothing_is_lost(self) -> None:
        assert len(self.queue) == len(self.owed)
        assert self.queue.in_flight == len(self.working)


QueueMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40)
TestWorkQueue = QueueMachine.TestCase
