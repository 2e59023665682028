"""Seeded bugs: one for each class of bug that is known to break operators, and what has to notice it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from cases_api import CONFLICT, WATCHES, the_token_is_replaced_and_the_old_one_revoked
from cases_life import two, wait_leader
from rig import Rig, kill_at
from stories import STORIES

from controlplane import wait_until
from controlplane.api import object_path
from faultrig.oracles import Evidence, acquit
from faultrig.rules import Answer, Match, Phase, Reset, Rule
from mutation import Mutant


@dataclass(frozen=True)
class Seed(Mutant):
    """A bug of class `kind`; `run` meets it, and one of `oracles` must speak."""

    kind: str
    run: Callable[[Rig], None]
    oracles: tuple[str, ...]
    more: tuple[tuple[str, str, str], ...] = ()  # further (file, old, new): where two parts hold each other up


def _story(name: str, kill: int = 0) -> Callable[[Rig], None]:
    """A story, undisturbed or killed at a write, judged by the oracles that need no reference."""
    story = next(story for story in STORIES if story.name == name)

    def run(rig: Rig) -> None:
        since = rig.journal.mark()
        operator = rig.start()
        story.arrange(rig)
        if kill:
            rig.proxy().inject(kill_at(operator, kill, Phase.BEFORE), cut=False)
            rig.expect_end(operator, -9)
        story.act(rig)
        if kill:
            operator.wait(30)
            rig.proxy().heal()
            rig.start(ready=False)
        healed_at = time.monotonic()
        at, watched = rig.settle(story.done)
        _judge(rig, since, healed_at, at, watched)

    return run


def _judge(rig: Rig, since: int, healed_at: float, settled_at: float | None, watched_until: float) -> None:
    evidence: Evidence = rig.evidence(since, healed_at=healed_at, settled_at=settled_at, watched_until=watched_until)
    acquit(evidence, ("O3", "O5", "O7", "O8", "O9", "O10", "O12"))


def _blocked_leader(rig: Rig) -> None:
    """The leader's Leases are blocked, its other requests are not; a standby takes over."""
    first, _ = two(rig)
    rig.caches.create("cache", size=1)
    rig.settle(lambda rig: rig.caches.ready("cache"))
    since = rig.journal.mark()
    rig.proxy("first").inject(Rule("leases", Reset(), Match(resources=("leases",))))
    rig.expect_end(first, None, 1)
    wait_leader(rig, other_than="first")
    for size in (2, 3, 4):
        rig.caches.patch("cache", size=size)
        rig.caches.wait_replicas("cache", size)
    _judge(rig, since, time.monotonic(), time.monotonic(), time.monotonic())


def _broken_watches(rig: Rig) -> None:
    """Watches break and cannot be opened for a moment; then a child is deleted."""
    rig.start()
    rig.caches.create("cache", size=1)
    rig.settle(lambda rig: rig.caches.ready("cache"))
    since = rig.journal.mark()
    rig.proxy().inject(Rule("504", Answer(504), WATCHES, times=12))
    wait_until(lambda: rig.proxy().book.struck("504"), 30, "watches to break")
    rig.proxy().heal()
    healed_at = time.monotonic()
    service = object_path("v1", "services", rig.namespace, "cache")
    rig.api.request("DELETE", service)
    at, watched = rig.settle(lambda rig: rig.api.find(service))
    _judge(rig, since, healed_at, at, watched)


def _one_conflict(rig: Rig) -> None:
    """A write meets a conflict or three, and nothing else happens."""
    rig.start()
    rig.caches.create("cache", size=1)
    rig.settle(lambda rig: rig.caches.ready("cache"))
    since = rig.journal.mark()
    rig.proxy().inject(Rule("409", CONFLICT, Match(verbs=("patch",), resources=("deployments",)), times=3), cut=False)
    rig.caches.patch("cache", memory=128)  # of one child alone: no event of another makes up for it
    wait_until(lambda: rig.proxy().book.struck("409"), 30, "the conflict")
    healed_at = time.monotonic()
    at, watched = rig.settle(lambda rig: rig.caches.ready("cache"))
    _judge(rig, since, healed_at, at, watched)


def _autoscaled(rig: Rig) -> None:
    """An autoscaler holds the Deployment at three."""
    rig.start()
    rig.caches.create("cache", size=1)
    rig.settle(lambda rig: rig.caches.ready("cache"))
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "cache"}
    spec = {"scaleTargetRef": target, "minReplicas": 3, "maxReplicas": 5}
    path = object_path("autoscaling/v2", "horizontalpodautoscalers", rig.namespace)
    rig.api.create(path, {"metadata": {"name": "auto"}, "spec": spec})
    wait_until(lambda: rig.caches.replicas("cache") == 3, 60, "the autoscaler to act")
    since = rig.journal.mark()
    begun = time.monotonic()
    for _ in range(4):
        rig.caches.patch("cache", podAnnotations={"at": str(time.monotonic())})
        rig.settle(lambda _: True, quiet=0.5)
    scaled = [e.call for e in rig.journal.entries(since) if e.took_effect and e.call.subresource == "scale"]
    _judge(rig, since, begun, None if scaled else time.monotonic(), time.monotonic())


