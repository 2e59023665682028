"""Metrics and spans as a collector gets them, and collectors that do not answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from memcached_operator.telemetry.metrics import Metrics
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


class Collector(HTTPServer):
    """Takes OTLP over HTTP and keeps the bodies, by path."""

    def __init__(self) -> None:
        self.bodies: dict[str, list[bytes]] = {}
        super().__init__(("127.0.0.1", 0), _Keep)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Keep(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.bodies.setdefault(self.path, []).append(body)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        yield server
        server.shutdown()
        thread.join()


def test_a_collector_gets_the_histograms_too(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=cache-operator,team=storage")
    metrics = Metrics("1.2.3", push=True)
    metrics.reconcile_finished("memcached", "done", 0.004)
    metrics.kopf_restarted()
    metrics.shutdown()
    (body,) = collector.bodies["/v1/metrics"]
    (sent,) = ExportMetricsServiceRequest.FromString(body).resource_metrics
    resource = {each.key: each.value.string_value for each in sent.resource.attributes}
    assert resource["service.name"] == "cache-operator"
    assert resource["service.version"] == "1.2.3"
    assert resource["team"] == "storage"
    by_name = {metric.name: metric for scope in sent.scope_metrics for metric in scope.metrics}
    (point,) = by_name["memcached_operator_reconcile_duration"].histogram.data_points
    assert (point.count, point.sum) == (1, 0.004)
    assert by_name["memcached_operator_kopf_restarts"].sum.data_points[0].as_int == 1


def test_without_a_collector_the_end_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    metrics = Metrics("1.2.3", push=True)
    metrics.shutdown(0.2)


def test_a_collector_gets_each_span(collector: Collector) -> None:
    tracer = start_tracing("1.2.3", otlp=True)
    with tracer.span("reconcile", key="default/a") as span:
        span.set("result", "done")
    with pytest.raises(RuntimeError, match="boom"), tracer.span("reconcile", key="default/b"):
        raise RuntimeError("boom")
    tracer.shutdown(10)
    (body,) = collector.bodies["/v1/traces"]
    (sent,) = ExportTraceServiceRequest.FromString(body).resource_spans
    resource = {each.key: each.value.string_value for each in sent.resource.attributes}
    assert resource["service.name"] == "memcached-operator"
    spans = {
        tuple(sorted((a.key, a.value.string_value) for a in span.attributes)): span.status.code
        for scope in sent.scope_spans
        for span in scope.spans
    }
    ok, error = 0, 2
    assert spans == {(("key", "default/a"), ("result", "done")): ok, (("key", "default/b"),): error}


def test_a_deaf_collector_does_not_hold_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    # It accepts, as the kernel does for a listening socket, and never answers.
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{deaf.getsockname()[1]}")
        tracer = start_tracing("1.2.3", otlp=True)
        with tracer.span("reconcile"):
            pass
        tracer.shutdown(0.1)
        still_waiting = [thread for thread in threading.enumerate() if thread.name == "otel-shutdown"]
        assert still_waiting
    for thread in still_waiting:
        thread.join()
