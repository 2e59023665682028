"""An informer keeps a store true: list, then watch, and relist when the server has forgotten where we were.

The first list comes as a stream where the server can (WatchList, KEP-3157): no body to hold, and a bookmark says when
it is complete. Servers that cannot refuse it, or answer 200 and then one ERROR event (on an old etcd); then, and
whenever the stream does not come to that bookmark, the list is asked for page by page. Nothing that the API server
does ends an informer: it backs off with jitter, for ever.
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
from memcached_operator.runtime.store import Listing, Store

log = logging.getLogger(__name__)

SILENCE_SECONDS = 75.0  # bookmarks come about once a minute
WATCH_SECONDS = 290  # the server ends a watch after this long, so a stream cannot rot for hours
HEALTHY_SECONDS = 1.0  # a stream that lasted as long was one: its end is no failure
GRACE_SECONDS = 360.0  # longer than any single request, pause or silence
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


def _nothing() -> None:
    return None


async def list_into(
    api: Api, store: Store[Any], namespace: str, *, page: int = 500, on_page: Callable[[], None] = _nothing
) -> str:
    """A quorum LIST of the store's kind into it; what it does not name is forgotten. Returns its resourceVersion.

    A page that expires half way (410) starts the list over. Raises OperatorError, also when the answer is not readable.
    """
    what = f"list {store.watch.gvr.plural}"
    for _ in range(3):
        try:
            return await _list_pages(api, store.begin_list(namespace), store, namespace, page, on_page)
        except msgspec.MsgspecError as error:
            raise TransientError(f"{what}: the answer is not readable: {error}") from error
        except OperatorError as error:
            if error.status != GONE:
                raise
    raise TransientError(f"{what}: pages expired three times")


async def _list_pages(
    api: Api, listing: Listing[Any], store: Store[Any], namespace: str, page: int, on_page: Callable[[], None]
) -> str:
    watch = store.watch
    continue_ = ""
    while True:
        raw = await api.list_page(watch.gvr, namespace, labels=watch.labels, limit=page, continue_=continue_)
        answer = _decode_list(raw)
        for item in answer.items or ():  # they carry no kind and apiVersion; projections do not need them
            listing.put(item)
        continue_ = answer.metadata.continue_
        if not continue_:
            listing.finish()
            return answer.metadata.resourceVersion
        on_page()
        await asyncio.sleep(0)  # 500 objects are decoded in one go: let the lease be renewed in between


class Informer:
    """Keeps `store` true for one kind in one namespace ("" is all of them)."""

    def __init__(
        self,
        api: Api,
        store: Store[Any],
        namespace: str,
        metrics: Metrics,
        *,
        clock: Callable[[], float] = time.monotonic,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self._api = api
        self._store = store
        self._namespace = namespace
        self._metrics = metrics
        self._clock = clock
        self._rng = rng
        self._version = ""  # resume from here; empty: list first
        self._failures = 0  # in a row
        self._due_at = clock() + GRACE_SECONDS
        self.synced = asyncio.Event()
        self.heard_at = clock()  # when the stream last said anything, bookmarks included

    @property
    def gvr(self) -> GVR:
        """The kind it watches."""
        return self._store.watch.gvr

    def age(self) -> float:
        """Seconds since the watch was last heard."""
        return self._clock() - self.heard_at

    def stands_still(self) -> bool:
        """Whether it neither heard, asked nor tried again for longer than any of that takes.

        An outage is no stand-still.
        """
        return self._clock() > self._due_at

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            self._move()
            began = self._clock()
            try:
                await self._follow()
            except _Expired:
                self._relist("expired")
                self._failures += 1
            except (OperatorError, msgspec.MsgspecError) as error:
                self._judge(error, began)
                await self._pause(error)
                continue
            await self._pause(None)

    async def _follow(self) -> None:
        """One stream, and the list that it needs."""
        if not self._version and self._failures:
            self._version = await list_into(self._api, self._store, self._namespace, on_page=self._move)
            self._hear()
            self.synced.set()
        began = self._clock()
        if self._version:
            await self._stream({"resourceVersion": self._version}, None)
        else:
            query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
            await self._stream(query, self._store.begin_list(self._namespace))
        # The server has ended it. One that ends at once, and again, must not be asked in a hot loop.
        healthy = self._clock() - began >= HEALTHY_SECONDS or self.heard_at > began
        self._failures = 0 if healthy else self._failures + 1

    async def _stream(self, query: dict[str, str], listing: Listing[Any] | None) -> None:
        """One watch. A streamed list begins with synthetic ADDED events and ends with a bookmark that says so.

        Then it is a watch like any.
        """
        seconds = WATCH_SECONDS + int(30 * self._rng())
        query = {**query, "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
        if self._store.watch.labels:
            query["labelSelector"] = self._store.watch.labels
        stream = self._api.watch(self.gvr, self._namespace, query=query, silence_seconds=SILENCE_SECONDS)
        async with aclosing(stream) as batches:
            async for lines in batches:
                self._hear()
                for line in lines:
                    listing = self._handle(_decode_event(line), listing)
        if listing is not None:
            raise TransientError(f"list {self.gvr.plural}: the stream ended before the list was complete")

    def _handle(self, event: _Event, listing: Listing[Any] | None) -> Listing[Any] | None:
        """One event into the store. Returns the listing while the list is not complete."""
        match event.type:
            case "ADDED" | "MODIFIED":
                thing = listing.put(event.object) if listing else self._store.put(event.object)
                self._version = "" if listing else thing.resource_version
            case "DELETED":
                gone = self._store.drop(event.object)
                self._version = "" if listing else gone.resource_version
            case "BOOKMARK":
                return self._bookmark(_decode_bookmark(event.object).metadata, listing)
            case "ERROR":
                status = _decode_status(event.object)
                if status.code == GONE:
                    raise _Expired
                raise TransientError(f"watch {self.gvr.plural}: {status.message}", status=status.code)
            case other:
                log.warning("watch of %s: unknown event type %r is ignored", self.gvr.plural, other)
        return listing

    def _bookmark(self, meta: _Annotated, listing: Listing[Any] | None) -> Listing[Any] | None:
        if listing is None:
            self._version = meta.resourceVersion
        elif meta.annotations.get("k8s.io/initial-events-end") == "true":
            listing.finish()
            self._version = meta.resourceVersion
            self.synced.set()
            return None
        return listing

    def _judge(self, error: OperatorError | msgspec.MsgspecError, began: float) -> None:
        """What an error says about our version, and about how soon to try again."""
        now = self._clock()
        unreadable = isinstance(error, msgspec.MsgspecError)
        status = 0 if isinstance(error, msgspec.MsgspecError) else error.status
        if unreadable or status in (404, GONE):
            # The kind went away, the version did, or a line that we cannot read may have been an event: do not step
            # over it.
            self._relist("unreadable" if unreadable else "gone")
        elif now - max(began, self.heard_at) >= SILENCE_SECONDS - 1.0:
            # Not even bookmarks: perhaps the server waits for a version of ours that it never had (etcd was restored).
            self._relist("silent")
        cut = not unreadable and status == 0 and self._version != ""
        healthy = cut and (now - began >= HEALTHY_SECONDS or self.heard_at > began)
        self._failures = 0 if healthy else self._failures + 1

    def _relist(self, why: str) -> None:
        if self._version:
            self._metrics.relisted(self.gvr.plural, why)
        self._version = ""

    async def _pause(self, error: Exception | None) -> None:
        delay = min(15.0, 0.25 * 2.0 ** min(self._failures - 1, 10)) * (0.5 + 0.5 * self._rng())
        if isinstance(error, OperatorError) and error.retry_after is not None:
            delay = max(delay, error.retry_after)
        if error is not None:
            level = logging.WARNING if self._failures in (2, 8) or self._failures % 40 == 39 else logging.DEBUG
            log.log(level, "watch of %s: %s; next try in %.1f s", self.gvr.plural, error, delay)
        self._due_at = self._clock() + delay + GRACE_SECONDS
        await asyncio.sleep(delay)

    def _hear(self) -> None:
        self.heard_at = self._clock()
        self._move()

    def _move(self) -> None:
        self._due_at = self._clock() + GRACE_SECONDS
