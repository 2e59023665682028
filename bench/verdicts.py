"""The targets of targets.json, and what the figures say to them. Pure but for reading the file."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.distribution import Spread, ratios
from bench.records import Pair, Record

FILE = Path(__file__).with_name("targets.json")
TIE = 0.05
"""Ratios that differ from 1 by no more are a tie."""


@dataclass(frozen=True, slots=True)
class Target:
    """One metric and the ratios ours / theirs that are aimed at; `number` groups metrics that belong together.

    `targets` hold at every size, those of `at` at their number of resources instead. `absolute` bounds our own figure.
    With `better` = "higher" a ratio is to be at or above its target, else at or below.
    """

    metric: str
    title: str
    unit: str
    number: int
    targets: dict[str, float]
    at: dict[str, dict[str, float]] = field(default_factory=dict)
    absolute: float | None = None
    better: str = "lower"

    def aim(self, peer: str, n: int) -> float | None:
        """The ratio aimed at against a peer, None when there is none."""
        return self.at.get(str(n), {}).get(peer, self.targets.get(peer))

    def meets(self, figure: float, aim: float) -> bool:
        """Tell whether a ratio, or our own figure, is as good as it should be."""
        return figure >= aim if self.better == "higher" else figure <= aim

    def outcome(self, ratio: float) -> str:
        """`ahead`, `tie` or `behind`."""
        if abs(ratio - 1) <= TIE:
            return "tie"
        return "ahead" if (ratio > 1) == (self.better == "higher") else "behind"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the pairs of one size and peer say of one metric: medians of both, the spread of ratios, and the aim."""

    target: Target
    ours: float
    theirs: float
    ratio: Spread | None
    aim: float | None

    @property
    def met(self) -> bool | None:
        """Whether the aim is met; None when there is none, or no ratio."""
        if self.aim is None or self.ratio is None:
            return None
        return self.target.meets(self.ratio.median, self.aim)

    @property
    def outcome(self) -> str:
        """`ahead`, `tie`, `behind`; where one side is zero, by the figures themselves."""
        if self.ratio is not None:
            return self.target.outcome(self.ratio.median)
        return "behind" if self.ours > self.theirs else "ahead"


def read_targets(path: Path = FILE) -> list[Target]:
    """Read the file. Raises OSError, ValueError, or TypeError for a field that is unknown."""
    return [Target(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]


def verdict(target: Target, pairs: Sequence[Pair], peer: str, n: int) -> Verdict | None:
    """Judge one metric by the pairs against `peer` with n resources; None when none of them has it."""
    figures = [
        (pair.ours.metrics[target.metric], pair.theirs.metrics[target.metric])
        for pair in pairs
        if (pair.ours.peer, pair.ours.n) == (peer, n)
        and target.metric in pair.ours.metrics
        and target.metric in pair.theirs.metrics
    ]
    if not figures:
        return None
    ours, theirs = (statistics.median(side) for side in zip(*figures, strict=True))
    return Verdict(target, ours, theirs, ratios(figures), target.aim(peer, n))


def medians(records: Sequence[Record], operator: str, metric: str) -> dict[float, float]:
    """Number of resources -> median of a metric over all runs of an operator."""
    by_size: dict[float, list[float]] = {}
    for record in records:
        if record.operator == operator and metric in record.metrics:
            by_size.setdefault(record.n, []).append(record.metrics[metric])
    return {n: statistics.median(values) for n, values in sorted(by_size.items())}
