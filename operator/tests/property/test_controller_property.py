"""Whatever the spec, and in whatever order things happen: the cluster gets there, and then nothing is written."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

from fake_api import Fault, Request
from hypothesis import given, settings
from hypothesis import strategies as st
from world import CHILDREN, KEY, NAME, NAMESPACE, World

from memcached_operator.api.validation import parse
from memcached_operator.controller.actions import Plan
from memcached_operator.controller.apply import Applied
from memcached_operator.controller.facts import assess
from memcached_operator.controller.observe import snapshot
from memcached_operator.controller.status import compute_status
from memcached_operator.errors import ConflictError, FencedError, OperatorError, TransientError
from memcached_operator.gvr import DEPLOYMENTS, GVR, MEMCACHEDS, PODDISRUPTIONBUDGETS, SERVICES
from memcached_specs import valid_specs

JSONObject = dict[str, Any]


def small(spec: JSONObject) -> JSONObject:
    """The same with a few pods: the fake runs them one by one."""
    return {**spec, "size": spec["size"] % 4}


specs = valid_specs().map(small)
running = specs.map(lambda spec: {key: value for key, value in spec.items() if key != "paused"})
patient = settings(max_examples=60)


def play(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def defaulted(body: JSONObject) -> None:
    """Some of what an API server adds to a Deployment that it stores."""
    body["spec"].setdefault("progressDeadlineSeconds", 600)
    pod = body["spec"]["template"]["spec"]
    pod.setdefault("restartPolicy", "Always")
    for container in pod["containers"]:
        container.setdefault("imagePullPolicy", "IfNotPresent")
        container["readinessProbe"].setdefault("timeoutSeconds", 1)


def new_world() -> World:
    world = World()
    world.api.mutate[DEPLOYMENTS] = defaulted
    return world


async def fresh(spec: JSONObject) -> list[Any]:
    world = new_world()
    world.create(**spec)
    await world.live()
    return world.picture()


@given(specs)
@patient
def test_after_one_pass_and_its_answers_nothing_is_left_to_plan(spec: JSONObject) -> None:
    async def story() -> None:
        world = new_world()
        world.create(**spec)
        await world.reconcile()
        world.hear()
        observed = snapshot(world.stores, KEY)
        assert observed is not None
        memcached = parse(NAME, NAMESPACE, observed.memcached.uid, 1, json.loads(observed.memcached.spec))
        assert world.reconciler._plan(observed, memcached) == Plan()  # noqa: SLF001 - step 4 by itself
        world.take_writes()
        await world.live()
        assert set(world.take_writes()) <= {"patch memcacheds/status"}
        await world.live()
        world.restart()
        await world.live()
        assert world.take_writes() == []

    play(story())


@given(specs)
@patient
def test_the_status_of_a_status_is_itself(spec: JSONObject) -> None:
    async def story() -> None:
        world = new_world()
        world.create(**spec)
        await world.live()
        world.hear()
        observed = snapshot(world.stores, KEY)
        assert observed is not None
        memcached = parse(NAME, NAMESPACE, observed.memcached.uid, 1, json.loads(observed.memcached.spec))
        facts = assess(observed, memcached, Applied(), deleting=None)
        assert compute_status(observed, facts, now="2099-01-01T00:00:00Z") == world.status()

    play(story())


@given(running, running)
@patient
def test_there_and_back_again(one: JSONObject, other: JSONObject) -> None:
    async def story() -> None:
        world = new_world()
        world.create(**one)
        await world.live()
        there = world.picture()
        world.replace(other)
        await world.live()
        assert world.picture() == await fresh(other)
        world.replace(one)
        await world.live()
        assert world.picture() == there
        world.take_writes()
        await world.live()
        assert world.take_writes() == []

    play(story())


DRIFTS: tuple[tuple[GVR, JSONObject], ...] = (
    (DEPLOYMENTS, {"spec": {"replicas": 9}}),
    (DEPLOYMENTS, {"spec": {"revisionHistoryLimit": 9}}),
    (DEPLOYMENTS, {"metadata": {"labels": {"app": None}}}),
    (DEPLOYMENTS, {"metadata": {"labels": {"app.kubernetes.io/managed-by": "me"}}}),
    (DEPLOYMENTS, {"metadata": {"annotations": {"cache.example.com/desired-hash": "0"}}}),
    (SERVICES, {"spec": {"selector": {"a": "b"}}}),
    (SERVICES, {"spec": {"publishNotReadyAddresses": True}}),
    (SERVICES, {"metadata": {"ownerReferences": None}}),
    (PODDISRUPTIONBUDGETS, {"spec": {"maxUnavailable": 0}}),
    (PODDISRUPTIONBUDGETS, {"metadata": {"annotations": {"cache.example.com/owner-uid": None}}}),
)
NEWS = (MEMCACHEDS, *CHILDREN)

steps = st.one_of(
    st.tuples(st.just("spec"), specs),
    st.tuples(st.just("spec"), st.just({"size": 1, "memory": -1})),
    st.tuples(st.just("drift"), st.sampled_from(DRIFTS)),
    st.tuples(st.just("remove"), st.sampled_from(CHILDREN)),
    st.tuples(st.just("hear"), st.sampled_from(NEWS)),
    st.tuples(st.just("pass"), st.booleans()),
    st.tuples(st.just("kubernetes"), st.none()),
    st.tuples(st.just("restart"), st.none()),
    st.tuples(st.just("wait"), st.sampled_from((0.05, 1, 40))),
    st.tuples(st.just("fault"), st.tuples(st.integers(0, 3), st.sampled_from("tcf"), st.booleans())),
)

ERRORS: dict[str, OperatorError] = {
    "t": TransientError("try later", status=503),
    "c": ConflictError("the object has been modified", status=409, reason="Conflict"),
    "f": FencedError("not the leader"),
}


def break_write(world: World, number: int, error: OperatorError, *, after: bool) -> None:
    """The write after the next `number` ones fails."""

    def fault(request: Request) -> Fault | None:
        nonlocal number
        if request.verb not in ("create", "patch", "delete") or request.gvr.plural == "events":
            return None
        number -= 1
        return Fault(error, after=after) if number == -1 else None

    world.api.on_request = fault


async def try_a_pass(world: World, *, hear: bool) -> None:
    try:
        await world.reconcile(hear=hear)
    except OperatorError:
        world.wait(0.01)


async def happen(world: World, what: str, how: Any) -> None:
    match what:
        case "spec":
            world.replace(how)
        case "drift" if world.has(how[0]):
            world.edit(*how)
        case "remove" if world.has(how):
            world.api.remove(how, NAMESPACE, NAME)
        case "hear":
            world.hear(how)
        case "pass":
            await try_a_pass(world, hear=how)
        case "kubernetes":
            world.kubernetes()
        case "restart":
            world.restart()
        case "wait":
            world.wait(how)
        case "fault":
            number, error, after = how
            break_write(world, number, ERRORS[error], after=after)


@given(specs, st.lists(steps, max_size=25), running)
@settings(max_examples=150)
def test_whatever_happens_in_whatever_order_the_end_is_as_of_new(
    first: JSONObject, story: list[tuple[str, Any]], last: JSONObject
) -> None:
    async def tell() -> None:
        world = new_world()
        world.create(**first)
        for what, how in story:
            await happen(world, what, how)
        world.api.heal()
        world.replace(last)
        world.wait(60)
        await world.live()
        assert world.picture() == await fresh(last)
        world.take_writes()
        await world.live()
        assert world.take_writes() == []

    play(tell())
