"""The real kopf, in its thread, against a small API server over HTTP: what it delivers, and what it survives."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from fake_api import FakeApi
from fake_server import FakeServer, scripted, status

from memcached_operator.gvr import DEPLOYMENTS, GVR, MEMCACHEDS
from memcached_operator.runtime.kopf_source import KopfSource

PATH = MEMCACHEDS.path()


class Scene:
    """kopf at work, and what came of it."""

    def __init__(self, server: FakeServer, namespaces: tuple[str, ...] = (), labels: str = "") -> None:
        self.server = server
        self.api = server.api
        self.events: list[tuple[str, str]] = []
        self.starts = 0
        self.listed = 0
        self.restarts = 0
        self.failing = False
        kinds = [(kind, labels) for kind in server.kinds]
        self.source = KopfSource(
            kinds,
            namespaces,
            open_session=self.open_session,
            deliver=self.deliver,
            before_start=self.before_start,
            on_listed=self.on_listed,
            on_restart=self.on_restart,
            rng=lambda: 0.0,
        )
        self.task = asyncio.create_task(self.source.run())

    async def open_session(self) -> tuple[str, aiohttp.ClientSession]:
        return self.server.url, aiohttp.ClientSession()

    def deliver(self, _: GVR, type_: str, raw: bytes) -> None:
        assert threading.current_thread() is threading.main_thread()
        if self.failing:
            raise ValueError("a bug")
        self.events.append((type_, json.loads(raw)["metadata"]["name"]))

    async def before_start(self) -> None:
        self.starts += 1

    def on_listed(self) -> None:
        self.listed += 1

    def on_restart(self) -> None:
        self.restarts += 1

    async def until(self, condition: Callable[[], Any], what: str, seconds: float = 10.0) -> None:
        """Returns as soon as the condition holds; the time is only for a test that fails."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, (
                f"{what} did not come; events {self.events}, requests {self.server.paths()[-8:]}"
            )
            assert not self.task.done(), self.task
            await asyncio.sleep(0.01)

    async def until_event(self, type_: str, name: str) -> None:
        await self.until(lambda: (type_, name) in self.events, f"{type_} {name}")

    async def until_watching(self) -> None:
        await self.until(lambda: self.api.watches, "the watch")
        await self.until(lambda: not self.source.missing_watchers(), "the watcher")


@contextlib.asynccontextmanager
async def scene(*kinds: GVR, **how: Any) -> AsyncGenerator[Scene]:
    async with FakeServer(FakeApi(), kinds or (MEMCACHEDS,)).serve() as server:
        found = Scene(server, **how)
        try:
            yield found
        finally:
            found.task.cancel()
            await asyncio.gather(found.task, return_exceptions=True)
        assert not [thread for thread in threading.enumerate() if thread.name == "kopf"], "kopf's thread has ended"


def cache(name: str, namespace: str = "ns", **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace, **meta}, "spec": {"size": 1}}


async def test_events_are_delivered_in_the_main_loop_and_nothing_is_written() -> None:
    async with scene() as s:
        s.api.add(MEMCACHEDS, cache("old", finalizers=["kopf.zalando.org/KopfFinalizerMarker"]))
        await s.until_event("ADDED", "old")
        await s.until_watching()
        s.api.add(MEMCACHEDS, cache("new"))
        await s.until_event("ADDED", "new")
        s.api.edit(MEMCACHEDS, "ns", "new", {"spec": {"size": 2}})
        await s.until_event("MODIFIED", "new")
        s.api.remove(MEMCACHEDS, "ns", "new")
        await s.until_event("DELETED", "new")
        methods = {request.method for request in s.server.requests}
        assert methods == {"GET"}, "a finalizer of another kopf is none of our business"
        assert not [path for path in s.server.paths() if "customresourcedefinitions" in path or "peering" in path]
    assert s.restarts == 0


