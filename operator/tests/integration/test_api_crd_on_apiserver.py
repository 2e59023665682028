"""The CRD on a real API server: it is served, and it judges every spec as `parse` does.

`CRD_CASES=1000` tries so many specs of each kind, instead of 60.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane import Api, ApiError, ControlPlane
from controlplane.api import object_path
from controlplane.paths import REPOSITORY
from memcached_operator.api.names import API_VERSION, GROUP, KIND, PLURAL
from memcached_operator.api.sizing import MIB, memory_need_mib
from memcached_operator.api.v1alpha1 import Memcached
from memcached_operator.api.validation import parse
from memcached_specs import broken_specs, valid_specs

SAMPLES = sorted((REPOSITORY / "config" / "samples").glob("cache_*.yaml"))
# Its page shows what is refused, and test_api_bad_inputs.py that it is.
NOT_PAGES = {"bad-inputs.md"}
PAGES = [
    page
    for page in (*sorted(REPOSITORY.glob("*.md")), *sorted((REPOSITORY / "docs").rglob("*.md")))
    if page.name not in NOT_PAGES
]
COLLECTION = f"{object_path(API_VERSION, PLURAL, 'default')}?dryRun=All&fieldValidation=Strict"

# The API server is one for all examples.
against_the_server = settings(
    max_examples=int(os.environ.get("CRD_CASES", "60")),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def refusal(api: Api, spec: object) -> str:
    """The API server's words about this spec; empty when it takes it."""
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "cache"}, "spec": spec}
    try:
        api.create(COLLECTION, body)
    except ApiError as error:
        return error.message
    return ""


@pytest.mark.usefixtures("crd")
def test_the_crd_is_established_and_structural(control_plane: ControlPlane) -> None:
    stored = control_plane.api.get(
        object_path("apiextensions.k8s.io/v1", "customresourcedefinitions", None, f"{PLURAL}.{GROUP}")
    )
    conditions = {condition["type"]: condition["status"] for condition in stored["status"]["conditions"]}
    # A schema that is not structural would show as a third one, NonStructuralSchema.
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert stored["status"]["acceptedNames"]["shortNames"] == ["mc"]


@pytest.mark.usefixtures("crd")
def test_nothing_of_the_crd_is_dropped(control_plane: ControlPlane) -> None:
    file = REPOSITORY / "config" / "crd" / "bases" / f"{GROUP}_{PLURAL}.yaml"
    ours = yaml.safe_load(file.read_text(encoding="utf-8"))
    stored = control_plane.api.get(
        object_path("apiextensions.k8s.io/v1", "customresourcedefinitions", None, f"{PLURAL}.{GROUP}")
    )
    assert stored["spec"]["versions"] == ours["spec"]["versions"]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
@pytest.mark.usefixtures("crd")
def test_samples_are_taken(control_plane: ControlPlane, sample: Path) -> None:
    assert refusal(control_plane.api, yaml.safe_load(sample.read_text(encoding="utf-8"))["spec"]) == ""


def memcacheds(page: Path) -> Iterator[dict[str, Any]]:
    """The Memcacheds among the page's snippets."""
    for snippet in re.findall(r"^```ya?ml\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        for document in yaml.safe_load_all(snippet):
            if isinstance(document, dict) and document.get("kind") == KIND:
                yield document


@pytest.mark.parametrize(
    "snippet",
    [
        pytest.param(snippet, id=f"{page.stem}-{number}")
        for page in PAGES
        for number, snippet in enumerate(memcacheds(page))
    ],
)
@pytest.mark.usefixtures("crd")
def test_snippets_of_the_documentation_are_taken(control_plane: ControlPlane, snippet: dict[str, Any]) -> None:
    assert snippet["apiVersion"] == API_VERSION
    assert refusal(control_plane.api, snippet["spec"]) == ""
    name = snippet["metadata"]["name"]
    assert isinstance(parse(name, "default", "uid-1", 1, snippet["spec"]), Memcached)


@pytest.mark.usefixtures("crd")
def test_the_api_server_fills_in_our_defaults(control_plane: ControlPlane) -> None:
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "cache"}, "spec": {"size": 1}}
    stored = control_plane.api.create(COLLECTION, body)
    with_defaults = parse("cache", "default", "uid-1", 1, stored["spec"])
    without = parse("cache", "default", "uid-1", 1, {"size": 1})
    assert isinstance(with_defaults, Memcached)
    assert isinstance(without, Memcached)
    assert with_defaults.spec == without.spec


@pytest.mark.usefixtures("crd")
def test_null_is_as_good_as_nothing(control_plane: ControlPlane) -> None:
    spec = {"size": 1, "memory": None, "rollout": {"maxSurge": None}, "podLabels": {"a": None}}
    assert refusal(control_plane.api, spec) == ""


