from __future__ import annotations

from typing import Any

import pytest

from memcached_operator.api.v1alpha1 import DeletionPolicy, Memcached, MemcachedSpec, Rollout
from memcached_operator.api.validation import Invalid, parse


def parsed(**fields: Any) -> Memcached | Invalid:
    return parse("cache", "shop", "uid-1", 7, {"size": 3, **fields})


def problems(**fields: Any) -> list[str]:
    answer = parsed(**fields)
    assert isinstance(answer, Invalid), answer
    return [str(problem) for problem in answer.problems]


def test_a_size_is_enough() -> None:
    answer = parse("cache", "shop", "uid-1", 7, {"size": 3})
    assert answer == Memcached("cache", "shop", "uid-1", 7, MemcachedSpec(size=3))
    assert answer.spec.memory == 64
    assert answer.spec.max_connections == 1024
    assert answer.spec.threads == 4
    assert answer.spec.max_item_size == 1024
    assert answer.spec.verbosity == 1
    assert answer.spec.rollout == Rollout(max_surge=1, max_unavailable=0)
    assert answer.spec.deletion_policy is DeletionPolicy.DELETE
    assert answer.spec.drain_seconds == 30
    assert answer.spec.topology_spread_constraints is None


def test_no_spreading_is_not_the_default_spreading() -> None:
    answer = parsed(topologySpreadConstraints=[])
    assert isinstance(answer, Memcached)
    assert answer.spec.topology_spread_constraints == []


def test_unknown_fields_are_for_newer_operators() -> None:
    assert isinstance(parsed(colour="blue"), Memcached)


def test_null_is_as_good_as_nothing() -> None:
    answer = parsed(memory=None, rollout={"maxSurge": None}, podLabels={"a": None}, nodeSelector=None, image=None)
    assert isinstance(answer, Memcached)
    assert answer.spec == MemcachedSpec(size=3, rollout=Rollout(), pod_labels={})


def test_all_problems_are_told_at_once() -> None:
    assert problems(memory=0, threads="4", podLabels={"a": 1}) == [
        "spec.memory: must be at least 1, not 0",
        'spec.threads: must be a whole number, not "4"',
        "spec.podLabels[a]: must be a string, not 1",
    ]


def test_the_name_is_checked_with_the_spec() -> None:
    answer = parse("1st", "shop", "uid-1", 1, {"size": -1})
    assert isinstance(answer, Invalid)
    assert [problem.path for problem in answer.problems] == ["metadata.name", "spec.size"]


@pytest.mark.parametrize("name", ("a", "a-1", "x" * 46))
def test_names_that_fit(name: str) -> None:
    assert isinstance(parse(name, "shop", "uid-1", 1, {"size": 1}), Memcached)


@pytest.mark.parametrize("name", ("", "1a", "A", "a.b", "a-", "-a", "a\n", "x" * 47, "ä"))
def test_names_that_do_not_fit(name: str) -> None:
    answer = parse(name, "shop", "uid-1", 1, {"size": 1})
    assert isinstance(answer, Invalid)
    assert {problem.path for problem in answer.problems} == {"metadata.name"}


