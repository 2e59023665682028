"""What a resource says of itself: on every path, also after errors, in the words of whoever failed."""

from __future__ import annotations

from typing import Any

import pytest
from world import NAME, NAMESPACE, World

from memcached_operator.errors import ConflictError, FencedError, OperatorError, TerminalError, TransientError
from memcached_operator.gvr import DEPLOYMENTS, HORIZONTALPODAUTOSCALERS, MEMCACHEDS, PODS, SERVICES

QUOTA = 'pods "cache-x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'


def deployment_says(world: World, **status: Any) -> None:
    """The Deployment's status, in its own words."""
    world.api.edit(DEPLOYMENTS, NAMESPACE, NAME, {"status": status}, subresource="status", manager="kcm")


def autoscale(world: World, replicas: int) -> None:
    """What a HorizontalPodAutoscaler does."""
    patch = {"spec": {"replicas": replicas}}
    world.api.edit(DEPLOYMENTS, NAMESPACE, NAME, patch, subresource="scale", manager="kube-controller-manager")


def add_autoscaler(world: World, name: str = "hpa", kind: str = "Deployment", target: str = NAME) -> None:
    spec = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": kind, "name": target}, "maxReplicas": 9}
    world.api.add(HORIZONTALPODAUTOSCALERS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})


async def test_the_status_of_a_cache_that_is_ready() -> None:
    world = await World.with_cache(2)
    status = world.status()
    assert status["nodes"] == sorted(pod["metadata"]["name"] for pod in world.api.objects(PODS))
    assert (status["replicas"], status["readyReplicas"]) == (2, 2)
    assert status["serverList"] == ["10.0.0.1:11211", "10.0.0.2:11211"]
    assert status["selector"] == "app=memcached,memcached_cr=cache"
    assert status["observedGeneration"] == 1
    assert {condition["observedGeneration"] for condition in status["conditions"]} == {1}
    assert world.verdicts() == [
        "Ready=True/AllReady",
        "Available=True/AllReady",
        "Progressing=False/AllReady",
        "Degraded=False/AsExpected",
    ]


async def test_no_pods_are_ready_pods_when_none_is_wanted() -> None:
    world = await World.with_cache(0)
    assert world.verdicts() == [
        "Ready=True/ScaledToZero",
        "Available=True/ScaledToZero",
        "Progressing=False/ScaledToZero",
        "Degraded=False/AsExpected",
    ]


async def test_the_time_of_a_condition_changes_with_its_status_alone() -> None:
    world = await World.with_cache(2)
    first = world.condition("Ready")["lastTransitionTime"]
    world.wait(100)
    world.change(size=3)
    await world.rest()
    fell = world.condition("Ready")
    assert fell["status"] == "False"
    assert fell["lastTransitionTime"] > first
    world.wait(100)
    await world.live()
    rose = world.condition("Ready")
    assert rose["lastTransitionTime"] > fell["lastTransitionTime"]
    assert world.condition("Degraded")["lastTransitionTime"] == first


async def test_conditions_of_others_are_kept_and_ours_are_put_right() -> None:
    world = await World.with_cache()
    theirs = {
        "type": "Backup",
        "status": "True",
        "reason": "Done",
        "message": "",
        "lastTransitionTime": "2020-01-01T00:00:00Z",
    }
    lie = {"conditions": [theirs], "nodes": ["nobody"], "observedGeneration": 77}
    world.api.edit(MEMCACHEDS, NAMESPACE, NAME, {"status": lie}, subresource="status")
    await world.rest()
    assert world.take_writes() == ["patch memcacheds/status"]
    assert world.condition("Backup") == theirs
    assert world.verdicts()[0] == "Ready=True/AllReady"
    assert world.status()["observedGeneration"] == 1
    await world.rest()
    assert world.take_writes() == []


