import json
from pathlib import Path
from typing import Any

from controlplane import AuditLog


def event(verb: str, *, stage: str = "ResponseComplete", code: int = 200, user: str = "op", **target: str) -> str:
    body: dict[str, Any] = {
        "stage": stage,
        "verb": verb,
        "requestURI": "/somewhere",
        "requestReceivedTimestamp": "2026-01-01T00:00:00.000000Z",
        "responseStatus": {"code": code},
        "user": {"username": user},
    }
    if target:
        body["objectRef"] = target
    return json.dumps(body) + "\n"


def log_of(folder: Path, *lines: str) -> AuditLog:
    path = folder / "audit.log"
    path.write_text("".join(lines))
    return AuditLog(path)


def test_a_request_has_all_that_a_count_needs(tmp_path: Path) -> None:
    target = {"resource": "deployments", "subresource": "scale", "name": "a", "namespace": "n", "apiGroup": "apps"}
    (request,) = log_of(tmp_path, event("patch", code=409, **target)).requests()
    assert (request.verb, request.resource, request.subresource) == ("patch", "deployments", "scale")
    assert (request.namespace, request.name, request.group) == ("n", "a", "apps")
    assert (request.code, request.user) == (409, "op")
    assert str(request) == "op patch deployments/scale n/a 409"


def test_a_watch_counts_once_when_it_starts(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        event("watch", stage="ResponseStarted", resource="pods"),
        event("watch", stage="ResponseComplete", resource="pods"),
    )
    assert [request.verb for request in log.requests()] == ["watch"]


def test_a_watch_that_ends_after_the_offset_is_not_counted_again(tmp_path: Path) -> None:
    log = log_of(tmp_path, event("watch", stage="ResponseStarted", resource="pods"))
    since = log.offset()
    with log.path.open("a") as file:
        file.write(event("watch", stage="ResponseComplete", resource="pods"))
    assert log.requests(since=since) == []


def test_a_refused_watch_counts(tmp_path: Path) -> None:
    assert [request.code for request in log_of(tmp_path, event("watch", code=403)).requests()] == [403]


def test_writes_are_told_from_reads(tmp_path: Path) -> None:
    verbs = ["create", "update", "patch", "delete", "deletecollection", "get", "list"]
    log = log_of(tmp_path, *(event(verb) for verb in verbs))
    assert [request.verb for request in log.requests() if request.is_write] == verbs[:5]


def test_one_user_or_all(tmp_path: Path) -> None:
    log = log_of(tmp_path, event("get", user="a"), event("get", user="b"))
    assert [request.user for request in log.requests(user="b")] == ["b"]
    assert len(log.requests()) == 2


def test_a_line_that_is_being_written_waits_for_the_next_call(tmp_path: Path) -> None:
    log = log_of(tmp_path, event("get"), event("list")[:40])
    assert [request.verb for request in log.requests()] == ["get"]


def test_an_offset_is_never_inside_a_line(tmp_path: Path) -> None:
    second = event("list")
    log = log_of(tmp_path, event("get"), second[:40])
    since = log.offset()
    with log.path.open("a") as file:
        file.write(second[40:])
    assert [request.verb for request in log.requests(since=since)] == ["list"]
    assert log_of(tmp_path).offset() == 0


def test_requests_for_plain_paths_have_no_resource(tmp_path: Path) -> None:
    (request,) = log_of(tmp_path, event("get")).requests()
    assert (request.resource, request.uri) == ("", "/somewhere")
    assert str(request) == "op get /somewhere 200"