ONE_PROBLEM: tuple[tuple[str, object, str], ...] = (
    ("size", True, "spec.size: must be a whole number, not true"),
    ("memory", 2**21, "spec.memory: must be at most 1048576, not 2097152"),
    ("image", "x" * 513, "spec.image: is 513 characters long; at most 512 are allowed"),
    (
        "image",
        "a b",
        (
            "spec.image: is no image reference: write REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@sha256:DIGEST, "
            "the repository in lower case"
        ),
    ),
    (
        "maxItemSize",
        100,
        "spec.maxItemSize: memcached starts only with a multiple of 512 (KiB): use 512, 1024, 1536 and so on",
    ),
    (
        "maxItemSize",
        65536,
        (
            "spec.maxItemSize: maxItemSize 65536 KiB is more than half of memory 64 MiB, and memcached would not "
            "start: lower it to 32768, or raise memory"
        ),
    ),
    ("deletionPolicy", "delete", 'spec.deletionPolicy: must be Delete, Orphan or Drain, not "delete"'),
    ("paused", "yes", 'spec.paused: must be true or false, not "yes"'),
    ("rollout", 5, "spec.rollout: must be an object, not 5"),
    (
        "rollout",
        {"maxSurge": "some"},
        'spec.rollout.maxSurge: must be a whole number from 0 to 1000, or a percentage from "0%" to "100%", not "some"',
    ),
    (
        "rollout",
        {"maxSurge": "0%"},
        (
            "spec.rollout: maxSurge and maxUnavailable are both 0, so that no pod could ever be replaced: "
            "raise one of them"
        ),
    ),
    ("podLabels", {str(i): "" for i in range(65)}, "spec.podLabels: has 65 entries; at most 64 are allowed"),
    (
        "podLabels",
        {"app": "x", "memcached_cr": "y"},
        (
            "spec.podLabels: the labels app, memcached_cr, app.kubernetes.io/name, app.kubernetes.io/instance, "
            "app.kubernetes.io/managed-by, app.kubernetes.io/component, pod-template-hash are set on every pod: "
            'remove them ("app")'
        ),
    ),
    (
        "podLabels",
        {"x": "a b"},
        (
            "spec.podLabels[x]: a label value must be empty, or letters, digits, '-', '_' and '.', "
            "with a letter or digit at both ends"
        ),
    ),
    (
        "podAnnotations",
        {"cache.example.com/owner-uid": "x"},
        (
            "spec.podAnnotations: keys under cache.example.com/ belong to the operator: remove them "
            '("cache.example.com/owner-uid")'
        ),
    ),
    (
        "podAnnotations",
        {f"k{i}": "y" * 4096 for i in range(16)},
        (
            "spec.podAnnotations: the annotations have more than 65000 characters together: remove some, "
            "or keep large values in a ConfigMap"
        ),
    ),
    (
        "nodeSelector",
        {"a/b/c": "x"},
        (
            "spec.nodeSelector: the key of a label must be a name of up to 63 letters, digits, '-', '_' or '.', "
            "with an optional DNS prefix and '/' (\"a/b/c\")"
        ),
    ),
    ("tolerations", [5], "spec.tolerations[0]: must be an object, not 5"),
    ("tolerations", [{"operator": "Exists"}] * 33, "spec.tolerations: has 33 items; at most 32 are allowed"),
    (
        "tolerations",
        [{"key": "a", "operator": "In"}],
        'spec.tolerations[0].operator: must be one of "", Equal, Exists, not "In"',
    ),
    (
        "tolerations",
        [{"operator": "Exists"}, {"key": "a", "tolerationSeconds": 2**63, "effect": "NoExecute"}],
        (
            "spec.tolerations[1].tolerationSeconds: must be between -9223372036854775808 and 9223372036854775807, "
            "not 9223372036854775808"
        ),
    ),
    ("resources", {"limits": []}, "spec.resources.limits: must be an object, not a list"),
    (
        "resources",
        {"limits": {"cpu": "1K"}},
        'spec.resources.limits[cpu]: must be a quantity of zero or more, such as "500m", "1.5" or "128Mi"',
    ),
    ("resources", {"limits": {"cpu": 1.5}}, "spec.resources.limits[cpu]: must be a whole number or a string, not 1.5"),
    (
        "resources",
        {"limits": {"memory": "134Mi"}},
        (
            "spec.resources.limits: the memory limit is too small for memory 64 and maxConnections 1024: "
            "raise it to at least 135Mi, or remove it to have it computed"
        ),
    ),
    (
        "resources",
        {"requests": {"memory": "136Mi"}},
        (
            "spec.resources.requests: the memory request is larger than the computed limit of 135Mi: "
            "set resources.limits.memory too, or remove the request"
        ),
    ),
    (
        "resources",
        {"requests": {"cpu": 1}, "limits": {"cpu": "999m"}},
        "spec.resources.requests: requests.cpu is larger than limits.cpu: lower the request or raise the limit",
    ),
    ("imagePullSecrets", [{"name": "a"}, {"name": "a"}], 'spec.imagePullSecrets[1]: repeats "a": remove one of them'),
    ("imagePullSecrets", [{}], "spec.imagePullSecrets[0].name: is required"),
    (
        "affinity",
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
        (
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: "
            "needs at least 1 item"
        ),
    ),
)


@pytest.mark.parametrize(("field", "value", "expected"), ONE_PROBLEM)
def test_one_problem(field: str, value: object, expected: str) -> None:
    assert problems(**{field: value}) == [expected]


def test_threads_take_files_from_the_connections() -> None:
    assert problems(threads=64, maxConnections=331) == [
        (
            "spec.maxConnections: maxConnections 331 is too small for 64 threads, and memcached would not start: "
            "raise it to at least 332, or lower threads"
        )
    ]
    assert isinstance(parsed(threads=64, maxConnections=332), Memcached)


@pytest.mark.parametrize(
    "limit", ("135Mi", "141557760", 141557760, "141557.760k", "0.2G", "1e9", "1E", "99999999999999999E")
)
def test_a_limit_that_covers_the_need(limit: object) -> None:
    assert isinstance(parsed(resources={"limits": {"memory": limit}}), Memcached)


@pytest.mark.parametrize("limit", ("141557759", 141557759, "141557759999m", "0", "134Mi"))
def test_a_limit_a_byte_too_small(limit: object) -> None:
    assert isinstance(parsed(resources={"limits": {"memory": limit}}), Invalid)


def test_a_request_above_the_need_is_fine_with_a_limit() -> None:
    assert isinstance(parsed(resources={"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}), Memcached)


def test_rules_between_fields_wait_until_each_field_is_right() -> None:
    assert [p.split(":")[0] for p in problems(maxItemSize=65535, memory=64)] == ["spec.maxItemSize"]


def test_labels_that_only_we_care_for_are_the_users() -> None:
    labels = {"app.kubernetes.io/version": "1.6", "app.kubernetes.io/part-of": "shop"}
    assert isinstance(parsed(podLabels=labels), Memcached)


def test_a_summary_has_the_first_five() -> None:
    answer = parsed(tolerations=[1, 2, 3, 4, 5, 6, 7])
    assert isinstance(answer, Invalid)
    assert answer.summary() == (
        "spec.tolerations[0]: must be an object, not 1; spec.tolerations[1]: must be an object, not 2; "
        "spec.tolerations[2]: must be an object, not 3; spec.tolerations[3]: must be an object, not 4; "
        "spec.tolerations[4]: must be an object, not 5; and 2 more"
    )


def test_a_number_that_python_would_not_print() -> None:
    assert problems(size=10**5000) == ["spec.size: must be at most 1000, not a number that is far too long"]


def test_long_values_are_cut() -> None:
    assert problems(deletionPolicy="x" * 1000) == [
        f'spec.deletionPolicy: must be Delete, Orphan or Drain, not "{"x" * 57}..."'
    ]
