"""The elector against a small API server, on a clock of its own. Above all: never two leaders."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Awaitable, Callable
from typing import Any, Self

import pytest
from candidates import Candidate, never_two
from fake_api import FakeApi, Fault, Request
from virtual_time import clock, run, settle

from memcached_operator.errors import NotFoundError, OperatorError, TransientError
from memcached_operator.gvr import LEASES
from memcached_operator.runtime.election import Lead

DURATION, DEADLINE, RENEW = 15.0, 10.0, 5.0


def cut(_: Request) -> Fault:
    return Fault(TransientError("connection refused"))


def hang(_: Request) -> Fault:
    return Fault(delay=10**6)


def play(test: Callable[[FakeApi, Callable[..., Candidate]], Awaitable[None]]) -> None:
    async def main() -> None:
        api = FakeApi()
        candidates: list[Candidate] = []

        def candidate(name: str, **times: float) -> Candidate:
            candidates.append(Candidate(api, name, times))
            return candidates[-1]

        async with never_two(candidates):
            await test(api, candidate)

    run(main())


async def seconds(number: float) -> None:
    await asyncio.sleep(number)
    await settle()


def lease(api: FakeApi) -> dict[str, Any]:
    body = api.object(LEASES, "ns", "operator")
    assert body is not None
    spec: dict[str, Any] = body["spec"]
    return spec


def test_the_first_takes_the_lease_at_once_and_renews_it_with_one_request_each() -> None:
    async def test(api: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a")
        await settle()
        assert a.leads()
        assert a.told == ["started"]
        spec = lease(api)
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("a", 15, 1)
        api.requests.clear()
        await seconds(60)
        assert a.leads()
        assert [request.verb for request in api.requests] == ["update"] * 12
        assert lease(api)["leaseTransitions"] == 1

    play(test)


def test_a_standby_watches_and_asks_for_nothing_else() -> None:
    async def test(api: FakeApi, candidate: Callable[..., Candidate]) -> None:
        candidate("a")
        await settle()
        b = candidate("b")
        await settle()
        api.requests.clear()
        await seconds(200)
        assert not b.leads()
        assert {request.verb for request in api.requests} == {"update"}
        assert not b.elector.stands_still()

    play(test)


def test_a_released_lease_changes_hands_at_once() -> None:
    async def test(api: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a")
        await settle()
        b = candidate("b")
        await seconds(3)
        await a.stop()
        assert not a.leads()
        await seconds(0.001)
        assert b.leads()
        assert lease(api)["leaseTransitions"] == 2

    play(test)


def test_the_lease_of_a_dead_leader_is_taken_when_it_runs_out_and_not_before() -> None:
    async def test(_: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a")
        await settle()
        b = candidate("b")
        await seconds(6)
        await a.crash()  # its last renewal was one second ago
        await seconds(DURATION - 1.1)
        assert not b.leads()
        await seconds(0.2)
        assert b.leads()

    play(test)


def test_a_leader_that_cannot_reach_the_api_stops_writing_before_the_lease_runs_out() -> None:
    async def test(_: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a")
        await seconds(1)
        a.api.fault = cut
        await seconds(DEADLINE - 1.1)
        assert a.leads()
        await seconds(0.2)
        assert not a.leads()
        assert a.told == ["started", "fenced"]

    play(test)


@pytest.mark.parametrize("fault", (cut, hang))
def test_an_outage_that_nobody_else_used_is_got_over_in_the_same_process(fault: Callable[[Request], Fault]) -> None:
    async def test(api: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a")
        await seconds(1)
        a.api.fault = fault
        await seconds(180)
        assert not a.leads()
        assert not a.elector.stands_still()
        a.api.fault = lambda _: None
        await seconds(6)
        assert a.leads()
        assert a.told == ["started", "fenced", "regained"]
        assert lease(api)["leaseTransitions"] == 1
        await seconds(60)
        assert a.leads()

    play(test)


@pytest.mark.parametrize("fault", (cut, hang))
def test_an_outage_that_somebody_used_is_the_end(fault: Callable[[Request], Fault]) -> None:
    async def test(_: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a")
        await settle()
        b = candidate("b")
        await seconds(1)
        a.api.fault = fault
        await seconds(30)
        assert b.leads()
        a.api.fault = lambda _: None
        await seconds(6)
        assert a.elector.state is Lead.LOST
        assert a.elector.lost_to == "b"
        assert a.task.done()
        assert a.told == ["started", "fenced"]

    play(test)


def test_somebody_who_led_and_released_meanwhile_is_noticed_too() -> None:
    async def test(api: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a")
        await settle()
        b = candidate("b")
        await seconds(1)
        a.api.fault = cut
        await seconds(30)
        await b.stop()
        assert lease(api)["holderIdentity"] == ""
        a.api.fault = lambda _: None
        await seconds(2)
        assert a.elector.state is Lead.LOST

    play(test)


def test_the_lost_answer_to_a_renewal_costs_nothing() -> None:
    async def test(_: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a")
        await seconds(1)
        lost: list[Request] = []

        def lose_one(request: Request) -> Fault | None:
            if request.verb == "update" and not lost:
                lost.append(request)
                return Fault(TransientError("reset"), after=True)
            return None

        a.api.fault = lose_one
        await seconds(30)
        assert lost
        assert a.leads()
        assert a.told == ["started"]

    play(test)


def test_the_lost_answer_to_an_acquisition_is_found_in_the_lease() -> None:
    async def test(_: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a")
        a.api.fault = lambda r: Fault(TransientError("reset"), after=True) if r.verb == "create" else None
        await seconds(2)
        assert a.leads()
        assert a.told == ["started"]

    play(test)


def test_one_renewal_that_hangs_is_made_up_for() -> None:
    async def test(_: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a")
        await seconds(1)
        hung: list[Request] = []

        def hang_once(request: Request) -> Fault | None:
            if request.verb == "update" and not hung:
                hung.append(request)
                return Fault(delay=10**6)
            return None

        a.api.fault = hang_once
        await seconds(30)
        assert a.told == ["started"]

    play(test)


@pytest.mark.parametrize("latency", (0.5, 1.0, 2.0))
def test_a_slow_api_does_not_cost_the_lease(latency: float) -> None:
    async def test(_: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a")
        a.api.fault = lambda _: Fault(delay=latency / 2, reply=latency / 2)
        await seconds(120)
        assert a.leads()
        assert a.told == ["started"]

    play(test)


def test_an_answer_that_comes_after_the_deadline_is_a_fence_and_a_return() -> None:
    # Keys were refused meanwhile; whoever waits for `regained` looks at them again.
    async def test(_: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a")
        await seconds(1)
        a.api.fault = lambda r: Fault(reply=4.0) if r.verb == "get" else Fault(TransientError("no"), delay=2.0)
        await seconds(12)
        a.api.fault = lambda _: None
        await seconds(5)
        assert a.leads()
        assert a.told == ["started", "fenced", "regained"]

    play(test)


def test_what_is_under_way_at_the_deadline_does_not_hold_up_the_fence() -> None:
    async def test(_: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a")
        await seconds(1)
        a.api.fault = hang
        await seconds(DEADLINE - 1 + 0.01)
        assert a.told == ["started", "fenced"]

    play(test)


def test_a_deleted_lease_is_made_anew_by_its_holder_while_standbys_wait() -> None:
    async def test(api: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a")
        await settle()
        b = candidate("b")
        await seconds(1)
        api.remove(LEASES, "ns", "operator")
        await seconds(6)
        assert lease(api)["holderIdentity"] == "a"
        await seconds(60)
        assert a.leads()
        assert (a.told, b.told) == (["started"], [])

    play(test)


def test_the_deleted_lease_of_a_dead_leader_is_made_anew_when_its_time_is_up() -> None:
    async def test(api: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a")
        await settle()
        b = candidate("b")
        await seconds(1)
        await a.crash()
        api.remove(LEASES, "ns", "operator")
        await seconds(DURATION - 2)
        assert not b.leads()
        await seconds(3)
        assert b.leads()

    play(test)


def test_a_fenced_leader_does_not_make_a_lease_anew_that_may_have_been_somebody_elses() -> None:
    async def test(api: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a")
        await settle()
        b = candidate("b")
        await seconds(1)
        a.api.fault = cut
        await seconds(21)
        assert b.leads()
        api.remove(LEASES, "ns", "operator")
        a.api.fault = lambda _: None
        await seconds(30)
        assert b.leads()
        assert a.elector.state is Lead.LOST

    play(test)


def test_a_fenced_leader_whose_lease_stays_away_goes_on() -> None:
    async def test(api: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a")
        await seconds(1)
        a.api.fault = cut
        await seconds(60)
        api.remove(LEASES, "ns", "operator")
        a.api.fault = lambda _: None
        await seconds(DURATION - 1)
        assert not a.leads()
        await seconds(3)
        assert a.leads()
        assert a.told == ["started", "fenced", "regained"]

    play(test)


def test_a_holder_cleared_by_hand_is_no_release() -> None:
    async def test(api: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a")
        await settle()
        b = candidate("b")
        await seconds(1)
        api.edit(LEASES, "ns", "operator", {"spec": {"holderIdentity": ""}})
        await seconds(30)
        assert a.leads()
        assert (a.told, b.told) == (["started"], [])

    play(test)


def test_a_holder_set_by_hand_deposes_the_leader() -> None:
    async def test(api: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a")
        await settle()
        b = candidate("b")
        await seconds(1)
        api.edit(LEASES, "ns", "operator", {"spec": {"holderIdentity": "nobody"}})
        await seconds(RENEW + 1)
        assert a.elector.state is Lead.LOST
        await seconds(DURATION)
        assert b.leads()

    play(test)


def test_a_lease_that_was_made_beforehand_is_free() -> None:
    async def test(api: FakeApi, candidate: Callable[..., Candidate]) -> None:
        api.add(LEASES, {"metadata": {"name": "operator", "namespace": "ns", "labels": {"keep": "me"}}})
        a = candidate("a")
        await seconds(20)
        assert a.leads()
        body = api.object(LEASES, "ns", "operator")
        assert body is not None
        assert body["metadata"]["labels"] == {"keep": "me"}

    play(test)


def test_the_lease_of_a_former_life_is_waited_for() -> None:
    # The same pod after a crash has another identity: its old self might still write.
    async def test(_: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("pod_1")
        await settle()
        await a.crash()
        again = candidate("pod_2")
        await seconds(DURATION - 0.1)
        assert not again.leads()
        await seconds(0.2)
        assert again.leads()

    play(test)


def test_the_holders_own_duration_counts() -> None:
    async def test(_: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a", duration=600.0, renew_deadline=400.0, renew_every=300.0)
        await settle()
        b = candidate("b")
        await seconds(1)
        await a.crash()
        await seconds(595)
        assert not b.leads()
        assert not b.elector.stands_still()
        await seconds(5)
        assert b.leads()

    play(test)


def test_a_frozen_clock_of_the_day_is_no_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two PUTs with the same renewTime would be one: the API server drops a write that changes nothing.
    class Frozen(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Self:
            return cls(2025, 1, 1, tzinfo=tz)

    monkeypatch.setattr(datetime, "datetime", Frozen)

    async def test(_: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a")
        await settle()
        b = candidate("b")
        await seconds(100)
        assert a.leads()
        assert b.told == []

    play(test)


def test_a_standby_without_a_watch_looks_again_and_again() -> None:
    async def test(api: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a")
        await settle()
        b = candidate("b")
        b.api.fault = lambda r: Fault(OperatorError("no", status=403)) if r.verb == "watch" else None
        await seconds(30)
        assert not b.leads()
        api.requests.clear()
        await seconds(10)
        assert len(api.requests) < 70
        await a.stop()
        await seconds(1)
        assert b.leads()

    play(test)


def test_a_watch_that_ends_at_once_is_not_asked_for_in_a_hot_loop() -> None:
    async def test(api: FakeApi, candidate: Callable[..., Candidate]) -> None:
        candidate("a")
        await settle()
        candidate("b")
        api.requests.clear()
        for _ in range(100):
            await seconds(0.1)
            api.cut_watches(LEASES, clean=True)
        assert len(api.requests) < 40

    play(test)


def test_a_broken_watch_hides_no_renewal() -> None:
    async def test(api: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a")
        await settle()
        b = candidate("b")
        for _ in range(60):
            await seconds(1)
            api.cut_watches(LEASES)
        assert a.leads()
        assert b.told == []

    play(test)


@pytest.mark.parametrize("line", ({"spec": 5}, {}, {"metadata": {}, "spec": {"leaseDurationSeconds": "long"}}))
def test_answers_that_cannot_be_read_end_nothing(line: dict[str, Any]) -> None:
    async def test(api: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a")
        await settle()
        b = candidate("b")
        await seconds(1)
        api.say("MODIFIED", line, LEASES)
        api.say("ERROR", line, LEASES)
        await seconds(30)
        assert a.leads()
        assert not b.task.done()
        await a.stop()
        await seconds(1)
        assert b.leads()

    play(test)


def test_a_stop_while_the_answer_to_an_acquisition_is_awaited_gives_the_lease_back() -> None:
    async def test(api: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a")
        a.api.fault = lambda r: Fault(reply=3.0) if r.verb == "create" else None
        await seconds(1)
        await a.stop()
        assert a.told == []
        assert lease(api)["holderIdentity"] == ""

    play(test)


def test_a_stop_while_a_renewal_is_under_way_gives_the_lease_back() -> None:
    async def test(api: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a")
        await seconds(4)
        a.api.fault = lambda r: Fault(reply=3.0) if r.verb == "update" and r.body["spec"]["holderIdentity"] else None
        await seconds(2)
        await a.stop()
        assert lease(api)["holderIdentity"] == ""
        await seconds(10)
        assert lease(api)["holderIdentity"] == ""

    play(test)


def test_a_renewal_that_arrives_after_the_release_does_not_take_the_lease_back() -> None:
    async def test(api: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a")
        await seconds(4)
        a.api.fault = lambda r: Fault(delay=3.0) if r.verb == "update" and r.body["spec"]["holderIdentity"] else None
        await seconds(2)
        await a.stop()
        await seconds(10)
        assert lease(api)["holderIdentity"] == ""

    play(test)


def test_a_standby_stops_without_a_request() -> None:
    async def test(api: FakeApi, candidate: Callable[..., Candidate]) -> None:
        candidate("a")
        await settle()
        b = candidate("b")
        await seconds(1)
        api.requests.clear()
        await b.stop()
        assert api.requests == []
        assert lease(api)["holderIdentity"] == "a"

    play(test)


def test_a_release_that_cannot_be_made_takes_two_seconds_at_most() -> None:
    async def test(_: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a")
        await seconds(1)
        a.api.fault = hang
        began = clock()
        await a.stop()
        assert clock() - began <= 2.0
        assert not a.leads()

    play(test)


def test_a_fenced_leader_stops_at_once() -> None:
    async def test(_: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a")
        await seconds(1)
        a.api.fault = hang
        await seconds(30)
        began = clock()
        await a.stop()
        assert clock() == began

    play(test)


def test_the_namespace_of_the_lease_may_come_later() -> None:
    async def test(_: FakeApi, candidate: Callable[..., Candidate]) -> None:
        a = candidate("a")
        a.api.fault = lambda r: Fault(NotFoundError("namespaces not found", status=404)) if r.verb == "create" else None
        await seconds(30)
        assert not a.leads()
        a.api.fault = lambda _: None
        await seconds(2)
        assert a.leads()

    play(test)
