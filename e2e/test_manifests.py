"""`make deploy`, and what it makes of Memcacheds: judged by asking the caches themselves."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import Any

import pytest
from client_pod import ClientPod
from owned_fields import Path, changes, lookup, owned_leaves, pointer
from real_cluster import READY, Cluster, nodes, roundtrip, wait_condition, wait_nodes, wait_serving

from controlplane import wait_until
from controlplane.api import PATCH_TYPES, object_path
from controlplane.paths import REPOSITORY
from memcached_operator.errors import TransientError
from memcached_operator.memcached.client import Client
from memcacheds import Memcacheds

SAMPLE = REPOSITORY / "config" / "samples" / "cache_v1alpha1_memcached.yaml"


def addresses(caches: Memcacheds, name: str) -> list[str]:
    """Where the Service leads clients."""
    selector = f"?labelSelector=kubernetes.io/service-name={name}"
    slices = caches.api.get(object_path("discovery.k8s.io/v1", "endpointslices", caches.namespace) + selector)["items"]
    found = [endpoint for piece in slices for endpoint in piece.get("endpoints") or []]
    return [
        address
        for endpoint in found
        if endpoint.get("conditions", {}).get("ready")
        for address in endpoint["addresses"]
    ]


def endpoints(caches: Memcacheds, name: str) -> int:
    """How many pods the Service leads clients to."""
    return len(addresses(caches, name))


def test_the_walk_through(cluster: Cluster, caches: Memcacheds) -> None:
    kubectl = partial(cluster.kubectl, "--namespace", caches.namespace)
    said = kubectl("apply", "-f", str(SAMPLE))
    assert "created" in said
    assert "Warning" not in said
    kubectl("wait", "--for=condition=Available", "memcached/memcached-sample", f"--timeout={READY}s")
    caches.wait_ready("memcached-sample", timeout=READY)
    assert "memcached-sample" in kubectl("get", "memcached")
    assert "2/2" in kubectl("get", "deployment", "memcached-sample")
    pods = kubectl("get", "pods", "--output=name", "--selector=app=memcached,memcached_cr=memcached-sample").split()
    assert [f"pod/{node}" for node in nodes(caches, "memcached-sample")] == sorted(pods)

    kubectl("patch", "memcached", "memcached-sample", "-p", '{"spec":{"size": 3}}', "--type=merge")
    for pod in wait_nodes(caches, "memcached-sample", 3):
        caches.wait_ready("memcached-sample", timeout=READY)
        assert cluster.speak(caches.namespace, pod, roundtrip).startswith("1.")
    kubectl("delete", "memcached", "memcached-sample")
    caches.wait_gone("memcached-sample", timeout=READY)


def test_every_size_serves(cluster: Cluster, caches: Memcacheds) -> None:
    caches.create("cache", size=1)
    for size in (1, 3, 0, 2):
        caches.patch("cache", size=size)
        caches.wait_ready("cache", timeout=READY)
        for pod in wait_nodes(caches, "cache", size):
            assert cluster.speak(caches.namespace, pod, roundtrip)
        wait_until(partial(endpoints, caches, "cache"), READY, f"{size} endpoints", until=size.__eq__)


# Field and value -> what memcached itself says that it was started with, by `stats settings`.
SETTINGS: tuple[tuple[str, Any, str, str], ...] = (
    ("memory", 96, "maxbytes", str(96 << 20)),
    ("maxConnections", 2048, "maxconns", "2048"),
    ("threads", 2, "num_threads", "2"),
    ("maxItemSize", 2048, "item_size_max", str(2 << 20)),
    ("verbosity", 0, "verbosity", "0"),
)


def test_options_reach_memcached(cluster: Cluster, caches: Memcacheds) -> None:
    caches.create("cache", size=1, **{field: value for field, value, _, _ in SETTINGS})
    caches.wait_ready("cache", timeout=READY)
    (pod,) = nodes(caches, "cache")
    settings = cluster.speak(caches.namespace, pod, partial(Client.stats, group="settings"))
    assert {name: settings[name] for _, _, name, _ in SETTINGS} == {name: value for _, _, name, value in SETTINGS}
    assert settings["udpport"] == "0"


def restarts(caches: Memcacheds, name: str) -> int:
    selector = f"?labelSelector=memcached_cr={name}"
    pods = caches.api.get(object_path("v1", "pods", caches.namespace) + selector)["items"]
    return sum(status["restartCount"] for pod in pods for status in pod["status"]["containerStatuses"])


def test_a_full_cache_is_not_killed_for_its_memory(cluster: Cluster, caches: Memcacheds, client: ClientPod) -> None:
    memory, connections = 64, 950  # of maxConnections 1024, some of which are memcached's own files
    caches.create("cache", size=1, memory=memory)
    caches.wait_ready("cache", timeout=READY)
    filled = client.run("fill", "cache", str(connections), str(memory << 20))  # with headers, twice as much
    assert filled["limit_maxbytes"] == memory << 20
    assert filled["evictions"] > 0
    assert filled["curr_connections"] >= connections
    (pod,) = nodes(caches, "cache")
    assert cluster.speak(caches.namespace, pod, roundtrip)
    assert restarts(caches, "cache") == 0


def test_a_new_image_is_rolled_out_under_load(
    cluster: Cluster, caches: Memcacheds, client: ClientPod, other_memcached_image: str
) -> None:
    keys, size = 600, 3
    caches.create("cache", size=size)
    caches.wait_ready("cache", timeout=READY)
    wait_nodes(caches, "cache", size)
    before = set(nodes(caches, "cache"))
    with client.start("load", "cache", str(keys)) as load:
        caches.patch("cache", image=other_memcached_image)
        caches.wait_ready("cache", timeout=READY)
        wait_until(
            lambda: set(nodes(caches, "cache")), READY, "new pods", until=lambda n: len(n) == size and not n & before
        )
        wait_until(partial(endpoints, caches, "cache"), READY, "endpoints", until=size.__eq__)
        went = load.finish()
    lost = sum(went["lost"].values())
    print(f"roll-out of {size} pods: {went['requests']} requests, {went['retried']} on a second server, ", end="")
    print(f"{went['failed']} failed; lost {lost} times a key, of {keys}: by step {sorted(went['lost'].values())}")
    assert went["requests"] > keys, "every key was asked for at least once"
    assert went["failed"] == 0
    assert lost > 0
    for pod in nodes(caches, "cache"):
        assert cluster.speak(caches.namespace, pod, roundtrip)
    images = {c["image"] for c in caches.look("cache")["deployments"]["spec"]["template"]["spec"]["containers"]}
    assert images == {other_memcached_image}


def test_a_bad_image_leaves_the_cache_serving_and_says_why(cluster: Cluster, caches: Memcacheds) -> None:
    caches.create("cache", size=1)
    caches.wait_ready("cache", timeout=READY)
    (pod,) = nodes(caches, "cache")
    caches.patch("cache", image="registry.invalid/memcached:none")
    told = wait_condition(caches, "cache", "Degraded", "ImagePullFailed")
    assert "registry.invalid/memcached:none" in told["message"]
    assert caches.condition("cache", "Available")["status"] == "True"
    assert cluster.speak(caches.namespace, pod, roundtrip)
    caches.patch("cache", image=None)
    caches.wait_ready("cache", timeout=READY)
    assert nodes(caches, "cache") == [pod], "the pod that served all the time"


def test_a_deleted_pod_is_replaced(cluster: Cluster, caches: Memcacheds) -> None:
    caches.create("cache", size=2)
    caches.wait_ready("cache", timeout=READY)
    victim, _ = nodes(caches, "cache")
    caches.api.delete(object_path("v1", "pods", caches.namespace, victim))
    wait_until(lambda: victim not in nodes(caches, "cache"), READY, f"{victim} to be gone")
    for pod in wait_nodes(caches, "cache", 2):
        caches.wait_ready("cache", timeout=READY)
        assert cluster.speak(caches.namespace, pod, roundtrip)


def spec_of(caches: Memcacheds, plural: str) -> Any:
    return caches.look("cache")[plural]["spec"]


def test_drift_is_repaired_and_what_others_added_is_kept(cluster: Cluster, caches: Memcacheds) -> None:
    caches.create("cache", size=2)
    caches.wait_ready("cache", timeout=READY)
    for version, plural, drift in (
        ("apps/v1", "deployments", {"spec": {"replicas": 0}}),
        ("v1", "services", {"spec": {"selector": {"nobody": "here"}}}),
        ("policy/v1", "poddisruptionbudgets", {"spec": {"maxUnavailable": 2}}),
    ):
        before = spec_of(caches, plural)
        path = object_path(version, plural, caches.namespace, "cache")
        caches.api.patch(path, {**drift, "metadata": {"labels": {"example.com/mine": "kept"}}})

        wait_until(partial(spec_of, caches, plural), READY, f"{plural} as before", until=before.__eq__)
        assert caches.look("cache")[plural]["labels"]["example.com/mine"] == "kept"
    caches.wait_ready("cache", timeout=READY)
    wait_until(partial(endpoints, caches, "cache"), READY, "2 endpoints", until=lambda n: n == 2)
    for pod in nodes(caches, "cache"):
        assert cluster.speak(caches.namespace, pod, roundtrip)


# The size of the cache (without pods a changed template starts none; without two there is no budget), and the fields
# that the API server lets nobody change alone: immutable, tied to the selector or to another field, or the only one.
OWNED = (
    (
        "apps/v1",
        "deployments",
        0,
        (
            "/spec/selector",
            "/spec/strategy/type",
            "/spec/template/metadata/labels/app",
            "/spec/template/metadata/labels/memcached_cr",
            "/spec/template/spec/containers/0",
        ),
    ),
    ("v1", "services", 2, ("/spec/clusterIP", "/spec/type")),
    ("policy/v1", "poddisruptionbudgets", 2, ()),
)


@pytest.mark.parametrize(("version", "plural", "size", "immutable"), OWNED, ids=[plural for _, plural, *_ in OWNED])
def test_every_owned_field_is_put_back(
    caches: Memcacheds, version: str, plural: str, size: int, immutable: tuple[str, ...]
) -> None:
    caches.create("cache", size=size)
    caches.wait_ready("cache", timeout=READY)
    path = object_path(version, plural, caches.namespace, "cache")
    # Its first repair is by server-side apply: from then on managedFields lists what it wants, and no default.
    caches.api.patch(path, {"metadata": {"labels": {"app": "drifted"}}})
    label = ("metadata", "labels", "app")
    wait_until(partial(now, caches, path, label), READY, "the label again", until="memcached".__eq__)
    body = caches.api.get(path)
    fixed, changed = [], 0
    for leaf, value in owned_leaves(body, "memcached-operator"):
        if not drift(caches, path, leaf, value):
            fixed.append(pointer(leaf))
            continue
        changed += 1
        wait_until(partial(now, caches, path, leaf), READY, f"{pointer(leaf)} again", until=partial(same, value))
    print(f"{plural}: {changed} fields changed and put back, {fixed}")
    assert changed > 0
    assert tuple(fixed) == immutable


def same(value: Any, other: Any) -> bool:
    return bool(value == other)


def now(caches: Memcacheds, path: str, leaf: Path) -> Any:
    return lookup(caches.api.get(path), leaf)


def drift(caches: Memcacheds, path: str, leaf: Path, value: Any) -> bool:
    """Change the leaf as somebody else; False when the API server lets nobody."""
    for change in changes(leaf, value):
        code, answer = caches.api.request("PATCH", path, change, PATCH_TYPES["json"])
        assert code in {200, 422}, answer
        if code == 200 and lookup(answer, leaf) != value:
            return True
    return False


def counters(cluster: Cluster, namespace: str) -> tuple[float, dict[str, float]]:
    """How often the operator has reconciled, and how often it has written what (its Lease apart)."""
    found = []
    pods = cluster.api.get(object_path("v1", "pods", namespace) + "?labelSelector=control-plane=controller-manager")
    for pod in pods["items"]:
        page = cluster.api.get(
            object_path("v1", "pods", namespace, f"{pod['metadata']['name']}:8080") + "/proxy/metrics"
        )
        found += re.findall(r"^memcached_operator_(\w+?)(?:{(.*)})? (\S+)$", page, re.MULTILINE)
    reconciles = sum(float(value) for name, _, value in found if name == "reconcile_total")
    writes = {
        labels: float(value)
        for name, labels, value in found
        if name == "kube_api_requests_total"
        and re.search(r'verb="(create|update|patch|delete)"', labels)
        and 'resource="leases"' not in labels
    }
    return reconciles, writes


def test_a_settled_cache_costs_no_write(cluster: Cluster, caches: Memcacheds, deployed: str) -> None:
    caches.create("cache", size=1)
    caches.wait_ready("cache", timeout=READY)
    # Not the Deployment: each of its annotations is a new generation, which its own controller has to see.
    path = object_path("v1", "services", caches.namespace, "cache")
    looks = [counters(cluster, deployed)]

    def settled() -> bool:
        looks.append(counters(cluster, deployed))
        return looks[-1] == looks[-2]

    wait_until(settled, READY, "the operator to have nothing to do", interval=1)
    reconciles, writes = looks[-1]
    for number in range(1, 6):
        before, _ = counters(cluster, deployed)
        caches.api.patch(path, {"metadata": {"annotations": {"example.com/mine": str(number)}}})
        wait_until(partial(reconciled_since, cluster, deployed, before), READY, "it to be looked at")
    assert counters(cluster, deployed)[0] >= reconciles + 5
    assert counters(cluster, deployed)[1] == writes


def reconciled_since(cluster: Cluster, namespace: str, before: float) -> bool:
    return counters(cluster, namespace)[0] > before


def test_two_caches_of_a_namespace_share_nothing(cluster: Cluster, caches: Memcacheds) -> None:
    names = ("left", "right")
    for name in names:
        caches.create(name, size=1)
    caches.wait_ready(*names, timeout=READY)
    pods = {name: caches.api.get(object_path("v1", "pods", caches.namespace, nodes(caches, name)[0])) for name in names}
    for name, pod in pods.items():
        own = [pod["status"]["podIP"]]
        wait_until(partial(addresses, caches, name), READY, f"endpoints of {name}", until=own.__eq__)
        cluster.speak(caches.namespace, pod["metadata"]["name"], partial(Client.set, key=name, value=b"mine"))
    for name, other in (("left", "right"), ("right", "left")):
        pod = pods[name]["metadata"]["name"]
        assert cluster.speak(caches.namespace, pod, partial(Client.get, key=name)) == b"mine"
        assert cluster.speak(caches.namespace, pod, partial(Client.get, key=other)) is None


def test_a_quota_is_told_and_its_end_is_noticed(caches: Memcacheds) -> None:
    quotas = object_path("v1", "resourcequotas", caches.namespace)
    caches.api.create(quotas, {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "1"}}})
    wait_until(lambda: caches.api.get(f"{quotas}/small").get("status", {}).get("used"), READY, "the quota to count")
    caches.create("cache", size=2)
    assert "small" in wait_condition(caches, "cache", "Degraded", "QuotaExceeded")["message"]
    caches.api.delete(f"{quotas}/small")
    caches.patch("cache", size=3)  # or minutes of patience: the ReplicaSet controller has its own back-off
    caches.wait_ready("cache", timeout=READY)


def test_paused_leaves_the_children_alone(caches: Memcacheds) -> None:
    caches.create("cache", size=1)
    caches.wait_ready("cache", timeout=READY)
    caches.patch("cache", paused=True, size=2)
    wait_condition(caches, "cache", "Ready", "Paused")
    assert caches.replicas("cache") == 1
    caches.patch("cache", paused=False)
    caches.wait_ready("cache", timeout=READY)
    assert caches.replicas("cache") == 2


@pytest.mark.parametrize("policy", ("Delete", "Orphan"))
def test_deletion_leaves_what_its_policy_says(cluster: Cluster, caches: Memcacheds, policy: str) -> None:
    caches.create("cache", size=1, deletionPolicy=policy)
    caches.wait_ready("cache", timeout=READY)
    (pod,) = nodes(caches, "cache")
    caches.delete("cache")
    wait_until(lambda: caches.get("cache") is None, READY, "the Memcached to be gone")
    if policy == "Delete":
        caches.wait_gone("cache", timeout=READY)
        return
    assert cluster.speak(caches.namespace, pod, roundtrip)
    caches.create("cache", size=1)
    caches.wait_ready("cache", timeout=READY)
    assert nodes(caches, "cache") == [pod], "adopted, and not restarted"


def test_a_drain_lets_clients_go_before_it_stops_the_pods(cluster: Cluster, caches: Memcacheds) -> None:
    seconds = 12
    caches.create("cache", size=1, deletionPolicy="Drain", drainSeconds=seconds)
    caches.wait_ready("cache", timeout=READY)
    (pod,) = nodes(caches, "cache")
    drained = threading.Event()

    async def work_until_the_drain_ends(cache: Client) -> int:
        asked = 0
        while not drained.is_set():
            await cache.set("e2e", b"here")
            assert await cache.get("e2e") == b"here"
            asked += 1
        return asked

    def watch() -> None:
        wait_until(partial(endpoints, caches, "cache"), READY, "no endpoints", until=lambda n: n == 0)
        wait_until(lambda: caches.replicas("cache") in (0, None), READY, "the end of the drain", interval=0.01)

    def delete() -> None:
        try:
            caches.delete("cache")
            watch()
        finally:
            drained.set()

    deleting = threading.Thread(target=delete)
    deleting.start()
    try:
        asked = cluster.speak(caches.namespace, pod, work_until_the_drain_ends)
    except (TransientError, OSError) as error:  # its pod may stop between two looks, when the drain is over
        if caches.replicas("cache") not in (0, None):
            pytest.fail(f"a client saw {error!r} before the drain ended")
        asked = 1
    deleting.join()
    assert asked > 0
    caches.wait_gone("cache", timeout=READY)


@pytest.fixture
def two_workers(cluster: Cluster, workers: list[str]) -> Iterator[tuple[str, str]]:
    """Two workers, the only nodes that pods go to; all of them again afterwards."""
    one, other, *more = workers
    if more:
        cluster.kubectl("cordon", *more)
    yield one, other
    cluster.kubectl("uncordon", *workers)


def nodes_of(caches: Memcacheds, name: str) -> list[str]:
    """Where its pods are."""
    selector = f"?labelSelector=memcached_cr={name}"
    pods = caches.api.get(object_path("v1", "pods", caches.namespace) + selector)["items"]
    return [pod["spec"].get("nodeName", "") for pod in pods]


def test_a_drained_node_gives_up_one_pod_at_a_time(
    cluster: Cluster, caches: Memcacheds, two_workers: tuple[str, str]
) -> None:
    one, other = two_workers
    cluster.kubectl("cordon", other)
    caches.create("cache", size=2)
    wait_serving(cluster, caches, "cache", 2)
    assert nodes_of(caches, "cache") == [one, one]
    cluster.kubectl("uncordon", other)

    drain = ("drain", one, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=300s")
    serving = []
    with ThreadPoolExecutor() as pool:
        draining = pool.submit(cluster.kubectl, *drain)
        while not wait([draining], timeout=0.1).done:
            serving.append(endpoints(caches, "cache"))
    assert "violate the pod's disruption budget" in draining.result(), "both were asked to go at once"
    assert min(serving) >= 1
    wait_until(partial(nodes_of, caches, "cache"), READY, f"both pods on {other}", until=[other, other].__eq__)
    wait_serving(cluster, caches, "cache", 2)
