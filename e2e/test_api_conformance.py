"""A Memcached behaves as any Kubernetes object: to kubectl, autoscalers, field managers, the garbage collector."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from real_cluster import READY, Cluster, nodes, roundtrip, to_json, wait_condition, wait_serving

from controlplane import wait_until
from controlplane.api import object_path
from controlplane.paths import REPOSITORY
from memcached_operator.memcached.client import Client
from memcacheds import CACHES, Memcacheds

Kubectl = Callable[..., str]
SAMPLES = REPOSITORY / "config" / "samples"
SELECTOR = "--selector=app=memcached,memcached_cr=cache"
IS_READY = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'
FIELD = re.compile(
    r"^  (?P<name>\w+)\t<(?P<type>.+?)>.*\n(?:  enum: .*\n)?(?P<description>(?:    .*\n)*)", re.MULTILINE
)


@pytest.fixture
def kubectl(cluster: Cluster, caches: Memcacheds) -> Kubectl:
    """kubectl in the test's namespace."""
    return partial(cluster.kubectl, "--namespace", caches.namespace)


def manifest(**spec: Any) -> str:
    return to_json({"apiVersion": CACHES, "kind": "Memcached", "metadata": {"name": "cache"}, "spec": spec})


def setting(cluster: Cluster, caches: Memcacheds, name: str) -> set[str]:
    """What the memcacheds themselves say that they were started with."""
    stats = partial(Client.stats, group="settings")
    return {cluster.speak(caches.namespace, pod, stats)[name] for pod in nodes(caches, "cache")}


def spec_managers(caches: Memcacheds) -> dict[str, str | None]:
    """Who wrote something of the spec, and through which subresource."""
    entries = (caches.get("cache") or {})["metadata"]["managedFields"]
    return {entry["manager"]: entry.get("subresource") for entry in entries if "f:spec" in entry["fieldsV1"]}


@pytest.mark.usefixtures("deployed")
@pytest.mark.parametrize("path", ("memcached", "memcached.spec", "memcached.spec.rollout", "memcached.status"))
def test_explain_describes_every_field(cluster: Cluster, path: str) -> None:
    explained = cluster.kubectl("explain", path, f"--api-version={CACHES}")
    head, _, listed = explained.partition("FIELDS:\n")
    assert "<empty>" not in head
    fields = list(FIELD.finditer(listed))
    assert len(fields) == len(re.findall(r"^  \w+\t", listed, re.MULTILINE)) > 0
    undescribed = [f["name"] for f in fields if f["description"].strip() in ("", "<no description>")]
    assert not undescribed


def test_kubectl_scale(cluster: Cluster, caches: Memcacheds, kubectl: Kubectl) -> None:
    caches.create("cache", size=1)
    wait_serving(cluster, caches, "cache", 1)
    kubectl("scale", "memcached/cache", "--current-replicas=1", "--replicas=2")
    wait_serving(cluster, caches, "cache", 2)
    scale = caches.api.get(object_path(CACHES, "memcacheds", caches.namespace, "cache") + "/scale")
    assert scale["spec"]["replicas"] == scale["status"]["replicas"] == 2
    assert kubectl("get", "pods", f"--selector={scale['status']['selector']}", "--output=name").count("pod/") == 2


def test_an_autoscaler_writes_the_size_and_nobody_writes_it_back(cluster: Cluster, caches: Memcacheds) -> None:
    caches.create("cache", size=1)
    wait_serving(cluster, caches, "cache", 1)
    # Without a metrics server its bounds alone scale: enough to see who writes what.
    autoscalers = object_path("autoscaling/v2", "horizontalpodautoscalers", caches.namespace)
    target = {"apiVersion": CACHES, "kind": "Memcached", "name": "cache"}
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 4}
    caches.api.create(autoscalers, {"metadata": {"name": "cache"}, "spec": spec})

    caches.api.patch(f"{autoscalers}/cache", {"spec": {"minReplicas": 3}})
    wait_serving(cluster, caches, "cache", 3)
    caches.api.patch(f"{autoscalers}/cache", {"spec": {"minReplicas": 1, "maxReplicas": 2}})
    wait_serving(cluster, caches, "cache", 2)

    found = caches.get("cache") or {}
    assert found["spec"]["size"] == 2
    assert found["metadata"]["generation"] == 3, "created, scaled up, scaled down: each write to the spec counts one"
    assert "memcached-operator" not in spec_managers(caches)
    assert "scale" in spec_managers(caches).values()
    assert caches.condition("cache", "Degraded")["reason"] == "AsExpected"


