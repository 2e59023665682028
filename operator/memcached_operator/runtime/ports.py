"""What the machinery asks of the outside, as Protocols: the API client and the metrics.

`kube/` and `telemetry/` satisfy them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from memcached_operator.gvr import GVR


class Api(Protocol):
    """The Kubernetes API: raw JSON in and out, errors of `memcached_operator.errors`.

    A namespace of "" is all of them, or none for kinds that have none. `fence` is asked right before each write that is
    `fenced`. A `timeout` is in seconds, for the whole request.
    """

    fence: Callable[[], bool]

    async def get(self, gvr: GVR, namespace: str, name: str, *, timeout: float | None = None) -> bytes:
        """One object."""
        ...

    async def list_page(
        self, gvr: GVR, namespace: str = "", *, labels: str = "", limit: int = 500, continue_: str = ""
    ) -> bytes:
        """One page of a quorum LIST."""
        ...

    async def create(
        self,
        gvr: GVR,
        namespace: str,
        manifest: Mapping[str, Any],
        *,
        fenced: bool = True,
        timeout: float | None = None,
    ) -> bytes:
        """POST."""
        ...

    async def apply(self, gvr: GVR, namespace: str, name: str, manifest: Mapping[str, Any]) -> bytes:
        """Server-side apply, forced."""
        ...

    async def patch(
        self, gvr: GVR, namespace: str, name: str, body: Any, *, subresource: str = "", content_type: str = ...
    ) -> bytes:
        """Merge patch or JSON patch of an object or a subresource."""
        ...

    async def replace(
        self,
        gvr: GVR,
        namespace: str,
        name: str,
        body: Mapping[str, Any],
        *,
        fenced: bool = True,
        timeout: float | None = None,
    ) -> bytes:
        """PUT, guarded by the resourceVersion in the body."""
        ...

    async def delete(self, gvr: GVR, namespace: str, name: str, *, uid: str) -> bytes:
        """DELETE of the object with this uid and no other."""
        ...

    def watch(
        self, gvr: GVR, namespace: str = "", *, query: Mapping[str, str], silence_seconds: float
    ) -> AsyncGenerator[list[bytes], None]:
        """Lines of a watch, in batches; ends when the server ends it, raises after `silence_seconds` without a byte."""
        ...


class Metrics(Protocol):
    """Where the machinery counts. Every method is cheap and never raises."""

    def reconcile_finished(self, controller: str, result: str, seconds: float) -> None:
        """One reconcile ended: `done`, `requeue`, `cancelled`, or the category of an error."""
        ...

    def queue_waited(self, seconds: float) -> None:
        """A worker took a key that had waited so long."""
        ...

    def queue_retried(self) -> None:
        """A key was added again after an error."""
        ...

    def relisted(self, resource: str, why: str) -> None:
        """An informer has to list again: `expired`, `gone`, `silent` or `unreadable`."""
        ...

    def kopf_restarted(self) -> None:
        """Kopf ended and is started again."""
        ...

    def event_dropped(self) -> None:
        """An event about a resource was not posted."""
        ...

    def gauge(self, name: str, callback: Callable[[], Mapping[tuple[str, ...], float]]) -> None:
        """`callback` gives the present numbers by label values; it may be called from another thread."""
        ...


class Tracer(Protocol):
    """One span around one reconcile."""

    def span(self, name: str, **attributes: str) -> AbstractContextManager[object]:
        """A span that lasts as long as the context."""
        ...