def _refused_budget(rig: Rig) -> None:
    """One kind fails for ever: how often is it tried?"""
    rig.start()
    since = rig.journal.mark()
    rig.proxy().inject(Rule("500", Answer(500), Match(resources=("poddisruptionbudgets",), writes=True)), cut=False)
    rig.caches.create("cache", size=2)
    wait_until(lambda: rig.journal.faults(since) >= 3, 60, "it to be tried")
    threading.Event().wait(3)  # how often it is tried meanwhile is what is looked at
    rig.proxy().heal()
    at, watched = rig.settle(lambda rig: rig.caches.ready("cache"))
    _judge(rig, since, time.monotonic(), at, watched)


def _stuck(rig: Rig) -> None:
    """A second change while the first roll-out is stuck."""
    rig.start()
    rig.caches.create("cache", size=2)
    rig.settle(lambda rig: rig.caches.ready("cache"))
    rig.caches.patch("cache", image="example.com/does-not-exist:1")
    wait_until(lambda: "ImagePull" in str(rig.caches.get("cache")), 60, "it to be stuck")
    since = rig.journal.mark()
    rig.caches.patch("cache", image="docker.io/library/memcached:1.6.40")
    at, watched = rig.settle(lambda rig: rig.caches.ready("cache"))
    _judge(rig, since, time.monotonic() - 1, at, watched)


SEEDS = (
    Seed(
        "a watch that broke is not opened again",
        "runtime/informer.py",
        "                await self._pause(error)\n                continue",
        "                return",
        "T1 deaf watcher",
        _broken_watches,
        ("O1", "O3"),
    ),
    Seed(
        "an error of a watch ends the process",
        "runtime/informer.py",
        "                self._judge(error, began)\n                await self._pause(error)",
        "                raise SystemExit(1) from error",
        "T2 crash on a transient error",
        _broken_watches,
        ("O3", "O7"),
    ),
    Seed(
        "failures are tried again at once",
        "runtime/workqueue.py",
        "delay = min(self._ceiling, self._base * 2.0 ** min(failures, 40))",
        "delay = 0.0",
        "T3 hot loop",
        _refused_budget,
        ("O9",),
    ),
    Seed(
        "the status is written each time, and each time looked at again",
        "controller/reconciler.py",
        "        if wait is None or (wait > 0 and not news):\n            return wait\n",
        "        if wait is None:\n            await self._write_status(observed.memcached, status)\n"
        "            return 0.2\n",
        "T3 self-trigger",
        _story("create"),
        ("O3",),
        (
            (
                "controller/reconciler.py",
                "troubles(old, status))\n        return None",
                "troubles(old, status))\n        return 0.2",
            ),
        ),
    ),
    Seed(
        "a leader writes past its deadline",
        "runtime/election.py",
        "return self.state is Lead.LEADING and self._clock() < self._deadline",
        "return True",
        "T4 zombie leader",
        _blocked_leader,
        ("O12",),
        (("runtime/manager.py", "on_fenced=self._fence,", "on_fenced=lambda: None,"),),
    ),
    Seed(
        "the finalizer is never removed",
        "controller/apply.py",
        "await self._release(memcached)",
        "return bool(memcached)",
        "T5 finalizer blocks deletion",
        _story("delete, policy Drain"),
        ("O3",),
    ),
    Seed(
        "everybody's objects are watched",
        "runtime/informer.py",
        "        if self._store.watch.labels:\n",
        "        if False:\n",
        "T6 memory for foreign objects",
        _story("create"),
        ("O9",),
    ),
    Seed(
        "children belong to nobody",
        "resources/ownership.py",
        "if memcached.spec.deletion_policy is DeletionPolicy.DELETE:",
        "if not memcached.name:",
        "T10 owner references",
        _story("delete, policy Delete"),
        ("O3", "O5", "O10"),
    ),
    Seed(
        "an autoscaler is fought",
        "controller/plan.py",
        "autoscaled = bool(observed.autoscaler or observed.errors)",
        "autoscaled = False",
        "T11 ownership fight",
        _autoscaled,
        ("O3",),
    ),
    Seed(
        "a conflict is final",
        "kube/errors.py",
        "409: ConflictError,",
        "409: TerminalError,",
        "T12 conflicts and lost updates",
        _one_conflict,
        ("O3", "O5"),
    ),
    Seed(
        "a new spec waits until the old one is rolled out",
        "controller/plan.py",
        "    difference = first_difference(manifest, child)\n    if difference is not None:",
        "    if isinstance(child, DeploymentView) and child.current > child.replicas:\n        return\n"
        "    difference = first_difference(manifest, child)\n    if difference is not None:",
        "T13 stuck roll-back",
        _stuck,
        ("O3", "O5"),
    ),
    Seed(
        "the first token is used for ever",
        "kube/credentials.py",
        "        return str(token).strip() if token else None",
        "        self.first = getattr(self, 'first', None) or str(token).strip()\n        return self.first",
        "T16 token",
        the_token_is_replaced_and_the_old_one_revoked,
        ("O3",),
    ),
    Seed(
        "what was half done before a restart is not looked at",
        "runtime/workqueue.py",
        "        if self._closed:\n            return\n        self._deadlines.pop(key, None)",
        "        if self._closed or background:\n            return\n        self._deadlines.pop(key, None)",
        "T17 crash in the middle is forgotten",
        _story("drift", kill=1),
        ("O3", "O5"),
    ),
)
