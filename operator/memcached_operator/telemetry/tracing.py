"""One span around one reconcile, sent over OTLP where that is configured; otherwise nothing, for 0.2 us.

Sampling, queue size, endpoint and headers are the SDK's standard OTEL_* variables. The queue of ended spans is bounded
(OTEL_BSP_MAX_QUEUE_SIZE, 2048): when the collector is away, spans are dropped and reconciles go on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, Self

from opentelemetry import trace

from memcached_operator.telemetry.resource import process_resource


class Span(Protocol):
    """The open span."""

    def set(self, key: str, value: str | float) -> None:
        """Attach a fact that is known only now, for example the result."""
        ...


class Tracer(Protocol):
    """Makes spans. Satisfies `runtime.ports.Tracer`."""

    def span(self, name: str, **attributes: str) -> AbstractContextManager[Span]:
        """Open a span for a `with` block; an exception that leaves the block marks it as failed and goes on."""
        ...

    def shutdown(self, seconds: float = 2.0) -> None:
        """Send what is left, for at most so long. Blocks: call it last."""
        ...


def start_tracing(version: str, *, otlp: bool) -> Tracer:
    """The tracer of this process. `otlp`: send spans (needs the `otlp` extra); otherwise they cost next to nothing."""
    return _OtlpTracer(version) if otlp else _NoTracer()


class _NoSpan:
    """One object for all spans that nobody wants."""

    __slots__ = ()

    def set(self, key: str, value: str | float) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class _NoTracer:
    _span = _NoSpan()

    def span(self, name: str, **attributes: str) -> _NoSpan:  # noqa: ARG002 - the Protocol's shape
        return self._span

    def shutdown(self, seconds: float = 2.0) -> None:
        pass


class _OtlpSpan:
    __slots__ = ("_span",)

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def set(self, key: str, value: str | float) -> None:
        self._span.set_attribute(key, value)


class _OtlpTracer:
    def __init__(self, version: str) -> None:
        # Imported here only: with protobuf and requests it costs 5 MiB that most processes never need.
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - see above
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - see above
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - see above

        # app.py owns the end of the process, with a deadline.
        self._provider = TracerProvider(resource=process_resource(version), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("memcached_operator", version)

    @contextmanager
    def span(self, name: str, **attributes: str) -> Iterator[_OtlpSpan]:
        with self._tracer.start_as_current_span(name, attributes=attributes) as span:
            yield _OtlpSpan(span)

    def shutdown(self, seconds: float = 2.0) -> None:
        # The SDK's shutdown waits 30 s for a dead collector and takes no argument: it gets a thread of its own. The
        # process may end under it, hence a daemon.
        thread = threading.Thread(target=self._provider.shutdown, name="otel-shutdown", daemon=True)
        thread.start()
        thread.join(seconds)