def full_spec() -> dict[str, Any]:
    """A valid spec with as much in every list, map and text as fits."""
    key = f"{'x' * 63}.{'y' * 63}.{'z' * 57}/{'k' * 61}"
    keys = [f"{key}{number:02}" for number in range(64)]
    requirement = {"operator": "In", "values": ["v" * 63] * 32}
    node_term = {"matchExpressions": [{"key": key, **requirement} for key in keys[:16]]}
    selector = {
        "matchLabels": dict.fromkeys(keys[:16], "v" * 63),
        "matchExpressions": [{"key": key, **requirement} for key in keys[:16]],
    }
    pod_term = {
        "topologyKey": keys[0],
        "labelSelector": selector,
        "namespaceSelector": selector,
        "matchLabelKeys": keys[16:32],
        "mismatchLabelKeys": keys[32:48],
        "namespaces": ["n" * 63] * 16,
    }
    return {
        "size": 1000,
        "image": f"registry.example.com/{'i' * 400}:{'t' * 64}",
        "podLabels": dict.fromkeys(keys, "v" * 63),
        "podAnnotations": dict.fromkeys(keys, "\u20ac" * 760),
        "nodeSelector": dict.fromkeys(keys, "v" * 63),
        "tolerations": [{"key": keys[0], "operator": "Equal", "value": "v" * 63, "effect": "NoExecute"}] * 32,
        "imagePullSecrets": [{"name": f"{'s' * 250}{number:02}"} for number in range(16)],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": topology_key,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector,
                "matchLabelKeys": keys[16:32],
            }
            for topology_key in keys[:16]
        ],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [node_term] * 4},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": node_term}] * 2,
            },
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [pod_term] * 2},
        },
    }


@pytest.mark.usefixtures("crd")
def test_a_spec_that_is_full_to_the_brim_is_taken(control_plane: ControlPlane) -> None:
    # CEL has a budget at run time too: a valid resource must never use it up.
    spec = full_spec()
    assert isinstance(parse("cache", "default", "uid-1", 1, spec), Memcached)
    assert refusal(control_plane.api, spec) == ""


@given(spec=valid_specs())
@against_the_server
@pytest.mark.usefixtures("crd")
def test_a_right_spec_is_taken_by_both(control_plane: ControlPlane, spec: dict[str, Any]) -> None:
    answer = parse("cache", "default", "uid-1", 1, spec)
    assert (refusal(control_plane.api, spec), isinstance(answer, Memcached)) == ("", True)


@given(spec=broken_specs())
@against_the_server
@pytest.mark.usefixtures("crd")
def test_a_mistake_is_refused_by_both(control_plane: ControlPlane, spec: dict[str, Any]) -> None:
    answer = parse("cache", "default", "uid-1", 1, spec)
    assert refusal(control_plane.api, spec) != ""
    assert not isinstance(answer, Memcached)


@given(memory=st.integers(2, 1_048_576), connections=st.integers(32, 65_536))
@against_the_server
@pytest.mark.usefixtures("crd")
def test_cel_computes_the_same_need(control_plane: ControlPlane, memory: int, connections: int) -> None:
    need = memory_need_mib(memory, connections)
    spec = {"size": 1, "memory": memory, "maxConnections": connections}
    enough = {"limits": {"memory": need * MIB}}
    assert refusal(control_plane.api, {**spec, "resources": enough}) == ""
    byte_less = {"limits": {"memory": need * MIB - 1}}
    assert f"raise it to at least {need}Mi," in refusal(control_plane.api, {**spec, "resources": byte_less})


STATUS = {
    "nodes": ["cache-1-a"],
    "replicas": 1,
    "readyReplicas": 1,
    "selector": "app=memcached,memcached_cr=cache",
    "serverList": ["10.0.0.1:11211", "[fd00::1]:11211"],
    "observedGeneration": 1,
    "conditions": [
        {
            "type": kind,
            "status": status,
            "reason": "AllReady",
            "message": "1 of 1 pods ready",
            "lastTransitionTime": "2025-01-01T00:00:00Z",
            "observedGeneration": 1,
        }
        for kind, status in (("Ready", "True"), ("Available", "True"), ("Progressing", "False"), ("Degraded", "False"))
    ],
}


@pytest.mark.usefixtures("crd")
def test_scale_status_and_columns(control_plane: ControlPlane, namespace: str) -> None:
    collection = object_path(API_VERSION, PLURAL, namespace)
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "cache"}, "spec": {"size": 1}}
    control_plane.api.create(collection, body)
    control_plane.api.patch(f"{collection}/cache/status", {"status": STATUS})
    control_plane.kubectl("scale", "mc/cache", "-n", namespace, "--replicas=4")
    stored = control_plane.api.get(f"{collection}/cache")
    assert stored["spec"]["size"] == 4
    assert stored["status"] == STATUS
    scale = control_plane.api.get(f"{collection}/cache/scale")
    assert scale["status"] == {"replicas": 1, "selector": "app=memcached,memcached_cr=cache"}
    header, row = control_plane.kubectl("get", "mc", "-n", namespace).stdout.splitlines()
    assert header.split() == ["NAME", "SIZE", "READY", "AVAILABLE", "REASON", "AGE"]
    assert row.split()[:-1] == ["cache", "4", "1", "True", "AllReady"]
    assert (
        "memcached.cache.example.com/cache" in control_plane.kubectl("get", "all", "-n", namespace, "-o", "name").stdout
    )
