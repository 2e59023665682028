"""The soak: edits, ten a second, for as long as MINUTES says; what the operator holds must not grow.

The samples are written beside the results, for the picture in docs/reliability.md.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rig import Rig

from faultrig import results
from faultrig.oracles import acquit

MINUTES = float(os.environ.get("MINUTES", "0.5"))
CACHES, A_SECOND = 30, 10
SAMPLE_SECONDS = 5.0
MIB_AN_HOUR = 4.0
SAMPLES = results.FILE.with_name("soak.jsonl")


def sample(rig: Rig, pid: int, began: float) -> dict[str, float]:
    """What the process holds now, from /proc; and its requests so far."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {
        "seconds": round(time.monotonic() - began, 1),
        "rss_mib": int(status["VmRSS"].split()[0]) / 1024,
        "threads": int(status["Threads"]),
        "files": len(list(Path(f"/proc/{pid}/fd").iterdir())),
        "requests": rig.journal.mark(),
    }


def slope(points: list[tuple[float, float]]) -> float:
    """Growth an hour, by least squares over (seconds, value)."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    square = sum((x - mean_x) ** 2 for x, _ in points)
    return 3600 * sum((x - mean_x) * (y - mean_y) for x, y in points) / square if square else 0.0


def test_the_slope_is_that_of_a_line() -> None:
    assert slope([(0, 1.0), (1800, 2.0), (3600, 3.0)]) == pytest.approx(2.0)
    assert slope([(0, 1.0)]) == 0.0


def test_soak(rig: Rig, record_property: Callable[[str, object], None]) -> None:
    operator = rig.start()
    names = [f"cache-{number:02}" for number in range(CACHES)]
    for name in names:
        rig.caches.create(name, size=1)
    rig.caches.wait_ready(*names, timeout=240)
    since, began = rig.journal.mark(), time.monotonic()
    samples = [sample(rig, operator.pid, began)]
    edits = 0
    while time.monotonic() - began < MINUTES * 60:
        name = names[edits % CACHES]
        if edits % 50 == 49:
            rig.caches.delete(name)
            rig.caches.wait_gone(name)
            rig.caches.create(name, size=1)
        else:
            rig.caches.patch(name, size=edits % 4, verbosity=edits // CACHES % 3)
        edits += 1
        threading.Event().wait(max(0.0, began + edits / A_SECOND - time.monotonic()))  # the pace of the edits
        if time.monotonic() - began - samples[-1]["seconds"] > SAMPLE_SECONDS:
            samples.append(sample(rig, operator.pid, began))
    healed_at = time.monotonic()
    at, watched = rig.settle(lambda rig: all(rig.caches.ready(name) for name in names), 240)
    samples.append(sample(rig, operator.pid, began))
    SAMPLES.write_text("".join(json.dumps(line) + "\n" for line in samples))
    acquit(
        rig.evidence(since, healed_at=healed_at, settled_at=at, watched_until=watched, limit=200),
        ("O3", "O5", "O7", "O8", "O9", "O10"),
    )
    later = [line for line in samples if line["seconds"] > 0.3 * samples[-1]["seconds"]]
    growth = slope([(line["seconds"], line["rss_mib"]) for line in later])
    record_property("edits", edits)
    record_property("minutes", MINUTES)
    record_property("rss_mib", samples[-1]["rss_mib"])
    record_property("mib_an_hour", round(growth, 2))
    assert {line["files"] for line in later} <= set(range(60))
    assert max(line["threads"] for line in later) - min(line["threads"] for line in later) <= 4
    if MINUTES >= 20:  # over less, one allocation is a slope
        assert growth < MIB_AN_HOUR
