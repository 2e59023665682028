"""Spans that nobody wants, and the trail from a log line to its trace."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from memcached_operator.runtime import ports
from memcached_operator.telemetry.logs import JsonFormatter
from memcached_operator.telemetry.tracing import start_tracing


@pytest.fixture(autouse=True)
def _no_exporter_outlives_its_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One that goes on trying draws random pauses in its thread, which disturbs the property tests after it."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(30)
        assert not thread.is_alive()


def test_the_machinery_can_use_it() -> None:
    port: ports.Tracer = start_tracing("1.2.3", otlp=False)  # mypy is the judge here
    with port.span("reconcile", key="default/a"):
        pass


def test_without_otlp_a_span_is_one_shared_object() -> None:
    tracer = start_tracing("1.2.3", otlp=False)
    with tracer.span("reconcile", key="default/a") as first, tracer.span("reconcile", key="default/b") as second:
        first.set("result", "done")
    assert first is second
    tracer.shutdown()


def test_without_otlp_no_exporter_is_loaded() -> None:
    program = """
import sys
from memcached_operator.telemetry import metrics, tracing
metrics.Metrics("1.2.3").render()
tracing.start_tracing("1.2.3", otlp=False)
print([name for name in sys.modules if name.startswith(("google.protobuf", "requests", "opentelemetry.exporter.otlp"))])
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_a_log_line_names_its_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    record = logging.makeLogRecord({"msg": "hello"})
    tracer = start_tracing("1.2.3", otlp=True)
    with tracer.span("reconcile"):
        inside = json.loads(JsonFormatter().format(record))
    outside = json.loads(JsonFormatter().format(record))
    tracer.shutdown(0.01)
    assert len(inside["trace_id"]) == 32
    assert len(inside["span_id"]) == 16
    assert "trace_id" not in outside
