"""News that come late, answers that are overtaken, and an operator that dies between two writes."""

from __future__ import annotations

from typing import Any

import pytest
from fake_api import Fault, Request
from world import NAME, NAMESPACE, World

from memcached_operator.errors import ConflictError, FencedError
from memcached_operator.gvr import DEPLOYMENTS, GVR, MEMCACHEDS, PODDISRUPTIONBUDGETS, SERVICES


@pytest.mark.parametrize("policy", ("Delete", "Orphan", "Drain"))
async def test_a_child_that_the_watch_has_not_shown_yet_is_met_and_not_written(policy: str) -> None:
    world = await World.with_cache(deletionPolicy=policy)
    world.restart()
    world.hear(MEMCACHEDS)
    await world.reconcile(hear=False)
    assert [request.code for request in world.api.requests if request.verb == "create"] == [409, 409, 409]
    assert world.take_writes() == []
    await world.reconcile(hear=False)
    assert [request for request in world.api.requests if request.verb == "create"] == []  # it knows them now
    await world.live()
    assert set(world.take_writes()) <= {"patch memcacheds/status"}


async def test_a_met_child_that_differs_is_repaired() -> None:
    world = await World.with_cache()
    world.edit(DEPLOYMENTS, {"spec": {"revisionHistoryLimit": 9}})
    world.restart()
    world.hear(MEMCACHEDS)
    await world.reconcile(hear=False)
    assert "patch deployments" in world.take_writes()
    assert world.object(DEPLOYMENTS)["spec"]["revisionHistoryLimit"] == 3


async def test_a_met_deployment_of_another_size_is_scaled() -> None:
    world = await World.with_cache()
    world.change(size=4)
    world.restart()
    world.hear(MEMCACHEDS)
    await world.reconcile(hear=False)
    assert "patch deployments/scale" in world.take_writes()


async def test_a_foreign_object_that_is_going_is_waited_for_and_replaced_within_a_minute() -> None:
    world = World()
    foreign = {"metadata": {"name": NAME, "namespace": NAMESPACE, "finalizers": ["a/b"]}, "spec": {"selector": {}}}
    world.api.add(SERVICES, foreign)
    world.api.remove(SERVICES, NAMESPACE, NAME)
    world.create()
    result = await world.rest()
    assert result.after is not None
    assert result.after <= 60
    assert "Service cache is being deleted" in world.condition("Ready")["message"]
    world.edit(SERVICES, {"metadata": {"finalizers": None}})
    world.wait(result.after)
    await world.live()
    assert world.verdicts()[0] == "Ready=True/AllReady"


@pytest.mark.parametrize("gvr", (SERVICES, DEPLOYMENTS, PODDISRUPTIONBUDGETS), ids=lambda gvr: gvr.kind)
async def test_a_reference_is_not_given_back_to_an_owner_that_is_gone(gvr: GVR) -> None:
    # kubectl delete --cascade=orphan: the collector strips the references, and the news of that overtake the deletion.
    world = await World.with_cache(deletionPolicy="Delete")
    world.edit(gvr, {"metadata": {"ownerReferences": None}}, manager="kube-controller-manager")
    world.delete()
    world.hear(gvr)
    with pytest.raises(ConflictError, match="is gone"):
        await world.reconcile(hear=False)
    assert "ownerReferences" not in world.object(gvr)["metadata"]
    assert world.take_writes() == []
    assert (await world.reconcile(hear=False)).after is None  # it knows by now


async def test_a_reference_is_not_given_back_to_an_owner_that_is_going() -> None:
    world = await World.with_cache(deletionPolicy="Delete")
    world.api.edit(MEMCACHEDS, NAMESPACE, NAME, {"metadata": {"finalizers": ["orphan"]}})
    world.hear()
    world.delete()
    world.edit(SERVICES, {"metadata": {"ownerReferences": None}}, manager="kube-controller-manager")
    world.hear(SERVICES)
    with pytest.raises(ConflictError, match="is being deleted"):
        await world.reconcile(hear=False)
    assert "ownerReferences" not in world.object(SERVICES)["metadata"]
    await world.reconcile(hear=False)
    assert world.take_writes() == []


