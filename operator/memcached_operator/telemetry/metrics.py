"""What the operator counts, and the page that shows it. Satisfies `runtime.ports.Metrics`. Names are in catalog.py."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence

from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import AlwaysOffExemplarFilter, MeterProvider

from memcached_operator.telemetry.catalog import BUILD_INFO, COUNTERS, GAUGES, HISTOGRAMS, PREFIX
from memcached_operator.telemetry.instruments import Counter, Histogram
from memcached_operator.telemetry.readers import SCOPE, PrometheusPage, push_reader
from memcached_operator.telemetry.resource import process_resource

# Seconds. A reconcile without writes takes about 1 ms, one write 5 to 20 ms, an overloaded API server seconds.
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

GaugeCallback = Callable[[], Mapping[tuple[str, ...], float]]
Callback = Callable[[CallbackOptions], Iterable[Observation]]


class Metrics:
    """Counts, in plain numbers: every method takes well under a microsecond and never raises; safe before `render`.

    `push` sends the same metrics over OTLP too (the standard OTEL_* variables say where to); it needs the `otlp` extra.
    """

    def __init__(self, version: str, *, push: bool = False) -> None:
        self._reconciles = _histogram("reconcile_duration")
        self._waits = _histogram("workqueue_wait")
        self._retries = _counter("workqueue_retries")
        self._requests = _counter("kube_api_requests")
        self._relists = _counter("informer_relists")
        self._repairs = _counter("drift_repaired")
        self._kopf_restarts = _counter("kopf_restarts")
        self._dropped_events = _counter("events_dropped")
        self._gauges: dict[str, list[GaugeCallback]] = {}

        histograms = (self._reconciles, self._waits)
        self._page = PrometheusPage(histograms)
        readers = [self._page.reader, push_reader(histograms)] if push else [self._page.reader]
        self._provider = MeterProvider(
            metric_readers=readers,
            resource=process_resource(version),
            exemplar_filter=AlwaysOffExemplarFilter(),
            # app.py owns the end of the process, with a deadline.
            shutdown_on_exit=False,
        )
        self._meter = self._provider.get_meter(SCOPE)
        self._export_counters(
            self._retries,
            self._requests,
            self._relists,
            self._repairs,
            self._kopf_restarts,
            self._dropped_events,
        )
        self._export_build_info(version)

    def reconcile_finished(self, controller: str, result: str, seconds: float) -> None:
        """One reconcile ended. `result` is a word from a closed list (`done`, `requeue`, an error's category)."""
        self._reconciles.record(seconds, controller, result)

    def queue_waited(self, seconds: float) -> None:
        """A worker took a key that had waited so long. The number of these is the number of keys that were queued."""
        self._waits.record(seconds)

    def queue_retried(self) -> None:
        """A key was added again after an error."""
        self._retries.add()

    def api_request(self, verb: str, resource: str, code: str) -> None:
        """One request to the API server ended.

        `verb` is as in RBAC, `resource` the plural (with `/status`), `code` the HTTP status or `error`.
        """
        self._requests.add(verb, resource, code)

    def relisted(self, resource: str, why: str) -> None:
        """An informer had to list again. `why` is a word from a closed list."""
        self._relists.add(resource, why)

    def drift_repaired(self, kind: str) -> None:
        """A child of this kind was put back to what we want."""
        self._repairs.add(kind)

    def kopf_restarted(self) -> None:
        """The supervisor started kopf again."""
        self._kopf_restarts.add()

    def event_dropped(self) -> None:
        """The rate limit swallowed a Kubernetes event."""
        self._dropped_events.add()

    def gauge(self, name: str, callback: GaugeCallback) -> None:
        """Ask `callback` for a current value at each scrape.

        `name` is one of GAUGES. `callback` returns a number for each combination of label values (`()` without labels).
        It may run in another thread: it reads plain numbers and touches no event loop. A name may have several
        callbacks: their series stand side by side.

        Raises:
            ValueError: `name` is not in GAUGES.
        """
        if name not in GAUGES:
            raise ValueError(f"no gauge is called {name!r}; add it to GAUGES in catalog.py")
        callbacks = self._gauges.setdefault(name, [])
        callbacks.append(callback)
        if len(callbacks) == 1:
            labels, description = GAUGES[name]
            # The exposition adds the unit's name.
            bare, unit = name.removesuffix("_seconds"), "s" if name.endswith("_seconds") else ""
            self._meter.create_observable_gauge(PREFIX + bare, [_values(labels, callbacks)], unit, description)

    def render(self) -> bytes:
        """All metrics, in the Prometheus text format 0.0.4. Takes milliseconds."""
        return self._page.render()

    def shutdown(self, seconds: float = 2.0) -> None:
        """Push what is left, if anything is pushed, for at most so long. Blocks: call it last."""
        self._provider.shutdown(timeout_millis=seconds * 1000)

    def _export_counters(self, *counters: Counter) -> None:
        for counter in counters:
            self._meter.create_observable_counter(counter.name, [_counts(counter)], description=counter.description)
        # The histogram has counted the reconciles already: nothing more to do on the hot path.
        self._meter.create_observable_counter(
            PREFIX + "reconcile", [_observations(self._reconciles)], description=COUNTERS["reconcile"].meaning
        )

    def _export_build_info(self, version: str) -> None:
        facts = Observation(1, _attributes(BUILD_INFO.labels, (version, platform.python_version())))
        self._meter.create_observable_gauge(
            PREFIX + "build_info", [lambda _options: [facts]], description=BUILD_INFO.meaning
        )


def _counter(name: str) -> Counter:
    labels, meaning = COUNTERS[name]
    return Counter(PREFIX + name, meaning, labels)


def _histogram(name: str) -> Histogram:
    labels, meaning = HISTOGRAMS[name]
    return Histogram(PREFIX + name, meaning, BOUNDS, labels)


def _attributes(labels: Sequence[str], values: Sequence[str]) -> dict[str, str]:
    return dict(zip(labels, values, strict=True))


def _counts(counter: Counter) -> Callback:
    def observe(_options: CallbackOptions) -> Iterable[Observation]:
        return [Observation(number, _attributes(counter.labels, values)) for values, number in counter.read()]

    return observe


def _observations(histogram: Histogram) -> Callback:
    def observe(_options: CallbackOptions) -> Iterable[Observation]:
        return [
            Observation(sum(seen.counts), _attributes(histogram.labels, values)) for values, seen in histogram.read()
        ]

    return observe


def _values(labels: Sequence[str], callbacks: Sequence[GaugeCallback]) -> Callback:
    def observe(_options: CallbackOptions) -> Iterable[Observation]:
        return [
            Observation(number, _attributes(labels, values))
            for callback in callbacks
            for values, number in callback().items()
        ]

    return observe
