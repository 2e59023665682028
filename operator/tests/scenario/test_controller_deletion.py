"""Deletion, by policy: what is left, in which order the rest goes, and that nothing holds on for ever."""

from __future__ import annotations

from typing import Any

import pytest
from world import NAME, NAMESPACE, START, World

from memcached_operator.errors import ConflictError, TransientError
from memcached_operator.gvr import DEPLOYMENTS, MEMCACHEDS, NAMESPACES, PODDISRUPTIONBUDGETS, PODS, SERVICES

FINALIZER = "cache.example.com/drain"
KINDS = ["Service", "Deployment", "PodDisruptionBudget"]


def finalizers(world: World) -> list[str]:
    found: list[str] = world.object(MEMCACHEDS)["metadata"].get("finalizers", [])
    return found


def serving(world: World) -> bool:
    return "cache.example.com/serving" not in world.object(SERVICES)["spec"]["selector"]


async def test_delete_is_the_garbage_collectors_work() -> None:
    world = await World.with_cache(deletionPolicy="Delete")
    assert finalizers(world) == []
    world.delete()
    await world.live()
    assert world.children() == []
    assert world.api.objects(PODS) == []
    assert world.take_writes() == []


async def test_nothing_is_written_while_others_hold_a_resource_that_is_deleted() -> None:
    world = await World.with_cache(deletionPolicy="Delete")
    world.api.edit(MEMCACHEDS, NAMESPACE, NAME, {"metadata": {"finalizers": ["foregroundDeletion"]}})
    world.delete()
    world.api.remove(DEPLOYMENTS, NAMESPACE, NAME)  # the garbage collector, in foreground
    await world.live()
    assert world.take_writes() == []
    assert world.children() == ["Service", "PodDisruptionBudget"]


async def test_orphan_leaves_the_cache_as_it_is() -> None:
    world = await World.with_cache(deletionPolicy="Orphan")
    assert finalizers(world) == []
    before = [world.object(gvr) for gvr in (SERVICES, DEPLOYMENTS, PODDISRUPTIONBUDGETS)]
    world.delete()
    await world.live()
    assert [world.object(gvr) for gvr in (SERVICES, DEPLOYMENTS, PODDISRUPTIONBUDGETS)] == before
    assert len(world.api.objects(PODS)) == 2
    assert world.take_writes() == []


async def test_drain_sends_clients_away_waits_stops_the_pods_and_lets_go() -> None:
    world = await World.with_cache(deletionPolicy="Drain", drainSeconds=30)
    assert finalizers(world) == [FINALIZER]
    world.delete()

    await world.reconcile()
    assert world.take_writes() == ["patch services"]
    assert not serving(world)
    assert (await world.rest()).after == pytest.approx(30 - world.seconds)
    assert world.take_writes() == ["patch memcacheds/status"]
    assert world.verdicts()[0] == "Ready=False/Draining"
    assert len(world.api.objects(PODS)) == 2

    world.wait(28)
    await world.live()
    assert world.take_writes() == []

    world.wait(2)
    await world.reconcile()
    assert world.take_writes() == ["patch deployments/scale"]
    world.kubernetes()
    await world.reconcile()
    assert world.take_writes() == [
        "delete poddisruptionbudgets",
        "delete services",
        "delete deployments",
        "patch memcacheds",
    ]
    assert not world.has(MEMCACHEDS)
    assert world.children() == []
    assert world.take_events() == [
        "Normal Draining: Clients are sent away; the pods stop when the drain time is over",
        "Normal Scaled: Scaled Deployment cache: drain: replicas 2 -> 0",
        "Normal Deleted: Deleted PodDisruptionBudget cache, Service cache, Deployment cache: the cache is deleted",
    ]


async def test_a_drain_does_not_repair_what_it_did_and_does_it_again_when_undone() -> None:
    world = await World.with_cache(deletionPolicy="Drain")
    world.delete()
    await world.rest()
    world.take_writes()
    world.edit(DEPLOYMENTS, {"metadata": {"labels": {"app": "x"}}})
    await world.rest()
    assert set(world.take_writes()) == set()
    world.edit(SERVICES, {"spec": {"selector": {"cache.example.com/serving": None}}})
    await world.rest()
    assert world.take_writes() == ["patch services"]
    assert not serving(world)


async def test_a_restart_in_the_middle_resumes_with_the_same_deadline() -> None:
    world = await World.with_cache(deletionPolicy="Drain", drainSeconds=30)
    world.delete()
    await world.rest()
    world.take_writes()
    world.wait(20)
    world.restart()
    assert (await world.rest()).after == pytest.approx(30 - world.seconds)
    assert world.take_writes() == []
    world.wait(10)
    world.restart()
    await world.live()
    assert not world.has(MEMCACHEDS)