def test_kubectl_wait(cluster: Cluster, caches: Memcacheds, kubectl: Kubectl) -> None:
    caches.create("cache", size=2, image="registry.invalid/memcached:none")
    said = kubectl("wait", "memcached/cache", "--for=condition=Available=False", f"--timeout={READY}s")
    assert "condition met" in said
    caches.patch("cache", image=None)
    kubectl("wait", "memcached/cache", "--for=condition=Available", f"--timeout={READY}s")
    serving = [pod for pod in nodes(caches, "cache") if "True" in kubectl("get", "pod", pod, f"--output={IS_READY}")]
    assert serving
    for pod in serving:
        assert cluster.speak(caches.namespace, pod, roundtrip)
    kubectl("delete", "memcached/cache", "--wait=false")
    kubectl("wait", "memcached/cache", "--for=delete", f"--timeout={READY}s")


def test_two_field_managers_share_a_memcached(cluster: Cluster, caches: Memcacheds, kubectl: Kubectl) -> None:
    apply = ("apply", "--server-side", "--filename=-")
    kubectl(*apply, "--field-manager=team", given=manifest(size=1, memory=80))
    kubectl(*apply, "--field-manager=platform", given=manifest(threads=2))
    wait_serving(cluster, caches, "cache", 1)
    refused = kubectl(*apply, "--field-manager=platform", given=manifest(threads=2, memory=96), check=False)
    assert 'conflict with "team"' in refused
    assert ".spec.memory" in refused
    kubectl(*apply, "--field-manager=team", given=manifest(size=2, memory=80))

    wait_serving(cluster, caches, "cache", 2)
    assert setting(cluster, caches, "maxbytes") == {str(80 << 20)}
    assert setting(cluster, caches, "num_threads") == {"2"}, "what team did not mention is platform's, and stays"
    assert set(spec_managers(caches)) == {"team", "platform"}


def row(kubectl: Kubectl, *arguments: str) -> dict[str, str]:
    header, line = kubectl("get", "mc", "cache", *arguments).splitlines()
    starts = [match.start() for match in re.finditer(r"\S+", header)]
    ends = [*starts[1:], None]
    return {header[a:b].strip(): line[a:b].strip() for a, b in zip(starts, ends, strict=True)}


def test_columns(cluster: Cluster, caches: Memcacheds, kubectl: Kubectl, memcached_image: str) -> None:
    caches.create("cache", size=2, image=memcached_image)
    wait_serving(cluster, caches, "cache", 2)
    columns = row(kubectl)
    assert columns.pop("AGE")
    assert columns == {"NAME": "cache", "SIZE": "2", "READY": "2", "AVAILABLE": "True", "REASON": "AllReady"}
    assert row(kubectl, "--output=wide")["IMAGE"] == memcached_image
    assert "memcached.cache.example.com/cache" in kubectl("get", "all", "--output=name")


def test_rollout_status_of_the_deployment(cluster: Cluster, caches: Memcacheds, kubectl: Kubectl) -> None:
    caches.create("cache", size=2)
    before = wait_serving(cluster, caches, "cache", 2)

    def template_hashes() -> list[str]:
        return kubectl("get", "replicasets", SELECTOR, "--output=name").split()

    caches.patch("cache", memory=96)
    # Asked earlier, it would rightly call the old roll-out complete.
    wait_until(template_hashes, READY, "the new ReplicaSet", until=lambda found: len(found) == 2)
    said = kubectl("rollout", "status", "deployment/cache", f"--timeout={READY}s")
    assert "successfully rolled out" in said
    assert not set(wait_serving(cluster, caches, "cache", 2)) & set(before)
    assert setting(cluster, caches, "maxbytes") == {str(96 << 20)}


def objects(kubectl: Kubectl) -> list[str]:
    """All that is, or was, the Memcached's; events and the namespace's own apart."""
    kinds = "memcacheds,deployments,replicasets,pods,services,poddisruptionbudgets,endpointslices"
    return kubectl("get", kinds, "--output=name").split()


def test_foreground_deletion_ends_when_all_is_gone(cluster: Cluster, caches: Memcacheds, kubectl: Kubectl) -> None:
    caches.create("cache", size=2)
    wait_serving(cluster, caches, "cache", 2)
    kubectl("delete", "memcached/cache", "--cascade=foreground", f"--timeout={READY}s")
    assert [found for found in objects(kubectl) if not found.startswith("endpointslice")] == []


