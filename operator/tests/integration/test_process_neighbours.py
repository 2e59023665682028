"""Others work on the same objects: autoscalers, quotas, people with kubectl, owners of the same names."""

from functools import partial
from typing import Any

import pytest

from controlplane import ControlPlane, StartOperator, wait_until
from controlplane.api import object_path
from memcacheds import CACHES, CHILDREN, Memcacheds


@pytest.fixture
def caches(control_plane: ControlPlane, namespace: str, start_operator: StartOperator) -> Memcacheds:
    start_operator("--no-leader-elect")
    return Memcacheds(control_plane, namespace)


def autoscaler(caches: Memcacheds, kind: str, version: str, low: int, high: int) -> str:
    """Make an autoscaler of `cache`; return its path. Without metrics it keeps to its bounds, and does no more."""
    target = {"apiVersion": version, "kind": kind, "name": "cache"}
    spec = {"scaleTargetRef": target, "minReplicas": low, "maxReplicas": high}
    path = object_path("autoscaling/v2", "horizontalpodautoscalers", caches.namespace)
    caches.api.create(path, {"metadata": {"name": "auto"}, "spec": spec})
    return f"{path}/auto"


def size(caches: Memcacheds) -> int:
    found = caches.get("cache")
    assert found is not None
    return int(found["spec"]["size"])


def wait_condition(caches: Memcacheds, kind: str, reason: str) -> dict[str, Any]:
    return wait_until(
        lambda: caches.condition("cache", kind), 40, f"{kind} {reason}", until=lambda c: c.get("reason") == reason
    )


def test_an_autoscaler_of_the_memcached_sets_its_size(caches: Memcacheds) -> None:
    caches.create("cache", size=1)
    caches.wait_ready("cache")
    path = autoscaler(caches, "Memcached", CACHES, 2, 5)
    caches.wait_replicas("cache", 2, timeout=60)
    assert size(caches) == 2
    caches.api.patch(path, {"spec": {"minReplicas": 4}})
    caches.wait_replicas("cache", 4, timeout=60)
    caches.api.patch(path, {"spec": {"minReplicas": 1, "maxReplicas": 3}})
    caches.wait_replicas("cache", 3, timeout=60)
    assert size(caches) == 3
    caches.wait_ready("cache")


def test_an_autoscaler_of_the_deployment_is_named_and_not_fought(caches: Memcacheds) -> None:
    caches.create("cache", size=1)
    caches.wait_ready("cache")
    path = autoscaler(caches, "Deployment", "apps/v1", 3, 5)
    degraded = wait_condition(caches, "Degraded", "ForeignAutoscaler")
    assert degraded["status"] == "True"
    assert "auto" in degraded["message"]
    assert caches.replicas("cache") == 3
    caches.patch("cache", memory=128)
    wait_until(lambda: "128" in str(caches.look("cache")["deployments"]), 30, "what else changes in the spec")
    assert caches.replicas("cache") == 3

    caches.api.delete(path)
    caches.wait_replicas("cache", 1, timeout=60)
    caches.wait_ready("cache")


def test_a_quota_is_told_and_its_end_is_noticed(caches: Memcacheds) -> None:
    quota = object_path("v1", "resourcequotas", caches.namespace)
    caches.api.create(quota, {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "1"}}})
    wait_until(lambda: caches.api.get(f"{quota}/small").get("status", {}).get("used"), 30, "the quota to be counted")
    caches.create("cache", size=3)
    degraded = wait_condition(caches, "Degraded", "QuotaExceeded")
    assert "exceeded quota: small" in degraded["message"]
    wait_until(
        lambda: caches.condition("cache", "Available")["status"], 40, "the one pod to serve", until="True".__eq__
    )
    caches.api.delete(f"{quota}/small")
    caches.wait_ready("cache", timeout=120)  # the ReplicaSet controller has its own back-off


DRIFTS: dict[str, list[dict[str, Any]]] = {
    "deployments": [
        {"spec": {"replicas": 5}},
        {"spec": {"strategy": {"rollingUpdate": {"maxSurge": 3}}}},
        {"spec": {"revisionHistoryLimit": 7}},
        {"spec": {"template": {"metadata": {"labels": {"app.kubernetes.io/component": "x"}}}}},
        {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 99}}}},
        {"spec": {"template": {"spec": {"securityContext": {"runAsNonRoot": False}}}}},
        {"spec": {"template": {"spec": {"automountServiceAccountToken": True}}}},
        {"metadata": {"labels": {"app": None}}},
        {"metadata": {"ownerReferences": None}},
    ],
    "services": [
        {"spec": {"selector": {"more": "than-ours"}}},
        {"spec": {"selector": {"memcached_cr": "another"}}},
        {"spec": {"publishNotReadyAddresses": True}},
        {"spec": {"ports": [{"name": "memcached", "port": 11211, "targetPort": 80}]}},
        {"metadata": {"labels": {"memcached_cr": "another"}}},
    ],
    "poddisruptionbudgets": [
        {"spec": {"maxUnavailable": None, "minAvailable": 1}},
        {"spec": {"maxUnavailable": 2}},
        {"spec": {"unhealthyPodEvictionPolicy": None}},
        {"metadata": {"annotations": {"cache.example.com/desired-hash": "0"}}},
    ],
}


def child_as_it_is(caches: Memcacheds, plural: str) -> dict[str, Any]:
    return caches.look("cache")[plural]


def test_drift_is_repaired_and_what_others_added_is_kept(caches: Memcacheds) -> None:
    caches.create("cache", size=2)
    caches.wait_ready("cache")
    before = caches.look("cache")
    for version, plural in CHILDREN:
        path = object_path(version, plural, caches.namespace, "cache")
        theirs = {"example.com/mine": plural}
        caches.api.patch(path, {"metadata": {"labels": theirs, "annotations": theirs}})
        before[plural]["labels"] |= theirs
        before[plural]["annotations"] |= theirs
        for drift in DRIFTS[plural]:
            caches.api.patch(path, drift)
            look = partial(child_as_it_is, caches, plural)
            wait_until(look, 30, f"{plural} without {drift}", until=before[plural].__eq__)
        caches.api.delete(path)
        wait_until(partial(caches.api.find, path), 30, f"{plural} to be back")
        before[plural]["labels"].pop("example.com/mine")
        before[plural]["annotations"].pop("example.com/mine")
    caches.wait_ready("cache")


def test_a_strangers_object_is_left_alone_until_it_is_gone(caches: Memcacheds) -> None:
    path = object_path("v1", "services", caches.namespace)
    stranger = caches.api.create(path, {"metadata": {"name": "cache"}, "spec": {"ports": [{"port": 1}]}})
    caches.create("cache", size=1)
    told = wait_condition(caches, "Degraded", "NameConflict")
    assert "Service cache exists" in told["message"]
    caches.wait_replicas("cache", 1)
    assert caches.api.get(f"{path}/cache") == stranger
    caches.api.delete(f"{path}/cache")
    caches.patch("cache", size=2)  # or half a minute of patience: what is not ours is not watched
    caches.wait_ready("cache")
