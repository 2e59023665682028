"""Log lines as they come out of the process."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from memcached_operator.telemetry.logs import FLOORS, configure_logging, redact

# The shape of a service account's token: three parts, base64.
TOKEN = "eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJl"  # gitleaks:allow - made up


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in FLOORS}
    hooks = sys.excepthook, threading.excepthook
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)
    sys.excepthook, threading.excepthook = hooks
    logging.captureWarnings(capture=False)


def log_to(*, json_lines: bool, level: str = "info", colour: bool = False) -> io.StringIO:
    stream = io.StringIO()
    configure_logging(level, json_lines=json_lines, colour=colour, stream=stream)
    return stream


def read(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


log = logging.getLogger("memcached_operator.test")


def test_a_record_is_one_json_line_with_its_fields() -> None:
    stream = log_to(json_lines=True)
    log.warning("cannot create %s\nyet", "Deployment", extra={"namespace": "default", "attempt": 3, "paused": False})
    (line,) = read(stream)
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "warning",
        "logger": "memcached_operator.test",
        "message": "cannot create Deployment\nyet",
        "namespace": "default",
        "attempt": 3,
        "paused": False,
    }


def test_a_stack_is_in_the_same_line() -> None:
    stream = log_to(json_lines=True)
    try:
        raise RuntimeError("boom")  # noqa: TRY301 - the stack is what is tested
    except RuntimeError:
        log.exception("reconcile failed")
    (line,) = read(stream)
    assert line["stack"].startswith("Traceback")
    assert "RuntimeError: boom" in line["stack"]


def test_a_field_cannot_pose_as_the_message() -> None:
    stream = log_to(json_lines=True)
    log.info("true", extra={"level": "critical", "time": "never", "logger": "x"})
    (line,) = read(stream)
    assert (line["level"], line["message"], line["logger"]) == ("info", "true", "memcached_operator.test")
    assert line["time"] != "never"


def test_the_console_is_for_people() -> None:
    stream = log_to(json_lines=False)
    log.info("created %s", "web", extra={"kind": "Service", "why": "it was missing"})
    time, rest = stream.getvalue().split(" ", 1)
    assert time.endswith("Z")
    assert rest == 'INFO    created web kind=Service why="it was missing"\n'


def test_colour_only_when_asked() -> None:
    plain = log_to(json_lines=False)
    log.error("no")
    coloured = log_to(json_lines=False, colour=True)
    log.error("no")
    assert "\x1b[" not in plain.getvalue()
    assert "\x1b[31mERROR" in coloured.getvalue()


@pytest.mark.parametrize("evil", ("a\nERROR fake", "a\r\nb", "a\x1b[2Jb", "a\u2028b", "a\x85b"))
def test_text_from_outside_writes_no_lines_of_its_own(evil: str) -> None:
    stream = log_to(json_lines=False)
    log.info("pod says %s", evil, extra={"note": evil})
    assert len(stream.getvalue().splitlines()) == 1
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize(
    ("text", "hidden"),
    (
        (f"Authorization: Bearer {TOKEN}", TOKEN),
        (f"headers={{'Authorization': 'Bearer {TOKEN}'}}", TOKEN),
        ("bearer abcdefgh12345678", "abcdefgh12345678"),
        ("Authorization: Basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA"),
        (f"token is {TOKEN} it seems", TOKEN),
        ("GET https://admin:hunter2@10.0.0.1:6443/api failed", "hunter2"),
        ('{"token":"abc-123", "user": "a"}', "abc-123"),
        ("password=hunter2 rejected", "hunter2"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "MIIE"),
        ("client-key-data: LS0tLS1CRUdJTi", "LS0tLS1CRUdJTi"),
    ),
)
def test_secrets_do_not_leave(text: str, hidden: str) -> None:
    assert hidden not in redact(text)
    for json_lines in (True, False):
        stream = log_to(json_lines=json_lines)
        try:
            raise RuntimeError(text)  # noqa: TRY301 - its text ends up in the stack
        except RuntimeError:
            log.exception("failed: %s", text, extra={"detail": text, "nested": {"list": [text]}})
        assert hidden not in stream.getvalue()
        assert "[hidden]" in stream.getvalue()


def test_fields_with_telling_names_are_hidden() -> None:
    stream = log_to(json_lines=True)
    log.info("login", extra={"headers": {"Authorization": "opaque", "Accept": "*/*"}, "client_secret": "opaque"})
    (line,) = read(stream)
    assert line["headers"] == {"Authorization": "[hidden]", "Accept": "*/*"}
    assert line["client_secret"] == "[hidden]"


@pytest.mark.parametrize(
    "text",
    (
        'deployments.apps "web" is forbidden: User "system:serviceaccount:a:b" cannot get resource',
        "pods/token requested for default/web at https://10.0.0.1:6443/api/v1",
        "the continue token expired, listing again",
        "drift: replicas 5 -> 3; basic auth is off",
    ),
)
def test_ordinary_words_stay(text: str) -> None:
    assert redact(text) == text


def test_loud_libraries_are_kept_down_even_in_debug() -> None:
    stream = log_to(json_lines=True, level="debug")
    logging.getLogger("kubernetes.client.rest").debug("response body: %s", "secret things")
    logging.getLogger("kopf.objects").info("Handler 'x' succeeded.")
    logging.getLogger("aiohttp.access").info("GET /metrics")
    logging.getLogger("asyncio").info("Using selector")
    log.debug("ours")
    assert [line["message"] for line in read(stream)] == ["ours"]


def test_kopfs_own_fields_are_cut_to_the_object() -> None:
    stream = log_to(json_lines=True)
    extra = {"settings": object(), "k8s_skip": True, "k8s_ref": {"kind": "Memcached", "name": "a"}}
    # Not through kopf.objects itself: where kopf is imported, its poster wants real settings.
    logging.getLogger("kopf.activities").warning("hm", extra=extra)
    (line,) = read(stream)
    assert line["k8s_ref"] == {"kind": "Memcached", "name": "a"}
    assert not {"settings", "k8s_skip"} & line.keys()


def test_configuring_twice_writes_once() -> None:
    log_to(json_lines=True)
    stream = log_to(json_lines=True)
    log.info("once")
    assert len(read(stream)) == 1


@pytest.mark.parametrize(
    "program",
    (
        "raise RuntimeError('boom')",
        "import threading; t = threading.Thread(target=lambda: 1 / 0, name='worker'); t.start(); t.join()",
        "import warnings; warnings.warn('old')",
    ),
)
def test_what_nobody_caught_is_a_json_line_too(program: str) -> None:
    setup = (
        "from memcached_operator.telemetry.logs import configure_logging as c; c('info', json_lines=True, colour=False)"
    )
    ran = subprocess.run([sys.executable, "-c", f"{setup}\n{program}"], capture_output=True, text=True, check=False)
    (line,) = ran.stderr.splitlines()
    assert json.loads(line)["level"] in {"critical", "warning"}
