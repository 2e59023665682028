"""The cluster of the demo, its operators, and what can be seen of both."""

import os
import re
import shlex
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from controlplane import ControlPlane, OperatorProcess, Request, rbac
from controlplane.api import object_path
from controlplane.paths import REPOSITORY
from story import kept

NAMESPACE = "default"
OPERATOR_USER = "memcached-operator"
OPERATOR_NAMESPACE = "memcached-operator-system"
OPERATOR_FLAGS = (f"--leader-election-namespace={OPERATOR_NAMESPACE}",)
LEASE_SECONDS = 15  # the operator's default
QUIET_SECONDS = 1.0  # a status that is held back is written within 0.3 s

_REFUSED = 400
_API = "cache.example.com/v1alpha1"
_COLLECTIONS = {
    "Memcached": (_API, "memcacheds"),
    "Deployment": ("apps/v1", "deployments"),
    "Service": ("v1", "services"),
    "PodDisruptionBudget": ("policy/v1", "poddisruptionbudgets"),
    "Pod": ("v1", "pods"),
    "EndpointSlice": ("discovery.k8s.io/v1", "endpointslices"),
    "Event": ("events.k8s.io/v1", "events"),
}
CHILDREN = ("Deployment", "Service", "PodDisruptionBudget", "Pod")

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment: its place in the audit log, in bytes, and its time, in seconds since 1970."""

    offset: int
    time: float


@dataclass(frozen=True, slots=True)
class Reaction:
    """When something was asked for and when it was done: the arrivals of two requests, by the API server's own log."""

    asked_at: float  # seconds since 1970
    done_at: float

    @property
    def seconds(self) -> float:
        """Return the time between the two."""
        return self.done_at - self.asked_at


