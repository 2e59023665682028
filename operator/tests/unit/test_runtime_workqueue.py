"""The workqueue, on a clock of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from virtual_time import run, settle

from memcached_operator.runtime.store import Key
from memcached_operator.runtime.workqueue import Backoff, ShutDown, WorkQueue

A, B, C = Key("ns", "a"), Key("ns", "b"), Key("ns", "c")


def on_a_queue(test: Callable[[WorkQueue], Awaitable[None]]) -> None:
    async def main() -> None:
        await test(WorkQueue())

    run(main())


async def take(queue: WorkQueue) -> Key:
    key, _ = await queue.get()
    return key


async def taken_within(queue: WorkQueue, seconds: float) -> Key | None:
    try:
        async with asyncio.timeout(seconds):
            return await take(queue)
    except TimeoutError:
        return None


def test_a_key_is_queued_once() -> None:
    async def test(queue: WorkQueue) -> None:
        for _ in range(1000):
            queue.add(A)
        assert len(queue) == 1
        assert await take(queue) == A
        queue.done(A)
        assert await taken_within(queue, 1000) is None

    on_a_queue(test)


def test_events_of_a_queued_key_take_no_memory() -> None:
    # A standby has no worker: what events leave behind is never taken away.
    async def test(queue: WorkQueue) -> None:
        for _ in range(1000):
            queue.add(A)
            queue.add(B, background=True)
        assert len(queue._live) + len(queue._background) == 2  # noqa: SLF001 - memory has no public face

    on_a_queue(test)


def test_a_key_added_while_in_work_comes_again_when_it_is_done() -> None:
    async def test(queue: WorkQueue) -> None:
        queue.add(A)
        assert await take(queue) == A
        queue.add(A)
        assert await taken_within(queue, 10) is None
        queue.done(A)
        assert await take(queue) == A

    on_a_queue(test)


def test_live_events_go_first_and_lift_a_key_out_of_the_background() -> None:
    async def test(queue: WorkQueue) -> None:
        queue.add(A, background=True)
        queue.add(B, background=True)
        queue.add(C)
        queue.add(B)
        assert [await take(queue), await take(queue), await take(queue)] == [C, B, A]
        for key in (A, B, C):
            queue.done(key)
        assert await taken_within(queue, 10) is None

    on_a_queue(test)


def test_the_background_is_not_starved() -> None:
    async def test(queue: WorkQueue) -> None:
        queue.add(A, background=True)
        turns = 0
        while True:
            queue.add(B)
            key = await take(queue)
            queue.done(key)
            turns += 1
            if key == A:
                break
        assert turns <= 8

    on_a_queue(test)


def test_of_several_deadlines_the_earliest_holds() -> None:
    async def test(queue: WorkQueue) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        queue.add_after(A, 300)
        queue.add_after(A, 5)
        queue.add_after(A, 60)
        assert await take(queue) == A
        assert loop.time() - began == pytest.approx(5)
        queue.done(A)
        assert await taken_within(queue, 1000) is None

    on_a_queue(test)


def test_an_event_replaces_a_deadline() -> None:
    async def test(queue: WorkQueue) -> None:
        queue.add_after(A, 5)
        queue.add(A)
        assert await take(queue) == A
        queue.done(A)
        assert await taken_within(queue, 1000) is None

    on_a_queue(test)


def test_a_deadline_set_while_in_work_holds_afterwards() -> None:
    async def test(queue: WorkQueue) -> None:
        queue.add(A)
        assert await take(queue) == A
        queue.add_after(A, 30)
        queue.done(A)
        assert await taken_within(queue, 29) is None
        assert await taken_within(queue, 2) == A

    on_a_queue(test)


def test_deadlines_of_many_keys_come_in_order() -> None:
    async def test(queue: WorkQueue) -> None:
        queue.add_after(C, 30)
        queue.add_after(A, 10)
        queue.add_after(B, 20)
        assert [await take(queue), await take(queue), await take(queue)] == [A, B, C]

    on_a_queue(test)


def test_no_delay_is_now() -> None:
    async def test(queue: WorkQueue) -> None:
        queue.add_after(A, 0)
        assert await taken_within(queue, 0.001) == A

    on_a_queue(test)


def test_it_tells_how_long_a_key_waited() -> None:
    async def test(queue: WorkQueue) -> None:
        queue.add(A)
        queue.add(B)
        await asyncio.sleep(3)
        assert (await queue.get())[1] == pytest.approx(3)
        queue.waiting_counts_from_now()
        await asyncio.sleep(2)
        assert (await queue.get())[1] == pytest.approx(2)

    on_a_queue(test)


def test_a_wakeup_of_a_cancelled_worker_is_passed_on() -> None:
    async def test(queue: WorkQueue) -> None:
        first, second = asyncio.create_task(take(queue)), asyncio.create_task(take(queue))
        await settle()
        queue.add(A)  # wakes the first
        first.cancel()
        await settle()
        assert second.done()
        assert second.result() == A

    on_a_queue(test)


def test_every_worker_gets_a_key() -> None:
    async def test(queue: WorkQueue) -> None:
        workers = [asyncio.create_task(take(queue)) for _ in range(3)]
        await settle()
        for key in (A, B, C):
            queue.add(key)
        assert set(await asyncio.gather(*workers)) == {A, B, C}
        assert queue.in_flight == 3

    on_a_queue(test)


def test_closing_wakes_everybody_and_takes_nothing_more() -> None:
    async def test(queue: WorkQueue) -> None:
        workers = [asyncio.create_task(take(queue)) for _ in range(2)]
        await settle()
        queue.add_after(A, 5)
        queue.close()
        for worker in workers:
            with pytest.raises(ShutDown):
                await worker
        queue.add(B)
        queue.add_after(B, 1)
        await asyncio.sleep(10)
        assert len(queue) == 0
        with pytest.raises(ShutDown):
            await queue.get()

    on_a_queue(test)


def test_backoff_doubles_up_to_its_ceiling_and_forgets() -> None:
    backoff = Backoff(0.005, 300.0, rng=lambda: 1.0)
    delays = [backoff.next_delay(A) for _ in range(20)]
    assert delays[:4] == [0.005, 0.01, 0.02, 0.04]
    assert delays[-1] == 300.0
    assert backoff.failures(A) == 20
    assert backoff.next_delay(B) == 0.005
    backoff.forget(A)
    assert backoff.next_delay(A) == 0.005


def test_backoff_jitters_downwards_by_half_at_most() -> None:
    assert Backoff(1.0, 300.0, rng=lambda: 0.0).next_delay(A) == 0.5
    assert Backoff(1.0, 300.0, rng=lambda: 0.5).next_delay(A) == 0.75


def test_backoff_of_a_key_that_never_succeeds_does_not_overflow() -> None:
    backoff = Backoff(0.005, 300.0, rng=lambda: 1.0)
    for _ in range(3000):
        delay = backoff.next_delay(A)
    assert delay == 300.0
