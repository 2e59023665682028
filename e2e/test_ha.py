"""Two replicas, and what may happen to the one that leads. The API server's audit log tells who led and who wrote."""

from __future__ import annotations

import http.client
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from leadership import LOG, Audit, Write, faults, terms
from real_cluster import OPERATOR_NAMESPACE, READY, Cluster, credentials, wait_serving

from controlplane import wait_until
from controlplane.api import Api, object_path
from memcacheds import Memcacheds

LEASE = object_path("coordination.k8s.io/v1", "leases", OPERATOR_NAMESPACE, "memcached-operator")
PODS = object_path("v1", "pods", OPERATOR_NAMESPACE)
SELECTOR = "?labelSelector=control-plane=controller-manager"
HANDED_OVER = 1.0
"""Seconds that a released Lease may leave a change waiting."""
TAKEN_OVER = 2.0
"""Seconds, beyond the Lease's own, that a leader's crash may leave a change waiting."""

PID = "$(crictl inspect --output go-template --template '{{{{.info.pid}}}}' {})"
"""Of a container's first process, on its node."""


def on_node(node: str, script: str) -> str:
    """What the script prints on the node: kind gives its container the node's name."""
    command = [os.environ.get("CONTAINER_TOOL", "docker"), "exec", node, "sh", "-c", script]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, f"{node}: {script}: {done.returncode}\n{done.stdout}"
    return done.stdout


# The operator's replicas


@dataclass(frozen=True)
class Replica:
    """One pod of the operator."""

    name: str
    node: str
    container: str
    restarts: int
    exit_code: int | None
    """Of the container before this one."""


Pair: TypeAlias = tuple[Replica, Replica]
"""The leader, the standby."""


def replicas(api: Api) -> list[Replica]:
    """Those that are ready, and not on their way out."""
    return [
        _replica(pod)
        for pod in api.get(PODS + SELECTOR)["items"]
        if "deletionTimestamp" not in pod["metadata"]
        and any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))
    ]


def _replica(pod: dict[str, Any]) -> Replica:
    (status,) = pod["status"]["containerStatuses"]
    return Replica(
        pod["metadata"]["name"],
        pod["spec"]["nodeName"],
        status["containerID"].rpartition("/")[2],
        status["restartCount"],
        status["lastState"].get("terminated", {}).get("exitCode"),
    )


def wait_restarted(api: Api, replica: Replica) -> Replica:
    """Until its container was started anew and is ready; the replica as it is then."""

    def restarted() -> list[Replica]:
        return [found for found in replicas(api) if found.name == replica.name and found.restarts > replica.restarts]

    return wait_until(restarted, READY, f"{replica.name} to be back")[0]


def lease(api: Api) -> dict[str, Any]:
    spec: dict[str, Any] = api.get(LEASE)["spec"]
    return spec


def leading_pod(api: Api) -> str:
    """By the Lease; "" when it is free."""
    return str(lease(api).get("holderIdentity") or "").rpartition("_")[0]


def leads(api: Api, pod: str) -> bool:
    """By its own metric; False as well when it does not answer."""
    try:
        status, page = api.request("GET", f"{PODS}/{pod}:8080/proxy/metrics")
    except (OSError, http.client.HTTPException):
        return False
    return status == 200 and "\nmemcached_operator_leader 1.0\n" in page


# Fixtures


@pytest.fixture(scope="module")
def audit(cluster: Cluster, workers: list[str]) -> Audit:
    nodes = cluster.api.get(object_path("v1", "nodes"))["items"]
    (server,) = {node["metadata"]["name"] for node in nodes} - set(workers)
    return Audit(cluster.api, OPERATOR_NAMESPACE, lambda offset: on_node(server, f"tail -c +{offset + 1} {LOG}"))


@pytest.fixture(scope="module")
def components(audit: Audit) -> str:  # noqa: ARG001 - it reads from before the first leader
    return "high-availability"