def test_background_deletion_takes_the_children_along(cluster: Cluster, caches: Memcacheds, kubectl: Kubectl) -> None:
    caches.create("cache", size=2)
    wait_serving(cluster, caches, "cache", 2)
    kubectl("delete", "memcached/cache", "--cascade=background", f"--timeout={READY}s")
    wait_until(partial(objects, kubectl), READY, "nothing to be left", until=lambda found: not found)


def test_orphaned_children_serve_on_and_are_adopted(cluster: Cluster, caches: Memcacheds, kubectl: Kubectl) -> None:
    caches.create("cache", size=1)
    (pod,) = wait_serving(cluster, caches, "cache", 1)
    kubectl("delete", "memcached/cache", "--cascade=orphan", f"--timeout={READY}s")
    (deployment,) = caches.children("deployments")
    assert "ownerReferences" not in deployment["metadata"]
    assert cluster.speak(caches.namespace, pod, lambda cache: cache.get("e2e")) == b"one\r\ntwo"
    caches.create("cache", size=2)
    pods = wait_serving(cluster, caches, "cache", 2)
    assert pod in pods, "adopted, and not restarted"
    (deployment,) = caches.children("deployments")
    assert [owner["name"] for owner in deployment["metadata"]["ownerReferences"]] == ["cache"]
    kubectl("delete", "memcached/cache", f"--timeout={READY}s")
    wait_until(partial(objects, kubectl), READY, "nothing to be left", until=lambda found: not found)


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("cache_*.yaml")), ids=lambda sample: sample.stem)
def test_applying_a_sample_twice_changes_nothing(caches: Memcacheds, kubectl: Kubectl, sample: Any) -> None:
    assert "created" in kubectl("apply", f"--filename={sample}")
    (name,) = kubectl("get", "memcacheds", "--output=jsonpath={.items[*].metadata.name}").split()
    wait_until(partial(caches.condition, name, "Ready"), READY, "the operator to have looked")
    assert kubectl("diff", f"--filename={sample}") == ""
    said = kubectl("apply", f"--filename={sample}")
    assert said == f"memcached.cache.example.com/{name} unchanged\n"
    assert (caches.get(name) or {})["metadata"]["generation"] == 1


def test_events_tell_what_was_done_and_what_is_wrong(cluster: Cluster, caches: Memcacheds, kubectl: Kubectl) -> None:
    caches.create("cache", size=1)
    wait_serving(cluster, caches, "cache", 1)
    caches.patch("cache", size=2, image="registry.invalid/memcached:none")
    wait_condition(caches, "cache", "Degraded", "ImagePullFailed")

    def told() -> str:
        return kubectl("events", "--for=memcached/cache", "--no-headers")

    expected = (
        r"Normal\s+Created\s.*Deployment cache",
        r"Normal\s+Updated\s.*Deployment cache",
        r"Warning\s+ImagePullFailed\s",
    )
    wait_until(told, READY, "three events", until=lambda text: all(re.search(line, text) for line in expected))
    described = kubectl("describe", "memcached", "cache").partition("Events:")[2]
    assert "memcached-operator" in described
    assert "ImagePullFailed" in described
    listed = kubectl(
        "get", "events", "--field-selector=involvedObject.kind=Memcached,involvedObject.name=cache", "--output=name"
    )
    assert len(listed.split()) == len(told().splitlines())


def test_status_and_spec_are_written_apart(cluster: Cluster, caches: Memcacheds, kubectl: Kubectl) -> None:
    caches.create("cache", size=1)
    wait_serving(cluster, caches, "cache", 1)
    before = caches.get("cache")
    patch = ("patch", "memcached", "cache", "--type=merge", "--patch")
    assert "no change" in kubectl(*patch, '{"status": {"readyReplicas": 99}}')
    assert "no change" in kubectl(*patch, '{"spec": {"size": 5}}', "--subresource=status")
    assert caches.get("cache") == before
    # Whoever may write it can lie; the operator says how it is.
    kubectl(*patch, '{"status": {"readyReplicas": 99, "nodes": ["nobody"]}}', "--subresource=status")
    status = (before or {})["status"]
    wait_until(lambda: (caches.get("cache") or {})["status"], READY, "the truth", until=status.__eq__)
