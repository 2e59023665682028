"""What the benchmark reads: the audit log, valgrind's totals, tracemalloc's, the machine's; how it waits for rest."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from bench import flame, footprint, imports, instructions, machine, plots
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
    grown = footprint.growth({"a": 5, "b": 5, "d": 4}, {"a": 5, "b": 6, "c": 9}, 2)
    assert grown == [("c", 4.5), ("d", -2), ("b", 0.5)]


def test_samples_are_shared_out_to_packages() -> None:
    stacks = flame.read_stacks(
        "run (kopf/_core/reactor/running.py:1);decode (memcached_operator/runtime/store.py:2) 3\n"
        "run (kopf/_core/reactor/running.py:1) 1\nselect (selectors.py:9) 4\n"
    )
    assert flame.shares(stacks) == {
        "kopf": (1 / 8, 4 / 8),
        "Python": (4 / 8, 4 / 8),
        "memcached_operator": (3 / 8, 3 / 8),
    }


def test_a_flame_graph_has_a_box_a_frame() -> None:
    drawing = plots.flame_graph("t", {("a", "b"): 3, ("a",): 1, ("c <module>",): 4})
    svg = ET.fromstring(drawing)  # noqa: S314 - our own words
    space = "{http://www.w3.org/2000/svg}"
    boxes = {
        box.findtext(f"{space}title"): float(box.find(f"{space}rect").attrib["width"])  # type: ignore[union-attr] # it has one
        for box in svg.iter(f"{space}g")
    }
    assert boxes == {"a: 50.0%": 600, "b: 37.5%": 450, "c <module>: 50.0%": 600}


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
