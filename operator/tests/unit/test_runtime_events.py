"""The event recorder: one Event for what repeats, few for what storms, and never a failed reconcile."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from fake_api import FakeApi, Fault
from machinery import RecordedMetrics
from virtual_time import clock, run, settle

from memcached_operator.errors import FencedError, NotFoundError, TransientError
from memcached_operator.gvr import EVENTS, MEMCACHEDS
from memcached_operator.runtime.events import Recorder, shorten
from memcached_operator.runtime.store import Object

X = Object("ns", "x", "uid-x", "41")


class Scene:
    """A recorder that posts, and what there is to see of it."""

    def __init__(self) -> None:
        self.api = FakeApi()
        self.metrics = RecordedMetrics()
        self.recorder = Recorder(self.api, self.metrics, controller="memcached-operator", instance="pod-1", clock=clock)
        self.task = asyncio.create_task(self.recorder.run())

    def record(self, note: str = "done", reason: str = "Created", about: Object = X) -> None:
        self.recorder.record(MEMCACHEDS, about, "Normal", reason, "Create", note)

    @property
    def events(self) -> list[dict[str, Any]]:
        return self.api.objects(EVENTS)

    @property
    def dropped(self) -> int:
        return self.metrics.counts["event dropped"]


def play(test: Callable[[Scene], Awaitable[None]]) -> None:
    async def main() -> None:
        scene = Scene()
        await test(scene)
        assert not scene.task.done()
        scene.task.cancel()

    run(main())


def test_an_event_is_as_the_api_wants_it() -> None:
    async def test(scene: Scene) -> None:
        scene.record()
        await settle()
        (event,) = scene.events
        about = {"apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached", "namespace": "ns", "name": "x"}
        assert event["regarding"] == {**about, "uid": "uid-x", "resourceVersion": "41"}
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", event["eventTime"])
        assert (event["reportingController"], event["reportingInstance"]) == ("memcached-operator", "pod-1")
        assert (event["type"], event["reason"], event["action"], event["note"]) == (
            "Normal",
            "Created",
            "Create",
            "done",
        )
        assert "series" not in event

    play(test)


def test_a_repetition_is_counted_in_the_same_event_twice_a_minute_at_most() -> None:
    async def test(scene: Scene) -> None:
        for _ in range(100):
            scene.record()
            await asyncio.sleep(1)
        await settle()
        (event,) = scene.events
        assert 90 <= event["series"]["count"] <= 100
        assert (
            scene.api.writes
            == ["create events ns/" + event["metadata"]["name"]] + ["patch events ns/" + event["metadata"]["name"]] * 3
        )
        assert scene.dropped == 0

    play(test)


def test_what_comes_again_later_is_a_new_event() -> None:
    async def test(scene: Scene) -> None:
        scene.record()
        await asyncio.sleep(361)
        scene.record()
        await settle()
        assert len(scene.events) == 2

    play(test)


@pytest.mark.parametrize("other", ({"note": "else"}, {"reason": "Else"}, {"about": Object("ns", "x", "uid-2", "1")}))
def test_other_words_or_objects_are_other_events(other: dict[str, Any]) -> None:
    async def test(scene: Scene) -> None:
        scene.record()
        scene.record(**other)
        await settle()
        assert len(scene.events) == 2

    play(test)


def test_a_storm_of_one_object_is_cut_and_does_not_silence_the_others() -> None:
    async def test(scene: Scene) -> None:
        for number in range(100):
            scene.record(f"error {number}")
        scene.record(about=Object("ns", "y", "uid-y", "1"))
        await settle(1000)
        assert len(scene.events) == 26
        assert scene.dropped == 75
        await asyncio.sleep(600)
        for number in range(100, 110):
            scene.record(f"error {number}")
        await settle(1000)
        assert len(scene.events) == 28  # one more every five minutes

    play(test)


@pytest.mark.parametrize(
    "error", (TransientError("503", status=503), FencedError("not ours"), NotFoundError("no namespace"))
)
def test_an_event_that_could_not_be_posted_is_posted_when_it_happens_again(error: Exception) -> None:
    async def test(scene: Scene) -> None:
        scene.api.on_request = lambda _: Fault(error)  # type: ignore[arg-type] # of three kinds
        scene.record()
        await settle()
        assert scene.events == []
        scene.api.heal()
        await asyncio.sleep(60)
        scene.record()
        await settle()
        assert len(scene.events) == 1

    play(test)


def test_an_event_that_the_server_has_forgotten_is_posted_anew() -> None:
    async def test(scene: Scene) -> None:
        scene.record()
        await settle()
        scene.api.remove(EVENTS, "ns", scene.events[0]["metadata"]["name"])
        await asyncio.sleep(60)
        scene.record()  # the count cannot be written
        await settle()
        scene.record()
        await settle()
        assert len(scene.events) == 1

    play(test)


def test_an_api_that_hangs_slows_nobody_and_takes_no_memory() -> None:
    async def test(scene: Scene) -> None:
        scene.api.on_request = lambda _: Fault(delay=10**6)
        for number in range(3000):
            scene.record(about=Object("ns", f"x{number}", f"uid-{number}", "1"))
        await settle()
        assert scene.dropped == 2000

    play(test)


def test_a_bug_in_one_event_does_not_end_the_recorder(caplog: pytest.LogCaptureFixture) -> None:
    async def test(scene: Scene) -> None:
        def burst(_: object) -> Fault:
            raise ValueError("a bug")

        scene.api.on_request = burst
        scene.record()
        await settle()
        scene.api.heal()
        scene.record("else")
        await settle()
        assert len(scene.events) == 1

    play(test)
    assert "a bug" in caplog.text


def test_the_rest_is_posted_before_the_end_if_the_time_suffices() -> None:
    async def test(scene: Scene) -> None:
        for number in range(5):
            scene.record(f"note {number}")
        await scene.recorder.drain(1.0)
        assert len(scene.events) == 5
        scene.api.on_request = lambda _: Fault(delay=10**6)
        scene.record("late")
        began = clock()
        await scene.recorder.drain(1.0)
        assert clock() - began == pytest.approx(1.0)

    play(test)


@pytest.mark.parametrize(
    ("name", "begins"), (("x", "x."), ("a" * 229 + "-" + "b" * 20, "a" * 229 + "."), ("a" * 300, "a" * 230 + "."))
)
def test_names_are_valid_however_long_the_objects_is(name: str, begins: str) -> None:
    async def test(scene: Scene) -> None:
        scene.record(about=Object("ns", name, "uid", "1"))
        await settle()
        found = scene.events[0]["metadata"]["name"]
        assert found.startswith(begins)
        assert len(found) <= 253
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", found)

    play(test)


def test_an_object_without_a_namespace_is_spoken_of_in_default() -> None:
    async def test(scene: Scene) -> None:
        scene.record(about=Object("", "node-1", "uid", "1"))
        await settle()
        assert scene.events[0]["metadata"]["namespace"] == "default"

    play(test)


@pytest.mark.parametrize("note", ("x" * 2000, "\N{SNOWMAN}" * 1000, "a\N{GRINNING FACE}" * 500))
def test_notes_fit(note: str) -> None:
    short = shorten(note)
    assert len(short.encode()) <= 1024
    assert short.endswith(" ...")
    assert note.startswith(short.removesuffix(" ..."))


def test_notes_that_fit_are_left_alone() -> None:
    assert shorten("Created Deployment x") == "Created Deployment x"
    assert shorten("\ud800") == "?"  # half a character: no encoding has it
