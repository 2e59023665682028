from __future__ import annotations

import copy
from typing import Any

import pytest

from memcached_operator.resources.hashing import desired_hash, with_hash

ANNOTATION = "cache.example.com/desired-hash"


def manifest() -> dict[str, Any]:
    return {
        "kind": "Deployment",
        "metadata": {"name": "a", "labels": {"x": "1", "y": "2"}, "annotations": {"owner": "u"}},
        "spec": {"replicas": 1, "args": ["-m", "64"], "limit": 0, "on": True},
    }


def test_the_hash_is_the_same_in_every_process_and_release() -> None:
    # A literal on purpose: another value means a needless write for every child of every cluster after an upgrade.
    assert desired_hash(manifest()) == "53ee23014a086b86"


def test_the_order_of_keys_does_not_matter() -> None:
    def turned(value: Any) -> Any:
        return {key: turned(value[key]) for key in reversed(value)} if isinstance(value, dict) else value

    assert desired_hash(turned(manifest())) == desired_hash(manifest())


def test_neither_its_own_annotation_nor_replicas_count() -> None:
    other = manifest()
    other["metadata"]["annotations"][ANNOTATION] = "before"
    other["spec"]["replicas"] = 7
    assert desired_hash(other) == desired_hash(manifest())
    assert with_hash(other)["metadata"]["annotations"] == {"owner": "u", ANNOTATION: desired_hash(manifest())}


def test_hashing_changes_nothing() -> None:
    before = manifest()
    hashed = copy.deepcopy(before)
    desired_hash(hashed)
    assert hashed == before


@pytest.mark.parametrize(
    ("path", "value"),
    (
        (("kind",), "Service"),
        (("metadata", "name"), "b"),
        (("metadata", "labels", "x"), "2"),
        (("metadata", "annotations", "owner"), "v"),
        (("spec", "args"), ["64", "-m"]),
        (("spec", "limit"), "0"),
        (("spec", "limit"), False),
        (("spec", "on"), 1),
        (("spec", "new"), None),
    ),
)
def test_anything_else_does(path: tuple[str, ...], value: object) -> None:
    changed = manifest()
    parent = changed
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = value
    assert desired_hash(changed) != desired_hash(manifest())
