"""Service, PodDisruptionBudget and Deployment around the pod template, and what marks them as ours."""

from __future__ import annotations

from typing import Any

import pytest

from memcached_operator.api.v1alpha1 import Memcached
from memcached_operator.api.validation import parse
from memcached_operator.resources.desired import desired_resources

SELECTOR = {"app": "memcached", "memcached_cr": "cache"}


def sample(**fields: Any) -> Memcached:
    memcached = parse("cache", "shop", "uid-1", 1, {"size": 3, **fields})
    assert isinstance(memcached, Memcached), memcached
    return memcached


def children(replicas: int = 3, **fields: Any) -> dict[str, Any]:
    manifests = desired_resources(sample(**fields), default_image="cache:1", replicas=replicas)
    return {manifest["kind"]: manifest for manifest in manifests}


def test_the_service_comes_first_and_the_budget_last() -> None:
    assert list(children()) == ["Service", "Deployment", "PodDisruptionBudget"]


@pytest.mark.parametrize("replicas", (0, 1))
def test_no_budget_for_less_than_two_pods(replicas: int) -> None:
    assert list(children(replicas)) == ["Service", "Deployment"]


def test_every_child_says_what_it_is_and_whose() -> None:
    for kind, child in children().items():
        metadata = child["metadata"]
        assert (metadata["name"], metadata["namespace"], kind) == ("cache", "shop", child["kind"])
        assert metadata["labels"].items() >= SELECTOR.items()
        assert metadata["labels"]["app.kubernetes.io/managed-by"] == "memcached-operator"
        assert metadata["annotations"]["cache.example.com/owner-uid"] == "uid-1"
    assert {child["apiVersion"] for child in children().values()} == {"v1", "apps/v1", "policy/v1"}


def test_policy_delete_leaves_the_children_to_the_garbage_collector() -> None:
    for child in children(deletionPolicy="Delete").values():
        assert child["metadata"]["ownerReferences"] == [
            {
                "apiVersion": "cache.example.com/v1alpha1",
                "kind": "Memcached",
                "name": "cache",
                "uid": "uid-1",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]


@pytest.mark.parametrize("policy", ("Orphan", "Drain"))
def test_other_policies_keep_the_garbage_collector_away(policy: str) -> None:
    for child in children(deletionPolicy=policy).values():
        assert "ownerReferences" not in child["metadata"]
        assert child["metadata"]["annotations"]["cache.example.com/owner-uid"] == "uid-1"


def test_the_service_is_headless_and_has_a_named_port() -> None:
    assert children()["Service"]["spec"] == {
        "type": "ClusterIP",
        "clusterIP": "None",
        "selector": SELECTOR,
        "ports": [{"name": "memcached", "port": 11211, "protocol": "TCP", "targetPort": "memcached"}],
        "publishNotReadyAddresses": False,
    }


def test_the_budget_takes_one_pod_at_a_time_and_never_waits_for_a_broken_one() -> None:
    assert children()["PodDisruptionBudget"]["spec"] == {
        "maxUnavailable": 1,
        "selector": {"matchLabels": SELECTOR},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }


def test_the_deployment_selects_the_pods_of_its_own_template() -> None:
    spec = children()["Deployment"]["spec"]
    assert spec["selector"] == {"matchLabels": SELECTOR}
    assert spec["template"]["metadata"]["labels"].items() >= SELECTOR.items()
    assert spec["revisionHistoryLimit"] == 3


def test_replicas_are_the_callers_not_the_specs() -> None:
    assert children(0, size=3)["Deployment"]["spec"]["replicas"] == 0


@pytest.mark.parametrize(
    ("rollout", "rolling"),
    (
        ({}, {"maxSurge": 1, "maxUnavailable": 0}),
        ({"maxSurge": 0, "maxUnavailable": 2}, {"maxSurge": 0, "maxUnavailable": 2}),
        ({"maxSurge": "25%", "maxUnavailable": "10%"}, {"maxSurge": "25%", "maxUnavailable": "10%"}),
    ),
)
def test_rollout(rollout: dict[str, object], rolling: dict[str, object]) -> None:
    assert children(rollout=rollout)["Deployment"]["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": rolling,
    }


@pytest.mark.parametrize(("given", "used"), ((None, "cache:1"), ("mine:2", "mine:2")))
def test_the_default_image_is_used_where_none_is_given(given: str | None, used: str) -> None:
    container = children(image=given)["Deployment"]["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == used
