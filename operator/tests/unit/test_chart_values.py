"""The chart's values: each is in the schema, each has words, and nothing else is taken. Needs no helm."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from memcached_operator import settings
from memcached_operator.kube.permissions import LEASE

CHART = Path(__file__).parents[3] / "helm" / "memcached-operator"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
VALIDATOR = Draft7Validator(SCHEMA)
CI = sorted((CHART / "ci").glob("*.yaml"))
KUBERNETES_OWN = {"object", "named"}
"""Definitions of what goes to the API server as it is: open, for the fields of later versions."""

KUBERNETES_FIELDS = {
    (name,) for name in ("affinity", "livenessProbe", "readinessProbe", "resources", "startupProbe", "updateStrategy")
}
"""Values with the fields of a Kubernetes type, of which the default gives some: one value, with one line of words."""

Node = dict[str, Any]


def resolved(node: Node) -> Node:
    while "$ref" in node:
        node = SCHEMA["definitions"][node["$ref"].rpartition("/")[2]]
    return node


def merged(values: Node, over: Node) -> Node:
    """As helm does it: objects are merged, null removes."""
    result = copy.deepcopy(values)
    for key, value in over.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = merged(result.get(key, {}), value)
        else:
            result[key] = value
    return result


def sections(node: Node, values: Node, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Node, Node]]:
    """Path, schema and default of every object whose keys are ours."""
    node = resolved(node)
    if "properties" not in node:
        return
    yield path, node, values
    for key, inner in node["properties"].items():
        if isinstance(values.get(key), dict):
            yield from sections(inner, values[key], (*path, key))


def leaves(values: Node, node: Node, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in values.items():
        inner = resolved(resolved(node)["properties"][key])
        if isinstance(value, dict) and "properties" in inner and (*path, key) not in KUBERNETES_FIELDS:
            yield from leaves(value, inner, (*path, key))
        else:
            yield (*path, key)


def refused(values: Node) -> bool:
    return not VALIDATOR.is_valid(values)


def put(path: tuple[str, ...], value: object) -> Node:
    """The defaults with one value in another's place."""
    result = copy.deepcopy(VALUES)
    *way, last = path
    inner = result
    for key in way:
        inner = inner.setdefault(key, {})
    inner[last] = value
    return result


LEAVES = sorted(leaves(VALUES, SCHEMA))
SECTIONS = {path: (node, values) for path, node, values in sections(SCHEMA, VALUES)}


def test_the_schema_is_a_schema() -> None:
    Draft7Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("values", CI, ids=lambda path: path.stem)
def test_what_the_examples_say_is_taken(values: Path) -> None:
    over = yaml.safe_load(values.read_text(encoding="utf-8")) or {}
    assert [error.message for error in VALIDATOR.iter_errors(merged(VALUES, over))] == []


def test_every_default_is_in_the_schema_and_every_property_has_a_default() -> None:
    for path, (node, values) in SECTIONS.items():
        known = set(node["properties"]) - ({"global"} if not path else set())
        assert set(values) <= known, path
        if path not in KUBERNETES_FIELDS:
            assert known == set(values), path


def objects(node: Any) -> Iterator[Node]:
    if isinstance(node, dict):
        if node.get("type") == "object":
            yield node
        for value in node.values():
            yield from objects(value)
    elif isinstance(node, list):
        for value in node:
            yield from objects(value)


def test_every_object_of_ours_is_closed() -> None:
    closed = {name: node for name, node in SCHEMA["definitions"].items() if name not in KUBERNETES_OWN}
    ours = {key: node for key, node in SCHEMA["properties"].items() if key != "global"}
    for node in (*objects(closed), *objects(ours)):
        assert "additionalProperties" in node, node
    assert SCHEMA["additionalProperties"] is False


@pytest.mark.parametrize("path", SECTIONS, ids=".".join)
def test_an_unknown_value_is_refused(path: tuple[str, ...]) -> None:
    assert refused(put((*path, "unknown"), 1))


@pytest.mark.parametrize("path", LEAVES, ids=".".join)
def test_a_value_of_another_type_is_refused(path: tuple[str, ...]) -> None:
    assert refused(put(path, [[]]))  # no value is a list of lists


@pytest.mark.parametrize(
    ("path", "value"),
    (
        (("replicas",), -1),
        (("replicas",), "2"),
        (("workers",), 0),
        (("workers",), 101),
        (("resyncSeconds",), 9),
        (("log", "level"), "verbose"),
        (("log", "format"), "auto"),
        (("image", "pullPolicy"), "always"),
        (("image", "tag"), "a b"),
        (("image", "digest"), "e3b0c442"),
        (("image", "repository"), "a/b@sha256:1"),
        (("memcachedImage",), ""),
        (("watchNamespaces",), "team-a,team-b"),
        (("watchNamespaces",), ["Team"]),
        (("watchNamespaces",), ["a", "a"]),
        (("extraArgs",), ["workers=3"]),
        (("metrics", "port"), 8081),
        (("metrics", "port"), 0),
        (("metrics", "podMonitor", "interval"), "30"),
        (("podDisruptionBudget", "maxUnavailable"), "half"),
        (("livenessProbe", "httpGet"), {"path": "/"}),
        (("admissionPolicy", "validationActions"), []),
        (("networkPolicy", "apiServerPorts"), []),
    ),
    ids=str,
)
def test_a_value_that_could_not_work_is_refused(path: tuple[str, ...], value: object) -> None:
    assert refused(put(path, value))


def test_what_helm_gives_a_dependency_is_taken() -> None:
    assert not refused({**VALUES, "global": {"imageRegistry": "x"}})


def test_defaults_are_those_of_the_operator() -> None:
    parsed = settings.parse(["run"], {"POD_NAMESPACE": "x"})
    election = parsed.leader_election
    assert election is not None
    assert VALUES["memcachedImage"] == parsed.default_image
    assert VALUES["workers"] == parsed.workers
    assert VALUES["resyncSeconds"] == parsed.resync_seconds
    assert VALUES["log"]["level"] == parsed.log_level
    assert VALUES["leaderElection"] == {
        "enabled": True,
        "leaseSeconds": election.lease_seconds,
        "renewDeadlineSeconds": election.renew_deadline_seconds,
        "retrySeconds": election.retry_seconds,
    }
    # The names of config/default and of a release called like the chart are the same.
    assert yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["name"] == LEASE


def test_the_readme_has_words_for_every_value() -> None:
    readme = (CHART / "README.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (\S+) \| (?:bool|int|list|object|string) \| .* \| (.*) \|$", readme, re.MULTILINE))
    assert set(rows) == {".".join(path) for path in LEAVES}
    assert [name for name, words in rows.items() if not words.strip()] == []
