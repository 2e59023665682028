"""The limits of `make bench-check`: limits.json, and what is judged by it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("limits.json")
COSTS = Path(__file__).with_name("costs.json")
"""What was last counted, for the page: `python -m bench.check --write`."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What limits.json holds.

    `requests`: phase -> kind of request -> the most a resource may cost (phases start, restart and idle: the operator);
    a kind that is not named is not allowed. `held`: bytes. `instructions`: machine instructions an execution, valid for
    `python` (major.minor) on `machine`, because another interpreter takes another number of them.
    """

    python: str
    machine: str
    requests: Mapping[str, Mapping[str, float]]
    held: Mapping[str, float]
    instructions: Mapping[str, float]

    @classmethod
    def read(cls, path: Path = FILE) -> Limits:
        """Read the file. Raises OSError, ValueError, or TypeError for a field that is missing or unknown."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))


def too_many_requests(counted: Mapping[str, int], allowed: Mapping[str, float], resources: int) -> list[str]:
    """What is more than allowed, as sentences; empty when all is well.

    `counted` are totals of all `resources`, `allowed` is for one; a kind without a limit is not allowed at all.
    """
    return [
        f"{kind}: {count / resources:g} a resource ({count} for {resources}), allowed are {allowed.get(kind, 0):g}"
        for kind, count in sorted(counted.items())
        if count > allowed.get(kind, 0) * resources
    ]


def above(measured: Mapping[str, float], allowed: Mapping[str, float], unit: str) -> list[str]:
    """What is above its limit, or has none, as sentences."""
    return [
        f"{name}: {value:,.0f} {unit}, allowed are {allowed.get(name, 0):,.0f}"
        for name, value in measured.items()
        if value > allowed.get(name, 0)
    ]
