from __future__ import annotations

import copy
from typing import Any

import pytest

from memcached_operator.resources.comparison import covers


def manifest(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Any", "metadata": {"name": "a", **metadata}, "spec": spec}


def difference(wanted: dict[str, Any], found: dict[str, Any]) -> str | None:
    before = copy.deepcopy((wanted, found))
    result = covers(manifest(wanted), manifest(found))
    assert (wanted, found) == before
    return result


CONTAINER = {"name": "memcached", "image": "a"}

EQUAL: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "the same": ({"a": {"b": [1, "x"]}}, {"a": {"b": [1, "x"]}}),
    "fields of others": ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}, "d": 3}),
    "replicas have their own subresource": ({"replicas": 1}, {"replicas": 7}),
    "replicas, taken by an autoscaler": ({"replicas": 1}, {}),
    "a side-car before ours": ({"containers": [CONTAINER]}, {"containers": [{"name": "proxy"}, CONTAINER]}),
    "an environment variable of others": (
        {"containers": [CONTAINER]},
        {"containers": [{**CONTAINER, "env": [{"name": "A"}]}]},
    ),
    "another order of an associative list": (
        {"imagePullSecrets": [{"name": "a"}, {"name": "b"}]},
        {"imagePullSecrets": [{"name": "b"}, {"name": "a"}]},
    ),
    "a service port of others": (
        {"ports": [{"port": 1, "protocol": "TCP"}]},
        {"ports": [{"port": 1, "protocol": "UDP"}, {"port": 1, "protocol": "TCP", "nodePort": 3}]},
    ),
    "a container port of others": (
        {"ports": [{"containerPort": 1, "protocol": "TCP"}]},
        {"ports": [{"containerPort": 2, "protocol": "TCP"}, {"containerPort": 1, "protocol": "TCP"}]},
    ),
    "mounts, by where they are": (
        {"volumeMounts": [{"mountPath": "/b", "name": "v"}]},
        {"volumeMounts": [{"mountPath": "/b", "name": "v"}, {"mountPath": "/a", "name": "v"}]},
    ),
    "defaults in a spread constraint": (
        {"topologySpreadConstraints": [{"topologyKey": "k", "whenUnsatisfiable": "w", "maxSkew": 1}]},
        {
            "topologySpreadConstraints": [
                {"topologyKey": "k", "whenUnsatisfiable": "w", "maxSkew": 1, "nodeTaintsPolicy": "Honor"},
                {"topologyKey": "k", "whenUnsatisfiable": "other", "maxSkew": 1},
            ]
        },
    ),
    "quantities, as numbers": ({"limits": {"memory": "1Gi"}}, {"limits": {"memory": "1024Mi", "cpu": "1"}}),
    "false is not stored": ({"publishNotReadyAddresses": False}, {}),
    "nor 0, empty text, list, map, null": ({"a": 0, "b": "", "c": [], "d": {}, "e": None}, {}),
    "nor where others write it": ({"a": 0, "c": []}, {"a": None, "c": None}),
    "an empty map in a map": ({"affinity": {"podAffinity": {"required": []}}}, {"affinity": {"podAffinity": {}}}),
    "a map of nothing": ({"affinity": {"podAffinity": {"required": []}}}, {}),
    "an empty field in an atomic list": (
        {"tolerations": [{"key": "a", "value": ""}]},
        {"tolerations": [{"key": "a", "effect": ""}]},
    ),
    "an empty field in a selector": ({"selector": {"matchLabels": {}}}, {"selector": {"matchExpressions": None}}),
}


@pytest.mark.parametrize("case", EQUAL)
def test_no_difference(case: str) -> None:
    assert difference(*EQUAL[case]) is None


