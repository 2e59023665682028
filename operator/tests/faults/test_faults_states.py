"""Chained states: one Memcached is taken through a thousand specs, bad ones among them, and never keeps a trace.

Most bugs do not show from nothing, only from the state before. `STATES=1000` is the full length.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy
from rig import Rig

from controlplane import wait_until
from controlplane.api import object_path
from controlplane.paths import REPOSITORY
from faultrig.oracles import ORACLES
from faultrig.state import differences, leaves, read
from memcached_specs import broken_specs, valid_specs
from memcacheds import CACHES

STATES = int(os.environ.get("STATES", "1000"))
TWIN_EVERY, BACK_EVERY, BAD_EVERY = 2, 5, 3
NAME, TWIN = "chain", "fresh"
_LABELS = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}
_KEYS = ({**_LABELS, "matchLabelKeys": ["c"]}, {**_LABELS, "mismatchLabelKeys": ["c"]})
_TERMS = {
    "requiredDuringSchedulingIgnoredDuringExecution": list(_KEYS),
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term} for term in _KEYS],
}
_SPREAD = {**_LABELS, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2}
RARE: tuple[dict[str, Any], ...] = (
    {"size": 1, "affinity": {"podAffinity": _TERMS, "podAntiAffinity": _TERMS}},
    {"size": 1, "topologySpreadConstraints": [{**_SPREAD, "nodeAffinityPolicy": "Ignore", "matchLabelKeys": ["c"]}]},
)
"""Fields that fit only together, which the random specs do without."""


def drawn(strategy: SearchStrategy[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """So many specs, the same in every run."""
    found: list[dict[str, Any]] = []

    @settings(max_examples=count, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(strategy)
    def collect(spec: dict[str, Any]) -> None:
        found.append(spec)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collect()
    return found[:count]


def properties(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Every property of a schema by its path."""
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}.{name}"
        yield from properties(inner, f"{path}.{name}")
    if "items" in schema:
        yield from properties(schema["items"], f"{path}[]")


def touched(value: object, path: str = "") -> Iterator[str]:
    """Every property that a spec has a value for."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield f"{path}.{name}"
            yield from touched(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for inner in value:
            yield from touched(inner, f"{path}[]")


def put(rig: Rig, name: str, spec: dict[str, Any]) -> int:
    """Make this the whole spec of the resource; the API server's status."""
    path = object_path(CACHES, "memcacheds", rig.namespace)
    body: dict[str, Any] = {"apiVersion": CACHES, "kind": "Memcached", "metadata": {"name": name}, "spec": spec}
    current = rig.caches.get(name)
    if current is None:
        return rig.api.request("POST", path, body)[0]
    body["metadata"] = {**current["metadata"], "managedFields": None}
    return rig.api.request("PUT", f"{path}/{name}", body)[0]


def reached(rig: Rig, name: str) -> bool:
    """Whether status and children speak of the present spec."""
    found = rig.caches.get(name)
    if found is None or found.get("status", {}).get("observedGeneration") != found["metadata"]["generation"]:
        return False
    state = read(rig.api, rig.namespace)
    only = type(state)({plural: [b for b in state.of(plural) if _is_of(b, name)] for plural in state.objects})
    return ORACLES["O5"](rig.evidence(rig.journal.mark(), only)) == []


def _is_of(body: dict[str, Any], name: str) -> bool:
    metadata = body["metadata"]
    return bool(metadata["name"] == name or (metadata.get("labels") or {}).get("memcached_cr") == name)


def test_chained_states(rig: Rig, record_property: Callable[[str, object], None]) -> None:
    crd = yaml.safe_load(next((REPOSITORY / "config" / "crd" / "bases").glob("*memcacheds*")).read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    wanted = set(properties(schema))
    seen: set[str] = set()
    operator = rig.start()
    wrong: list[str] = []
    bad = iter(drawn(broken_specs(), STATES))
    previous: dict[str, Any] | None = None
    refused = backs = 0
    specs = [*RARE, *drawn(valid_specs(), STATES - len(RARE))]
    for number, drawn_spec in enumerate(specs):
        seen |= set(touched(drawn_spec))
        # The size is the only field that costs pods, and paused is the only one that keeps the others from acting.
        spec = {**drawn_spec, "size": drawn_spec["size"] % 4, "paused": False, "drainSeconds": 0}
        status = put(rig, NAME, spec)
        if status >= 300:
            wrong.append(f"state {number}: {status} for {spec}")
            continue
        wait_until(lambda: reached(rig, NAME), 60, f"state {number} to be reached: {spec}")
        here = rig.look(NAME)
        if number % TWIN_EVERY == 0:
            wrong += [f"O4: state {number}: {line}" for line in _twin(rig, spec, here)]
        if number % BAD_EVERY == 0:
            status = put(rig, NAME, {"size": 1, **next(bad)})
            refused += status >= 400
            if status < 400 or rig.look(NAME) != here:
                wrong.append(f"state {number}: a bad spec was answered with {status}")
        if previous is not None and number % BACK_EVERY == 0:
            backs += 1
            wrong += [f"O6: state {number}: {line}" for line in _back(rig, previous)]
        previous = {"spec": spec, "look": here}
        assert operator.alive()
    record_property("states", len(specs))
    record_property("refused", refused)
    record_property("backs", backs)
    record_property("touched", len(wanted & seen))
    record_property("properties", len(wanted))
    wrong += ORACLES["O7"](rig.evidence(0)) + ORACLES["O9"](rig.evidence(0)) + ORACLES["O10"](rig.evidence(0))
    assert not wrong, "\n".join(wrong)
    if STATES >= 1000:
        assert sorted(wanted - seen) == []


def _twin(rig: Rig, spec: dict[str, Any], here: dict[str, Any]) -> list[str]:
    """Make the same from nothing, and compare."""
    put(rig, TWIN, spec)
    wait_until(lambda: reached(rig, TWIN), 60, f"a fresh one to be reached: {spec}")
    fresh = rig.look(TWIN)
    rig.caches.delete(TWIN)
    if spec.get("deletionPolicy") == "Orphan":
        wait_until(lambda: rig.caches.get(TWIN) is None, 30, "the twin to be gone")
        for version, plural in (("apps/v1", "deployments"), ("v1", "services"), ("policy/v1", "poddisruptionbudgets")):
            rig.api.request("DELETE", object_path(version, plural, rig.namespace, TWIN))
    rig.caches.wait_gone(TWIN, timeout=90)
    return _unlike(here, fresh)


def _back(rig: Rig, previous: dict[str, Any]) -> list[str]:
    """The spec of before brings the state of before."""
    put(rig, NAME, previous["spec"])
    wait_until(lambda: reached(rig, NAME), 60, f"the way back: {previous['spec']}")
    now = rig.look(NAME)
    return _unlike(previous["look"], now)


def _unlike(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    return differences(_filled(one), _filled(other), frozenset())


def _filled(look: dict[str, Any]) -> dict[str, object]:
    """The leaves that say something: an empty map is as good as none.

    imagePullPolicy is left to the API server, on purpose, which sets it by the tag of the first image and never again:
    a chain that began with another tag has another one than a fresh Deployment.
    """
    found = dict(leaves("", look))
    return {path: value for path, value in found.items() if value not in ({}, []) and "imagePullPolicy" not in path}


@pytest.mark.parametrize("spec", RARE, ids=("affinity", "spread"))
def test_the_rare_ones_are_taken(rig: Rig, spec: dict[str, Any]) -> None:
    assert put(rig, NAME, spec) == 201
