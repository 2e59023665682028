"""What holds for every valid spec: it builds, always the same, and is compared neither too loosely nor too strictly."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memcached_operator.api.sizing import memory_need_mib
from memcached_operator.api.v1alpha1 import Memcached
from memcached_operator.api.validation import parse
from memcached_operator.resources.comparison import covers
from memcached_operator.resources.desired import desired_resources
from memcached_operator.resources.hashing import desired_hash
from memcached_operator.resources.manifest import Manifest
from memcached_operator.resources.quantity import canonical_quantity

HASH = "cache.example.com/desired-hash"

words = st.text("abcz09", min_size=1, max_size=8)
keys = st.builds("{}/{}".format, words, words) | words
maps = st.dictionaries(keys, words | st.just(""), max_size=3)
selectors: st.SearchStrategy[dict[str, Any]] = st.just({}) | st.fixed_dictionaries({"matchLabels": maps})
cpus = st.sampled_from([1, 2, "500m", "0.5", "1000m", "1.500", "2e0", "+1"])


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


tolerations = st.fixed_dictionaries(
    {"key": words, "operator": st.just("Exists"), "effect": st.just("NoExecute")},
    optional={"tolerationSeconds": st.integers(0, 3), "value": st.just("")},
)
pod_terms = st.fixed_dictionaries(
    {"topologyKey": keys}, optional={"labelSelector": selectors, "namespaceSelector": selectors}
)
affinities = optional(
    podAntiAffinity=optional(requiredDuringSchedulingIgnoredDuringExecution=st.lists(pod_terms, max_size=2)),
    podAffinity=optional(
        preferredDuringSchedulingIgnoredDuringExecution=st.lists(
            st.fixed_dictionaries({"weight": st.integers(1, 100), "podAffinityTerm": pod_terms}), max_size=2
        )
    ),
)
spreads = st.lists(
    st.fixed_dictionaries(
        {"maxSkew": st.integers(1, 3), "topologyKey": keys, "whenUnsatisfiable": st.just("ScheduleAnyway")},
        optional={"labelSelector": selectors},
    ),
    max_size=3,
    unique_by=lambda spread: spread["topologyKey"],
)
rollouts = st.sampled_from(
    [{}, {"maxSurge": 2}, {"maxSurge": 0, "maxUnavailable": 1}, {"maxSurge": "50%", "maxUnavailable": "0%"}]
)


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    """A raw spec that is valid by construction."""
    memory = draw(st.integers(1, 5000))
    connections = draw(st.integers(400, 65_536))
    spec: dict[str, Any] = {"size": draw(st.integers(0, 1000)), "memory": memory, "maxConnections": connections}
    spec["maxItemSize"] = draw(st.sampled_from([512, 1024, 2048])) if memory >= 4 else 512
    need = memory_need_mib(memory, connections)
    resources = optional(
        limits=optional(cpu=st.sampled_from([8, "9000m"]), memory=st.integers(need, need + 3).map("{}Mi".format)),
        requests=optional(cpu=cpus, memory=st.integers(0, need).map("{}Mi".format)),
    )
    return spec | draw(
        optional(
            threads=st.integers(1, 64),
            verbosity=st.integers(0, 3),
            image=words,
            resources=resources,
            podAnnotations=maps,
            podLabels=maps,
            nodeSelector=maps,
            tolerations=st.lists(tolerations, max_size=3),
            affinity=affinities,
            topologySpreadConstraints=st.none() | spreads,
            priorityClassName=words,
            imagePullSecrets=st.lists(words.map(lambda name: {"name": name}), max_size=3, unique_by=str),
            rollout=rollouts,
            deletionPolicy=st.sampled_from(["Delete", "Orphan", "Drain"]),
            paused=st.booleans(),
        )
    )


def parsed(spec: dict[str, Any]) -> Memcached:
    memcached = parse("cache", "shop", "uid-1", 1, spec)
    assert isinstance(memcached, Memcached), memcached
    return memcached


def build(spec: dict[str, Any]) -> tuple[Manifest, ...]:
    return desired_resources(parsed(spec), default_image="cache:1", replicas=spec["size"])


manifests = st.builds(build, specs()).flatmap(st.sampled_from)


# --- what an API server makes of a manifest ---------------------------------------------------------------------------

POINTERS = {
    *("allowPrivilegeEscalation", "automountServiceAccountToken", "enableServiceLinks", "tolerationSeconds"),
    *("labelSelector", "namespaceSelector", "maxSurge", "maxUnavailable", "replicas"),
}
"""Fields whose empty value Go stores, of those that we write (`*bool`, `*int64`, ... in k8s.io/api)."""

NOTHING: tuple[Any, ...] = (None, False, 0, "", {}, [])


def without_nothing(value: Any) -> Any:
    if isinstance(value, dict):
        stored = {key: without_nothing(item) for key, item in value.items()}
        return {key: item for key, item in stored.items() if key in POINTERS or item not in NOTHING}
    return [without_nothing(item) for item in value] if isinstance(value, list) else value


def as_stored(manifest: Manifest) -> dict[str, Any]:
    """The manifest after the API server's defaults, controllers and other people's tools."""
    stored: dict[str, Any] = without_nothing(copy.deepcopy(manifest))
    stored["metadata"] |= {"uid": "x", "resourceVersion": "7", "generation": 2, "managedFields": [{"manager": "a"}]}
    stored["metadata"]["labels"]["theirs"] = "y"
    stored["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = "1"
    stored["status"] = {"observedGeneration": 2}
    spec = stored["spec"]
    if stored["kind"] == "Service":
        spec |= {"internalTrafficPolicy": "Cluster", "clusterIPs": ["None"], "sessionAffinity": "None"}
    if stored["kind"] == "Deployment":
        spec["progressDeadlineSeconds"] = 600
        spec["template"]["metadata"].setdefault("annotations", {})["kubectl.kubernetes.io/restartedAt"] = "now"
        pod = spec["template"]["spec"]
        pod |= {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler"}
        pod["containers"][0] |= {"imagePullPolicy": "IfNotPresent", "env": [{"name": "THEIRS", "value": "1"}]}
        pod["containers"][0]["readinessProbe"] |= {"successThreshold": 1, "timeoutSeconds": 1}
        pod["containers"].insert(0, {"name": "side-car", "image": "proxy:1"})
        for constraint in pod.get("topologySpreadConstraints", []):
            constraint["nodeTaintsPolicy"] = "Ignore"
    return stored


Path = tuple[str | int, ...]


def leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not items or value in NOTHING:
        yield path
    for key, item in items:
        yield from leaves(item, (*path, key))


def owned_leaves(manifest: Manifest) -> list[Path]:
    """Leaves of the fields that `covers` speaks for."""
    metadata = manifest["metadata"]
    compared = {key: metadata[key] for key in ("labels", "annotations", "ownerReferences") if key in metadata}
    spec = {key: value for key, value in manifest["spec"].items() if key != "replicas"}
    return list(leaves({"metadata": compared, "spec": spec}))


def parent_of(manifest: Any, path: Path) -> Any:
    for step in path[:-1]:
        manifest = manifest[step]
    return manifest


GRANULAR_WHEN_EMPTY = ("podAffinity", "podAntiAffinity")
"""Maps that may be written empty, and to which others may add."""


def is_stored(manifest: Manifest, path: Path) -> bool:
    """Whether the API server keeps this leaf, so that it can be lost."""
    return path[-1] in POINTERS or parent_of(manifest, path)[path[-1]] not in NOTHING


def with_another(manifest: Manifest, path: Path) -> Manifest:
    """The manifest with another value at this leaf."""
    changed = copy.deepcopy(manifest)
    parent = parent_of(changed, path)
    parent[path[-1]] = other(parent[path[-1]])
    return changed


def other(value: Any) -> Any:
    """Another value of the same type."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            return "12345" if value != "12345" else "54321"
        case dict():
            return {"theirs": "x"}
        case _:
            return [*value, "theirs"]


