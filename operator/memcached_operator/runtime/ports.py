"""What the machinery asks of the outside, as Protocols: the API client and the metrics. `kube/` and `telemetry/` satisfy them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from memcached_operator.gvr import GVR


class Api(Protocol):
    """The Kubernetes API: raw JSON in and out, errors of `memcached_operator.errors`."""

    fence: Callable[[], bool]

    async def get(self, gvr: GVR, namespace: str, name: str, *, timeout: float | None = None) -> bytes: ...

    async def list_page(
        self, gvr: GVR, namespace: str = "", *, labels: str = "", limit: int = 500, continue_: str = ""
    ) -> bytes: ...

    async def create(self, gvr: GVR, namespace: str, manifest: Mapping[str, Any], *, fenced: bool = True) -> bytes: ...

    async def apply(self, gvr: GVR, namespace: str, name: str, manifest: Mapping[str, Any]) -> bytes: ...

    async def patch(
        self, gvr: GVR, namespace: str, name: str, body: Any, *, subresource: str = "", content_type: str = ...
    ) -> bytes: ...

    async def replace(
        self, gvr: GVR, namespace: str, name: str, body: Mapping[str, Any], *, fenced: bool = True, timeout: float | None = None
    ) -> bytes: ...

    async def delete(self, gvr: GVR, namespace: str, name: str, *, uid: str) -> bytes: ...

    def watch(
        self, gvr: GVR, namespace: str = "", *, query: Mapping[str, str], silence_seconds: float
    ) -> AsyncGenerator[list[bytes], None]: ...


class Metrics(Protocol):
    """Where the machinery counts. Every method is cheap and never raises."""

    def reconcile_finished(self, controller: str, result: str, seconds: float) -> None: ...

    def queue_waited(self, seconds: float) -> None: ...

    def queue_retried(self) -> None: ...

    def relisted(self, resource: str, why: str) -> None: ...

    def kopf_restarted(self) -> None: ...

    def event_dropped(self) -> None: ...

    def gauge(self, name: str, callback: Callable[[], Mapping[str, float]]) -> None: ...


class Tracer(Protocol):
    """One span around one reconcile."""

    def span(self, name: str, **attributes: str) -> AbstractContextManager[object]: ...