async def test_a_user_without_a_name_is_no_hindrance(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container the user is a number that no passwd file knows."""

    def nobody() -> str:
        raise OSError("No username set in the environment")

    monkeypatch.setattr("getpass.getuser", nobody)
    async with scene() as running:
        await running.until_watching()
        assert running.restarts == 0


async def test_it_says_when_it_has_listed_also_when_there_is_nothing() -> None:
    async with scene() as s:
        await s.until(lambda: s.listed == 1, "the first list")
        await s.until_watching()
        s.api.compact()
        s.api.say("ERROR", {"kind": "Status", "code": 410, "message": "too old"})
        s.api.cut_watches(clean=True)
        await s.until(lambda: s.listed == 2, "the list after a 410")
        assert s.restarts == 0


async def test_selectors_and_namespaces_are_the_servers() -> None:
    async with scene(namespaces=("ns", "other"), labels="app=x") as s:
        await s.until(lambda: len(s.api.watches) == 2, "a watch for each namespace")
        for request in s.server.requests:
            if request.path.endswith("memcacheds"):
                assert request.query["labelSelector"] == "app=x"
        assert {r.path for r in s.server.requests if r.path.endswith("memcacheds")} == {
            MEMCACHEDS.path("ns"),
            MEMCACHEDS.path("other"),
        }
        s.api.add(MEMCACHEDS, cache("a", "other", labels={"app": "x"}))
        await s.until_event("ADDED", "a")
        assert s.source.missing_watchers() == []


async def test_kinds_of_the_core_group_and_of_others() -> None:
    async with scene(MEMCACHEDS, DEPLOYMENTS) as s:
        await s.until(lambda: len(s.api.watches) == 2, "a watch for each kind")
        await s.until(lambda: s.source.missing_watchers() == [], "the watchers")
        s.api.add(DEPLOYMENTS, cache("d"))
        await s.until_event("ADDED", "d")


@pytest.mark.parametrize(
    "killer",
    (
        {"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "etcdserver: no leader"}},
        {"type": "ERROR", "object": {"kind": "Status", "code": 403, "message": "forbidden"}},
        {"no": "type"},
    ),
)
async def test_what_kills_kopf_is_survived_by_us(killer: dict[str, Any]) -> None:
    async with scene() as s:
        await s.until_watching()
        for stream in s.api._streams:  # noqa: SLF001 - a line as no test of ours would say it
            stream.lines.append(json.dumps(killer).encode())
            stream.wake.set()
        await s.until(lambda: s.restarts == 1, "the restart")
        await s.until(lambda: s.starts == 2, "the list before it")
        await s.until_watching()
        s.api.add(MEMCACHEDS, cache("after"))
        await s.until_event("ADDED", "after")


async def test_html_in_the_place_of_a_list_is_survived() -> None:
    async with scene() as s:
        for _ in range(2):
            page = scripted(lambda: web.Response(text="<html>", content_type="text/html"))
            s.server.answers.append((PATH, page))
        await s.until_watching()
        assert s.restarts >= 1


@pytest.mark.parametrize("code", (403, 404, 410, 500, 503))
async def test_http_errors_are_survived(code: int) -> None:
    async with scene() as s:
        s.server.answers += [(PATH, scripted(lambda: status(code, "no"))) for _ in range(2)]
        await s.until_watching()
        s.api.add(MEMCACHEDS, cache("after"))
        await s.until_event("ADDED", "after")


async def test_credentials_that_are_refused_are_not_asked_for_in_a_hot_loop() -> None:
    async with scene() as s:
        await s.until_watching()
        refused: list[float] = []

        async def refuse(_: web.Request) -> web.Response:
            refused.append(time.monotonic())
            return status(401, "Unauthorized", "Unauthorized")

        s.server.handler = refuse
        s.api.cut_watches(clean=True)
        await s.until(lambda: len(refused) == 4, "the fourth refusal")
        assert refused[3] - refused[2] > 0.9, "the pauses grow"
        s.server.handler = None
        await s.until_watching()


async def test_a_watcher_that_was_cancelled_is_missed() -> None:
    # kopf drops it silently and stays alive: the operator would be deaf.
    async with scene() as s:
        await s.until_watching()
        loop = s.source._loop  # noqa: SLF001 - where kopf lives
        assert loop is not None
        (watcher,) = [task for task in asyncio.all_tasks(loop) if task.get_name().startswith("watcher for ")]
        loop.call_soon_threadsafe(watcher.cancel)
        await s.until(lambda: s.source.missing_watchers() == ["memcacheds"], "the truth")
        s.source.stop()
        await s.until(lambda: s.restarts == 1, "the restart")
        await s.until_watching()
        s.api.add(MEMCACHEDS, cache("after"))
        await s.until_event("ADDED", "after")


async def test_a_watcher_that_asks_for_nothing_is_missed() -> None:
    async with scene() as s:
        await s.until_watching()
        s.source._asked_at[PATH] -= 401.0  # noqa: SLF001 - as if it hung since
        assert s.source.missing_watchers() == ["memcacheds"]


async def test_a_kind_that_is_not_there_is_missed() -> None:
    async with scene() as s:
        s.api.missing.add(MEMCACHEDS)
        await s.until(lambda: s.source.missing_watchers() == ["memcacheds"], "the truth")
        s.api.missing.clear()
        s.source.stop()
        await s.until_watching()


async def test_an_event_that_cannot_be_delivered_does_not_stop_those_behind_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with scene() as s:
        await s.until_watching()
        s.failing = True
        s.api.add(MEMCACHEDS, cache("bad"))
        await s.until(lambda: "a bug" in caplog.text, "the failure")
        s.failing = False
        s.api.add(MEMCACHEDS, cache("good"))
        await s.until_event("ADDED", "good")


async def test_a_burst_is_delivered_whole_and_in_order() -> None:
    async with scene() as s:
        await s.until_watching()
        for number in range(300):
            s.api.add(MEMCACHEDS, cache(f"c{number}"))
        await s.until(lambda: len(s.events) == 300, "all of them", 30)
        s.events.clear()
        for size in range(2, 50):
            s.api.edit(MEMCACHEDS, "ns", "c7", {"spec": {"size": size}})
        await s.until(lambda: len(s.events) == 48, "every change")


@pytest.mark.parametrize("when", ("at once", "before the first answer", "while it watches", "while the api is away"))
async def test_it_stops_when_it_is_told_to(when: str) -> None:
    async with scene() as s:
        if when == "before the first answer":

            async def never(_: web.Request) -> web.Response:
                await asyncio.sleep(60)
                return web.Response()

            s.server.handler = never
            await s.until(lambda: s.server.requests, "a request")
        elif when == "while it watches":
            await s.until_watching()
        elif when == "while the api is away":
            await s.until_watching()
            s.server.handler = scripted(lambda: status(503, "away"))
            s.api.cut_watches(clean=True)
            await s.until(lambda: s.server.paths().count(f"WATCH {PATH}") > 2, "a retry")
        began = time.monotonic()
        s.task.cancel()
        await asyncio.gather(s.task, return_exceptions=True)
        assert time.monotonic() - began < 4.0, "less than it would take to give up waiting"