@dataclass(slots=True)
class Rig:
    """One demo's cluster and operators. `open` starts the cluster, `close` ends all that runs."""

    logs: Path
    keep: bool = False
    cluster: ControlPlane | None = None
    operators: list[OperatorProcess] = field(default_factory=list)
    ended: set[int] = field(default_factory=set)  # pids of operators that were told to end

    # --- life ---------------------------------------------------------------------------------------------------------

    def open(self) -> ControlPlane:
        """Start the cluster. Raises what ControlPlane.start raises."""
        if self.keep:
            kept.remember([])
        self.cluster = ControlPlane.start(kept.CLUSTER, detached=self.keep)
        # The cluster's kubectl may be named otherwise, or lie beside programs that a user's PATH is not to have.
        self._programs.mkdir()
        (self._programs / "kubectl").symlink_to(self.cluster.kubectl_path)
        return self.cluster

    def close(self) -> None:
        """End the operators and the cluster, whatever state they are in."""
        for operator in self.operators:
            operator.kill()
        if self.cluster is not None:
            self.cluster.stop()

    @property
    def _programs(self) -> Path:
        return self.logs / "bin"

    @property
    def plane(self) -> ControlPlane:
        """Return the cluster, which has to be open."""
        if self.cluster is None:
            raise RuntimeError("the cluster is not started yet")
        return self.cluster

    def environment(self) -> dict[str, str]:
        """Return the environment in which a user of the cluster types: kubectl on PATH, the administrator's rights."""
        plane = self.plane
        return {
            **os.environ,
            "KUBECONFIG": str(plane.kubeconfig),
            "PATH": f"{self._programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            # kubectl remembers which kinds there are, by the server's address: another demo's kinds must not be found.
            "KUBECACHEDIR": str(self.logs / "kubectl"),
        }

    def exports(self) -> str:
        """Return the lines that make a shell use the cluster."""
        kubeconfig, programs = (shlex.quote(str(path)) for path in (self.plane.kubeconfig, self._programs))
        return f'export KUBECONFIG={kubeconfig}\nexport PATH={programs}:"$PATH"'

    # --- operators ----------------------------------------------------------------------------------------------------

    def grant(self) -> None:
        """Give the operator's user the rights in config/rbac, and none besides."""
        api = self.plane.api
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATOR_NAMESPACE}}
        api.create("/api/v1/namespaces", namespace)
        rbac.bind(api, OPERATOR_USER, _rules("role.yaml"))
        leases = _rules("leader_election_role.yaml")
        rbac.bind(api, OPERATOR_USER, leases, namespace=OPERATOR_NAMESPACE, name="leader-election")

    def start_operator(self, name: str) -> OperatorProcess:
        """Start an operator that calls itself `name`, and return at once."""
        with _hangup_ignored() if self.keep else nullcontext():
            operator = OperatorProcess.start(
                self.plane.user_kubeconfig(OPERATOR_USER),
                *OPERATOR_FLAGS,
                "--log-format=console",
                env={"POD_NAME": name, "NO_COLOR": "1"},
                log=self.logs / f"{name}.log",
            )
        self.operators.append(operator)
        if self.keep:
            kept.remember(operator.pid for operator in self.operators)
        return operator

    def ends(self, operator: OperatorProcess) -> None:
        """Say that this operator is about to be told to end, so that its end is no failure."""
        self.ended.add(operator.pid)

    def ailing(self) -> str:
        """Return which operator has ended by itself, and how; "" when none has."""
        for operator in self.operators:
            if operator.pid not in self.ended and not operator.alive():
                return f"the operator with pid {operator.pid} has ended by itself, with code {operator.exit_code}"
        return ""

    def leader(self) -> str:
        """Return who holds the Lease, "" when nobody does."""
        lease = self.plane.api.find(
            object_path("coordination.k8s.io/v1", "leases", OPERATOR_NAMESPACE, "memcached-operator")
        )
        return str(lease["spec"].get("holderIdentity") or "") if lease else ""

    # --- objects ------------------------------------------------------------------------------------------------------

    def find(self, kind: str, name: str) -> Json | None:
        """Return an object of the demo's namespace, None when there is none."""
        version, plural = _COLLECTIONS[kind]
        found: Json | None = self.plane.api.find(object_path(version, plural, NAMESPACE, name))
        return found

    def get(self, kind: str, name: str) -> Json:
        """Return an object of the demo's namespace. Raises ApiError."""
        version, plural = _COLLECTIONS[kind]
        found: Json = self.plane.api.get(object_path(version, plural, NAMESPACE, name))
        return found

    def of(self, kind: str, memcached: str) -> list[Json]:
        """Return the objects of a kind that belong to a Memcached, by our label."""
        version, plural = _COLLECTIONS[kind]
        items = self.plane.api.get(
            f"{object_path(version, plural, NAMESPACE)}?labelSelector=memcached_cr%3D{memcached}"
        )
        return list(items["items"])

    def names(self) -> list[str]:
        """Return the names of all Memcacheds."""
        version, plural = _COLLECTIONS["Memcached"]
        items = self.plane.api.get(object_path(version, plural, NAMESPACE))["items"]
        return sorted(item["metadata"]["name"] for item in items)

    def children(self, memcached: str) -> list[str]:
        """Return what exists of a Memcached, each as kind/name."""
        return [f"{kind}/{child['metadata']['name']}" for kind in CHILDREN for child in self.of(kind, memcached)]

    def events(self, memcached: str, reason: str) -> list[Json]:
        """Return the events of a reason about a Memcached."""
        version, plural = _COLLECTIONS["Event"]
        items = self.plane.api.get(object_path(version, plural, NAMESPACE))["items"]
        return [e for e in items if e["reason"] == reason and e.get("regarding", {}).get("name") == memcached]

    def ready_pods(self, memcached: str) -> list[str]:
        """Return the uids of the pods that are Ready and not on their way out, sorted."""
        return sorted(pod["metadata"]["uid"] for pod in self.of("Pod", memcached) if _serves(pod))

    def endpoints(self, memcached: str) -> list[str]:
        """Return the addresses that clients are sent to, sorted."""
        return endpoints(self.of("EndpointSlice", memcached))

    # --- audit log ----------------------------------------------------------------------------------------------------

    def mark(self) -> Mark:
        """Return the moment of this call."""
        return Mark(self.plane.audit_offset(), time.time())

    def writes(self, since: Mark) -> list[Request]:
        """Return the writes of all operators since then, without those to their Lease."""
        requests = self.plane.audit(user=OPERATOR_USER, since=since.offset)
        return [request for request in requests if request.is_write and request.resource != "leases"]

    def rested(self, since: Mark) -> bool:
        """Tell whether a second has passed since then, and since the last write that the operators made after it."""
        last = max([since.time, *(_seconds(write) for write in self.writes(since))])
        return time.time() - last > QUIET_SECONDS

    def reaction(self, since: Mark, asked: str, wrote: str) -> Reaction | None:
        """Return when a person first wrote to the resource `asked`, and when an operator last wrote to `wrote`."""
        return reaction(self.plane.audit(since=since.offset), asked, wrote)


