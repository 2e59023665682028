from __future__ import annotations

from typing import Any

import pytest

from memcached_operator.api.v1alpha1 import Memcached
from memcached_operator.api.validation import parse
from memcached_operator.resources.pod import pod_template


def template(**fields: Any) -> Any:
    memcached = parse("cache", "shop", "uid-1", 1, {"size": 3, **fields})
    assert isinstance(memcached, Memcached), memcached
    return pod_template(memcached, image="cache:1")


OURS = {
    "app": "memcached",
    "memcached_cr": "cache",
    "app.kubernetes.io/name": "memcached",
    "app.kubernetes.io/instance": "cache",
    "app.kubernetes.io/managed-by": "memcached-operator",
    "app.kubernetes.io/component": "cache",
}


def test_labels_of_the_user_join_ours() -> None:
    assert template(podLabels={"team": "web"})["metadata"] == {"labels": {**OURS, "team": "web"}}


def test_labels_that_we_select_on_are_ours_even_in_a_spec_that_nobody_checked() -> None:
    memcached = parse("cache", "shop", "uid-1", 1, {"size": 3})
    assert isinstance(memcached, Memcached)
    unchecked = memcached.spec.model_copy(update={"pod_labels": {"app": "else", "memcached_cr": "other"}})
    pod = pod_template(Memcached("cache", "shop", "uid-1", 1, unchecked), image="cache:1")
    assert pod["metadata"]["labels"] == OURS


def test_the_template_tells_nothing_about_its_owner() -> None:
    # An adopted Deployment has the same template under another uid: no pod restarts.
    assert "annotations" not in template()["metadata"]
    assert template(podAnnotations={"a/b": "c"})["metadata"]["annotations"] == {"a/b": "c"}


def test_pod_security_restricted() -> None:
    pod = template()["spec"]
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 11211,
        "runAsGroup": 11211,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False


def test_pods_are_spread_softly_by_default() -> None:
    soft = {
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "memcached", "memcached_cr": "cache"}},
        "matchLabelKeys": ["pod-template-hash"],
    }
    assert template()["spec"]["topologySpreadConstraints"] == [
        {**soft, "topologyKey": "kubernetes.io/hostname"},
        {**soft, "topologyKey": "topology.kubernetes.io/zone"},
    ]


def test_spread_of_the_user_takes_the_place_of_ours() -> None:
    own = {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    assert template(topologySpreadConstraints=[own])["spec"]["topologySpreadConstraints"] == [own]


def test_an_empty_list_means_no_spread() -> None:
    assert "topologySpreadConstraints" not in template(topologySpreadConstraints=[])["spec"]


PASSED_THROUGH = {
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "cache", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}],
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}, "namespaceSelector": {}}
            ]
        }
    },
    "priorityClassName": "high",
    "imagePullSecrets": [{"name": "registry"}],
}


@pytest.mark.parametrize("field", PASSED_THROUGH)
def test_a_given_field_is_passed_through(field: str) -> None:
    assert template(**{field: PASSED_THROUGH[field]})["spec"][field] == PASSED_THROUGH[field]


@pytest.mark.parametrize("field", PASSED_THROUGH)
def test_a_field_that_is_not_given_is_not_owned(field: str) -> None:
    assert field not in template()["spec"]


@pytest.mark.parametrize(
    ("field", "empty"), (("nodeSelector", {}), ("tolerations", []), ("affinity", {}), ("imagePullSecrets", []))
)
def test_an_empty_field_is_not_owned(field: str, empty: object) -> None:
    assert template(**{field: empty}) == template()