async def test_a_child_is_not_made_again_for_an_orphaning_owner_that_is_gone() -> None:
    world = await World.with_cache(deletionPolicy="Orphan")
    world.delete()
    world.api.remove(DEPLOYMENTS, NAMESPACE, NAME)
    world.hear(DEPLOYMENTS)
    with pytest.raises(ConflictError, match="is gone"):
        await world.reconcile(hear=False)
    assert not world.has(DEPLOYMENTS)


@pytest.mark.parametrize("gvr", (SERVICES, DEPLOYMENTS, PODDISRUPTIONBUDGETS), ids=lambda gvr: gvr.kind)
async def test_what_the_garbage_collector_took_is_not_made_again_for_an_owner_that_is_gone(gvr: GVR) -> None:
    # Our watch of the owner is in its back-off, that of the child is not.
    world = await World.with_cache()
    world.delete()
    world.api.remove(gvr, NAMESPACE, NAME)
    world.hear(gvr)
    with pytest.raises(ConflictError, match="is gone"):
        await world.reconcile(hear=False)
    assert world.take_writes() == []
    assert (await world.reconcile(hear=False)).after is None  # it knows by now


async def test_a_new_resource_of_the_same_name_is_not_taken_for_the_old_one() -> None:
    world = await World.with_cache(deletionPolicy="Orphan")
    world.delete()
    world.create(size=3, deletionPolicy="Orphan")
    world.api.remove(SERVICES, NAMESPACE, NAME)
    world.hear(SERVICES)
    with pytest.raises(ConflictError):
        await world.reconcile(hear=False)
    assert world.take_writes() == []
    await world.live()
    assert len(world.status()["nodes"]) == 3
    uid = world.object(MEMCACHEDS)["metadata"]["uid"]
    assert world.object(SERVICES)["metadata"]["annotations"]["cache.example.com/owner-uid"] == uid


async def test_a_child_that_was_replaced_by_another_one_is_not_applied_to() -> None:
    world = await World.with_cache()
    world.change(memory=70)
    world.hear()
    world.api.remove(DEPLOYMENTS, NAMESPACE, NAME)
    theirs = {"metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": {"replicas": 1, "selector": {"a": "b"}}}
    foreign = world.api.add(DEPLOYMENTS, theirs)
    with pytest.raises(ConflictError):
        await world.reconcile(hear=False)
    assert world.object(DEPLOYMENTS) == foreign


async def test_a_child_that_was_replaced_by_another_one_is_not_deleted() -> None:
    world = await World.with_cache(2)
    world.change(size=1)
    world.hear()
    world.api.remove(PODDISRUPTIONBUDGETS, NAMESPACE, NAME)
    foreign = world.api.add(
        PODDISRUPTIONBUDGETS, {"metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": {"selector": {}}}
    )
    with pytest.raises(ConflictError):
        await world.reconcile(hear=False)
    assert world.object(PODDISRUPTIONBUDGETS) == foreign


async def test_a_drift_whose_news_overtake_our_answer_is_repaired() -> None:
    world = await World.with_cache()
    world.change(memory=70)

    def somebody_is_fast(request: Request) -> Fault | None:
        if request.query.get("apply"):
            world.api.on_request = lambda _: None
            world.api.mutate[DEPLOYMENTS] = drift_after
        return None

    def drift_after(_: dict[str, Any]) -> None:
        # Our apply is stored after this returns; the edit and its event come before its answer is read.
        del world.api.mutate[DEPLOYMENTS]
        real = world.stores[DEPLOYMENTS].remember

        def overtaken(raw: bytes) -> Any:
            world.stores[DEPLOYMENTS].remember = real  # type: ignore[method-assign]  # puts a race into one place
            world.edit(DEPLOYMENTS, {"spec": {"revisionHistoryLimit": 9}})
            world.hear(DEPLOYMENTS)
            return real(raw)

        world.stores[DEPLOYMENTS].remember = overtaken  # type: ignore[method-assign]  # see above

    world.api.on_request = somebody_is_fast
    await world.reconcile()
    assert world.object(DEPLOYMENTS)["spec"]["revisionHistoryLimit"] == 9
    await world.reconcile()
    assert world.object(DEPLOYMENTS)["spec"]["revisionHistoryLimit"] == 3


