from pathlib import Path
from typing import Any

import pytest

from controlplane import Request
from story.chapters import chapters
from story.rig import Reaction, Rig, condition, endpoints, hosts, metric, reaction, settled, tally
from story.screen import Row, plain_table

OPERATOR = "memcached-operator"


def request(
    second: int, user: str, verb: str, resource: str, *, subresource: str = "", code: int = 200, name: str = "sample"
) -> Request:
    time = f"2026-01-01T00:00:{second:02}.500000Z"
    return Request(verb, resource, subresource, name, "default", code, user, "", "/", time)


DELETED = request(1, "admin", "delete", "deployments")
MADE_AGAIN = request(3, OPERATOR, "create", "deployments")


@pytest.mark.parametrize(
    ("requests", "seconds"),
    (
        ([DELETED, MADE_AGAIN], 2.0),
        ([request(0, OPERATOR, "patch", "deployments"), DELETED, MADE_AGAIN], 2.0),
        ([request(0, "admin", "get", "deployments"), DELETED, MADE_AGAIN], 2.0),
        ([request(0, "admin", "patch", "deployments", code=422), DELETED, MADE_AGAIN], 2.0),
        ([request(0, "admin", "patch", "deployments", subresource="status"), DELETED, MADE_AGAIN], 2.0),
        ([DELETED, request(2, OPERATOR, "patch", "memcacheds"), MADE_AGAIN], 2.0),
        ([DELETED, request(2, OPERATOR, "create", "deployments", code=409), MADE_AGAIN], 2.0),
        ([DELETED, request(2, "admin", "update", "deployments"), MADE_AGAIN], 2.0),
        ([DELETED, request(2, OPERATOR, "patch", "deployments"), MADE_AGAIN], 2.0),
        ([DELETED], None),
        ([MADE_AGAIN], None),
        ([], None),
    ),
)
def test_the_time_between_a_change_and_its_repair(requests: list[Request], seconds: float | None) -> None:
    found = reaction(requests, asked="deployments", wrote="deployments")
    assert (found.seconds if found else None) == seconds


def test_what_was_asked_for_may_be_another_kind_than_what_was_done() -> None:
    requests = [request(1, "admin", "patch", "memcacheds"), request(2, OPERATOR, "patch", "deployments")]
    found = reaction(requests, asked="memcacheds", wrote="deployments")
    assert found == Reaction(1767225601.5, 1767225602.5)


def test_writes_are_counted_by_what_was_written() -> None:
    status = request(1, OPERATOR, "patch", "memcacheds", subresource="status")
    assert tally([status, MADE_AGAIN, status]) == {"patch memcacheds/status": 2, "create deployments": 1}


def test_the_series_of_a_metric_are_added() -> None:
    page = 'reconciles_count{result="done"} 4.0\nreconciles_count{result="x y"} 2\nreconciles_count_more 9\nleader 1\n'
    assert metric(page, "reconciles_count") == 6
    assert metric(page, "leader") == 1
    assert metric(page, "absent") == 0


def test_addresses_that_are_not_ready_do_not_serve() -> None:
    slices: list[dict[str, Any]] = [
        {
            "endpoints": [
                {"addresses": ["10.0.0.2"], "conditions": {"ready": True}},
                {"addresses": ["10.0.0.3"], "conditions": {"ready": False}},
            ]
        },
        {"endpoints": None},
        {"endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": True}}]},
    ]
    assert endpoints(slices) == ["10.0.0.1", "10.0.0.2"]


def memcached(status: str, observed: int) -> dict[str, Any]:
    ready = {"type": "Ready", "status": status, "observedGeneration": observed}
    return {"metadata": {"generation": 2}, "status": {"conditions": [ready]}}


def test_a_status_about_an_older_spec_is_not_believed() -> None:
    assert settled(memcached("True", 2))
    assert not settled(memcached("True", 1))
    assert not settled(memcached("False", 2))
    assert not settled({"metadata": {"generation": 2}})
    assert condition(memcached("True", 1), "Degraded") == {}


def test_the_closing_table_fits_80_columns() -> None:
    rows = [Row(step.title, step.shown, 123.4, "not run") for step in chapters(Rig(Path("logs")))]
    assert max(map(len, plain_table(rows))) <= 80


def test_the_hosts_of_a_server_list() -> None:
    assert hosts({"status": {"serverList": ["[fd00::1]:11211", "10.0.0.1:11211"]}}) == ["10.0.0.1", "fd00::1"]
    assert hosts({}) == []