async def test_an_invalid_spec_is_reported_and_the_children_stay() -> None:
    world = await World.with_cache()
    before = [world.object(gvr) for gvr in (SERVICES, DEPLOYMENTS)]
    world.change(memory=-5, size=7)
    await world.rest()
    assert [world.object(gvr) for gvr in (SERVICES, DEPLOYMENTS)] == before
    assert world.take_writes() == ["patch memcacheds/status"]
    assert world.take_events() == ["Warning InvalidSpec: spec.memory: must be at least 1, not -5"]
    assert world.verdicts() == [
        "Ready=False/InvalidSpec",
        "Available=True/AllReady",
        "Progressing=False/InvalidSpec",
        "Degraded=True/InvalidSpec",
    ]
    assert world.status()["observedGeneration"] == 2
    world.restart()
    await world.rest()
    assert world.take_writes() == []
    world.change(memory=64)
    await world.live()
    assert world.verdicts()[0] == "Ready=True/AllReady"
    assert len(world.status()["nodes"]) == 7


@pytest.mark.parametrize(
    ("error", "reason"),
    (
        (TransientError('services "cache" is forbidden: exceeded quota: q', status=403), "QuotaExceeded"),
        (TransientError('services "cache" is forbidden: no', status=403), "Forbidden"),
        (TransientError("etcdserver: request timed out", status=500), "ApiError"),
        (TransientError("connection refused"), "ApiError"),
        (TerminalError('Service "cache" is invalid: spec', status=422), "Rejected"),
    ),
)
async def test_an_error_of_one_child_is_named_and_keeps_no_other_from_being_made(
    error: OperatorError, reason: str
) -> None:
    world = World()
    world.create(size=2)
    world.api.fail(error, verb="create", resource="services", times=3)
    with pytest.raises(type(error), match=str(error)):
        await world.reconcile()
    assert world.take_writes() == [
        "create deployments",
        "create poddisruptionbudgets",
        "patch memcacheds/status",
    ]
    for type_ in ("Ready", "Degraded"):
        assert world.condition(type_)["reason"] == reason
        assert world.condition(type_)["message"] == f"Service cache: {error.message}"
    assert world.take_events() == [
        "Normal Created: Created Deployment cache, PodDisruptionBudget cache",
        f"Warning {reason}: Service cache: {error.message}",
    ]
    with pytest.raises(type(error)):
        await world.reconcile()
    assert world.take_writes() == []  # told already
    world.api.heal()
    await world.live()
    assert world.verdicts()[0] == "Ready=True/AllReady"


async def test_a_stale_view_is_no_trouble() -> None:
    world = await World.with_cache()
    world.edit(SERVICES, {"metadata": {"labels": {"app": "x"}}})
    world.api.fail(ConflictError("the object has been modified", status=409, reason="Conflict"), resource="services")
    with pytest.raises(ConflictError):
        await world.reconcile()
    assert world.take_writes() == []
    await world.rest()
    assert set(world.take_writes()) == {"patch services"}
    assert [event for event in world.take_events() if event.startswith("Warning")] == []


async def test_the_worst_error_decides_what_the_queue_does() -> None:
    world = World()
    world.create(size=2)
    world.api.fail(TerminalError("never", status=422), verb="create", resource="services")
    world.api.fail(TransientError("later", status=500), verb="create", resource="poddisruptionbudgets")
    with pytest.raises(TransientError, match="later"):
        await world.reconcile()


async def test_a_fence_ends_the_pass_at_once() -> None:
    world = World()
    world.create(size=2)
    world.api.fence = lambda: world.api.writes == []
    with pytest.raises(FencedError):
        await world.reconcile()
    assert world.take_writes() == ["create services"]


