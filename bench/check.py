"""`make bench-check`: costs that do not depend on how busy the machine is, against the limits in limits.json.

Requests are counted in the audit log of a real API server, bytes by tracemalloc, instructions by valgrind. No duration
is judged: a slow machine fails no build, and one request more for each resource fails it everywhere.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import footprint, instructions
from bench.counting import requests_by_kind
from bench.limits import COSTS, Limits, above, too_many_requests
from bench.rest import wait_unchanged
from controlplane import ControlPlane, OperatorProcess, rbac, wait_until
from controlplane.api import object_path
from controlplane.paths import REPOSITORY
from controlplane.progress import note, step
from memcached_operator.kube.permissions import cluster_role_rules, leader_election_rules
from memcacheds import Memcacheds

USER = "memcached-operator"
NAMESPACE = "bench"
COUNTED = 20
"""Resources whose requests are counted."""
HELD = 100
"""Resources whose bytes are counted, after as many that fill whatever there is one of."""
ROUNDS = 8
"""Changes of each Deployment: so many that what a change leaves behind outweighs a connection that came or went."""
IDLE_SECONDS = 20
"""Time for four renewals of the Lease."""
QUIET_SECONDS = 1.5
"""More than any status or event is held back."""
PER_OPERATOR = frozenset({"start", "restart", "idle"})

Requests = dict[str, dict[str, int]]


class Stage:
    """A cluster with the operator's CRD and rights, and what is done on it."""

    def __init__(self, cluster: ControlPlane, folder: Path) -> None:
        self.cluster = cluster
        self.caches = Memcacheds(cluster, NAMESPACE)
        self.folder = folder

    def start(self, **options: Any) -> OperatorProcess:
        """The operator, when it is ready."""
        flags = (f"--watch-namespace={NAMESPACE}", f"--leader-election-namespace={NAMESPACE}")
        log = self.folder / "operator.log"
        return OperatorProcess.start(self.cluster.user_kubeconfig(USER), *flags, log=log, **options).wait_ready(60)

    def asked(self, since: int) -> dict[str, int]:
        """What the operator asked for since then."""
        return requests_by_kind(self.cluster.audit(user=USER, since=since))

    @contextmanager
    def counting(self, into: dict[str, int]) -> Iterator[None]:
        """Requests of the operator from the block's begin until it makes no more, those for its Lease apart."""
        since = self.cluster.audit_offset()

        def others() -> dict[str, int]:
            return {kind: count for kind, count in self.asked(since).items() if not kind.endswith(" leases")}

        yield
        into.update(
            wait_unchanged(others, 60, "the operator to make no more requests", interval=QUIET_SECONDS),
        )

    def touch(self, name: str, patch: dict[str, Any]) -> None:
        """Change the Deployment of this name behind the operator's back."""
        self.cluster.api.patch(object_path("apps/v1", "deployments", NAMESPACE, name), patch)


def count_requests(stage: Stage, socket: Path) -> tuple[Requests, OperatorProcess]:
    """What a resource's life costs, phase by phase, and the operator's own. Returns the operator, which still runs."""
    names = [f"counted-{number:03d}" for number in range(COUNTED)]
    caches = stage.caches
    counts: Requests = {phase: {} for phase in ("start", "create", "scale", "repair", "restart", "idle", "delete")}
    with step("requests: start"), stage.counting(counts["start"]):
        operator = stage.start()
    with step(f"requests: create {COUNTED}"), stage.counting(counts["create"]):
        for name in names:
            caches.create(name, size=1)
        caches.wait_ready(*names, timeout=120)
    with step("requests: scale from 1 to 2"), stage.counting(counts["scale"]):
        for name in names:
            caches.patch(name, size=2)
        caches.wait_ready(*names, timeout=120)
    with step("requests: repair"), stage.counting(counts["repair"]):
        for name in names:
            stage.touch(name, {"spec": {"replicas": 3}})
        for name in names:
            caches.wait_replicas(name, 2)
        caches.wait_ready(*names, timeout=120)
    operator.terminate()
    with step("requests: restart"), stage.counting(counts["restart"]):
        operator = stage.start(program=footprint.PROBE, env={footprint.SOCKET: str(socket)})
        empty = 'workqueue_depth{controller="memcached"} 0.0'
        wait_until(lambda: empty in operator.metrics(), 60, "an empty queue")
    with step("requests: idle"):
        since = stage.cluster.audit_offset()
        threading.Event().wait(IDLE_SECONDS)  # there is nothing to wait for: that is what is counted
        counts["idle"] = stage.asked(since)
    with step("requests: delete"), stage.counting(counts["delete"]):
        for name in names:
            caches.delete(name)
        for name in names:
            caches.wait_gone(name, 120)
    return counts, operator