async def test_an_operator_that_comes_late_drains_at_once() -> None:
    world = await World.with_cache(deletionPolicy="Drain", drainSeconds=30)
    world.delete()
    world.wait(3600)
    world.restart()
    await world.reconcile()
    assert world.take_writes() == ["patch services", "patch deployments/scale"]
    await world.live()
    assert not world.has(MEMCACHEDS)
    assert world.children() == []


@pytest.mark.parametrize(
    "spec",
    (
        {"paused": True},
        {"memory": "much"},
        {"size": -1, "drainSeconds": 30},
        {"deletionPolicy": "drain"},
        {"drainSeconds": "long"},
        {"drainSeconds": None},
    ),
    ids=repr,
)
async def test_paused_or_invalid_it_drains_all_the_same(spec: dict[str, Any]) -> None:
    world = await World.with_cache(deletionPolicy="Drain", drainSeconds=30)
    world.change(**spec)
    await world.rest()
    world.delete()
    await world.rest()
    assert not serving(world)
    world.wait(30)
    await world.live()
    assert not world.has(MEMCACHEDS)
    assert world.children() == []


async def test_no_drain_is_longer_than_ten_minutes() -> None:
    world = await World.with_cache(deletionPolicy="Drain")
    world.change(drainSeconds=10**9)
    world.delete()
    await world.rest()
    world.wait(600)
    await world.live()
    assert not world.has(MEMCACHEDS)


async def test_pods_that_do_not_stop_hold_it_for_a_minute() -> None:
    world = await World.with_cache(deletionPolicy="Drain", drainSeconds=0)
    world.delete()
    await world.reconcile()
    assert world.take_writes() == ["patch services", "patch deployments/scale"]
    result = await world.rest()
    assert result.after == pytest.approx(60, abs=1)
    world.wait(60)
    await world.rest()
    assert not world.has(MEMCACHEDS)
    assert world.children() == []


async def test_a_namespace_that_is_going_is_not_held_up() -> None:
    world = await World.with_cache(deletionPolicy="Drain", drainSeconds=600)
    stamp = START.strftime("%Y-%m-%dT%H:%M:%SZ")
    world.api.add(NAMESPACES, {"metadata": {"name": NAMESPACE, "deletionTimestamp": stamp}})
    world.delete()
    await world.reconcile()
    assert world.take_writes() == ["patch memcacheds"]
    assert not world.has(MEMCACHEDS)


async def test_when_the_namespace_cannot_be_asked_it_drains() -> None:
    world = await World.with_cache(deletionPolicy="Drain", drainSeconds=5)
    world.api.fail(TransientError("forbidden", status=403), resource="namespaces", times=100)
    world.delete()
    await world.reconcile()
    assert world.take_writes() == ["patch services"]
    world.wait(5)
    await world.live()
    assert not world.has(MEMCACHEDS)


async def test_without_a_deployment_there_is_nothing_to_drain() -> None:
    world = await World.with_cache(deletionPolicy="Drain", drainSeconds=600)
    world.delete()
    world.api.remove(DEPLOYMENTS, NAMESPACE, NAME)
    await world.reconcile()
    assert world.take_writes() == ["delete poddisruptionbudgets", "delete services", "patch memcacheds"]
    assert not world.has(MEMCACHEDS)


async def test_a_drain_leaves_others_of_the_name_alone() -> None:
    world = World()
    foreign = {"metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": {"selector": {"a": "b"}}}
    world.api.add(SERVICES, foreign)
    before = world.object(SERVICES)
    world.create(deletionPolicy="Drain", drainSeconds=0)
    await world.live()
    world.delete()
    await world.live()
    assert world.object(SERVICES) == before
    assert world.children() == ["Service"]
    assert not world.has(MEMCACHEDS)


async def test_a_failed_delete_keeps_the_finalizer() -> None:
    world = await World.with_cache(deletionPolicy="Drain", drainSeconds=0)
    world.delete()
    await world.reconcile()
    world.kubernetes()
    world.take_writes()
    world.api.fail(TransientError("try later", status=503), verb="delete", resource="services")
    with pytest.raises(TransientError, match="try later"):
        await world.reconcile()
    assert finalizers(world) == [FINALIZER]
    await world.live()
    assert not world.has(MEMCACHEDS)
    assert world.children() == []


async def test_other_finalizers_are_kept() -> None:
    world = await World.with_cache(deletionPolicy="Drain", drainSeconds=0)
    world.api.edit(MEMCACHEDS, NAMESPACE, NAME, {"metadata": {"finalizers": ["a/b", FINALIZER, "c/d"]}})
    world.delete()
    await world.live()
    assert finalizers(world) == ["a/b", "c/d"]
    assert world.children() == []
    world.take_writes()
    await world.live()
    assert world.take_writes() == []


