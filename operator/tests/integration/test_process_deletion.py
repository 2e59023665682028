"""Each deletion policy, under each way that a deletion is propagated, with the operator up and with it down."""

from functools import partial

import pytest

from controlplane import ControlPlane, StartOperator, wait_until
from memcacheds import CHILDREN, Memcacheds

KINDS = [plural for _, plural in CHILDREN]
PROPAGATION = ("Background", "Foreground", "Orphan")


def kept(policy: str, propagation: str) -> bool:
    """Whether the children outlive the resource: by the policy, or by kubectl --cascade=orphan of owned ones."""
    return policy == "Orphan" or (policy == "Delete" and propagation == "Orphan")


@pytest.mark.parametrize("up", (True, False), ids=("operator-up", "operator-down"))
def test_what_a_deletion_leaves(
    control_plane: ControlPlane, namespace: str, start_operator: StartOperator, *, up: bool
) -> None:
    caches = Memcacheds(control_plane, namespace)
    operator = start_operator("--no-leader-elect")
    cases = [
        (policy, way, f"{policy}-{way}".lower()) for policy in ("Delete", "Orphan", "Drain") for way in PROPAGATION
    ]
    for policy, _, name in cases:
        caches.create(name, size=1, deletionPolicy=policy, drainSeconds=0)
    caches.wait_ready(*(name for _, _, name in cases))
    before = {name: caches.look(name) for _, _, name in cases}
    if not up:
        operator.kill()

    for _, way, name in cases:
        caches.delete(name, way)
    if not up:
        held = [name for policy, _, name in cases if policy == "Drain"]
        wait_until(
            lambda: [name for _, _, name in cases if caches.get(name)],
            30,
            "all to be gone but the drains, which wait for the operator",
            until=lambda there: there == held,
        )
        start_operator("--no-leader-elect")

    for policy, way, name in cases:
        if not kept(policy, way):
            caches.wait_gone(name)
            continue
        unowned = {kind: {**look, "ownerReferences": []} for kind, look in before[name].items()}
        wait_until(partial(caches.look, name), 30, f"{name} left as it was", until=unowned.__eq__)
        assert caches.get(name) is None


def test_what_was_left_behind_is_taken_over_by_a_resource_of_the_same_name(
    control_plane: ControlPlane, namespace: str, start_operator: StartOperator
) -> None:
    caches = Memcacheds(control_plane, namespace)
    start_operator("--no-leader-elect")
    caches.create("cache", size=2, deletionPolicy="Orphan")
    caches.wait_ready("cache")
    uids = {plural: (caches.child(plural, "cache") or {})["metadata"]["uid"] for plural in KINDS}
    nodes = (caches.get("cache") or {})["status"]["nodes"]
    caches.delete("cache")
    wait_until(lambda: caches.get("cache") is None, 30, "the resource to be gone")

    created = caches.create("cache", size=2)
    caches.wait_ready("cache")
    for plural in KINDS:
        metadata = (caches.child(plural, "cache") or {})["metadata"]
        assert metadata["uid"] == uids[plural]
        assert [owner["uid"] for owner in metadata["ownerReferences"]] == [created["metadata"]["uid"]]
    assert (caches.get("cache") or {})["status"]["nodes"] == nodes, "no pod was restarted"


def test_a_namespace_goes_with_its_drained_cache(
    control_plane: ControlPlane, namespace: str, start_operator: StartOperator
) -> None:
    caches = Memcacheds(control_plane, namespace)
    start_operator("--no-leader-elect")
    caches.create("cache", size=1, deletionPolicy="Drain", drainSeconds=600)
    caches.wait_ready("cache")
    control_plane.api.delete(f"/api/v1/namespaces/{namespace}")
    caches.wait_gone("cache")