# --- properties -------------------------------------------------------------------------------------------------------


@given(specs())
def test_every_valid_spec_builds_plain_json_without_null(spec: dict[str, Any]) -> None:
    for manifest in build(spec):
        text = json.dumps(manifest, allow_nan=False)
        assert json.loads(text) == manifest
        assert ": null" not in text


@given(specs())
def test_the_same_spec_gives_the_same_bytes(spec: dict[str, Any]) -> None:
    assert json.dumps(build(spec)) == json.dumps(build(copy.deepcopy(spec)))


@given(specs())
def test_what_is_done_to_a_manifest_never_reaches_the_spec(spec: dict[str, Any]) -> None:
    memcached = parsed(spec)

    def built() -> tuple[Manifest, ...]:
        return desired_resources(memcached, default_image="cache:1", replicas=2)

    before = copy.deepcopy(built())
    for manifest in built():
        for path in leaves(manifest):
            parent_of(manifest, path)[path[-1]] = "changed"
    assert built() == before


@given(specs())
def test_quantities_are_canonical(spec: dict[str, Any]) -> None:
    container = build(spec)[1]["spec"]["template"]["spec"]["containers"][0]
    for quantities in container["resources"].values():
        assert quantities["memory"]
        assert {name: canonical_quantity(quantity) for name, quantity in quantities.items()} == quantities


@given(manifests)
def test_a_manifest_covers_itself(manifest: Manifest) -> None:
    assert covers(manifest, manifest) is None


@given(manifests)
def test_what_the_api_server_and_others_add_is_no_difference(manifest: Manifest) -> None:
    assert covers(manifest, as_stored(manifest)) is None


@given(manifests)
def test_a_changed_leaf_is_seen(manifest: Manifest) -> None:
    for path in owned_leaves(manifest):
        if path[-1] not in GRANULAR_WHEN_EMPTY:
            assert covers(manifest, without_nothing(with_another(manifest, path))) is not None, path


@given(manifests)
def test_a_lost_leaf_is_seen(manifest: Manifest) -> None:
    for path in owned_leaves(manifest):
        if is_stored(manifest, path):
            lost = copy.deepcopy(manifest)
            del parent_of(lost, path)[path[-1]]
            assert covers(manifest, without_nothing(lost)) is not None, path


@given(manifests)
def test_the_hash_changes_with_every_leaf(manifest: Manifest) -> None:
    for path in leaves(manifest):
        ignored = path in (("spec", "replicas"), ("metadata", "annotations", HASH))
        assert (desired_hash(with_another(manifest, path)) == desired_hash(manifest)) is ignored, path


@given(specs(), specs(), st.integers(0, 5))
def test_the_hash_changes_only_with_the_manifest(one: dict[str, Any], two: dict[str, Any], replicas: int) -> None:
    first = desired_resources(parsed(one), default_image="cache:1", replicas=2)
    # Half a chance that nothing but the number of replicas differs.
    second = desired_resources(parsed(one if replicas % 2 else two), default_image="cache:1", replicas=replicas + 2)
    for a, b in zip(first, second, strict=True):
        same = without(a) == without(b)
        assert (desired_hash(a) == desired_hash(b)) is same
        assert (a["metadata"]["annotations"][HASH] == b["metadata"]["annotations"][HASH]) is same


def without(manifest: Manifest) -> Manifest:
    """The manifest without what its hash leaves out."""
    left = copy.deepcopy(manifest)
    del left["metadata"]["annotations"][HASH]
    left["spec"].pop("replicas", None)
    return left
