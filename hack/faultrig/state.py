"""What a namespace holds when a run is over, without what differs between two runs that went alike. Pure but `read`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.api import Api, object_path

Body = dict[str, Any]

MEMCACHEDS = "memcacheds"
DEPLOYMENTS = "deployments"
PODS = "pods"
CHILDREN = (DEPLOYMENTS, "services", "poddisruptionbudgets")
_READ = (
    ("cache.example.com/v1alpha1", MEMCACHEDS),
    ("apps/v1", DEPLOYMENTS),
    ("v1", "services"),
    ("policy/v1", "poddisruptionbudgets"),
    ("v1", PODS),
    ("events.k8s.io/v1", "events"),
)
OWNER_UID = "cache.example.com/owner-uid"
_GIVEN_BY_THE_CLUSTER = ("clusterIP", "clusterIPs")


@dataclass(frozen=True, slots=True)
class State:
    """Raw objects of one namespace: `objects[plural]` is a list of bodies."""

    objects: Mapping[str, Sequence[Body]]

    def of(self, plural: str) -> Sequence[Body]:
        """All of a kind."""
        return self.objects.get(plural, ())

    def named(self, plural: str, name: str) -> Body | None:
        """One, None when it is not there."""
        return next((body for body in self.of(plural) if body["metadata"]["name"] == name), None)

    def text(self) -> str:
        """Everything, to look for what must not be there."""
        return json.dumps(self.objects)


def read(api: Api, namespace: str) -> State:
    """Read a namespace. Raises ApiError."""
    return State({plural: api.get(object_path(version, plural, namespace))["items"] for version, plural in _READ})


def flat(state: State) -> dict[str, object]:
    """Each leaf of the state by its path, without times, versions, addresses, and names that were made up.

    A uid becomes the name of the object that has it, so that a child of a former object of the same name shows.
    """
    owners = {body["metadata"]["uid"]: f"{MEMCACHEDS}/{body['metadata']['name']}" for body in state.of(MEMCACHEDS)}
    found: dict[str, object] = {}
    for plural in (MEMCACHEDS, *CHILDREN):
        for body in state.of(plural):
            found.update(leaves(f"{plural}/{body['metadata']['name']}", _plain(plural, body, owners)))
    found.update(leaves(PODS, _pods(state)))
    return found


def differences(one: Mapping[str, object], other: Mapping[str, object], masked: frozenset[str]) -> list[str]:
    """Paths with their two values, but for the masked ones."""
    paths = sorted((one.keys() | other.keys()) - masked)
    return [
        f"{path}: {one.get(path, 'nothing')!r} != {other.get(path, 'nothing')!r}"
        for path in paths
        if one.get(path) != other.get(path)
    ]


def varying(runs: Sequence[Mapping[str, object]]) -> frozenset[str]:
    """Paths whose values differ between runs that went alike: they tell nothing."""
    paths = set().union(*runs)
    return frozenset(path for path in paths if any(run.get(path) != runs[0].get(path) for run in runs))


def _plain(plural: str, body: Body, owners: Mapping[str, str]) -> Body:
    metadata = body["metadata"]
    annotations = dict(metadata.get("annotations") or {})
    for counted in (
        "deployment.kubernetes.io/revision",
        "cache.example.com/desired-hash",
    ):  # the hash is of the uid too
        annotations.pop(counted, None)
    if OWNER_UID in annotations:
        annotations[OWNER_UID] = owners.get(annotations[OWNER_UID], "somebody who is gone")
    references = [
        {**reference, "uid": owners.get(reference["uid"], "somebody who is gone")}
        for reference in metadata.get("ownerReferences") or []
    ]
    spec = {key: value for key, value in body.get("spec", {}).items() if key not in _GIVEN_BY_THE_CLUSTER}
    return {
        "labels": metadata.get("labels") or {},
        "annotations": annotations,
        "finalizers": metadata.get("finalizers") or [],
        "deleting": "deletionTimestamp" in metadata,
        "ownerReferences": references,
        "spec": spec,
        **({"status": _status(body.get("status", {}))} if plural == MEMCACHEDS else {}),
    }


def _status(status: Body) -> Body:
    conditions = {c["type"]: {"status": c["status"], "reason": c["reason"]} for c in status.get("conditions", [])}
    counts = {key: len(status.get(key) or []) for key in ("nodes", "serverList")}
    return {**{key: status.get(key) for key in ("replicas", "readyReplicas")}, **counts, "conditions": conditions}


def _pods(state: State) -> Body:
    """How many pods run what for whom; their own names are made up by Kubernetes."""
    counted: Body = {}
    for pod in state.of(PODS):
        if "deletionTimestamp" in pod["metadata"]:
            continue
        container = pod["spec"]["containers"][0]
        whose = (pod["metadata"].get("labels") or {}).get("memcached_cr", "nobody")
        what = f"{container['image']} {' '.join(container.get('args', []))}"
        counted.setdefault(whose, {}).setdefault(what, 0)
        counted[whose][what] += 1
    return counted


def leaves(path: str, value: object) -> Iterator[tuple[str, object]]:
    """Every leaf of a body with its path."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(f"{path}.{key}", item)
    elif isinstance(value, list) and value:
        for number, item in enumerate(value):
            yield from leaves(f"{path}[{number}]", item)
    else:
        yield path, value
