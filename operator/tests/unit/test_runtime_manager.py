"""The manager against a small API server, on a clock of its own: start and stop, leadership, outages, probes."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from candidates import Wire
from fake_api import FakeApi, Fault, Request
from machinery import NoTracer, RecordedMetrics, ScriptedReconciler, WatchedSource
from virtual_time import clock, run, settle

from memcached_operator.errors import TransientError
from memcached_operator.gvr import DEPLOYMENTS, EVENTS, LEASES, MEMCACHEDS, SERVICES
from memcached_operator.runtime.controller import Controller
from memcached_operator.runtime.election import LeaseConfig
from memcached_operator.runtime.events import Recorder
from memcached_operator.runtime.manager import Manager
from memcached_operator.runtime.result import Result, done
from memcached_operator.runtime.store import Key, Unstructured, Watch, decode_unstructured


@pytest.fixture(autouse=True)
def thaw() -> Iterator[None]:
    """The manager tunes the garbage collector of its process: undo that."""
    threshold = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)


def by_name(thing: Unstructured) -> Key:
    return thing.key


class Replica:
    """One process: a manager, a controller that owns Services, and a reconciler that writes an annotation."""

    def __init__(self, api: FakeApi, name: str = "a", *, elect: bool = True, namespaces: tuple[str, ...] = ()) -> None:
        self.wire = Wire(api)
        self.metrics = RecordedMetrics()
        self.reconciler = ScriptedReconciler()
        self.recorder = Recorder(self.wire, self.metrics, controller="test", instance=name, clock=clock)
        self.sources: list[WatchedSource] = []

        async def open_session() -> Any:
            return self.wire, None  # all that WatchedSource takes

        def source(*args: Any, **kwargs: Any) -> WatchedSource:
            self.sources.append(WatchedSource(*args, **kwargs))
            return self.sources[-1]

        self.manager = Manager(
            self.wire,
            open_session=open_session,
            metrics=self.metrics,
            tracer=NoTracer(),
            recorder=self.recorder,
            lease=LeaseConfig("ns", "operator", name, retry_every=0.5) if elect else None,
            namespaces=namespaces,
            make_source=source,
            clock=clock,
        )
        self.controller = Controller(
            "test",
            for_=Watch(MEMCACHEDS, decode_unstructured),
            owns=[Watch(SERVICES, decode_unstructured, owner=by_name), Watch(DEPLOYMENTS, decode_unstructured)],
            reconciler=lambda _: self.reconciler,
            workers=2,
        )
        self.manager.add(self.controller)
        self.stop = asyncio.Event()
        self.task = asyncio.create_task(self.manager.run(self.stop))

    async def ended(self) -> int:
        """The exit code, once told to stop."""
        self.stop.set()
        return await self.task

    def stored(self, name: str) -> Unstructured:
        thing: Unstructured | None = self.controller.primary.get(Key("ns", name))
        assert thing is not None
        return thing


def cache(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"size": 1}, **more}


def cut(_: Request) -> Fault:
    return Fault(TransientError("connection refused"))


def hang(_: Request) -> Fault:
    return Fault(delay=10**6)


def play(test: Callable[[FakeApi, Callable[..., Replica]], Awaitable[None]], **how: Any) -> None:
    async def main() -> None:
        api = FakeApi()
        for name in ("x", "y"):
            api.add(MEMCACHEDS, cache(name))
        api.add(SERVICES, cache("x"))
        replicas: list[Replica] = []

        def replica(name: str = "a", **more: Any) -> Replica:
            replicas.append(Replica(api, name, **{**how, **more}))
            return replicas[-1]

        await test(api, replica)
        for one in replicas:
            one.wire.fault = lambda _: None
            one.stop.set()
            await one.task
        await settle()
        assert api.watches == []

    run(main())


async def seconds(number: float) -> None:
    await asyncio.sleep(number)
    await settle(300)


def test_work_begins_when_everything_is_listed_and_the_lease_is_ours() -> None:
    async def test(api: FakeApi, replica: Callable[..., Replica]) -> None:
        def slow_services(request: Request) -> Fault | None:
            return Fault(reply=7.0) if request.gvr == SERVICES else None

        a = replica()
        a.wire.fault = slow_services
        assert a.manager.ready() is not None
        await seconds(6)
        assert a.manager.ready() is not None
        assert a.manager.alive() is None
        assert a.manager.may_write()
        assert a.reconciler.take() == []
        await seconds(2)
        assert a.manager.ready() is None
        assert sorted(set(a.reconciler.take())) == ["x", "y"]
        assert api.object(LEASES, "ns", "operator")

    play(test)


def test_a_standby_is_warm_and_ready_and_does_nothing() -> None:
    async def test(api: FakeApi, replica: Callable[..., Replica]) -> None:
        replica("a")
        await seconds(1)
        b = replica("b")
        await seconds(1)
        assert b.manager.ready() is None
        assert b.manager.alive() is None
        api.add(MEMCACHEDS, cache("z"))
        await seconds(600)
        assert b.reconciler.take() == []
        assert len(b.controller.primary) == 3
        assert b.metrics.gauges["leader"]() == {(): 0.0}

    play(test)


def test_a_stop_hands_over_at_once_and_everything_is_looked_at() -> None:
    async def test(api: FakeApi, replica: Callable[..., Replica]) -> None:
        a = replica("a")
        await seconds(1)
        b = replica("b")
        await seconds(1)
        began = clock()
        assert await a.ended() == 0
        await settle(300)
        assert clock() - began < 0.1
        assert sorted(set(b.reconciler.take())) == ["x", "y"]
        api.edit(MEMCACHEDS, "ns", "x", {"spec": {"size": 2}})
        await settle(300)
        assert b.reconciler.take() == ["x"]

    play(test)


def test_a_standby_stops_at_once() -> None:
    async def test(_: FakeApi, replica: Callable[..., Replica]) -> None:
        replica("a")
        await seconds(1)
        b = replica("b")
        await seconds(1)
        began = clock()
        assert await b.ended() == 0
        assert clock() == began

    play(test)


@pytest.mark.parametrize("after", (0.0, 1.0, 300.0))
def test_a_stop_while_the_api_is_away_takes_no_time(after: float) -> None:
    async def test(_: FakeApi, replica: Callable[..., Replica]) -> None:
        a = replica()
        await seconds(1)
        a.wire.fault = cut
        await seconds(after)
        began = clock()
        assert await a.ended() == 0
        assert clock() - began < 1.0

    play(test)


def test_a_stop_waits_for_a_write_that_is_under_way() -> None:
    async def test(api: FakeApi, replica: Callable[..., Replica]) -> None:
        a = replica()
        await seconds(1)

        async def reconcile(key: Key) -> Result:
            await a.wire.patch(MEMCACHEDS, "ns", key.name, {"metadata": {"annotations": {"seen": "1"}}})
            return done()

        a.wire.fault = lambda r: Fault(delay=2.0) if r.verb == "patch" else None
        a.reconciler.script = reconcile
        api.edit(MEMCACHEDS, "ns", "x", {"spec": {"size": 2}})
        await seconds(0.5)
        began = clock()
        assert await a.ended() == 0
        assert clock() - began < 2.5
        body = api.object(MEMCACHEDS, "ns", "x")
        assert body
        assert body["metadata"]["annotations"] == {"seen": "1"}
        lease = api.object(LEASES, "ns", "operator")
        assert lease
        assert lease["spec"]["holderIdentity"] == ""

    play(test)


def test_a_write_that_never_ends_is_left_behind_with_the_lease() -> None:
    # It may still take effect: nobody may lead before the lease has run out.
    async def test(api: FakeApi, replica: Callable[..., Replica]) -> None:
        a = replica()
        await seconds(1)

        async def reconcile(_: Key) -> Result:
            await asyncio.sleep(10**6)
            return done()

        a.reconciler.script = reconcile
        api.edit(MEMCACHEDS, "ns", "x", {"spec": {"size": 2}})
        await seconds(0.5)
        began = clock()
        assert await a.ended() == 0
        assert 5 <= clock() - began < 6
        lease = api.object(LEASES, "ns", "operator")
        assert lease
        assert lease["spec"]["holderIdentity"] == "a"

    play(test)


def test_an_outage_fences_cuts_off_and_ends_in_a_resync_by_the_same_process() -> None:
    async def test(api: FakeApi, replica: Callable[..., Replica]) -> None:
        a = replica()
        await seconds(1)
        cut_off: list[str] = []

        async def reconcile(key: Key) -> Result:
            try:
                await asyncio.sleep(10**6)
            except asyncio.CancelledError:
                cut_off.append(key.name)
                raise
            return done()

        a.reconciler.script = reconcile
        api.edit(MEMCACHEDS, "ns", "x", {"spec": {"size": 2}})
        await seconds(0.1)
        a.wire.fault = cut
        await seconds(10)
        assert cut_off == ["x"]
        assert not a.manager.may_write()
        a.reconciler.script = ScriptedReconciler().script
        a.reconciler.take()
        api.edit(MEMCACHEDS, "ns", "y", {"spec": {"size": 3}})
        await seconds(170)
        assert a.reconciler.take() == []
        assert a.manager.alive() is None
        a.wire.fault = lambda _: None
        await seconds(16)
        assert a.manager.may_write()
        assert sorted(set(a.reconciler.take())) == ["x", "y"]
        assert not a.task.done()
        api.edit(MEMCACHEDS, "ns", "y", {"spec": {"size": 4}})
        await seconds(1)
        assert a.reconciler.take() == ["y"]

    play(test)


def test_an_outage_before_the_caches_are_synced_begins_no_work() -> None:
    async def test(_: FakeApi, replica: Callable[..., Replica]) -> None:
        a = replica()
        a.wire.fault = lambda r: None if r.gvr == LEASES else cut(r)
        await seconds(20)
        a.wire.fault = cut
        await seconds(20)
        a.wire.fault = lambda r: None if r.gvr == LEASES else cut(r)
        await seconds(60)
        assert a.manager.may_write()
        assert a.reconciler.take() == []
        assert a.manager.ready() is not None
        assert a.manager.alive() is None
        a.wire.fault = lambda _: None
        await seconds(20)
        assert sorted(set(a.reconciler.take())) == ["x", "y"]

    play(test)


def test_whoever_lost_the_lease_ends_with_one(caplog: pytest.LogCaptureFixture) -> None:
    async def test(_: FakeApi, replica: Callable[..., Replica]) -> None:
        a = replica("a")
        await seconds(1)
        b = replica("b")
        await seconds(1)
        a.wire.fault = cut
        await seconds(60)
        assert b.manager.may_write()
        a.wire.fault = lambda _: None
        assert await a.task == 1
        assert b.manager.may_write()

    play(test)
    assert "lost to b" in caplog.records[-1].message


def test_without_election_it_leads_from_the_start() -> None:
    async def test(api: FakeApi, replica: Callable[..., Replica]) -> None:
        a = replica()
        await seconds(1)
        assert a.manager.may_write()
        assert sorted(set(a.reconciler.take())) == ["x", "y"]
        assert api.objects(LEASES) == []

    play(test, elect=False)


def test_a_part_that_dies_ends_the_process_with_one_and_gives_the_lease_back(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)

    async def test(api: FakeApi, replica: Callable[..., Replica]) -> None:
        a = replica()
        await seconds(1)
        (informer, *_) = [task for task in asyncio.all_tasks() if task.get_name().startswith("informer")]
        informer.cancel()
        assert await a.task == 1
        lease = api.object(LEASES, "ns", "operator")
        assert lease
        assert lease["spec"]["holderIdentity"] == ""

    play(test)
    assert "informer" in caplog.text


def test_workers_that_die_end_the_process_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)

    class WrongError(BaseException):
        """Not even an Exception."""

    async def test(api: FakeApi, replica: Callable[..., Replica]) -> None:
        a = replica()
        await seconds(1)

        async def reconcile(_: Key) -> Result:
            raise WrongError

        a.reconciler.script = reconcile
        api.edit(MEMCACHEDS, "ns", "x", {"spec": {"size": 2}})
        assert await a.task == 1

    play(test)
    assert "lead" in caplog.text


def test_a_deaf_source_is_restarted_and_what_it_missed_is_found() -> None:
    async def test(api: FakeApi, replica: Callable[..., Replica]) -> None:
        a = replica()
        await seconds(1)
        (source,) = a.sources
        source.deaf = ["memcacheds"]
        api.cut_watches(MEMCACHEDS)
        await seconds(31)
        source.deaf = []
        await seconds(2)
        assert a.metrics.counts["kopf restarted"] == 1
        await seconds(100)
        assert a.metrics.counts["kopf restarted"] == 1

    play(test)


def test_what_vanished_while_the_source_was_away_is_no_ghost() -> None:
    async def test(api: FakeApi, replica: Callable[..., Replica]) -> None:
        a = replica()
        await seconds(1)
        (source,) = a.sources
        a.reconciler.take()
        source._deliver = lambda *_: None  # noqa: SLF001 - deaf
        api.remove(MEMCACHEDS, "ns", "x")
        await seconds(5)
        assert len(a.controller.primary) == 2
        source.on_listed()
        await seconds(1)
        assert a.controller.primary.keys() == [Key("ns", "y")]
        assert a.reconciler.take() == ["x"]

    play(test)


def test_a_resync_looks_at_everything_and_heals_what_was_missed() -> None:
    async def test(api: FakeApi, replica: Callable[..., Replica]) -> None:
        a = replica()
        await seconds(1)
        (source,) = a.sources
        source._deliver = lambda *_: None  # noqa: SLF001 - deaf
        api.edit(MEMCACHEDS, "ns", "x", {"spec": {"size": 9}})
        a.reconciler.take()
        await seconds(661)
        assert sorted(set(a.reconciler.take())) == ["x", "y"]
        assert a.stored("x").body["spec"]["size"] == 9

    play(test)


def test_a_resync_of_one_kind_does_not_depend_on_another() -> None:
    async def test(api: FakeApi, replica: Callable[..., Replica]) -> None:
        a = replica()
        await seconds(1)
        (source,) = a.sources
        source._deliver = lambda *_: None  # noqa: SLF001 - deaf
        api.edit(MEMCACHEDS, "ns", "x", {"spec": {"size": 9}})
        a.reconciler.take()
        a.wire.fault = lambda r: Fault(TransientError("500", status=500)) if r.gvr == SERVICES else None
        await seconds(661)
        assert sorted(set(a.reconciler.take())) == ["x", "y"]
        assert a.stored("x").body["spec"]["size"] == 9

    play(test)


def test_the_kind_may_come_after_the_operator_go_and_come_back() -> None:
    async def test(api: FakeApi, replica: Callable[..., Replica]) -> None:
        api.take_away(MEMCACHEDS)
        a = replica()
        await seconds(60)
        assert a.manager.ready() is not None
        assert a.manager.alive() is None
        api.missing.clear()
        api.add(MEMCACHEDS, cache("z"))
        await seconds(15)
        assert a.manager.ready() is None
        assert "z" in a.reconciler.take()
        api.take_away(MEMCACHEDS)
        a.sources[0].stop()  # as kopf does when its list is answered with 404
        await seconds(30)
        assert len(a.controller.primary) == 0
        api.missing.clear()
        api.add(MEMCACHEDS, cache("z2"))
        await seconds(15)
        assert "z2" in a.reconciler.take()
        assert not a.task.done()

    play(test)


def test_namespaces_are_watched_one_by_one() -> None:
    async def test(api: FakeApi, replica: Callable[..., Replica]) -> None:
        for namespace in ("other", "third"):
            body = cache("z")
            body["metadata"]["namespace"] = namespace
            api.add(MEMCACHEDS, body)
        a = replica(namespaces=("ns", "other"))
        await seconds(2)
        assert sorted({str(key) for key in a.reconciler.keys}) == ["ns/x", "ns/y", "other/z"]
        assert {request.namespace for request in api.requests if request.gvr == MEMCACHEDS} == {"ns", "other"}

    play(test)


def test_a_reconcile_that_never_ends_is_no_life() -> None:
    async def test(_: FakeApi, replica: Callable[..., Replica]) -> None:
        a = replica()
        await seconds(1)
        assert a.manager.alive() is None
        a.controller.busy_since[Key("ns", "x")] = -1000.0
        problem = a.manager.alive()
        assert problem
        assert "ns/x" in problem
        a.controller.busy_since.clear()

    play(test)


def test_events_are_posted_before_the_end() -> None:
    async def test(api: FakeApi, replica: Callable[..., Replica]) -> None:
        a = replica()
        await seconds(1)
        a.recorder.record(MEMCACHEDS, a.stored("x"), "Normal", "Stopping", "Stop", "bye")
        assert await a.ended() == 0
        (event,) = api.objects(EVENTS)
        assert event["note"] == "bye"

    play(test)


def test_gauges_tell_what_is() -> None:
    async def test(_: FakeApi, replica: Callable[..., Replica]) -> None:
        a = replica()
        await seconds(1.5)
        gauges = a.metrics.gauges
        assert gauges["leader"]() == {(): 1.0}
        assert gauges["informer_objects"]() == {("memcacheds",): 2.0, ("services",): 1.0, ("deployments",): 0.0}
        assert gauges["workqueue_depth"]() == {("test",): 0.0}
        assert gauges["informer_last_event_age_seconds"]()["services",] < 2
        assert gauges["event_loop_lag_seconds"]() == {("main",): 0.0}

    play(test)