@pytest.fixture
def whole_nodes(cluster: Cluster, workers: list[str]) -> Iterator[None]:
    """Nodes that are whole before the test, though an earlier run may have been killed, and after it."""

    def mend() -> None:
        connect = rules(cluster.api, "while iptables -D {} 2>/dev/null; do :; done")
        for node in workers:
            on_node(node, f"systemctl start kubelet\n{connect}")
        cluster.kubectl("wait", "--for=condition=Ready", "nodes", "--all", f"--timeout={READY}s")

    mend()
    yield
    mend()


@pytest.fixture
def pair(cluster: Cluster, deployed: str, whole_nodes: None) -> Pair:  # noqa: ARG001 - the operator and all nodes have to run
    """The leader and the standby, which are ready and on different workers."""
    found = wait_until(
        partial(replicas, cluster.api),
        READY,
        "two ready replicas on different workers",
        until=lambda found: len(found) == 2 == len({replica.node for replica in found}),
    )
    holder = wait_until(
        partial(leading_pod, cluster.api),
        READY,
        "one of them to lead",
        until=lambda pod: pod in [r.name for r in found],
    )
    leader, standby = sorted(found, key=lambda replica: replica.name != holder)
    return leader, standby


@pytest.fixture
def cache(cluster: Cluster, caches: Memcacheds, pair: Pair) -> Memcacheds:
    """A Memcached with one pod, its pods on the standby's node: that one stays whole."""
    caches.create("cache", size=1, nodeSelector={"kubernetes.io/hostname": pair[1].node})
    wait_serving(cluster, caches, "cache", 1)
    return caches


@pytest.fixture(autouse=True)
def one_leader(cluster: Cluster, audit: Audit, pair: Pair, tmp_path: Path) -> Iterator[None]:  # noqa: ARG001 - it has begun
    """At any time, whatever the test does: by the audit log, and by the replicas' metrics."""
    rounds: list[list[str]] = []
    over = threading.Event()

    def look() -> None:
        with Api(credentials(cluster.kubeconfig, tmp_path), timeout=5) as api:
            while not over.wait(0.2):
                names = [pod["metadata"]["name"] for pod in api.get(PODS + SELECTOR)["items"]]
                first = [name for name in names if leads(api, name)]
                # Twice: between two looks one may have handed over to the other, but not back.
                rounds.append([name for name in first if leads(api, name)])

    looking = threading.Thread(target=look)
    looking.start()
    yield
    over.set()
    looking.join()
    assert max(map(len, rounds)) == 1, rounds
    assert faults(audit.writes()) == []


# Changes


def change(cluster: Cluster, audit: Audit, caches: Memcacheds, size: int) -> tuple[float, Write]:
    """Scale the cache, until its pods serve. When that was asked for, and the operator's first write for it."""
    caches.patch("cache", size=size)
    wait_serving(cluster, caches, "cache", size)
    writes = [w for w in audit.writes() if w.namespace == caches.namespace]
    asked = max(w.arrived for w in writes if w.target == "memcacheds" and not w.pod)
    return asked, next(w for w in writes if w.pod and w.target.startswith("deployments") and w.arrived > asked)


def within(limit: float, seconds: float, what: str) -> None:
    print(f"{what}: {seconds:.3f} s of {limit:g} s")
    assert 0 <= seconds <= limit, what


def test_one_of_two_replicas_leads(cluster: Cluster, audit: Audit, cache: Memcacheds, pair: Pair) -> None:
    leader, standby = pair
    wait_until(partial(leads, cluster.api, leader.name), 10, "the leader's metric")
    assert not leads(cluster.api, standby.name)
    _, acted = change(cluster, audit, cache, 2)
    assert acted.pod == leader.name


