"""Children: made, repaired, resized, removed, adopted, and left alone when they are somebody else's."""

from __future__ import annotations

from typing import Any

import pytest
from world import NAME, NAMESPACE, World

from memcached_operator.gvr import DEPLOYMENTS, GVR, MEMCACHEDS, PODDISRUPTIONBUDGETS, PODS, SERVICES

EVERY_CHILD = pytest.mark.parametrize("gvr", (SERVICES, DEPLOYMENTS, PODDISRUPTIONBUDGETS), ids=lambda gvr: gvr.kind)
KINDS = ["Service", "Deployment", "PodDisruptionBudget"]


async def test_a_new_cache_costs_one_post_a_child_one_event_and_at_most_two_statuses() -> None:
    world = World()
    world.create(size=2)
    await world.live()
    assert world.take_writes() == [
        "create services",
        "create deployments",
        "create poddisruptionbudgets",
        "patch memcacheds/status",
        "patch memcacheds/status",
    ]
    assert world.take_events() == ["Normal Created: Created Service cache, Deployment cache, PodDisruptionBudget cache"]
    assert world.verdicts()[0] == "Ready=True/AllReady"
    assert world.drift == []


@pytest.mark.parametrize(("size", "kinds"), ((0, KINDS[:2]), (1, KINDS[:2]), (2, KINDS)))
async def test_a_budget_is_for_two_pods_or_more(size: int, kinds: list[str]) -> None:
    assert (await World.with_cache(size)).children() == kinds


async def test_a_change_of_size_is_one_write_to_scale_and_one_event() -> None:
    world = await World.with_cache(2)
    world.change(size=5)
    await world.live()
    assert world.take_writes() == ["patch deployments/scale", "patch memcacheds/status", "patch memcacheds/status"]
    assert world.take_events() == ["Normal Scaled: Scaled Deployment cache: replicas 2 -> 5"]
    assert len(world.status()["nodes"]) == 5


async def test_the_budget_comes_at_two_and_goes_at_one() -> None:
    world = await World.with_cache(1)
    world.change(size=2)
    await world.rest()
    assert world.take_writes()[:2] == ["patch deployments/scale", "create poddisruptionbudgets"]
    assert world.take_events() == [
        "Normal Scaled: Scaled Deployment cache: replicas 1 -> 2. Created PodDisruptionBudget cache"
    ]
    await world.live()
    world.take_writes()
    world.change(size=1)
    await world.rest()
    assert world.take_writes()[:2] == ["patch deployments/scale", "delete poddisruptionbudgets"]
    assert world.take_events() == [
        "Normal Scaled: Scaled Deployment cache: replicas 2 -> 1. Deleted PodDisruptionBudget cache: no longer wanted"
    ]


async def test_the_first_change_takes_our_fields_over_and_the_next_is_one_write() -> None:
    world = await World.with_cache()
    world.change(nodeSelector={"disk": "ssd"})
    await world.rest()
    assert world.take_writes()[:2] == ["patch deployments", "patch deployments"]
    world.change(nodeSelector=None)
    await world.live()
    assert world.take_writes()[0] == "patch deployments"
    assert "nodeSelector" not in world.object(DEPLOYMENTS)["spec"]["template"]["spec"]
    await world.live()
    assert world.take_writes() == []


async def test_what_left_the_spec_while_the_operator_was_down_leaves_the_child() -> None:
    world = await World.with_cache(tolerations=[{"operator": "Exists"}], podAnnotations={"a": "b"})
    world.restart()
    world.change(tolerations=None, podAnnotations=None)
    await world.live()
    template = world.object(DEPLOYMENTS)["spec"]["template"]
    assert "tolerations" not in template["spec"]
    assert "annotations" not in template["metadata"]
    world.take_writes()
    world.restart()
    await world.live()
    assert world.take_writes() == []


DRIFT: dict[str, tuple[GVR, dict[str, Any], str]] = {
    "label changed": (
        SERVICES,
        {"metadata": {"labels": {"app": "x"}}},
        "metadata.labels.app: 'memcached' wanted, 'x' found",
    ),
    "label removed": (
        DEPLOYMENTS,
        {"metadata": {"labels": {"memcached_cr": None}}},
        "metadata.labels.memcached_cr: 'cache' wanted, nothing found",
    ),
    "field changed": (
        DEPLOYMENTS,
        {"spec": {"revisionHistoryLimit": 9}},
        "spec.revisionHistoryLimit: 3 wanted, 9 found",
    ),
    "selector extended": (SERVICES, {"spec": {"selector": {"x": "y"}}}, "spec.selector.x: nothing wanted, 'y' found"),
    "budget changed": (PODDISRUPTIONBUDGETS, {"spec": {"maxUnavailable": 0}}, "spec.maxUnavailable: 1 wanted, 0 found"),
}


