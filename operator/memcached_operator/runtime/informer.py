"""An informer keeps a store true: list, then watch, and relist when the server has forgotten where we were.

The list comes as a stream where the server can (WatchList, KEP-3157): no body to hold, and a bookmark says when it is complete. An API
server on an old etcd answers 200 and then one ERROR event; then, and when no bookmark comes in time, the informer falls back to LIST.
Nothing that the API server does ends an informer: it backs off with jitter, for ever.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import msgspec

from memcached_operator.errors import OperatorError, TransientError
from memcached_operator.gvr import GVR
from memcached_operator.runtime.ports import Api, Metrics
from memcached_operator.runtime.store import Key, Store

log = logging.getLogger(__name__)

SILENCE_SECONDS = 75.0  # bookmarks come about once a minute; what the server's watch cache forgets, it forgets after 75 s
WATCH_SECONDS = 290  # the server ends a watch after this long, so a stream cannot rot for hours
GONE = 410


class _Event(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class _Annotated(msgspec.Struct, gc=False):
    resourceVersion: str = ""
    annotations: dict[str, str] = {}


class _Bookmark(msgspec.Struct, gc=False):
    metadata: _Annotated


class _Status(msgspec.Struct, gc=False):
    code: int = 0
    reason: str = ""
    message: str = ""


class _ListMeta(msgspec.Struct, gc=False):
    resourceVersion: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct, gc=False):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_bookmark = msgspec.json.Decoder(_Bookmark).decode
_decode_status = msgspec.json.Decoder(_Status).decode
_decode_list = msgspec.json.Decoder(_List).decode


class _Expired(Exception):  # noqa: N818 - never leaves this module
    """The server no longer knows our resourceVersion: relist."""


class _NoWatchList(Exception):  # noqa: N818 - never leaves this module
    """The server cannot stream lists."""


async def list_into(api: Api, store: Store[Any], namespace: str, *, page: int = 500) -> tuple[str, set[Key]]:
    """A quorum LIST of the store's kind into the store; what it does not name is forgotten. Returns (resourceVersion, keys seen).

    Items of a LIST carry no kind and apiVersion; projections do not need them. A page that expires half way (410) starts over.
    """
    watch = store.watch
    for _ in range(3):
        seen: set[Key] = set()
        continue_ = ""
        try:
            while True:
                raw = await api.list_page(watch.gvr, namespace, labels=watch.labels, limit=page, continue_=continue_)
                answer = _decode_list(raw)
                for item in answer.items or ():
                    seen.add(store.put(item, relist=True).key)
                continue_ = answer.metadata.continue_
                if not continue_:
                    break
                await asyncio.sleep(0)  # 500 objects are decoded in one go: let the lease be renewed in between
        except OperatorError as error:
            if error.status == GONE:
                continue
            raise
        store.keep_only(seen, namespace)
        return answer.metadata.resourceVersion, seen
    raise TransientError(f"list {watch.gvr.plural}: pages expired three times")


class Informer:
    """Keeps `store` true for one kind in one namespace ("" is all of them)."""

    def __init__(self, api: Api, store: Store[Any], namespace: str, metrics: Metrics) -> None:
        self._api = api
        self._store = store
        self._namespace = namespace
        self._metrics = metrics
        self._can_stream = True
        self._version = ""  # resume from here; empty: list first
        self.synced = asyncio.Event()
        self.heard_at = time.monotonic()  # when the stream last said anything, bookmarks included

    @property
    def gvr(self) -> GVR:
        """The kind it watches."""
        return self._store.watch.gvr

    async def run(self, rng: Callable[[], float] = random.random) -> None:
        """Runs until cancelled."""
        failures = 0
        while True:
            try:
                await self._follow(failures)
                failures = 0
            except _Expired:
                self._version = ""
                self._metrics.relisted(self.gvr.plural, "expired")
            except _NoWatchList:
                self._can_stream = False
                log.info("the API server cannot stream lists of %s; falling back to LIST", self.gvr.plural)
            except (OperatorError, msgspec.MsgspecError) as error:
                if isinstance(error, msgspec.MsgspecError) or error.status in (404, GONE):
                    # The kind went away, the version did, or a line that we cannot read may have been an event: do not step over it.
                    self._version = ""
                failures += 1
                delay = min(15.0, 0.25 * 2.0 ** min(failures - 1, 10)) * (0.5 + 0.5 * rng())
                if isinstance(error, OperatorError) and error.retry_after is not None:
                    delay = max(delay, error.retry_after)
                level = logging.WARNING if failures in (2, 8) else logging.DEBUG
                log.log(level, "watch of %s: %s; next try in %.1f s", self.gvr.plural, error, delay)
                await asyncio.sleep(delay)

    async def _follow(self, failures: int) -> None:
        """One stream, from the list that it needs to its end."""
        if self._version:
            await self._stream({"resourceVersion": self._version})
        elif self._can_stream and failures < 2:
            await self._stream({"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"})
        else:
            self._version, _ = await list_into(self._api, self._store, self._namespace)
            self.heard_at = time.monotonic()
            self.synced.set()

    async def _stream(self, query: dict[str, str]) -> None:
        """One watch. A streamed list begins with synthetic ADDED events and ends with a bookmark that says so; then it is a watch like any."""
        seen: set[Key] | None = set() if "sendInitialEvents" in query else None
        query = {**query, "allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_SECONDS + random.randrange(30))}  # noqa: S311 - jitter
        if self._store.watch.labels:
            query["labelSelector"] = self._store.watch.labels
        stream = self._api.watch(self.gvr, self._namespace, query=query, silence_seconds=SILENCE_SECONDS)
        try:
            async with aclosing(stream) as batches:
                async for lines in batches:
                    self.heard_at = time.monotonic()
                    for line in lines:
                        seen = self._handle(_decode_event(line), seen)
        except OperatorError as error:
            if seen is not None and error.status in (400, 422):  # servers before 1.27 refuse the parameters
                raise _NoWatchList from None
            raise
        if seen is not None:
            raise TransientError(f"list {self.gvr.plural}: the stream ended before the list was complete")

    def _handle(self, event: _Event, seen: set[Key] | None) -> set[Key] | None:
        """One event into the store. `seen` collects the keys of a streamed list, and is None once it is complete."""
        match event.type:
            case "ADDED" | "MODIFIED":
                new = self._store.put(event.object, relist=seen is not None)
                if seen is not None:
                    seen.add(new.key)
                else:
                    self._version = new.resource_version
            case "DELETED":
                gone = self._store.watch.decode(event.object)
                self._store.remove(gone.key, gone.uid)
                if seen is None:
                    self._version = gone.resource_version
            case "BOOKMARK":
                meta = _decode_bookmark(event.object).metadata
                if seen is None:
                    self._version = meta.resourceVersion
                elif meta.annotations.get("k8s.io/initial-events-end") == "true":
                    self._store.keep_only(seen, self._namespace)
                    self._version = meta.resourceVersion
                    self.synced.set()
                    return None
            case "ERROR":
                status = _decode_status(event.object)
                if status.code == GONE:
                    raise _Expired
                if seen is not None:
                    raise _NoWatchList
                raise TransientError(f"watch {self.gvr.plural}: {status.message}", status=status.code)
            case other:
                log.warning("watch of %s: unknown event type %r is ignored", self.gvr.plural, other)
        return seen