async def test_quota_is_named_though_the_deployment_is_available_and_progressing() -> None:
    world = await World.with_cache()
    conditions = [
        {"type": "Available", "status": "True"},
        {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"},
        {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": QUOTA},
    ]
    deployment_says(world, conditions=conditions)
    await world.rest()
    for type_ in ("Ready", "Degraded"):
        assert world.condition(type_)["reason"] == "QuotaExceeded"
        assert world.condition(type_)["message"] == f"Deployment cache: {QUOTA}"
    assert world.condition("Available")["status"] == "True"
    assert world.take_events() == [f"Warning QuotaExceeded: Deployment cache: {QUOTA}"]
    deployment_says(world, conditions=conditions[:2])
    await world.rest()
    assert world.verdicts()[0] == "Ready=True/AllReady"


async def test_pods_that_cannot_be_created_for_another_reason() -> None:
    world = await World.with_cache()
    message = 'pods "x" is forbidden: violates PodSecurity "restricted:latest"'
    deployment_says(world, conditions=[{"type": "ReplicaFailure", "status": "True", "message": message}])
    await world.rest()
    assert world.condition("Degraded")["reason"] == "PodCreationFailed"
    assert message in world.condition("Degraded")["message"]


async def test_a_deployment_that_makes_no_progress() -> None:
    world = await World.with_cache()
    stuck = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
    deployment_says(world, conditions=[stuck], readyReplicas=1)
    await world.rest()
    assert world.condition("Degraded")["reason"] == "ProgressDeadlineExceeded"
    assert world.condition("Available")["status"] == "True"


async def test_a_pods_own_words_are_in_the_status_within_thirty_seconds() -> None:
    world = World()
    world.failing("ImagePullBackOff", 'Back-off pulling image "nope"')
    world.create(size=2)
    result = await world.live()
    pod = world.api.objects(PODS)[0]["metadata"]["name"]
    started = world.seconds
    while world.condition("Degraded")["status"] == "False":
        assert result.after is not None, "nobody looks again"
        world.wait(result.after)
        result = await world.rest()
    assert world.seconds - started < 30
    words = f'pod {pod}: ImagePullBackOff: Back-off pulling image "nope"'
    assert world.condition("Ready")["message"] == words
    assert world.condition("Degraded")["reason"] == "ImagePullFailed"
    assert world.condition("Available")["reason"] == "NoPodsReady"
    assert world.take_events()[1:] == [f"Warning ImagePullFailed: {words}"]
    world.failing("", "")
    await world.live()
    assert world.verdicts()[0] == "Ready=True/AllReady"


async def test_paused_nothing_is_written_but_the_status() -> None:
    world = await World.with_cache()
    world.change(paused=True)
    await world.rest()
    assert world.verdicts() == [
        "Ready=True/AllReady",
        "Available=True/AllReady",
        "Progressing=False/Paused",
        "Degraded=False/AsExpected",
    ]
    world.change(size=5, memory=70, deletionPolicy="Orphan")
    world.edit(DEPLOYMENTS, {"metadata": {"labels": {"app": "x"}}})
    world.api.remove(SERVICES, NAMESPACE, NAME)
    await world.live()
    assert set(world.take_writes()) == {"patch memcacheds/status"}
    assert world.condition("Ready")["reason"] == "Paused"
    assert "Service cache is missing" in world.condition("Ready")["message"]
    assert world.status()["observedGeneration"] == 3
    world.change(paused=False)
    await world.live()
    assert world.children() == ["Service", "Deployment", "PodDisruptionBudget"]
    assert len(world.status()["nodes"]) == 5
    assert world.verdicts()[0] == "Ready=True/AllReady"


async def test_paused_it_still_reports_an_invalid_spec_and_a_foreign_child() -> None:
    world = await World.with_cache(paused=True)
    world.change(memory=-1)
    await world.rest()
    assert world.condition("Ready")["reason"] == "InvalidSpec"
    world = await World.with_cache()
    boss = {"apiVersion": "v1", "kind": "ConfigMap", "name": "boss", "uid": "boss", "controller": True}
    world.change(paused=True)
    world.edit(SERVICES, {"metadata": {"ownerReferences": [boss]}})
    await world.rest()
    assert world.condition("Ready")["reason"] == "NameConflict"


async def test_created_paused_it_waits() -> None:
    world = World()
    world.create(paused=True)
    await world.live()
    assert world.children() == []
    assert world.take_writes() == ["patch memcacheds/status"]
    assert world.verdicts()[:3] == ["Ready=False/Paused", "Available=False/NoPodsReady", "Progressing=False/Paused"]


async def test_a_child_that_is_being_deleted_is_waited_for_and_named() -> None:
    world = await World.with_cache()
    world.edit(SERVICES, {"metadata": {"finalizers": ["a/b"]}})
    world.api.remove(SERVICES, NAMESPACE, NAME)
    result = await world.rest()
    assert result.after is not None
    assert world.condition("Ready")["reason"] == "Creating"
    assert world.condition("Ready")["message"] == ("Service cache is being deleted; it is made again when it is gone")
    world.edit(SERVICES, {"metadata": {"finalizers": None}})
    await world.live()
    assert world.verdicts()[0] == "Ready=True/AllReady"


async def test_an_autoscaler_on_our_deployment_is_named_once_and_not_fought() -> None:
    world = await World.with_cache(2)
    add_autoscaler(world, "elsewhere", target="other")
    add_autoscaler(world)
    autoscale(world, 4)
    result = await world.live()
    assert result.after is not None
    assert result.after <= 60
    words = (
        "HorizontalPodAutoscaler hpa scales Deployment cache: its size is left to it. "
        "Point the autoscaler's scaleTargetRef at Memcached cache instead."
    )
    assert world.take_events() == [f"Warning ForeignAutoscaler: {words}"]
    assert set(world.take_writes()) == {"patch memcacheds/status"}
    assert world.condition("Ready")["message"] == words
    assert world.condition("Available")["status"] == "True"

    for replicas in (6, 2, 3):  # two is what the spec says: it is the autoscaler's all the same
        autoscale(world, replicas)
        await world.live()
        assert world.object(DEPLOYMENTS)["spec"]["replicas"] == replicas
        assert world.condition("Ready")["reason"] == "ForeignAutoscaler"
    world.change(memory=70)
    await world.live()
    assert world.object(DEPLOYMENTS)["spec"]["replicas"] == 3
    assert [event for event in world.take_events() if event.startswith("Warning")] == []

    world.api.remove(HORIZONTALPODAUTOSCALERS, NAMESPACE, "hpa")
    world.wait(result.after)
    await world.live()
    assert world.object(DEPLOYMENTS)["spec"]["replicas"] == 2
    assert world.verdicts()[0] == "Ready=True/AllReady"


async def test_an_autoscaler_of_the_memcached_is_how_it_should_be() -> None:
    world = await World.with_cache(2)
    add_autoscaler(world, kind="Memcached")
    world.change(size=4)
    await world.live()
    assert world.verdicts()[0] == "Ready=True/AllReady"


async def test_whether_there_is_an_autoscaler_cannot_be_told() -> None:
    world = await World.with_cache(2)
    autoscale(world, 4)
    world.api.fail(
        TransientError("horizontalpodautoscalers is forbidden", status=403),
        resource="horizontalpodautoscalers",
        times=100,
    )
    with pytest.raises(TransientError):
        await world.reconcile()
    assert world.condition("Ready")["reason"] == "Forbidden"
    assert world.condition("Ready")["message"] == (
        "HorizontalPodAutoscaler cache: horizontalpodautoscalers is forbidden"
    )
    world.change(memory=70)
    with pytest.raises(TransientError):
        await world.reconcile()
    assert world.object(DEPLOYMENTS)["spec"]["replicas"] == 4
    world.api.heal()
    await world.live()
    assert world.object(DEPLOYMENTS)["spec"]["replicas"] == 2


async def test_numbers_alone_are_written_rarely_while_pods_come() -> None:
    world = World()
    world.create(size=9)
    await world.rest()
    world.take_writes()
    for ready in range(1, 9):
        deployment_says(world, observedGeneration=1, replicas=9, updatedReplicas=9, readyReplicas=ready)
        await world.rest()
        world.wait(1)
    assert world.take_writes() == []
    await world.live()
    assert world.take_writes() == ["patch memcacheds/status"]
    assert world.verdicts()[0] == "Ready=True/AllReady"
