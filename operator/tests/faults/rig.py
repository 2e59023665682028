"""One namespace, an operator behind a fault proxy, and what becomes of both."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

from controlplane import ControlPlane, OperatorProcess, wait_until
from controlplane.api import object_path
from faultrig.journal import Entry, Journal
from faultrig.oracles import Evidence, Process, Reference, creations
from faultrig.proxy import FaultProxy
from faultrig.rules import Match, Phase, Rule, Signal
from faultrig.state import State, flat, read, varying
from memcacheds import CACHES, CHILDREN, Memcacheds

QUIET_SECONDS = float(os.environ.get("QUIET_SECONDS", "1"))
"""How long nothing may be written when all is well. 120 in an unshortened run."""
PAUSE_SECONDS = 0.4
"""So long without a write, and a story counts as over. Status is written 0.2 s after what it tells."""
SETTLE_SECONDS = 90.0
CANARY = "canary-7b1e-do-not-print"
OPERATOR_USER = "memcached-operator"

Done = Callable[["Rig"], object]


class Rig:
    """The operators of one namespace. Used in `with`; what still runs at the end is killed."""

    def __init__(self, control_plane: ControlPlane, namespace: str, folder: Path) -> None:
        self.control_plane = control_plane
        self.namespace = namespace
        self.folder = folder
        self.caches = Memcacheds(control_plane, namespace)
        self.api = control_plane.api
        self.journal = Journal(folder / "requests.jsonl")
        self.proxies: dict[str, FaultProxy] = {}
        self.source: dict[str, str] = {}  # environment of every operator: that of a seeded bug points to its source
        self.patience = 1.0  # of all time-outs of `settle`
        self.operators: list[tuple[str, OperatorProcess, tuple[int | None, ...]]] = []

    def __enter__(self) -> Self:
        secret = {"metadata": {"name": "canary"}, "stringData": {"password": CANARY}}
        self.api.create(object_path("v1", "secrets", self.namespace), secret)
        return self

    def __exit__(self, *error: object) -> None:
        for _, operator, _ in self.operators:
            operator.kill()
        for proxy in self.proxies.values():
            proxy.__exit__(None, None, None)
        self.journal.close()

    @contextlib.contextmanager
    def sibling(self) -> Iterator[Rig]:
        """Another rig on the same control plane, in a namespace of its own."""
        name = f"{self.namespace[:50]}-sibling"
        self.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        account = object_path("v1", "serviceaccounts", name, "default")
        wait_until(lambda: self.api.find(account), 30, f"the service account of {name}")
        folder = self.folder / "sibling"
        folder.mkdir()
        with Rig(self.control_plane, name, folder) as other:
            yield other
        self.api.delete(f"/api/v1/namespaces/{name}")

    def proxy(self, identity: str = "operator") -> FaultProxy:
        """The proxy of this name, made on first use."""
        if identity not in self.proxies:
            made = FaultProxy.to(self.control_plane, OPERATOR_USER, self.folder, identity, self.journal)
            self.proxies[identity] = made.__enter__()
        return self.proxies[identity]

    def start(
        self,
        *args: str,
        identity: str = "operator",
        env: dict[str, str] | None = None,
        kubeconfig: Path | None = None,
        elects: bool = False,
        ready: bool = True,
        ends: tuple[int | None, ...] = (None,),
    ) -> OperatorProcess:
        """Start an operator behind the proxy of its identity. `ends`: how it may have ended when the run is judged."""
        operator = OperatorProcess.start(
            kubeconfig or self.proxy(identity).kubeconfig,
            f"--watch-namespace={self.namespace}",
            *([f"--leader-election-namespace={self.namespace}"] if elects else ["--no-leader-elect"]),
            *args,
            env={"POD_NAME": identity, **self.source, **(env or {})},
            log=self.folder / f"{identity}-{len(self.operators)}.log",
        )
        self.operators.append((identity, operator, ends))
        return operator.wait_ready(60) if ready else operator

    def expect_end(self, operator: OperatorProcess, *codes: int | None) -> None:
        """It may end with one of these codes."""
        self.operators = [(i, o, codes if o is operator else e) for i, o, e in self.operators]

    def forget_ended(self) -> None:
        """Operators of former runs are not judged again."""
        self.operators = [(i, o, e) for i, o, e in self.operators if o.alive()]

    def settle(
        self, done: Done, timeout: float = SETTLE_SECONDS, quiet: float = QUIET_SECONDS
    ) -> tuple[float | None, float]:
        """Wait until `done` and until writes have ended; return (that time or None, the time when looking ended)."""

        def settled() -> bool:
            return bool(done(self)) and time.monotonic() - self.last_write() > PAUSE_SECONDS

        try:
            wait_until(
                settled, timeout * self.patience, "the story to be over", tolerate=(OSError, RuntimeError, LookupError)
            )
        except AssertionError:
            return None, time.monotonic()
        settled_at = time.monotonic()
        threading.Event().wait(quiet)  # nothing may happen: there is nothing to wait for
        return settled_at, time.monotonic()

    def look(self, name: str) -> dict[str, Any]:
        """The children, with name and uid taken out of them, to compare those of two resources."""
        found = self.caches.get(name)
        if found is None:
            raise AssertionError(f"there is no Memcached {name}")
        text = json.dumps(self.caches.look(name)).replace(found["metadata"]["uid"], "UID")
        looks: dict[str, Any] = json.loads(text.replace(f'"{name}"', '"NAME"'))
        for child in looks.values():
            child["annotations"].pop("cache.example.com/desired-hash", None)
            for given_by_the_cluster in ("clusterIP", "clusterIPs"):
                child["spec"].pop(given_by_the_cluster, None)
        return looks

    def last_write(self) -> float:
        """When the last write that took effect, Leases and events apart, ended; 0 before the first."""
        writes = (e.ended for e in reversed(self.journal.entries()) if e.took_effect and _counts(e))
        return next(writes, 0.0)

    def evidence(self, since: int, state: State | None = None, **more: Any) -> Evidence:
        """What has happened since a mark of the journal, and what is there now."""
        return Evidence(
            requests=self.journal.entries(since),
            state=state or read(self.api, self.namespace),
            processes=[
                Process(identity, operator.exit_code, ends, operator.log_text())
                for identity, operator, ends in self.operators
            ],
            canaries=(CANARY,),
            **more,
        )

    def _wait_none(self, collection: str) -> None:
        wait_until(lambda: not self.api.get(collection)["items"], 90, f"{collection} to be empty")

    def clean(self) -> None:
        """Remove every Memcached and what was left behind on purpose, and wait until nothing is there."""
        root = object_path(CACHES, "memcacheds", self.namespace)
        for body in self.api.get(root)["items"]:
            self.api.request("DELETE", f"{root}/{body['metadata']['name']}")
        wait_until(lambda: not self.api.get(root)["items"], 60, "Memcacheds to be gone")
        for version, plural in CHILDREN:
            collection = object_path(version, plural, self.namespace)
            for body in self.api.get(collection)["items"]:
                self.api.request("DELETE", f"{collection}/{body['metadata']['name']}")
        kinds = (*CHILDREN, ("v1", "pods"), ("apps/v1", "replicasets"))
        for version, plural in kinds:
            self._wait_none(object_path(version, plural, self.namespace))
        events = object_path("events.k8s.io/v1", "events", self.namespace)
        self.api.request("DELETE", events)


def _counts(entry: Entry) -> bool:
    return entry.call.resource not in ("events", "leases")


def kill_at(operator: OperatorProcess, k: int, phase: Phase, number: signal.Signals = signal.SIGKILL) -> Rule:
    """The rule that sends a signal at the k-th write from now."""
    fatal = number == signal.SIGKILL
    return Rule(
        f"{number.name} {phase.value} write {k}",
        Signal(lambda: operator.signal(number), drops=fatal),
        Match(writes=True),
        phase,
        nth=k,
    )


def reference_of(evidences: list[Evidence]) -> Reference:
    """What undisturbed runs of a story have in common."""
    leaves = [flat(evidence.state) for evidence in evidences]
    return Reference(leaves[0], creations(evidences[0].requests), varying(leaves))