DIFFERENT: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a value": ({"a": {"b": 1}}, {"a": {"b": 2}}, "spec.a.b: 1 wanted, 2 found"),
    "a type": ({"a": 1}, {"a": "1"}, "spec.a: 1 wanted, '1' found"),
    "a missing field": ({"a": {"b": 1}}, {"a": {}}, "spec.a.b: 1 wanted, nothing found"),
    "a missing map": ({"a": {"b": 1}}, {}, "spec.a: {'b': 1} wanted, nothing found"),
    "null instead of a map": ({"a": {"b": 1}}, {"a": None}, "spec.a: {'b': 1} wanted, None found"),
    "a map instead of a value": ({"a": 1}, {"a": {}}, "spec.a: 1 wanted, {} found"),
    "a value instead of a list": ({"a": [1]}, {"a": 1}, "spec.a: [1] wanted, 1 found"),
    "a value where none is wanted": ({"a": False}, {"a": True}, "spec.a: False wanted, True found"),
    "an image": (
        {"template": {"containers": [CONTAINER]}},
        {"template": {"containers": [{"name": "proxy"}, {**CONTAINER, "image": "b"}]}},
        "spec.template.containers[memcached].image: 'a' wanted, 'b' found",
    ),
    "a missing container": (
        {"containers": [CONTAINER]},
        {"containers": [{"name": "proxy"}]},
        "spec.containers[memcached]: {'name': 'memcached', 'image': 'a'} wanted, nothing found",
    ),
    "an argument": ({"args": ["-m", "64"]}, {"args": ["-m", "65"]}, "spec.args[1]: '64' wanted, '65' found"),
    "the order of an atomic list": ({"args": ["a", "b"]}, {"args": ["b", "a"]}, "spec.args[0]: 'a' wanted, 'b' found"),
    "one argument more": ({"args": ["a"]}, {"args": ["a", "b"]}, "spec.args: ['a'] wanted, ['a', 'b'] found"),
    "a field more in an atomic list": (
        {"tolerations": [{"key": "a"}]},
        {"tolerations": [{"key": "a", "effect": "NoSchedule"}]},
        "spec.tolerations[0].effect: nothing wanted, 'NoSchedule' found",
    ),
    "a label more in a Service's selector": (
        {"selector": {"app": "memcached"}},
        {"selector": {"app": "memcached", "x": "y"}},
        "spec.selector.x: nothing wanted, 'y' found",
    ),
    "an expression more in a selector": (
        {"selector": {"matchLabels": {"app": "memcached"}}},
        {"selector": {"matchLabels": {"app": "memcached"}, "matchExpressions": [{"key": "x"}]}},
        "spec.selector.matchExpressions: nothing wanted, [{'key': 'x'}] found",
    ),
    "a label more in a node selector": (
        {"nodeSelector": {"disk": "ssd"}},
        {"nodeSelector": {"disk": "ssd", "example.com/zone": "a"}},
        "spec.nodeSelector[example.com/zone]: nothing wanted, 'a' found",
    ),
    "a service port": (
        {"ports": [{"port": 1, "protocol": "TCP", "name": "a"}]},
        {"ports": [{"port": 1, "protocol": "TCP", "name": "b"}]},
        "spec.ports[1,TCP].name: 'a' wanted, 'b' found",
    ),
    "a container port": (
        {"ports": [{"containerPort": 1, "protocol": "TCP", "name": "a"}]},
        {"ports": [{"containerPort": 1, "protocol": "TCP"}]},
        "spec.ports[1,TCP].name: 'a' wanted, nothing found",
    ),
    "a quantity": (
        {"limits": {"memory": "1Gi"}},
        {"limits": {"memory": "1G"}},
        "spec.limits.memory: '1Gi' wanted, '1G' found",
    ),
    "a missing quantity": (
        {"limits": {"memory": "1Gi"}},
        {"limits": {}},
        "spec.limits.memory: '1Gi' wanted, nothing found",
    ),
    "false, where none means true": (
        {"automountServiceAccountToken": False},
        {},
        "spec.automountServiceAccountToken: False wanted, nothing found",
    ),
    "0, where none means for ever": (
        {"tolerations": [{"tolerationSeconds": 0}]},
        {"tolerations": [{}]},
        "spec.tolerations[0].tolerationSeconds: 0 wanted, nothing found",
    ),
    "all, where none means none": (
        {"terms": [{"labelSelector": {}}]},
        {"terms": [{}]},
        "spec.terms[0].labelSelector: {} wanted, nothing found",
    ),
    "none, where all is found": (
        {"terms": [{}]},
        {"terms": [{"namespaceSelector": {}}]},
        "spec.terms[0].namespaceSelector: nothing wanted, {} found",
    ),
    "an associative list inside an atomic one": (
        {"terms": [{"env": [{"name": "a"}]}]},
        {"terms": [{"env": [{"name": "a"}, {"name": "b"}]}]},
        "spec.terms[0].env: [{'name': 'a'}] wanted, [{'name': 'a'}, {'name': 'b'}] found",
    ),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_the_first_difference_in_words(case: str) -> None:
    wanted, found, words = DIFFERENT[case]
    assert difference(wanted, found) == words


def test_a_difference_is_short_enough_for_an_event() -> None:
    words = difference({"args": ["x" * 5000]}, {"args": []})
    assert words is not None
    assert len(words) < 300


OWNER = {"uid": "1", "kind": "Memcached", "controller": True}


@pytest.mark.parametrize(
    ("wanted", "found", "words"),
    (
        ({"labels": {"a": "b"}}, {"labels": {"a": "b", "c": "d"}}, None),
        ({"labels": {"a": "b"}}, {"labels": {"a": "c"}}, "metadata.labels.a: 'b' wanted, 'c' found"),
        ({"labels": {"a": "b"}}, {}, "metadata.labels: {'a': 'b'} wanted, nothing found"),
        (
            {"annotations": {"cache.example.com/owner-uid": "1"}},
            {"annotations": {"cache.example.com/owner-uid": "2"}},
            "metadata.annotations[cache.example.com/owner-uid]: '1' wanted, '2' found",
        ),
        ({"ownerReferences": [OWNER]}, {"ownerReferences": [{"uid": "0"}, {**OWNER, "name": "a"}]}, None),
        (
            {"ownerReferences": [OWNER]},
            {"ownerReferences": [{**OWNER, "controller": False}]},
            "metadata.ownerReferences[1].controller: True wanted, False found",
        ),
        ({}, {"ownerReferences": [OWNER], "finalizers": ["x"], "uid": "9"}, None),
        ({"name": "b", "namespace": "c"}, {}, None),
    ),
)
def test_metadata(wanted: dict[str, Any], found: dict[str, Any], words: str | None) -> None:
    assert covers(manifest({}, **wanted), manifest({}, **found)) == words


@pytest.mark.parametrize("observed", ({}, {"metadata": None, "spec": None}, {"metadata": {}, "spec": {}}))
def test_an_object_that_is_hardly_there(observed: dict[str, Any]) -> None:
    assert covers(manifest({"a": 1}), observed) == "spec.a: 1 wanted, nothing found"
    assert covers(manifest({"replicas": 1, "a": 0}), observed) is None
