"""The kill matrix: the operator is killed at every write of every story, before and after the write took effect."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest
from rig import Rig, kill_at, reference_of
from stories import NAME, STORIES, Story

from controlplane import OperatorProcess
from faultrig.oracles import Evidence, Reference, acquit, judge
from faultrig.rules import Phase

CLEAN_RUNS = 3
ORACLES = ("O1", "O2", "O3", "O5", "O7", "O8", "O9", "O10")
MOST_WRITES = 40


def play(
    rig: Rig,
    story: Story,
    operator: OperatorProcess,
    kill: tuple[int, Phase, signal.Signals] | None,
    reference: Reference | None = None,
) -> tuple[Evidence, OperatorProcess, bool]:
    """One run: the evidence, the operator that lives at its end, and whether the kill has struck."""
    rig.clean()
    rig.forget_ended()
    story.arrange(rig)
    rig.settle(lambda _: True, quiet=0)
    since = rig.journal.mark()
    proxy = rig.proxy()
    if kill is not None:
        rule = kill_at(operator, *kill)
        proxy.inject(rule, cut=False)
    story.act(rig)
    struck = False
    healed_at = time.monotonic()
    if kill is not None:
        rig.settle(lambda rig: not operator.alive() or story.done(rig), quiet=0)
        struck = proxy.book.struck(rule.name) > 0
        proxy.heal()
        if struck:
            operator.wait(30)
            fatal = kill[2] == signal.SIGKILL
            rig.expect_end(operator, -signal.SIGKILL if fatal else 0)
            operator = rig.start(ready=False)
            healed_at = time.monotonic()
    settled_at, watched_until = rig.settle(story.done)
    evidence = rig.evidence(
        since,
        reference=reference,
        healed_at=healed_at,
        settled_at=settled_at,
        watched_until=watched_until,
        limit=60.0,
        left_behind=frozenset({NAME} if story.left_behind else ()),
    )
    return evidence, operator, struck


@pytest.mark.parametrize("number", (signal.SIGKILL, signal.SIGTERM), ids=lambda number: number.name)
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_ended_at_every_write(
    rig: Rig, story: Story, number: signal.Signals, record_property: Callable[[str, object], None]
) -> None:
    operator = rig.start()
    clean = []
    for _ in range(CLEAN_RUNS):
        evidence, operator, _ = play(rig, story, operator, None)
        acquit(evidence, ORACLES)
        clean.append(evidence)
    reference = reference_of(clean)
    wrong: list[str] = []
    kills = 0
    for phase in Phase:
        for k in range(1, MOST_WRITES):
            evidence, operator, struck = play(rig, story, operator, (k, phase, number), reference)
            wrong += [f"{number.name} {phase.value} write {k}: {line}" for line in judge(evidence, ORACLES)]
            if not struck:
                record_property(f"writes {phase.value}", k - 1)
                break
            kills += 1
        else:
            pytest.fail(f"{story.name} writes without end")
    record_property("kills", kills)
    assert wrong == []
    assert (kills > 0) is story.writes
