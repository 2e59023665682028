"""An informer against a small API server, on a clock of its own: whatever the server does, the store comes out true."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from fake_api import FakeApi, Fault, Request
from virtual_time import VirtualLoop, clock, run, settle

from memcached_operator.errors import OperatorError, TransientError
from memcached_operator.gvr import PODS, SERVICES
from memcached_operator.runtime.informer import Informer, list_into
from memcached_operator.runtime.store import Key, Store, Watch, decode_unstructured


class Counted:
    """runtime.ports.Metrics that remembers relists."""

    def __init__(self) -> None:
        self.relists: list[str] = []

    def relisted(self, resource: str, why: str) -> None:
        self.relists.append(f"{resource} {why}")

    def reconcile_finished(self, controller: str, result: str, seconds: float) -> None: ...

    def queue_waited(self, seconds: float) -> None: ...

    def queue_retried(self) -> None: ...

    def kopf_restarted(self) -> None: ...

    def event_dropped(self) -> None: ...

    def gauge(self, name: str, callback: Callable[[], Mapping[tuple[str, ...], float]]) -> None: ...


class Scene:
    """An API server with a Service or two, and an informer that follows them."""

    def __init__(self, api: FakeApi, labels: str = "") -> None:
        self.api = api
        self.metrics = Counted()
        self.told: list[str] = []
        self.store: Store[Any] = Store(Watch(SERVICES, decode_unstructured, labels=labels), self.changed)
        self.informer = Informer(api, self.store, "", self.metrics, clock=clock, rng=lambda: 0.5)
        self.task = asyncio.create_task(self.informer.run())

    def changed(self, old: Any, new: Any, listed: bool) -> None:  # noqa: FBT001 - see OnChange
        verb = "gone" if new is None else "new" if old is None else "changed"
        self.told.append(f"{verb} {(new or old).name}{' by list' if listed else ''}")

    def take(self) -> list[str]:
        told, self.told = self.told, []
        return told

    def asked(self) -> list[str]:
        """The requests since the last call: `list`, `stream` (a streamed list), or `watch`."""
        verbs = ["stream" if "sendInitialEvents" in r.query else r.verb for r in self.api.requests]
        self.api.requests.clear()
        return verbs

    def is_true(self) -> bool:
        """Whether the store is what the API server has."""
        there = {body["metadata"]["name"]: body["metadata"]["resourceVersion"] for body in self.api.objects(SERVICES)}
        return there == {key.name: self.store.versions()[key] for key in self.store.keys()}  # noqa: SIM118 - no mapping


def service(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ns", "labels": labels}}


def play(test: Callable[[Scene], Awaitable[None]], api: FakeApi | None = None, labels: str = "") -> None:
    async def main() -> None:
        server = api or FakeApi()
        server.add(SERVICES, service("a", app="x"))
        scene = Scene(server, labels)
        await test(scene)
        assert not scene.task.done(), "nothing may end an informer"
        scene.task.cancel()
        await asyncio.gather(scene.task, return_exceptions=True)
        assert server.watches == [], "a cancelled informer leaves no stream open"

    run(main())


async def seconds(number: float) -> None:
    await asyncio.sleep(number)
    await settle()


def test_a_list_that_is_streamed_syncs_and_then_follows() -> None:
    async def test(scene: Scene) -> None:
        await settle()
        assert scene.informer.synced.is_set()
        assert (scene.asked(), scene.take()) == (["stream"], ["new a by list"])
        scene.api.edit(SERVICES, "ns", "a", {"spec": {"n": 1}})
        scene.api.add(SERVICES, service("b"))
        scene.api.remove(SERVICES, "ns", "a")
        await settle()
        assert scene.take() == ["changed a", "new b", "gone a"]
        assert scene.is_true()

    play(test)


@pytest.mark.parametrize("how", ("refused", "broken"))
def test_servers_that_cannot_stream_are_listed(how: str) -> None:
    async def test(scene: Scene) -> None:
        await seconds(1)
        assert scene.informer.synced.is_set()
        assert (scene.asked(), scene.take()) == (["stream", "list", "watch"], ["new a by list"])
        scene.api.compact()
        scene.api.cut_watches(clean=True)
        scene.api.add(SERVICES, service("b"))
        await seconds(5)
        assert scene.is_true()

    play(test, FakeApi(streams_lists=how))


def test_a_stream_that_never_comes_to_its_bookmark_is_given_up_for_a_list() -> None:
    async def test(scene: Scene) -> None:
        scene.api.on_request = lambda r: Fault(TransientError("cut")) if "sendInitialEvents" in r.query else None
        await seconds(1)
        assert scene.asked() == ["stream", "list", "watch"]
        assert scene.informer.synced.is_set()

    play(test)


@pytest.mark.parametrize("clean", (True, False))
def test_half_a_list_is_no_list(clean: bool) -> None:  # noqa: FBT001 - a table
    async def test(scene: Scene) -> None:
        await seconds(2)
        assert scene.take() == ["new a by list"]
        assert not scene.informer.synced.is_set()
        scene.api.remove(SERVICES, "ns", "a")
        scene.api.add(SERVICES, service("b"))
        scene.api.cut_watches(clean=clean)
        await seconds(2)
        assert scene.asked() == ["stream", "list", "watch"]
        assert scene.is_true()

    play(test, FakeApi(streams_lists="endless"))


def test_a_watch_is_resumed_where_it_was_cut() -> None:
    async def test(scene: Scene) -> None:
        await seconds(2)
        scene.take()
        scene.asked()
        scene.api.cut_watches()
        scene.api.add(SERVICES, service("missed"))
        await seconds(1)
        assert (scene.asked(), scene.take()) == (["watch"], ["new missed"])
        assert scene.metrics.relists == []

    play(test)


def test_a_watch_that_is_cut_every_second_loses_nothing_and_is_never_late() -> None:
    async def test(scene: Scene) -> None:
        for number in range(100):
            await seconds(1.1)
            scene.api.cut_watches()
            scene.api.add(SERVICES, service(f"s{number}"))
        await seconds(0.5)
        assert scene.is_true()
        assert "list" not in scene.asked()

    play(test)


def test_a_watch_that_ends_at_once_is_not_asked_for_in_a_hot_loop() -> None:
    async def test(scene: Scene) -> None:
        await settle()

        async def slam() -> None:
            while True:
                scene.api.cut_watches(clean=True)
                await asyncio.sleep(0)

        scene.asked()
        door = asyncio.create_task(slam())
        # No timer is left for the clock to jump to while the door slams: move it by hand.
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        for _ in range(60):
            loop.now += 1.0
            await settle()
        door.cancel()
        assert len(scene.asked()) < 12

    play(test)


def test_events_move_it_on_too() -> None:
    async def test(scene: Scene) -> None:
        await seconds(2)
        scene.api.edit(SERVICES, "ns", "a", {"spec": {"n": 1}})
        await settle()
        scene.api.compact()
        scene.api.cut_watches()
        await seconds(2)
        scene.api.remove(SERVICES, "ns", "a")
        await settle()
        scene.api.compact()
        scene.api.cut_watches()
        await seconds(2)
        assert scene.metrics.relists == []

    play(test)


def test_a_version_that_the_server_forgot_leads_to_one_list_with_deletions() -> None:
    async def test(scene: Scene) -> None:
        await seconds(2)
        scene.asked()
        scene.take()
        scene.api.cut_watches()
        scene.api.remove(SERVICES, "ns", "a")
        scene.api.add(SERVICES, service("b"))
        scene.api.compact()
        await seconds(3)
        assert scene.asked() == ["watch", "list", "watch"]
        assert scene.take() == ["new b by list", "gone a by list"]
        assert scene.metrics.relists == ["services expired"]

    play(test)


def test_a_server_that_forgets_at_once_again_and_again_is_not_hammered() -> None:
    async def test(scene: Scene) -> None:
        scene.api.compacted = 10**9
        await seconds(120)
        assert len(scene.asked()) < 40

    play(test, FakeApi(streams_lists="refused"))


def test_gone_as_an_http_status_is_the_same() -> None:
    async def test(scene: Scene) -> None:
        await seconds(2)
        scene.api.cut_watches()
        scene.api.fail(TransientError("too old", status=410, reason="Expired"), verb="watch")
        scene.api.remove(SERVICES, "ns", "a")
        await seconds(2)
        assert scene.is_true()
        assert scene.metrics.relists == ["services gone"]

    play(test)


@pytest.mark.parametrize("code", (403, 429, 500, 504))
def test_errors_in_the_stream_are_survived(code: int) -> None:
    async def test(scene: Scene) -> None:
        await seconds(2)
        scene.api.say("ERROR", {"code": code, "message": "etcdserver: no leader"})
        scene.api.add(SERVICES, service("b"))
        await seconds(2)
        assert scene.is_true()

    play(test)


def test_events_of_unknown_types_are_stepped_over() -> None:
    async def test(scene: Scene) -> None:
        await seconds(2)
        scene.api.say("PROGRESS", {"metadata": {}})
        scene.api.add(SERVICES, service("b"))
        await settle()
        assert scene.is_true()
        assert scene.metrics.relists == []

    play(test)


@pytest.mark.parametrize("body", ({}, {"metadata": None}, {"metadata": {"name": "a"}}))
def test_a_line_that_cannot_be_read_may_have_been_news(body: dict[str, Any]) -> None:
    async def test(scene: Scene) -> None:
        await seconds(2)
        scene.api.say("MODIFIED", body)
        await seconds(2)
        assert scene.metrics.relists == ["services unreadable"]
        assert scene.is_true()

    play(test)


def test_a_silent_stream_is_not_trusted() -> None:
    # Half-open connections look like this; so does a server that waits for a version that it never had.
    async def test(scene: Scene) -> None:
        await seconds(2)
        (stream,) = scene.api._streams  # noqa: SLF001 - a wire is cut, and nobody is told
        stream.labels = "nothing=matches"
        scene.api.add(SERVICES, service("b"))
        await seconds(80)
        assert scene.is_true()
        assert scene.metrics.relists == ["services silent"]

    play(test)


def test_bookmarks_keep_a_quiet_watch_alive_and_move_it_on() -> None:
    async def test(scene: Scene) -> None:
        await settle()
        scene.asked()
        for number in range(60):
            await seconds(60)
            scene.api.add(PODS, {"metadata": {"name": f"p{number}", "namespace": "ns"}})  # versions are of all kinds
            scene.api.bookmark()
        await settle()
        assert scene.asked() == []
        scene.api.compact()
        scene.api.cut_watches()
        scene.api.add(SERVICES, service("b"))
        await seconds(2)
        assert scene.is_true()
        assert scene.metrics.relists == []  # the bookmark's version is not too old

    play(test)


@pytest.mark.parametrize(
    "error", (TransientError("refused"), TransientError("no", status=503), OperatorError("?", status=403))
)
def test_outages_of_any_length_are_survived_with_patience(error: OperatorError) -> None:
    async def test(scene: Scene) -> None:
        await seconds(2)
        scene.asked()
        scene.api.fail(error, times=10**6)
        scene.api.cut_watches()
        scene.api.add(SERVICES, service("b"))
        await seconds(1800)
        assert 100 < len(scene.asked()) < 260  # every 7 to 15 seconds
        assert not scene.informer.stands_still()
        scene.api.heal()
        await seconds(16)
        assert scene.is_true()

    play(test)


def test_the_server_says_when_to_come_back() -> None:
    async def test(scene: Scene) -> None:
        await seconds(2)
        scene.api.fail(TransientError("slow down", status=429, retry_after=30), verb="watch")
        scene.api.cut_watches()
        scene.asked()
        await seconds(29)
        assert scene.asked() == ["watch"]
        await seconds(2)
        assert scene.asked() == ["watch"]

    play(test)


def test_a_kind_that_goes_away_and_comes_back() -> None:
    async def test(scene: Scene) -> None:
        await seconds(2)
        scene.api.take_away(SERVICES)
        await seconds(60)
        assert scene.store.keys() == []
        scene.api.missing.clear()
        scene.api.add(SERVICES, service("b"))
        await seconds(16)
        assert scene.is_true()

    play(test)


def test_selectors_are_the_servers() -> None:
    async def test(scene: Scene) -> None:
        scene.api.add(SERVICES, service("other"))
        await settle()
        assert scene.store.keys() == [Key("ns", "a")]
        scene.api.edit(SERVICES, "ns", "a", {"metadata": {"labels": {"app": "y"}}})
        await settle()
        assert scene.store.keys() == []

    play(test, labels="app=x")


def test_it_stands_still_only_when_its_task_does() -> None:
    async def main() -> None:
        informer = Informer(FakeApi(), Store(Watch(SERVICES, decode_unstructured)), "", Counted(), clock=clock)
        assert not informer.stands_still()
        await asyncio.sleep(400)
        assert informer.stands_still()

    run(main())


def test_a_list_of_many_pages_is_one_list() -> None:
    async def main() -> None:
        api = FakeApi()
        for number in range(25):
            api.add(SERVICES, service(f"s{number}"))
        store: Store[Any] = Store(Watch(SERVICES, decode_unstructured))
        version = await list_into(api, store, "", page=10)
        assert [request.verb for request in api.requests] == ["list"] * 3
        assert len(store) == 25
        assert version == max(store.versions().values(), key=int)

    run(main())


def test_a_page_that_expires_starts_the_list_over() -> None:
    async def main() -> None:
        api = FakeApi()
        for number in range(25):
            api.add(SERVICES, service(f"s{number}"))
        store: Store[Any] = Store(Watch(SERVICES, decode_unstructured))
        expire = [True]

        def once(request: Request) -> Fault | None:
            if request.query.get("continue") and expire:
                expire.clear()
                api.expire_pages()
            return None

        api.on_request = once
        await list_into(api, store, "", page=10)
        assert [request.code for request in api.requests] == [200, 410, 200, 200, 200]
        assert len(store) == 25

    run(main())


def test_pages_that_expire_for_ever_are_an_error_to_retry_later() -> None:
    async def main() -> None:
        api = FakeApi()
        for number in range(25):
            api.add(SERVICES, service(f"s{number}"))
        api.on_request = lambda _: api.expire_pages()
        with pytest.raises(TransientError, match="expired three times"):
            await list_into(api, Store(Watch(SERVICES, decode_unstructured)), "", page=10)

    run(main())


def test_a_list_that_fails_half_way_forgets_nothing() -> None:
    async def main() -> None:
        api = FakeApi()
        for number in range(25):
            api.add(SERVICES, service(f"s{number}"))
        store: Store[Any] = Store(Watch(SERVICES, decode_unstructured))
        await list_into(api, store, "", page=10)
        api.on_request = lambda r: Fault(TransientError("cut")) if r.query.get("continue") else None
        with pytest.raises(TransientError):
            await list_into(api, store, "", page=10)
        assert len(store) == 25

    run(main())


def test_a_kind_that_is_not_served_is_told_apart() -> None:
    async def main() -> None:
        api = FakeApi()
        api.take_away(SERVICES)
        with pytest.raises(OperatorError) as refusal:
            await list_into(api, Store(Watch(SERVICES, decode_unstructured)), "")
        assert refusal.value.status == 404

    run(main())
