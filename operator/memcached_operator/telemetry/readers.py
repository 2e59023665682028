"""The two ways out for metrics: the page that Prometheus scrapes, and OTLP where it is configured.

opentelemetry has observable counters and gauges but no observable histogram: ours are plain arrays, and both ways out
add them to what the SDK collected.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import export
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

from memcached_operator.telemetry.instruments import Histogram

# The opentelemetry scope of all our metrics.
SCOPE = "memcached_operator"


class PrometheusPage:
    """The text that Prometheus scrapes: our instruments and the `process_*` metrics of this process."""

    def __init__(self, histograms: Sequence[Histogram]) -> None:
        # A registry of our own: the global one belongs to whoever imports prometheus_client.
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self.reader = _PrometheusReader(histograms, self._registry)

    def render(self) -> bytes:
        """All metrics, in the Prometheus text format 0.0.4."""
        return generate_latest(self._registry)


def push_reader(histograms: Sequence[Histogram]) -> export.MetricReader:
    """Pushes over OTLP/HTTP from a thread of its own. Endpoint, headers, interval: the standard OTEL_* variables."""
    # Imported here only: protobuf and requests cost 4 MiB, and the `otlp` extra may be absent.
    from opentelemetry.exporter.otlp.proto.http import metric_exporter  # noqa: PLC0415 - see above

    return _PushReader(metric_exporter.OTLPMetricExporter(), histograms)


class _PrometheusReader(PrometheusMetricReader):
    def __init__(self, histograms: Sequence[Histogram], registry: CollectorRegistry) -> None:
        self._histograms = histograms
        self._started = time.time_ns()
        # target_info and scope labels repeat on every sample what build_info says once.
        super().__init__(disable_target_info=True, scope_info_enabled=False, registry=registry)

    def _receive_metrics(self, metrics_data: export.MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> None:
        complete = with_histograms(metrics_data, self._histograms, self._started)
        super()._receive_metrics(complete, timeout_millis, **kwargs)


class _PushReader(export.PeriodicExportingMetricReader):
    def __init__(self, exporter: export.MetricExporter, histograms: Sequence[Histogram]) -> None:
        # Before super(): that starts the thread which calls _receive_metrics.
        self._histograms = histograms
        self._started = time.time_ns()
        super().__init__(exporter)

    def _receive_metrics(self, metrics_data: export.MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> None:
        complete = with_histograms(metrics_data, self._histograms, self._started)
        super()._receive_metrics(complete, timeout_millis, **kwargs)


def with_histograms(data: export.MetricsData, histograms: Sequence[Histogram], started: int) -> export.MetricsData:
    """`data` with our histograms beside our other metrics. `started` is when counting began (Unix time, ns)."""
    now = time.time_ns()
    ours = [_metric(histogram, started, now) for histogram in histograms if histogram.series]
    return export.MetricsData(
        [
            export.ResourceMetrics(
                resource.resource, [_with(scope, ours) for scope in resource.scope_metrics], resource.schema_url
            )
            for resource in data.resource_metrics
        ]
    )


def _with(scope: export.ScopeMetrics, ours: Sequence[export.Metric]) -> export.ScopeMetrics:
    # Into the scope that is there: of two equal scopes the OTLP encoder sends only the last.
    if scope.scope.name != SCOPE:
        return scope
    return export.ScopeMetrics(scope.scope, [*scope.metrics, *ours], scope.schema_url)


def _metric(histogram: Histogram, started: int, now: int) -> export.Metric:
    points = [
        export.HistogramDataPoint(
            attributes=dict(zip(histogram.labels, values, strict=True)),
            start_time_unix_nano=started,
            time_unix_nano=now,
            count=sum(seen.counts),
            sum=seen.total,
            bucket_counts=list(seen.counts),
            explicit_bounds=histogram.bounds,
            min=seen.low,
            max=seen.high,
        )
        for values, seen in histogram.read()
    ]
    data = export.Histogram(points, export.AggregationTemporality.CUMULATIVE)
    return export.Metric(histogram.name, histogram.description, "s", data)