@pytest.mark.parametrize("drift", DRIFT)
async def test_drift_is_repaired_once_and_told_in_words(drift: str) -> None:
    gvr, patch, words = DRIFT[drift]
    world = await World.with_cache()
    before = world.object(gvr)
    world.edit(gvr, patch)
    await world.reconcile()
    assert world.take_writes() == [f"patch {gvr.plural}"] * 2  # the first of them takes our fields over
    await world.live()
    assert set(world.take_writes()) <= {"patch memcacheds/status"}
    assert world.take_events() == [f"Normal Updated: Updated {gvr.kind} cache: {words}"]
    assert world.drift == [gvr.kind]
    after = world.object(gvr)
    assert (after["spec"], after["metadata"]["labels"]) == (before["spec"], before["metadata"]["labels"])


async def test_replicas_that_somebody_edited_are_scaled_back() -> None:
    world = await World.with_cache()
    world.edit(DEPLOYMENTS, {"spec": {"replicas": 7}})
    await world.reconcile()
    assert world.take_writes() == ["patch deployments/scale"]
    assert world.drift == ["Deployment"]


@EVERY_CHILD
async def test_a_child_that_was_deleted_is_made_again(gvr: GVR) -> None:
    world = await World.with_cache()
    world.api.remove(gvr, NAMESPACE, NAME)
    await world.live()
    assert world.take_writes()[0] == f"create {gvr.plural}"
    assert world.take_events() == [f"Normal Created: Created {gvr.kind} cache"]
    assert world.children() == KINDS
    assert world.verdicts()[0] == "Ready=True/AllReady"


@EVERY_CHILD
async def test_owner_references_are_restored(gvr: GVR) -> None:
    world = await World.with_cache()
    references = world.object(gvr)["metadata"]["ownerReferences"]
    world.edit(gvr, {"metadata": {"ownerReferences": None}})
    await world.rest()
    assert world.object(gvr)["metadata"]["ownerReferences"] == references
    assert world.take_events()[0].startswith(f"Normal Updated: Updated {gvr.kind} cache: metadata.ownerReferences")


async def test_what_others_add_survives_our_writes() -> None:
    world = await World.with_cache()
    sidecar = {"name": "sidecar", "image": "s"}
    memcached = world.object(DEPLOYMENTS)["spec"]["template"]["spec"]["containers"][0]
    pod = {"metadata": {"annotations": {"restarted": "now"}}, "spec": {"containers": [memcached, sidecar]}}
    world.edit(DEPLOYMENTS, {"metadata": {"annotations": {"a": "b"}}, "spec": {"minReadySeconds": 3, "template": pod}})
    await world.live()
    assert [write for write in world.take_writes() if "status" not in write] == []
    world.change(memory=70)
    await world.live()
    deployment = world.object(DEPLOYMENTS)
    assert deployment["metadata"]["annotations"]["a"] == "b"
    assert deployment["spec"]["minReadySeconds"] == 3
    assert deployment["spec"]["template"]["metadata"]["annotations"] == {"restarted": "now"}
    assert sidecar in deployment["spec"]["template"]["spec"]["containers"]


async def test_a_webhook_that_changes_our_children_is_not_fought() -> None:
    world = World()

    def add_scheduler(body: dict[str, Any]) -> None:
        body["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 99

    world.api.mutate[DEPLOYMENTS] = add_scheduler
    world.create()
    await world.live()
    world.take_writes()
    await world.live()
    assert world.take_writes() == []
    world.change(memory=70)
    await world.live()
    assert [write for write in world.take_writes() if "status" not in write] == ["patch deployments"] * 2


async def test_others_of_the_name_are_never_touched() -> None:
    for gvr in (SERVICES, DEPLOYMENTS, PODDISRUPTIONBUDGETS):
        world = World()
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "x"}]}}
        foreign = world.api.add(
            gvr,
            {
                "metadata": {"name": NAME, "namespace": NAMESPACE},
                "spec": {"replicas": 1, "selector": {"a": "b"}, "template": template},
            },
        )
        world.create(size=2)
        result = await world.rest()
        assert result.after is not None
        assert result.after <= 60
        assert world.object(gvr) == foreign
        conflict = (
            f"{gvr.kind} cache exists and does not belong to this Memcached, so it is left alone. Rename or delete the "
            f"{gvr.kind}, or create the Memcached under another name."
        )
        others = ", ".join(f"{kind} cache" for kind in KINDS if kind != gvr.kind)
        assert world.take_events() == [f"Normal Created: Created {others}", f"Warning NameConflict: {conflict}"]
        assert world.condition("Ready")["reason"] == "NameConflict"
        assert world.condition("Ready")["message"] == conflict
        world.take_writes()
        world.wait(result.after)
        assert await world.rest() == result  # again, quietly
        assert world.take_writes() == []
        assert world.take_events() == []
        world.api.remove(gvr, NAMESPACE, NAME)
        world.wait(result.after)
        await world.live()
        assert world.take_events() == [f"Normal Created: Created {gvr.kind} cache"]
        assert world.verdicts()[0] == "Ready=True/AllReady"


