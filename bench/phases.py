"""The phases of one run: each does something to a contestant and returns what it cost, as metric -> number.

Names of metrics are those of targets.json. Latencies of a Deployment come from the API server's own clock: the arrival
of the contestant's request less the arrival of the user's. Observers differ in how fast they look, the audit log does
not.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bench import machine
from bench.contestants import Contestant, Running
from bench.counting import requests_by_kind
from bench.distribution import quantile
from bench.rest import wait_unchanged
from bench.rig import Rig, arrival, names
from controlplane import Request

MIB = 2**20
KIB = 2**10
RATE = 20
"""Changes a second in the phases scale and drift."""
QUIET_CPU = 0.02
"""CPU seconds in two seconds of an operator that does nothing: renewing a Lease takes less."""


@dataclass(slots=True)
class Outcome:
    """What one run told: metrics; latencies (ms) of all resources; requests by kind and phase; cores of others."""

    metrics: dict[str, float] = field(default_factory=dict)
    latencies: dict[str, list[float]] = field(default_factory=dict)
    requests: dict[str, dict[str, int]] = field(default_factory=dict)
    others: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Size:
    """How much is done: resources, resources that are scaled and drift, seconds of idling."""

    n: int
    changes: int
    idle_seconds: float


def drain(rig: Rig, contestant: Contestant, size: Size, prefix: str, outcome: Outcome) -> None:
    """All resources are there, the controller manager stands still, and the contestant starts cold."""
    rig.cluster.pause("kube-controller-manager")
    try:
        rig.create(size.n, prefix)
        rig.quiesce()
        since = rig.cluster.audit_offset()
        begin = time.time()
        with rig.start(contestant) as running:
            rig.wait_number("deployments", size.n, 60 + size.n / 5)
            settle(running)
            cpu = running.cpu()
        made = sorted(arrival(request) for request in _created(rig.requests(contestant, since)))
        metrics = outcome.metrics
        metrics["first_write_s"] = made[0] - begin
        metrics["drain_s"] = made[-1] - begin
        metrics["drain_per_s"] = (len(made) - 1) / max(made[-1] - made[0], 1e-9)
        metrics["drain_cpu_ms"] = cpu / size.n * 1000
    finally:
        rig.cluster.resume("kube-controller-manager")
    rig.remove(size.n, prefix)
    rig.drop_leases()
    rig.quiesce()


def load(rig: Rig, running: Running, size: Size, prefix: str, outcome: Outcome) -> None:
    """A user creates all resources at once; until every one is ready and the contestant quiet."""
    metrics = outcome.metrics
    empty = running.memory()
    metrics["rss_empty_mib"] = empty.resident / MIB
    watched = [*rig.pids(), running.pid]
    since, cpu, others_cpu = rig.cluster.audit_offset(), running.cpu(), rig.control_plane_cpu()
    before = machine.sample(watched)
    driven = rig.drive("load", size.n, prefix, 120 + size.n / 5, size=1)
    settle(running)
    outcome.others["load"] = machine.cores_of_others(before, machine.sample(watched))
    metrics["ready_s"] = driven["makespan_s"]
    metrics["cpu_ms"] = (running.cpu() - cpu) / size.n * 1000
    metrics["control_plane_ms"] = (rig.control_plane_cpu() - others_cpu) / size.n * 1000
    full = running.memory()
    metrics["rss_mib"] = full.resident / MIB
    metrics["anonymous_mib"] = full.anonymous / MIB
    metrics["kib_per_resource"] = (full.resident - empty.resident) / size.n / KIB
    requests = rig.cluster.audit(since=since)
    asked = {
        (request.namespace, request.name): arrival(request)
        for request in requests
        if (request.verb, request.resource, request.subresource) == ("create", "memcacheds", "")
    }
    mine = [request for request in requests if request.user == running.contestant.user]
    made = {(request.namespace, request.name): arrival(request) for request in _created(mine)}
    latencies = sorted((made[key] - asked[key]) * 1000 for key in made.keys() & asked.keys())
    outcome.latencies["create"] = latencies
    metrics["deployments_s"] = max(made.values()) - min(asked.values())
    metrics["create_p50_ms"], metrics["create_p99_ms"] = quantile(latencies, 0.5), quantile(latencies, 0.99)
    _count("create", mine, size.n, outcome)


def change(rig: Rig, running: Running, size: Size, prefix: str, outcome: Outcome) -> None:
    """Resources are scaled from 1 to 2, and others' replicas changed by a stranger, 20 a second."""
    for phase, options in (("drift", {}), ("scale", {"size": 2})):
        since = rig.cluster.audit_offset()
        driven = rig.drive(phase, size.n, prefix, 120, k=size.changes, rate=RATE, **options)
        settle(running)
        outcome.metrics[f"{phase}_p50_ms"] = driven["lat_p50_ms"]
        outcome.metrics[f"{phase}_p99_ms"] = driven["lat_p99_ms"]
        _count(phase, rig.requests(running.contestant, since), size.changes, outcome)


