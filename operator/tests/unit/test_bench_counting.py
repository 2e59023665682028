"""What the benchmark reads: the audit log, valgrind's totals, tracemalloc's, the machine's; how it waits for rest."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench import footprint, imports, instructions, machine
from bench.counting import requests_by_kind
from bench.machine import Sample
from bench.rest import wait_unchanged
from controlplane import AuditLog, WaitTimeoutError

ROOT = Path(__file__).parents[3]


def logged(path: Path, *requests: tuple[str, str, str, str]) -> AuditLog:
    """An audit log of (verb, resource, subresource, uri)."""
    events = [
        {
            "stage": "ResponseStarted" if verb == "watch" else "ResponseComplete",
            "verb": verb,
            "objectRef": {"resource": resource, "subresource": subresource} if resource else {},
            "requestURI": uri,
            "requestReceivedTimestamp": "2026-01-01T00:00:00.000000Z",
            "responseStatus": {"code": 200},
        }
        for verb, resource, subresource, uri in requests
    ]
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return AuditLog(path)


def test_requests_are_counted_by_kind(tmp_path: Path) -> None:
    log = logged(
        tmp_path / "audit.log",
        ("patch", "memcacheds", "status", "/x"),
        ("patch", "memcacheds", "status", "/y"),
        ("watch", "pods", "", "/z"),
        ("get", "", "", "/version?mark=1"),
    )
    assert requests_by_kind(log.requests()) == {"patch memcacheds/status": 2, "watch pods": 1, "get /version": 1}


def test_instructions_are_those_beyond_the_common_start() -> None:
    assert instructions.per_execution({"nothing": 1000, "decode": 1500}, 50) == {"decode": 10.0}


def test_the_hot_path_runs_and_tells_what_valgrind_counted() -> None:
    environment = {"PYTHONPATH": ":".join(map(str, instructions.SOURCES))}
    told = subprocess.run(
        [sys.executable, str(instructions.HOT_PATH)], env=environment, capture_output=True, check=True, text=True
    )
    pids = json.loads(told.stdout)["pids"]
    assert instructions.NOTHING in pids
    assert len(set(pids.values())) == len(pids) > 1


def test_growth_names_who_holds_more() -> None:
    assert footprint.growth({"a": 5, "b": 5}, {"a": 5, "b": 6, "c": 9}) == [("c", 9), ("b", 1)]


def test_own_import_times_are_read() -> None:
    report = (
        "import time: self [us] | cumulative | imported package\nimport time:       120 |        500 |   aiohttp.http\n"
    )
    assert imports.own_times(report) == {"aiohttp.http": 120}


@pytest.mark.parametrize(("busy", "ours", "others"), ((3.0, 1.0, 1.0), (1.0, 1.0, 0.0), (0.9, 1.0, 0.0)))
def test_others_are_what_is_busy_and_not_ours(busy: float, ours: float, others: float) -> None:
    assert machine.cores_of_others(Sample(10, 5, 100), Sample(10 + busy, 5 + ours, 102)) == pytest.approx(others)


def test_rest_is_two_equal_looks_in_a_row() -> None:
    looks = iter((1, 2, 1, 1, 5))
    assert wait_unchanged(lambda: next(looks), 5, "rest", interval=0) == 1
    assert next(looks) == 5


def test_what_never_rests_is_an_error() -> None:
    counter = itertools.count()
    with pytest.raises(WaitTimeoutError, match="rest"):
        wait_unchanged(lambda: next(counter), 0.01, "rest", interval=0)