async def test_an_edit_that_our_write_of_the_status_meets_first_is_not_lost() -> None:
    # The status is patched without a version, so its answer has a spec that no event has told of yet. The events come
    # afterwards and are older, or the same: they wake nobody.
    world = World()
    world.create(size=1)
    world.hear()
    woken: list[Any] = []
    world.stores[MEMCACHEDS].on_change = lambda *change: woken.append([getattr(one, "generation", 0) for one in change])
    world.change(size=3)
    while "patch memcacheds/status" not in world.take_writes():
        await world.reconcile(hear=False)
        world.wait(1.0)
    assert woken == [[1, 2, 0]]


async def test_our_own_writes_are_read_back_without_a_watch() -> None:
    world = World()
    world.create(size=2)
    await world.reconcile()
    world.take_writes()
    world.wait(5)
    await world.reconcile(hear=False)
    assert world.take_writes() == ["patch memcacheds/status"]
    world.change(size=3)
    world.hear(MEMCACHEDS)
    await world.reconcile(hear=False)
    assert world.take_writes() == ["patch deployments/scale"]
    await world.reconcile(hear=False)
    assert world.take_writes() == []


STORIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "create": ({}, {}),
    "scale up": ({"size": 1}, {"size": 3}),
    "scale down": ({"size": 3}, {"size": 1}),
    "new template": ({"size": 2}, {"size": 2, "memory": 70}),
    "to Drain": ({"size": 2}, {"size": 2, "deletionPolicy": "Drain"}),
    "to Delete": ({"size": 2, "deletionPolicy": "Drain"}, {"size": 2, "deletionPolicy": "Delete"}),
    "drain": ({"size": 2, "deletionPolicy": "Drain", "drainSeconds": 0}, {}),
}


def picture(world: World) -> list[Any]:
    """What must be the same, however it came about."""
    kinds = (SERVICES, DEPLOYMENTS, PODDISRUPTIONBUDGETS)
    specs = [(body["kind"], body["spec"]) for gvr in kinds for body in world.api.objects(gvr)]
    status = world.api.objects(MEMCACHEDS)
    return [specs, [(body["spec"], body["metadata"].get("finalizers")) for body in status]]


async def play(story: str, on_request: Any = None) -> World:
    before, after = STORIES[story]
    world = World()
    if before:
        world.create(**before)
        await world.live()
        world.take_writes()
    if on_request is not None:
        world.api.on_request = on_request
    if story == "create":
        world.create(size=2)
    elif story == "drain":
        world.delete()
    else:
        world.change(**after)
    for _ in range(20):
        try:
            await world.live()
        except FencedError:  # the one error that ends a pass at once, as a death does
            world.restart()
            world.wait(1)
        else:
            return world
    raise AssertionError(f"{story}: it dies for ever")


@pytest.mark.parametrize("committed", (False, True), ids=("before", "after"))
@pytest.mark.parametrize("story", STORIES)
async def test_killed_at_every_write_the_end_is_the_same(story: str, committed: bool) -> None:  # noqa: FBT001 - a parameter
    plain = await play(story)
    writes = len([r for r in plain.api.requests if r.verb in ("create", "patch", "delete") and r.code < 300])
    expected = picture(plain)
    assert writes >= 2
    for nth in range(1, writes + 1):
        seen = 0

        def die(request: Request, nth: int = nth) -> Fault | None:
            nonlocal seen
            if request.verb not in ("create", "patch", "delete"):
                return None
            seen += 1
            return Fault(FencedError("killed"), after=committed) if seen == nth else None

        world = await play(story, die)
        assert picture(world) == expected, f"killed at write {nth}"
        posted = [str(r) for r in world.api.requests if r.verb == "create" and r.code == 201 and "events" not in str(r)]
        assert len(posted) == len(set(posted)), f"killed at write {nth}"
        world.take_writes()
        await world.live()
        assert world.take_writes() == [], f"killed at write {nth}"


async def test_a_key_that_is_gone_is_nothing_to_do() -> None:
    assert (await World().reconcile()).after is None
