"""Who led and who wrote, by the API server's audit log: one clock for all replicas, and nothing is missed."""

from __future__ import annotations

import datetime
import itertools
import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from controlplane import wait_until
from controlplane.api import Api, object_path

LOG = "/var/log/kubernetes/audit.log"


@dataclass(frozen=True, slots=True)
class Write:
    """A request that changes something, on the API server's clock. `pod` is "" when it is not the operator's."""

    arrived: float
    answered: float
    pod: str
    verb: str
    target: str  # such as deployments/scale
    namespace: str
    name: str
    code: int
    body: dict[str, Any]

    def __str__(self) -> str:
        when = datetime.datetime.fromtimestamp(self.arrived, datetime.UTC).time()
        return f"{when} {self.pod} {self.verb} {self.target} {self.namespace}/{self.name} {self.code}"


@dataclass(frozen=True, slots=True)
class Term:
    """The time for which one process held the Lease: from the request that took it to the answer that ended it."""

    holder: str
    number: int
    seconds: int  # for which a renewal holds
    since: float
    renewed: float
    until: float = float("inf")
    released: bool = False

    @property
    def pod(self) -> str:
        return self.holder.rpartition("_")[0]


class Audit:
    """The writes since this object was made. `read` returns the log after an offset in bytes."""

    def __init__(self, api: Api, namespace: str, read: Callable[[int], str]) -> None:
        self._leases = object_path("coordination.k8s.io/v1", "leases", namespace)
        self._api = api
        self._read = read
        self._offset = len(self._up_to_now(0).encode())

    def writes(self) -> list[Write]:
        """In the order of their answers."""
        lines = self._up_to_now(self._offset).splitlines()
        return sorted(map(_write, map(json.loads, lines)), key=lambda write: write.answered)

    def _up_to_now(self, offset: int) -> str:
        """Everything that was answered before this call: behind it in the log stands a request of our own."""
        mark = f"mark-{uuid.uuid4()}"
        self._api.request("DELETE", f"{self._leases}/{mark}")
        return wait_until(lambda: self._read(offset), 30, "our own request in the audit log", until=lambda s: mark in s)


def terms(writes: Sequence[Write]) -> list[Term]:
    """The history of the Lease."""
    history: list[Term] = []
    for write in writes:
        if not (write.pod and write.target == "leases" and write.code < 300):
            continue
        spec = write.body["spec"]
        holder = spec.get("holderIdentity") or ""
        if history and history[-1].holder == holder:
            history[-1] = replace(history[-1], renewed=write.arrived)
            continue
        if history and history[-1].until > write.answered:
            history[-1] = replace(history[-1], until=write.answered, released=not holder)
        if holder:
            number, seconds = spec["leaseTransitions"], spec["leaseDurationSeconds"]
            history.append(Term(holder, number, seconds, since=write.arrived, renewed=write.arrived))
    return history


def faults(writes: Sequence[Write]) -> list[str]:
    """What must not be: a Lease taken too early, a term that was not counted, a write while its writer did not lead."""
    history = terms(writes)
    found = []
    for old, new in itertools.pairwise(history):
        if not old.released and new.since < old.renewed + old.seconds:
            found.append(
                f"{new.holder} took the Lease {new.since - old.renewed:.3f} s after {old.holder} had renewed it"
            )
        if new.number != old.number + 1:
            found.append(f"leaseTransitions went from {old.number} to {new.number}")
    for write in writes:
        in_term = any(term.pod == write.pod and term.since <= write.arrived <= term.until for term in history)
        if write.pod and write.target != "leases" and not in_term:
            found.append(f"not led by its writer: {write}")
    return found


def _write(event: dict[str, Any]) -> Write:
    target, user = event.get("objectRef", {}), event["user"]
    parts = (target.get("resource", ""), target.get("subresource", ""))
    return Write(
        arrived=_seconds(event["requestReceivedTimestamp"]),
        answered=_seconds(event["stageTimestamp"]),
        pod="".join(user.get("extra", {}).get("authentication.kubernetes.io/pod-name", [])),
        verb=event["verb"],
        target="/".join(filter(None, parts)),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        code=event.get("responseStatus", {}).get("code", 0),
        body=event.get("requestObject", {}),
    )


def _seconds(timestamp: str) -> float:
    return datetime.datetime.fromisoformat(timestamp).timestamp()