def weigh(stage: Stage, socket: Path) -> dict[str, list[tuple[str, float]]]:
    """Bytes that a resource of one pod holds, and that a change of its Deployment leaves behind, by source file."""

    def fill(kind: str) -> list[str]:
        names = [f"{kind}-{number:03d}" for number in range(HELD)]
        for name in names:
            stage.caches.create(name, size=1)
        stage.caches.wait_ready(*names, timeout=180)
        return names

    with step(f"bytes held: twice {HELD} resources"):
        fill("first")
        half = footprint.held_at_rest(socket)
        names = fill("second")
        full = footprint.held_at_rest(socket)
    with step(f"bytes held: {ROUNDS} changes of each"):
        for number in range(ROUNDS):
            for name in names:
                stage.touch(name, {"metadata": {"labels": {"bench.example.com/round": str(number)}}})
        changed = footprint.held_at_rest(socket)
    return {
        "a resource": footprint.growth(half, full, HELD),
        "a change": footprint.growth(full, changed, ROUNDS * HELD),
    }


@contextmanager
def stage_set() -> Iterator[Stage]:
    """A cluster of its own, gone at the end of the block."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ControlPlane.start(f"bench-check-{os.getpid()}", kcm_fast=True, tmpfs=True) as cluster,
    ):
        cluster.install_crds(REPOSITORY / "config" / "crd", timeout=60)
        cluster.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        rbac.bind(cluster.api, USER, cluster_role_rules())
        rbac.bind(cluster.api, USER, leader_election_rules(), namespace=NAMESPACE, name="leader-election")
        yield Stage(cluster, Path(folder))


def check_instructions(limits: Limits, costs: dict[str, float]) -> list[str]:
    """Count and print them, and add them to the `costs`; return what is too much."""
    if not instructions.available():
        note("instructions: NOT COUNTED, for want of valgrind")
        return []
    with step("instructions of the hot path"):
        counted = instructions.count()
    for name, number in counted.items():
        costs[f"instructions: {name}"] = round(number)
        print(f"  {name:32} {number:12,.0f}   limit {limits.instructions.get(name, 0):12,.0f}")
    here = (f"{sys.version_info.major}.{sys.version_info.minor}", platform.machine())
    if here != (limits.python, limits.machine):
        note(f"instructions: not judged on Python {' '.join(here)}; the limits are of {limits.python} {limits.machine}")
        return []
    return above(counted, limits.instructions, "instructions")


def check_on_cluster(limits: Limits, costs: dict[str, float]) -> list[str]:
    """Count requests and bytes, print them, and add them to the `costs`; return what is too much."""
    with stage_set() as stage:
        socket = stage.folder / "probe"
        requests, operator = count_requests(stage, socket)
        with operator:
            holders = weigh(stage, socket)
    problems = []
    for phase, counted in requests.items():
        resources = 1 if phase in PER_OPERATOR else COUNTED
        allowed = limits.requests[phase]
        for kind, count in sorted(counted.items()):
            costs[f"{phase}: {kind}"] = count / resources
            print(f"  {phase:8} {kind:48} {count / resources:6.2f}   limit {allowed.get(kind, 0):g}")
        problems += [f"{phase}: {problem}" for problem in too_many_requests(counted, allowed, resources)]
    held = {what: sum(size for _, size in by_file) for what, by_file in holders.items()}
    for what, by_file in holders.items():
        costs[f"bytes held: {what}"] = round(held[what])
        print(f"  {what} holds {held[what]:,.0f} bytes   limit {limits.held.get(what, 0):,.0f}")
        for name, size in by_file[:6]:
            print(f"    {size:6,.0f} of it from {name.removeprefix(str(REPOSITORY) + os.sep)}")
    return problems + above(held, limits.held, "bytes")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the checks; return 1 when a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, prog="make bench-check")
    parser.add_argument("--only", choices=("cluster", "instructions"), help="one half of it")
    parser.add_argument("--write", action="store_true", help=f"keep what was counted in {COSTS.name}, for the page")
    arguments = parser.parse_args(argv)
    limits = Limits.read()
    problems = []
    costs: dict[str, float] = {}
    if arguments.only != "cluster":
        problems += check_instructions(limits, costs)
    if arguments.only != "instructions":
        problems += check_on_cluster(limits, costs)
    if arguments.write:
        COSTS.write_text(json.dumps(costs, indent=1) + "\n", encoding="utf-8")
    for problem in problems:
        print(f"TOO MUCH  {problem}")
    print("bench-check: " + (f"{len(problems)} above their limits" if problems else "all within their limits"))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