@pytest.mark.parametrize(
    "controller",
    (
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "boss", "uid": "boss"},
        {"apiVersion": "cache.example.org/v1", "kind": "Memcached", "name": "cache", "uid": "other-api"},
        {"apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached", "name": "other", "uid": "another"},
    ),
    ids=("another kind", "a Memcached of another API", "another Memcached"),
)
async def test_our_labels_do_not_make_a_child_of_another_controller_ours(controller: dict[str, str]) -> None:
    world = await World.with_cache()
    world.edit(DEPLOYMENTS, {"metadata": {"ownerReferences": [{**controller, "controller": True}]}})
    foreign = world.object(DEPLOYMENTS)
    await world.rest()
    assert world.object(DEPLOYMENTS) == foreign
    assert world.condition("Degraded")["reason"] == "NameConflict"
    assert set(world.take_writes()) == {"patch memcacheds/status"}


async def test_children_of_a_deleted_namesake_are_left_to_the_garbage_collector() -> None:
    world = await World.with_cache()
    world.delete()
    world.create(size=2)
    result = await world.rest()
    assert result.after is not None
    assert set(world.take_writes()) <= {"patch memcacheds/status"}
    assert world.condition("Ready")["reason"] == "Creating"
    assert "belongs to a deleted resource of the same name" in world.condition("Ready")["message"]
    await world.live()
    owner = world.object(MEMCACHEDS)["metadata"]["uid"]
    assert {world.object(gvr)["metadata"]["ownerReferences"][0]["uid"] for gvr in (SERVICES, DEPLOYMENTS)} == {owner}
    assert world.verdicts()[0] == "Ready=True/AllReady"


@pytest.mark.parametrize("policy", ("Delete", "Orphan", "Drain"))
async def test_what_a_former_cache_left_behind_is_adopted_and_no_pod_restarts(policy: str) -> None:
    world = await World.with_cache(deletionPolicy="Orphan")
    pods = world.api.objects(PODS)
    world.delete()
    assert not world.kubernetes()
    world.create(size=2, deletionPolicy=policy)
    await world.live()
    assert world.take_events() == [
        (
            "Normal Adopted: Adopted Service cache, Deployment cache, PodDisruptionBudget cache, "
            "left behind by a former resource of this name"
        )
    ]
    assert world.api.objects(PODS) == pods
    assert world.drift == []
    uid = world.object(MEMCACHEDS)["metadata"]["uid"]
    for gvr in (SERVICES, DEPLOYMENTS, PODDISRUPTIONBUDGETS):
        metadata = world.object(gvr)["metadata"]
        assert metadata["annotations"]["cache.example.com/owner-uid"] == uid
        assert [owner["uid"] for owner in metadata.get("ownerReferences", [])] == ([uid] if policy == "Delete" else [])


@EVERY_CHILD
async def test_a_child_that_lost_the_label_we_watch_by_is_found_and_repaired(gvr: GVR) -> None:
    world = await World.with_cache()
    world.edit(gvr, {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}})
    await world.live()
    assert set(world.take_writes()) == {f"patch {gvr.plural}"}
    assert world.object(gvr)["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "memcached-operator"


async def test_an_edit_that_an_apply_cannot_undo_is_undone_by_replacing_the_spec() -> None:
    world = await World.with_cache()

    def one_of_both(body: dict[str, Any]) -> str | None:
        both = {"minAvailable", "maxUnavailable"} <= body["spec"].keys()
        return "minAvailable and maxUnavailable cannot be both set" if both else None

    world.api.invalid[PODDISRUPTIONBUDGETS] = one_of_both
    before = world.object(PODDISRUPTIONBUDGETS)["spec"]
    world.edit(PODDISRUPTIONBUDGETS, {"spec": {"maxUnavailable": None, "minAvailable": 2}})
    await world.live()
    assert world.object(PODDISRUPTIONBUDGETS)["spec"] == before
    assert world.take_events() == [
        "Normal Updated: Updated PodDisruptionBudget cache: spec.maxUnavailable: 1 wanted, nothing found"
    ]
    world.take_writes()
    await world.live()
    assert world.take_writes() == []