def idle(rig: Rig, running: Running, size: Size, outcome: Outcome) -> None:
    """Nothing happens."""
    rig.quiesce()
    since, cpu, begin = rig.cluster.audit_offset(), running.cpu(), time.monotonic()
    time.sleep(size.idle_seconds)  # what nothing costs is what is measured
    minutes = (time.monotonic() - begin) / 60
    asked = rig.requests(running.contestant, since)
    outcome.metrics["idle_cpu_ms"] = (running.cpu() - cpu) * 1000 / minutes
    outcome.metrics["idle_requests"] = len(asked) / minutes
    outcome.requests["idle"] = requests_by_kind(asked)


def restart(rig: Rig, running: Running, prefix: str, outcome: Outcome) -> Running:
    """Killed, started, and one resource changed at once. Returns the new process, which runs."""
    contestant = running.contestant
    running.stop(signal.SIGKILL)
    rig.drop_leases()
    namespace, name = names(0, prefix)
    size = _other_size(rig, namespace, name)
    since = rig.cluster.audit_offset()
    begin = time.time()
    again = rig.start(contestant)
    rig.resize(namespace, name, size)
    rig.wait_replicas(namespace, name, size)
    settle(again)
    requests = rig.requests(contestant, since)
    outcome.metrics["restart_s"] = _effect(requests, namespace, name) - begin
    outcome.metrics["restart_cpu_s"] = again.cpu()
    needless = [r for r in _writes(requests) if (r.namespace, r.name.partition(".")[0]) != (namespace, name)]
    outcome.metrics["restart_writes"] = len(needless)
    outcome.requests["restart"] = requests_by_kind(requests)
    return again


def failover(rig: Rig, leader: Running, prefix: str, outcome: Outcome) -> None:
    """A second replica waits; the leader is told to stop, then the next one killed: when is a change acted on?"""
    contestant = leader.contestant
    namespace, name = names(0, prefix)
    for number, (word, sig) in enumerate((("sigterm", signal.SIGTERM), ("sigkill", signal.SIGKILL)), 1):
        with leader:
            standby = rig.start(contestant, number)
            try:
                settle(standby)
                since, begin = rig.cluster.audit_offset(), time.time()
                leader.stop(sig)  # and it is gone: one that is ending may still act on what comes next
                size = _other_size(rig, namespace, name)
                rig.resize(namespace, name, size)
                rig.wait_replicas(namespace, name, size)
                requests = rig.requests(contestant, since)
                outcome.metrics[f"failover_{word}_s"] = _effect(requests, namespace, name) - begin
            except BaseException:
                standby.stop()
                raise
        leader = standby
    leader.stop()


def settle(running: Running, timeout: float = 300) -> None:
    """Return when the contestant has used almost no CPU for two seconds. Raises RuntimeError when it has ended."""
    wait_unchanged(
        running.cpu,
        timeout,
        f"{running.contestant.name} to be quiet",
        interval=2.0,
        same=lambda before, after: after - before <= QUIET_CPU,
    )


def _other_size(rig: Rig, namespace: str, name: str) -> int:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
    replicas = int(rig.cluster.api.get(path)["spec"]["replicas"])
    return 4 if replicas == 3 else 3


def _created(requests: Iterable[Request]) -> list[Request]:
    return [r for r in requests if (r.verb, r.resource, r.subresource, r.code) == ("create", "deployments", "", 201)]


def _writes(requests: Iterable[Request]) -> list[Request]:
    """Writes to the resource and its children: neither the Lease nor Events."""
    return [request for request in requests if request.is_write and request.resource not in {"leases", "events"}]


def _effect(requests: Sequence[Request], namespace: str, name: str) -> float:
    """When the contestant first wrote to the Deployment of this name."""
    return min(
        arrival(request)
        for request in _writes(requests)
        if (request.resource, request.namespace, request.name) == ("deployments", namespace, name)
    )


def _count(phase: str, requests: Sequence[Request], resources: int, outcome: Outcome) -> None:
    outcome.requests[phase] = requests_by_kind(requests)
    outcome.metrics[f"{phase}_writes"] = len(_writes(requests)) / resources
    outcome.metrics[f"{phase}_requests"] = sum(request.resource != "leases" for request in requests) / resources
