"""Answers of the API server as errors of ours."""

from __future__ import annotations

import json

import pytest

from memcached_operator.errors import ConflictError, NotFoundError, OperatorError, TransientError
from memcached_operator.kube.errors import error_from_response, retry_after_seconds

DATE = "Wed, 21 Oct 2015 07:28:00 GMT"
AT = 1445412480.0


@pytest.mark.parametrize(
    ("header", "seconds"),
    (
        (None, None),
        ("", None),
        ("5", 5.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("1e9", 300.0),
        ("inf", None),
        ("nan", None),
        ("soon", None),
        (DATE, 100.0),
        ("Wed, 21 Oct 2099 07:28:00 GMT", 300.0),
        ("Wed, 21 Oct 1999 07:28:00 GMT", 0.0),
        ("Wed, 99 Oct 2015 07:28:00 GMT", None),
        ("Wed, 21 Oct 99999999999 07:28:00 GMT", None),
    ),
)
def test_retry_after_is_a_number_or_a_date(header: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(header, now=AT - 100) == seconds


def error(code: int, body: object, retry_after: str | None = None) -> OperatorError:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return error_from_response(code, raw, "get pods", retry_after)


def test_the_words_of_the_server_are_kept() -> None:
    status = {"kind": "Status", "message": 'deployments "x" already exists', "reason": "AlreadyExists", "code": 409}
    found = error(409, status)
    assert type(found) is ConflictError
    assert found.message == 'get pods: deployments "x" already exists'
    assert (found.status, found.reason) == (409, "AlreadyExists")


@pytest.mark.parametrize(
    "body",
    (b"", b"<html>Bad Gateway</html>", b"\xff\xfe\x00", b'{"message": 5}', b'{"message": "caf\xe9"}', b"[]", b"null"),
)
def test_a_body_that_is_no_status_is_quoted(body: bytes) -> None:
    found = error(502, body)
    assert type(found) is TransientError
    assert found.message.startswith("get pods: ")
    assert len(found.message) > len("get pods: ")


def test_a_long_page_is_shortened() -> None:
    assert len(error(502, b"x" * 100_000).message) < 300


def test_the_body_may_say_when_to_come_back_and_the_header_wins() -> None:
    status = {"message": "wait", "details": {"retryAfterSeconds": 9}}
    assert error(429, status).retry_after == 9.0
    assert error(429, status, "2").retry_after == 2.0
    assert error(429, {"details": None}).retry_after is None


def test_only_a_status_can_say_that_an_object_is_gone() -> None:
    assert type(error(404, {"reason": "NotFound", "message": "gone"})) is NotFoundError
    assert type(error(404, b"404 page not found\n")) is TransientError
