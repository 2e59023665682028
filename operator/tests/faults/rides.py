"""The ride: four caches, edited, broken, deleted and created while the operator is disturbed; then all must be well.

Most cases of classes A and B are this, with other rules.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from rig import Rig, reference_of

from controlplane import OperatorProcess, wait_until
from controlplane.api import object_path
from faultrig.oracles import Evidence, acquit
from faultrig.rules import EventRule, Rule

ORACLES = ("O1", "O2", "O3", "O5", "O7", "O8", "O9", "O10")


@dataclass(frozen=True)
class Gap:
    """One stretch of a ride: these rules, for so long, and until one of them has struck `least` times."""

    rules: tuple[Rule | EventRule, ...]
    seconds: float = 3.0
    least: int = 1
    cut: bool = True


_BEGIN = ("kept", "drifted", "deleted")
_REFERENCES: dict[str, Evidence] = {}


def begin(rig: Rig, *args: str, elects: bool = False) -> OperatorProcess:
    """Start the operator and bring three caches to rest."""
    operator = rig.start(*args, elects=elects)
    for name in _BEGIN:
        rig.caches.create(name, size=1)
    rig.settle(lambda rig: all(rig.caches.ready(name) for name in _BEGIN), quiet=0)
    return operator


def disturb(rig: Rig) -> None:
    """What happens while the operator is disturbed."""
    rig.caches.patch("kept", size=3, memory=128)
    rig.api.delete(object_path("apps/v1", "deployments", rig.namespace, "drifted"))
    rig.caches.delete("deleted")
    rig.caches.create("new", size=2)


def over(rig: Rig) -> bool:
    """Whether all of it has had its effect."""
    names = ("kept", "drifted", "new")
    pods = rig.api.get(object_path("v1", "pods", rig.namespace))["items"]
    alive = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    return (
        all(rig.caches.ready(name) for name in names)
        and rig.caches.replicas("kept") == 3
        and len(alive) == 6
        and not any(rig.caches.child(plural, "deleted") for plural in ("deployments", "services"))
    )


def finish(rig: Rig, since: int, healed_at: float, *, limit: float = 60.0) -> Evidence:
    """Wait for the end, and collect what there is to judge."""
    settled_at, watched_until = rig.settle(over, limit + 30)
    return rig.evidence(since, healed_at=healed_at, settled_at=settled_at, watched_until=watched_until, limit=limit)


def undisturbed(rig: Rig) -> Evidence:
    """The evidence of a ride without faults, made once a session in a rig of its own."""
    if "ride" not in _REFERENCES:
        with rig.sibling() as other:
            begin(other)
            since = other.journal.mark()
            disturb(other)
            evidence = finish(other, since, time.monotonic())
        acquit(evidence, ORACLES)
        _REFERENCES["ride"] = evidence
    return _REFERENCES["ride"]


def ride(
    rig: Rig,
    *gaps: Gap,
    args: tuple[str, ...] = (),
    elects: bool = False,
    limit: float = 60.0,
    harm: Callable[[Rig], None] | None = None,
    least: int = 1,
) -> Evidence:
    """The whole ride. `harm` is done between the edits and the heal, where rules are not enough. `least`: faults."""
    reference = reference_of([undisturbed(rig)])
    begin(rig, *args, elects=elects)
    since = rig.journal.mark()
    proxy = rig.proxy()
    for number, gap in enumerate(gaps):
        proxy.inject(*gap.rules, cut=gap.cut)
        until = time.monotonic() + gap.seconds
        if number == 0:
            disturb(rig)
        names = [rule.name for rule in gap.rules]
        struck = partial(lambda names: sum(proxy.book.struck(name) for name in names), names)
        wait_until(struck, 60, f"{names} to strike", until=partial(int.__le__, gap.least))
        threading.Event().wait(until - time.monotonic())  # the fault itself lasts: there is nothing to wait for
    if not gaps:
        disturb(rig)
    if harm is not None:
        harm(rig)
    proxy.heal()
    evidence = replace(finish(rig, since, time.monotonic(), limit=limit), reference=reference)
    acquit(evidence, ORACLES)
    assert rig.journal.faults(since) >= (least if gaps else 0)
    assert all(operator.live() for _, operator, _ in rig.operators)
    return evidence