def test_a_leader_that_is_deleted_hands_over(cluster: Cluster, audit: Audit, cache: Memcacheds, pair: Pair) -> None:
    leader, standby = pair
    cluster.api.delete(f"{PODS}/{leader.name}")
    wait_until(
        partial(leading_pod, cluster.api), READY, "its end", until=lambda pod: pod != leader.name, interval=0.005
    )
    asked, acted = change(cluster, audit, cache, 2)

    (end,) = [term for term in terms(audit.writes()) if term.pod == leader.name][-1:]
    assert end.released
    assert acted.pod == standby.name
    within(HANDED_OVER, acted.arrived - max(end.until, asked), "from the leader's end to the first write")


def test_a_leader_that_is_killed_is_followed(cluster: Cluster, audit: Audit, cache: Memcacheds, pair: Pair) -> None:
    leader, _ = pair
    seconds = lease(cluster.api)["leaseDurationSeconds"]
    killed = float(on_node(leader.node, f"pid={PID.format(leader.container)} && date +%s.%N && kill -9 $pid"))
    _, acted = change(cluster, audit, cache, 2)

    within(seconds + TAKEN_OVER, acted.arrived - killed, "from the leader's death to the first write")
    assert wait_restarted(cluster.api, leader).exit_code == 137


# Faults of nodes


def node_ready(cluster: Cluster, node: str) -> bool:
    conditions = cluster.api.get(object_path("v1", "nodes", name=node))["status"]["conditions"]
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def test_a_leader_outlives_its_kubelet(cluster: Cluster, audit: Audit, cache: Memcacheds, pair: Pair) -> None:
    leader, _ = pair
    on_node(leader.node, "systemctl stop kubelet")
    change(cluster, audit, cache, 2)
    wait_until(partial(node_ready, cluster, leader.node), READY, "the node to be lost", until=lambda ready: not ready)
    change(cluster, audit, cache, 3)
    on_node(leader.node, "systemctl start kubelet")
    wait_until(partial(node_ready, cluster, leader.node), READY, "the node to be back")
    change(cluster, audit, cache, 1)


def rules(api: Api, command: str) -> str:
    """A shell script: the iptables command with each rule that cuts a node, and its pods, off from the API server."""
    endpoints = api.get(object_path("discovery.k8s.io/v1", "endpointslices", "default", "kubernetes"))
    (port,) = endpoints["ports"]
    return "\n".join(
        command.format(f"{chain} -d {address} -p tcp --dport {port['port']} -m comment --comment e2e -j DROP")
        for chain in ("FORWARD", "OUTPUT")
        for endpoint in endpoints["endpoints"]
        for address in endpoint["addresses"]
    )


def test_a_leader_that_is_cut_off_is_fenced(cluster: Cluster, audit: Audit, cache: Memcacheds, pair: Pair) -> None:
    leader, standby = pair
    seconds = lease(cluster.api)["leaseDurationSeconds"]
    cut = float(on_node(leader.node, "set -e; date +%s.%N\n" + rules(cluster.api, "iptables -I {}")))
    # Packets to the leader still arrive: it hears of the change, and what it writes waits for the network.
    _, acted = change(cluster, audit, cache, 2)
    assert acted.pod == standby.name
    within(seconds + TAKEN_OVER, acted.arrived - cut, "from the cut to the first write")
    assert not leads(cluster.api, leader.name)
    assert change(cluster, audit, cache, 3)[1].pod == standby.name

    on_node(leader.node, "set -e\n" + rules(cluster.api, "iptables -D {}"))
    back = wait_restarted(cluster.api, leader)
    assert (back.restarts, back.exit_code) == (leader.restarts + 1, 1)
    # What the first process had sent would still arrive, were it not given up: `one_leader` would see that.
    undelivered = (
        f"nsenter --net --target {PID.format(back.container)} ss -Htn state fin-wait-1 state closing state last-ack"
    )
    wait_until(partial(on_node, back.node, undelivered), READY, "nothing to be under way", until="".__eq__)
    assert change(cluster, audit, cache, 1)[1].pod == standby.name
