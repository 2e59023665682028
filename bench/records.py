"""Results as JSON lines: one line a run of one contestant, appended when the run is over, so that nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Record:
    """One run. Two of one `session` (control plane), `peer`, `n` and `pair` are a pair: ours and the peer's.

    `metrics` has the keys of targets.json; `latencies` hundredths (101 quantiles, ms); `requests` phase -> kind ->
    count; `others` the cores that strangers took, before the run and while it was loaded.
    """

    operator: str
    peer: str
    n: int
    pair: int
    session: str
    commit: str
    time: str
    noisy: bool
    machine: Mapping[str, str | int | float] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    latencies: Mapping[str, Sequence[float]] = field(default_factory=dict)
    requests: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    others: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runs that may be compared."""

    ours: Record
    theirs: Record


def append(path: Path, record: Record) -> None:
    """Add a line to the file, which is made when it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(record), sort_keys=True) + "\n")


def read(path: Path) -> list[Record]:
    """All records of the file, none when it is not there. Raises ValueError or TypeError for any other line."""
    if not path.exists():
        return []
    return [Record(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines() if line]


def pairs(records: Sequence[Record]) -> list[Pair]:
    """The complete pairs, in the order of their first runs; of a pair that ran twice, the last."""
    found: dict[tuple[str, int, int], Pair] = {}
    halves: dict[tuple[str, str, int, int], Record] = {}
    for record in records:
        key = (record.session, record.peer, record.n, record.pair)
        other = halves.pop(key, None)
        if other is None or other.operator == record.operator:
            halves[key] = record
            continue
        ours, theirs = (record, other) if record.operator == "ours" else (other, record)
        found[key[1:]] = Pair(ours, theirs)
    return list(found.values())
