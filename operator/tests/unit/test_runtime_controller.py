"""A controller's workers: what they make of results and errors, and whom events wake."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from machinery import NoTracer, RecordedMetrics, ScriptedReconciler
from virtual_time import run, settle

from memcached_operator.errors import ConflictError, FencedError, TerminalError, TransientError
from memcached_operator.gvr import MEMCACHEDS, SERVICES
from memcached_operator.runtime.controller import Controller, run_workers
from memcached_operator.runtime.result import Result, done, requeue_after
from memcached_operator.runtime.store import Key, Unstructured, Watch, decode_unstructured
from memcached_operator.runtime.workqueue import Backoff

A, B = Key("ns", "a"), Key("ns", "b")


def owner(thing: Unstructured) -> Key | None:
    name = thing.body["metadata"]["labels"].get("of")
    return Key(thing.namespace, name) if name else None


def raw(version: int, name: str = "a", of: str = "") -> bytes:
    labels = {"of": of} if of else {}
    meta = {"namespace": "ns", "name": name, "uid": name, "resourceVersion": str(version), "labels": labels}
    return json.dumps({"metadata": meta}).encode()


class Scene:
    """A controller with workers, and what its reconciler saw."""

    def __init__(self, workers: int = 1, delay: float = 0.15) -> None:
        self.reconciler = ScriptedReconciler()
        self.metrics = RecordedMetrics()
        services = Watch(SERVICES, decode_unstructured, owner=owner, delay=lambda _old, _new: delay, indexed=True)
        self.controller = Controller(
            "test",
            for_=Watch(MEMCACHEDS, decode_unstructured, waits=lambda thing: thing.name.startswith("urgent")),
            owns=[services],
            reconciler=lambda _: self.reconciler,
            workers=workers,
            backoff=Backoff(1.0, 60.0, rng=lambda: 1.0),
        )
        self.controller.synced = True
        self.primaries, self.services = self.controller.primary, self.controller.owned[0]
        self.task = asyncio.create_task(run_workers(self.controller, self.metrics, NoTracer()))

    def answers(self, *answers: Result | Exception) -> None:
        """One answer a reconcile, then nothing more to do."""
        script = list(answers)

        async def reconcile(_: Key) -> Result:
            answer = script.pop(0) if script else done()
            if isinstance(answer, Exception):
                raise answer
            return answer

        self.reconciler.script = reconcile


def play(test: Callable[[Scene], Awaitable[None]], **how: Any) -> None:
    async def main() -> None:
        scene = Scene(**how)
        await test(scene)
        assert not scene.task.done(), "nothing may end the workers"
        scene.controller.queue.close()
        await scene.task

    run(main())


async def seconds(number: float) -> None:
    await asyncio.sleep(number)
    await settle()


def test_an_event_of_a_primary_is_a_reconcile_and_the_same_event_is_none() -> None:
    async def test(scene: Scene) -> None:
        scene.primaries.put(raw(1))
        scene.primaries.put(raw(1))
        await settle()
        scene.primaries.drop(raw(2))
        await settle()
        assert scene.reconciler.take() == ["a", "a"]
        assert scene.metrics.counts["test done"] == 2

    play(test)


def test_events_of_owned_objects_are_gathered_for_their_owner() -> None:
    async def test(scene: Scene) -> None:
        for version in range(1, 50):
            scene.services.put(raw(version, "svc", of="a"))
        scene.services.put(raw(60, "nobodys"))
        await seconds(0.1)
        assert scene.reconciler.take() == []
        await seconds(0.1)
        assert scene.reconciler.take() == ["a"]

    play(test)


def test_an_object_that_changes_hands_wakes_both() -> None:
    async def test(scene: Scene) -> None:
        scene.services.put(raw(1, "svc", of="a"))
        await seconds(1)
        scene.reconciler.take()
        scene.services.put(raw(2, "svc", of="b"))
        await seconds(1)
        assert sorted(scene.reconciler.take()) == ["a", "b"]

    play(test)


def test_waiting_is_a_result() -> None:
    async def test(scene: Scene) -> None:
        scene.answers(requeue_after(30, "a deadline"))
        scene.primaries.put(raw(1))
        await seconds(29)
        assert scene.reconciler.take() == ["a"]
        await seconds(2)
        assert scene.reconciler.take() == ["a"]
        assert scene.metrics.counts["test requeue"] == 1
        await seconds(1000)
        assert scene.reconciler.take() == []

    play(test)


@pytest.mark.parametrize("error", (TransientError("503", status=503), ConflictError("409"), ValueError("a bug")))
def test_failures_back_off_and_a_success_ends_that(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)

    async def test(scene: Scene) -> None:
        scene.answers(error, error, error, done(), error)
        scene.primaries.put(raw(1))
        await seconds(0.9)
        assert scene.reconciler.take() == ["a"]
        await seconds(1)  # after 1 s
        assert scene.reconciler.take() == ["a"]
        await seconds(2)  # after 2 s more
        assert scene.reconciler.take() == ["a"]
        await seconds(4)
        assert scene.reconciler.take() == ["a"]
        await seconds(1000)
        assert scene.reconciler.take() == []
        scene.primaries.put(raw(2))
        await seconds(1.5)
        assert scene.reconciler.take() == ["a", "a"]  # from the beginning again
        assert scene.metrics.counts["retried"] == 4

    play(test)


def test_a_failure_that_lasts_is_told_ever_more_rarely(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def test(scene: Scene) -> None:
        scene.answers(*[TransientError("503", status=503)] * 20)
        scene.primaries.put(raw(1))
        await seconds(10000)
        assert len(scene.reconciler.take()) == 21

    play(test)
    assert len([record for record in caplog.records if "next try in" in record.message]) == 3


def test_the_server_says_when_to_come_back() -> None:
    async def test(scene: Scene) -> None:
        scene.answers(TransientError("429", status=429, retry_after=20))
        scene.primaries.put(raw(1))
        await seconds(19)
        assert scene.reconciler.take() == ["a"]
        await seconds(2)
        assert scene.reconciler.take() == ["a"]

    play(test)


def test_what_cannot_heal_waits_for_an_edit() -> None:
    async def test(scene: Scene) -> None:
        scene.answers(TerminalError("422", status=422))
        scene.primaries.put(raw(1))
        await seconds(10_000)
        assert scene.reconciler.take() == ["a"]
        scene.primaries.put(raw(2))
        await settle()
        assert scene.reconciler.take() == ["a"]
        assert scene.metrics.counts["test terminal"] == 1

    play(test)


def test_a_fenced_key_is_left_to_the_next_leader() -> None:
    async def test(scene: Scene) -> None:
        scene.answers(FencedError("not ours"))
        scene.primaries.put(raw(1))
        await seconds(10_000)
        assert scene.reconciler.take() == ["a"]
        assert scene.metrics.counts["retried"] == 0

    play(test)


def test_one_resource_that_always_fails_does_not_hold_up_the_others() -> None:
    async def test(scene: Scene) -> None:
        async def reconcile(key: Key) -> Result:
            if key == A:
                raise TransientError("always")
            return done()

        scene.reconciler.script = reconcile
        scene.primaries.put(raw(1))
        for version in range(100):
            scene.primaries.put(raw(version + 10, f"b{version}"))
        await settle(1000)
        assert len(scene.reconciler.take()) == 101
        await seconds(10_000)
        assert len(scene.reconciler.take()) < 175  # once a minute at most

    play(test)


def test_workers_share_the_keys_and_never_one_of_them() -> None:
    async def test(scene: Scene) -> None:
        at_work: list[Key] = []
        most = [0]

        async def reconcile(key: Key) -> Result:
            assert key not in at_work
            at_work.append(key)
            most[0] = max(most[0], len(at_work))
            await asyncio.sleep(1)
            at_work.remove(key)
            return done()

        scene.reconciler.script = reconcile
        for version in range(1, 40):
            scene.primaries.put(raw(version))
            scene.primaries.put(raw(version, "b"))
            scene.primaries.put(raw(version, "c"))
            await seconds(0.1)
        await seconds(10)
        assert most == [2]

    play(test, workers=2)


def test_what_is_under_way_can_be_seen_and_cancelled() -> None:
    async def test(scene: Scene) -> None:
        async def reconcile(_: Key) -> Result:
            await asyncio.sleep(10**6)
            return done()

        scene.reconciler.script = reconcile
        scene.primaries.put(raw(1))
        await settle()
        assert list(scene.controller.busy_since) == [A]
        first = scene.task
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert scene.controller.busy_since == {}
        assert scene.controller.queue.in_flight == 0
        assert scene.metrics.counts["test cancelled"] == 1
        scene.task = asyncio.create_task(run_workers(scene.controller, scene.metrics, NoTracer()))
        scene.reconciler.take()
        scene.controller.enqueue_all()
        await settle()
        assert scene.reconciler.take() == ["a"]
        scene.task.cancel()
        await asyncio.gather(scene.task, return_exceptions=True)
        scene.task = asyncio.create_task(run_workers(scene.controller, scene.metrics, NoTracer()))

    play(test)


def test_before_the_first_lists_are_in_all_is_background_but_what_somebody_waits_for() -> None:
    async def test(scene: Scene) -> None:
        scene.controller.synced = False
        order: list[str] = []

        async def reconcile(key: Key) -> Result:
            order.append(key.name)
            await asyncio.sleep(1)
            return done()

        scene.reconciler.script = reconcile
        scene.primaries.put(raw(1, "first"))
        await settle()
        for version in range(3):
            scene.primaries.put(raw(version + 2, f"old{version}"))
        scene.primaries.put(raw(8, "urgent"))
        scene.controller.synced = True
        scene.primaries.put(raw(9, "edited"))
        await seconds(10)
        assert order == ["first", "urgent", "edited", "old0", "old1", "old2"]
        order.clear()
        scene.controller.enqueue_all()
        await seconds(10)
        assert order[0] == "urgent"

    play(test)