async def test_a_finalizer_that_was_stripped_is_put_back() -> None:
    world = await World.with_cache(deletionPolicy="Drain")
    world.api.edit(MEMCACHEDS, NAMESPACE, NAME, {"metadata": {"finalizers": ["a/b"]}})
    await world.rest()
    assert finalizers(world) == ["a/b", FINALIZER]
    assert world.take_writes() == ["patch memcacheds"]


async def test_finalizers_that_somebody_changed_meanwhile_are_not_overwritten() -> None:
    world = await World.with_cache(deletionPolicy="Delete")
    world.change(deletionPolicy="Drain")
    world.hear()
    world.api.edit(MEMCACHEDS, NAMESPACE, NAME, {"metadata": {"finalizers": ["a/b"]}})
    with pytest.raises(ConflictError):
        await world.reconcile(hear=False)
    assert finalizers(world) == ["a/b"]
    assert world.take_writes() == []  # least of all the references, before there is a finalizer
    await world.rest()
    assert finalizers(world) == ["a/b", FINALIZER]


POLICY_CHANGES = {
    ("Delete", "Orphan"): ["patch services", "patch deployments", "patch poddisruptionbudgets"],
    ("Orphan", "Delete"): ["patch services", "patch deployments", "patch poddisruptionbudgets"],
    ("Delete", "Drain"): ["patch memcacheds", "patch services", "patch deployments", "patch poddisruptionbudgets"],
    ("Drain", "Delete"): ["patch services", "patch deployments", "patch poddisruptionbudgets", "patch memcacheds"],
    ("Orphan", "Drain"): ["patch memcacheds"],
    ("Drain", "Orphan"): ["patch memcacheds"],
}


@pytest.mark.parametrize(("before", "after"), POLICY_CHANGES, ids=lambda policy: policy)
async def test_a_change_of_policy_is_one_write_a_child_and_no_pod_restarts(before: str, after: str) -> None:
    world = await World.with_cache(deletionPolicy="Orphan" if before == "Delete" else "Delete")
    world.change(deletionPolicy=before)
    await world.live()  # our fields are taken over by then
    pods = world.api.objects(PODS)
    world.take_writes()
    world.change(deletionPolicy=after)
    await world.reconcile()
    assert world.take_writes() == POLICY_CHANGES[before, after]
    await world.live()
    assert world.api.objects(PODS) == pods
    assert finalizers(world) == ([FINALIZER] if after == "Drain" else [])
    for gvr in (SERVICES, DEPLOYMENTS, PODDISRUPTIONBUDGETS):
        assert ("ownerReferences" in world.object(gvr)["metadata"]) == (after == "Delete")


async def test_the_finalizer_stays_until_every_child_has_its_owner_again() -> None:
    world = await World.with_cache(deletionPolicy="Drain")
    world.change(deletionPolicy="Delete")
    world.api.fail(TransientError("no", status=503), resource="deployments")
    with pytest.raises(TransientError):
        await world.reconcile()
    assert finalizers(world) == [FINALIZER]
    await world.rest()
    assert finalizers(world) == []


async def test_paused_it_keeps_the_finalizer_that_its_children_still_need() -> None:
    world = await World.with_cache(deletionPolicy="Drain")
    world.change(deletionPolicy="Delete", paused=True)
    await world.rest()
    assert finalizers(world) == [FINALIZER]
    world.delete()
    await world.live()
    assert not world.has(MEMCACHEDS)
    assert world.children() == []


async def test_delete_cuts_a_drain_short() -> None:
    world = await World.with_cache(deletionPolicy="Drain", drainSeconds=600)
    world.delete()
    await world.rest()
    world.change(deletionPolicy="Delete")
    await world.live()
    assert not world.has(MEMCACHEDS)
    assert world.children() == []


async def test_orphan_calls_a_drain_off() -> None:
    world = await World.with_cache(deletionPolicy="Drain", drainSeconds=600)
    world.delete()
    await world.rest()
    world.take_writes()
    world.change(deletionPolicy="Orphan")
    await world.live()
    assert world.take_writes() == ["patch services", "patch memcacheds"]
    assert not world.has(MEMCACHEDS)
    assert world.children() == KINDS
    assert serving(world)
    assert len(world.api.objects(PODS)) == 2


async def test_a_drained_service_that_was_left_behind_serves_again_when_adopted() -> None:
    world = await World.with_cache(deletionPolicy="Drain", drainSeconds=600)
    world.delete()
    await world.rest()
    world.api.edit(MEMCACHEDS, NAMESPACE, NAME, {"metadata": {"finalizers": None}})  # somebody lost patience
    world.create(size=2)
    await world.live()
    assert serving(world)
    assert world.verdicts()[0] == "Ready=True/AllReady"