def endpoints(slices: Iterable[Json]) -> list[str]:
    """Return the addresses of the ready endpoints in EndpointSlices, sorted."""
    found = [endpoint for piece in slices for endpoint in piece.get("endpoints") or []]
    ready = [endpoint for endpoint in found if endpoint.get("conditions", {}).get("ready")]
    return sorted(address for endpoint in ready for address in endpoint["addresses"])


def reaction(requests: Iterable[Request], asked: str, wrote: str) -> Reaction | None:
    """Return when a person first wrote to the resource `asked`, and when an operator last wrote to `wrote` after it.

    The last: the first server-side apply of a child takes two writes. Only writes that were accepted count, and no
    status. None when one of the two is not there.
    """
    asked_at = done_at = 0.0
    for request in requests:
        if not request.is_write or request.code >= _REFUSED or request.subresource == "status":
            continue
        operator = request.user == OPERATOR_USER
        if operator and asked_at and request.resource == wrote:
            done_at = _seconds(request)
        if not operator and not asked_at and request.resource == asked:
            asked_at = _seconds(request)
    return Reaction(asked_at, done_at) if done_at else None


def tally(requests: Iterable[Request]) -> dict[str, int]:
    """Return how often each was written, e.g. {"create services": 1, "patch memcacheds/status": 2}."""
    counts: dict[str, int] = {}
    for request in requests:
        target = "/".join(part for part in (request.resource, request.subresource) if part)
        words = f"{request.verb} {target}"
        counts[words] = counts.get(words, 0) + 1
    return counts


def metric(page: str, name: str) -> float:
    """Return the sum of the series of a metric on a Prometheus page; 0 when there are none."""
    values = re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", page, re.MULTILINE)
    return sum(float(value) for value in values)


def condition(memcached: Json, type_: str) -> Json:
    """Return a condition of a Memcached, {} when it has none of that type."""
    conditions: list[Json] = memcached.get("status", {}).get("conditions", [])
    return next((found for found in conditions if found["type"] == type_), {})


def settled(memcached: Json) -> bool:
    """Tell whether the status says Ready, about the spec as it is now."""
    found = condition(memcached, "Ready")
    return found.get("status") == "True" and found.get("observedGeneration") == memcached["metadata"]["generation"]


@contextmanager
def _hangup_ignored() -> Iterator[None]:
    """Let what is started in the block outlive the terminal: a signal that is ignored stays so in a child."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def hosts(memcached: Json) -> list[str]:
    """Return the addresses in status.serverList without the port, sorted."""
    servers: list[str] = memcached.get("status", {}).get("serverList", [])
    return sorted(server.removesuffix(":11211").strip("[]") for server in servers)


def _serves(pod: Json) -> bool:
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in pod.get("status", {}).get("conditions", []))
    return ready and "deletionTimestamp" not in pod["metadata"]


def _seconds(request: Request) -> float:
    return datetime.fromisoformat(request.time).timestamp()


def _rules(file: str) -> list[Json]:
    role = yaml.safe_load((REPOSITORY / "config" / "rbac" / file).read_text())
    rules: list[Json] = role["rules"]
    return rules
