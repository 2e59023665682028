"""The control plane that all contestants share, and what is done on it."""

from __future__ import annotations

import concurrent.futures
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from bench import machine, programs
from bench.contestants import CONTESTANTS, LEASES, OURS, Contestant, Running
from bench.rest import wait_unchanged
from controlplane import ControlPlane, Request, processes, rbac, wait_until
from controlplane.api import Api, object_path
from controlplane.paths import REPOSITORY
from memcached_operator.kube.permissions import cluster_role_rules, leader_election_rules
from memcacheds import CACHES

NAMESPACES = 10
"""bench-0 to bench-9, the load driver's: Kubernetes promises speed up to 2,000 Deployments a namespace."""
DRIVER = "bench-driver"
"""Who creates resources here, over connections of its own."""
EVERYTHING = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
CREATORS = 8
QUIET_SHARE = 0.15
"""CPU seconds a second of a control plane that does nothing for anybody; deletions of the last run take 1 and more."""
PLURALS = {"deployments": "apps/v1", "pods": "v1", "memcacheds": CACHES}


class Rig:
    """A control plane without nodes: pods are made ready by one status patch each, as fast as they come."""

    def __init__(self, cluster: ControlPlane, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        # Here, and not in threads: it is made on first use.
        self.driver = cluster.credentials(DRIVER)
        self._kubelet = subprocess.Popen(
            [str(programs.built("loader")), "-kubeconfig", str(cluster.kubeconfig), "-mode", "kubelet"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def close(self) -> None:
        """End the status patcher."""
        self._kubelet.kill()
        self._kubelet.wait()

    def pids(self) -> list[int]:
        """Every process of the rig, this one too; contestants apart."""
        return [*self.cluster.pids().values(), self._kubelet.pid, os.getpid()]

    def control_plane_cpu(self) -> float:
        """CPU seconds of etcd, API server and controller manager since their start."""
        usages = (processes.usage(pid) for pid in self.cluster.pids().values())
        return sum(usage.cpu_seconds for usage in usages if usage)

    def start(self, contestant: Contestant, number: int = 0) -> Running:
        """Start a contestant, and return at once."""
        log = self.folder / f"{contestant.name}-{number}.log"
        return Running(contestant, self.cluster.user_kubeconfig(contestant.user), log)

    def drive(self, mode: str, n: int, prefix: str, timeout: float, **options: object) -> dict[str, Any]:
        """Run the load driver and return what it measured. Raises RuntimeError when something was never seen."""
        flags = {"mode": mode, "n": n, "ns": NAMESPACES, "prefix": prefix, "timeout": f"{timeout:.0f}s", **options}
        command = [str(programs.built("loader")), "-kubeconfig", str(self.cluster.kubeconfig)]
        command += [word for name, value in flags.items() for word in (f"-{name}", str(value))]
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode != 0 or not done.stdout:
            raise RuntimeError(f"load driver, {mode}: {done.stderr[-2000:]}")
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        if answer.get("timeout"):
            raise RuntimeError(f"load driver, {mode}: {answer['timeout']} of {n} were not seen in {timeout:.0f} s")
        return answer

    def create(self, n: int, prefix: str) -> None:
        """Create n Memcacheds of size 1, named as the load driver names them, and wait for nothing."""

        def some(first: int) -> None:
            with Api(self.driver) as api:
                for number in range(first, n, CREATORS):
                    namespace, name = names(number, prefix)
                    body = {"apiVersion": CACHES, "kind": "Memcached", "metadata": {"name": name}, "spec": {"size": 1}}
                    api.create(object_path(CACHES, "memcacheds", namespace), body)

        with concurrent.futures.ThreadPoolExecutor(CREATORS) as pool:
            list(pool.map(some, range(CREATORS)))

    def resize(self, namespace: str, name: str, size: int) -> None:
        """Ask for another size, by an administrator."""
        self.cluster.api.patch(object_path(CACHES, "memcacheds", namespace, name), {"spec": {"size": size}})

    def wait_replicas(self, namespace: str, name: str, replicas: int, timeout: float = 90) -> None:
        """Return when the Deployment asks for so many."""
        path = object_path("apps/v1", "deployments", namespace, name)
        wait_until(
            lambda: self.cluster.api.get(path)["spec"]["replicas"],
            timeout,
            f"{name} to have {replicas} replicas",
            until=lambda found: found == replicas,
        )

    def number_of(self, plural: str) -> int:
        """How many there are in all namespaces; a page of one tells."""
        page = self.cluster.api.get(object_path(PLURALS[plural], plural) + "?limit=1")
        return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))

    def wait_number(self, plural: str, number: int, timeout: float) -> None:
        """Return when there are so many."""
        wait_until(
            lambda: self.number_of(plural), timeout, f"{number} {plural}", until=lambda n: n == number, interval=0.1
        )

    def remove(self, n: int, prefix: str) -> None:
        """Delete n Memcacheds, and return when nothing of them is left."""
        self.drive("delete", n, prefix, 60 + n / 10)
        self.wait_number("pods", 0, 60 + n / 10)

    def drop_leases(self) -> None:
        """Delete the contestants' Leases: one that nobody gave back would hold up the next by 15 seconds."""
        path = object_path("coordination.k8s.io/v1", "leases", LEASES)
        for lease in self.cluster.api.get(path)["items"]:
            self.cluster.api.delete(f"{path}/{lease['metadata']['name']}")

    def quiesce(self, timeout: float = 300) -> None:
        """Return when the control plane works for nobody."""

        def idle(before: float, after: float) -> bool:
            return (after - before) / 2.0 < QUIET_SHARE

        wait_unchanged(self.control_plane_cpu, timeout, "the control plane to be idle", interval=2.0, same=idle)

    def others(self) -> float:
        """Cores that are busy with none of our processes now."""
        return machine.look(self.pids)

    def requests(self, contestant: Contestant, since: int) -> list[Request]:
        """What the contestant asked for since then."""
        return self.cluster.audit(user=contestant.user, since=since)


def names(number: int, prefix: str) -> tuple[str, str]:
    """Namespace and name of the Memcached of this number, as the load driver makes them."""
    return f"bench-{number % NAMESPACES}", f"{prefix}-{number:05d}"


def arrival(request: Request) -> float:
    """When the API server received it, in seconds since 1970."""
    return datetime.fromisoformat(request.time).timestamp()


@contextmanager
def started(name: str, folder: Path, wanted: Callable[[str], bool] = lambda _: True) -> Iterator[Rig]:
    """A rig with CRD, namespaces and the rights of the contestants that are `wanted`; gone at the end of the block."""
    with ControlPlane.start(name, kcm_fast=True, tmpfs=True, nodes=0) as cluster:
        cluster.install_crds(REPOSITORY / "config" / "crd", timeout=60)
        for number in range(NAMESPACES):
            cluster.api.create("/api/v1/namespaces", {"metadata": {"name": f"bench-{number}"}})
        rbac.bind(cluster.api, DRIVER, EVERYTHING)
        rbac.bind(cluster.api, OURS.user, cluster_role_rules())
        rbac.bind(cluster.api, OURS.user, leader_election_rules(), namespace=LEASES, name="bench-leader-election")
        for contestant in CONTESTANTS.values():
            if contestant is not OURS and wanted(contestant.name):
                rbac.bind(cluster.api, contestant.user, EVERYTHING)
        # There are no nodes to schedule to, and nothing to simulate on them.
        for component in ("kube-scheduler", "kwok-controller"):
            cluster.kill(component)
        rig = Rig(cluster, folder)
        try:
            yield rig
        finally:
            rig.close()
