"""Kubernetes events (events.k8s.io/v1): aggregated, rate-limited, and never able to fail or slow a reconcile.

The same (object, type, reason, action, note) within six minutes is one Event whose series is updated at most every
thirty seconds; an object may cause 25 new Events at once and one more every five minutes (client-go's spam filter).
What does not fit is counted and dropped.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from memcached_operator.errors import FencedError, NotFoundError, OperatorError
from memcached_operator.gvr import EVENTS, GVR
from memcached_operator.runtime.ports import Api, Metrics
from memcached_operator.runtime.store import Object

log = logging.getLogger(__name__)

EventType = Literal["Normal", "Warning"]

NOTE_BYTES = 1024  # the API's limit for `note`
SERIES_SECONDS = 360.0
UPDATE_SECONDS = 30.0
BURST = 25.0
REFILL_SECONDS = 300.0
QUEUE = 1000
MEMORY = 4096


def shorten(note: str) -> str:
    """The note cut to what the API takes."""
    raw = note.encode("utf-8", "replace")
    return raw.decode() if len(raw) <= NOTE_BYTES else raw[: NOTE_BYTES - 4].decode("utf-8", "ignore") + " ..."


@dataclass(slots=True)
class _Series:
    key: tuple[str, ...]
    name: str
    namespace: str
    last: float
    written: float
    count: int = 1


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class Recorder:
    """Posts events in the background. `record` returns at once."""

    def __init__(
        self,
        api: Api,
        metrics: Metrics,
        *,
        controller: str,
        instance: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._metrics = metrics
        self._controller = controller
        self._instance = instance[:128]
        self._clock = clock
        self._queue: asyncio.Queue[tuple[_Series, dict[str, Any] | None]] = asyncio.Queue(QUEUE)
        self._series: OrderedDict[tuple[str, ...], _Series] = OrderedDict()
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def record(self, gvr: GVR, regarding: Object, type_: EventType, reason: str, action: str, note: str) -> None:
        """An event about `regarding`. `reason` and `action` are CamelCase words; `note` is for people."""
        note = shorten(note)
        now = self._clock()
        key = (regarding.uid, type_, reason, action, note)
        series = self._series.get(key)
        if series is not None and now - series.last < SERIES_SECONDS:
            series.count += 1
            series.last = now
            self._series.move_to_end(key)
            if now - series.written >= UPDATE_SECONDS:
                series.written = now
                self._enqueue(series, None)
            return
        if not self._take_token(regarding.uid, now):
            self._metrics.event_dropped()
            return
        # A dot must follow a letter or a digit, also where a long name was cut.
        name = f"{regarding.name[:230].rstrip('-.')}.{secrets.token_hex(8)}"
        series = _Series(key, name, regarding.namespace or "default", now, now)
        self._series[key] = series
        self._series.move_to_end(key)
        while len(self._series) > MEMORY:
            self._series.popitem(last=False)
        about = {"type": type_, "reason": reason, "action": action, "note": note}
        self._enqueue(series, self._manifest(series, gvr, regarding, about))

    async def run(self) -> None:
        """Posts until cancelled."""
        while True:
            series, manifest = await self._queue.get()
            try:
                await self._post(series, manifest)
            except (FencedError, NotFoundError):
                self._forget(series)  # the next leader tells the story, or the event or its namespace is gone
            except OperatorError as error:
                self._forget(series)
                self._metrics.event_dropped()
                log.debug("event dropped: %s", error)
            except Exception:  # events must never be what the process ends of
                self._forget(series)
                self._metrics.event_dropped()
                log.exception("event %s could not be posted: a bug; please report it", series.name)
            finally:
                self._queue.task_done()

    async def _post(self, series: _Series, manifest: dict[str, Any] | None) -> None:
        if manifest is not None:
            await self._api.create(EVENTS, series.namespace, manifest)
        else:
            update = {"series": {"count": series.count, "lastObservedTime": _now()}}
            await self._api.patch(EVENTS, series.namespace, series.name, update)

    def _forget(self, series: _Series) -> None:
        """There is no such Event: the next occurrence begins a new one."""
        if self._series.get(series.key) is series:
            del self._series[series.key]

    async def drain(self, seconds: float) -> None:
        """Wait until what is queued is posted, at most `seconds`."""
        try:
            await asyncio.wait_for(self._queue.join(), seconds)
        except TimeoutError:
            log.debug("%d events were not posted before the stop", self._queue.qsize())

    def _enqueue(self, series: _Series, manifest: dict[str, Any] | None) -> None:
        try:
            self._queue.put_nowait((series, manifest))
        except asyncio.QueueFull:
            self._metrics.event_dropped()
            if manifest is not None:
                self._forget(series)

    def _take_token(self, uid: str, now: float) -> bool:
        bucket = self._buckets.setdefault(uid, _Bucket(BURST, now))
        self._buckets.move_to_end(uid)
        while len(self._buckets) > MEMORY:
            self._buckets.popitem(last=False)
        bucket.tokens = min(BURST, bucket.tokens + (now - bucket.at) / REFILL_SECONDS)
        bucket.at = now
        if bucket.tokens < 1.0:
            return False
        bucket.tokens -= 1.0
        return True

    def _manifest(self, series: _Series, gvr: GVR, regarding: Object, about: dict[str, str]) -> dict[str, Any]:
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": series.name, "namespace": series.namespace},
            "eventTime": _now(),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            **about,
            "regarding": {
                "apiVersion": gvr.api_version,
                "kind": gvr.kind,
                "namespace": regarding.namespace,
                "name": regarding.name,
                "uid": regarding.uid,
                "resourceVersion": regarding.resource_version,
            },
        }


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
