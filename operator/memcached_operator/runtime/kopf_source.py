"""Primary resources come through kopf: the only module that imports it.

kopf lists and watches, and hands every event to a handler that does three things: pass it on, and nothing else. It decides nothing,
writes nothing and keeps nothing: change handlers cost three PATCHes a create, indexes start quadratically and keep ghosts after a 410, and
an error in a handler is logged and dropped. So there are null storages, no peering, no scanning, no posting.

kopf runs in a thread and loop of its own, because it cancels every task that is younger than itself when it stops.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import aiohttp
import kopf
import msgspec
import uvloop

from memcached_operator.gvr import GVR

log = logging.getLogger(__name__)

OpenSession = Callable[[], Awaitable[tuple[str, aiohttp.ClientSession]]]
"""Opens (server URL, session) in the running loop. kopf closes the session when it stops."""

Deliver = Callable[[GVR, str, bytes], None]
"""`deliver(gvr, type, object)`: called in the main loop; type is ADDED, MODIFIED or DELETED."""


class _Backoffs:
    """Endless, jittered back-offs in seconds. kopf iterates them once a request, so this must be iterable again and again."""

    def __iter__(self) -> Iterator[float]:
        delay = 0.5
        while True:
            yield delay * (0.5 + random.random())  # noqa: S311 - jitter
            delay = min(delay * 2, 15.0)


class _NoDiffBase(kopf.DiffBaseStorage):
    """Nothing is compared, so nothing is stored: -32 % CPU an event."""

    def build(self, **_: Any) -> Any:
        return {}

    def fetch(self, **_: Any) -> Any:
        return None

    def store(self, **_: Any) -> None:
        return None


class _NoProgress(kopf.ProgressStorage):
    """Handlers keep no progress: there are none that could."""

    def fetch(self, **_: Any) -> Any:
        return None

    def store(self, **_: Any) -> None:
        return None

    def purge(self, **_: Any) -> None:
        return None

    def touch(self, **_: Any) -> None:
        return None

    def clear(self, *, essence: Any) -> Any:
        return essence


def _settings(selectors: Sequence[tuple[GVR, str]]) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.process.ultimate_exiting_timeout = None  # we end the process, nobody else
    settings.posting.enabled = False
    settings.scanning.disabled = True  # else it lists every CRD of the cluster
    settings.peering.standalone = True
    settings.persistence.diffbase_storage = _NoDiffBase()
    settings.persistence.progress_storage = _NoProgress()
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5
    settings.networking.error_backoffs = _Backoffs()
    settings.networking.enforce_retry_after = True
    settings.watching.server_timeout = 290  # an int: a float is sent as 290.0
    settings.watching.client_timeout = 330
    settings.watching.connect_timeout = 5
    settings.watching.inactivity_timeout = 70
    settings.watching.reconnect_backoff = 1
    settings.watching.chunk_size = 250  # shorter turns of the GIL while a list is parsed: the lease is renewed beside it
    settings.execution.max_workers = 1
    for gvr, labels in selectors:
        if labels:
            settings.watching.label_selectors[gvr.group, gvr.version, gvr.plural] = labels
    return settings


class KopfSource:
    """Runs `kopf.operator()` in a thread, restarts it in-process whatever it dies of, and delivers its events to the main loop.

    `before_start` is awaited in the main loop before every start: the list that makes up for what kopf does not tell (DELETED of objects
    that vanished while it was away).
    """

    def __init__(
        self,
        kinds: Sequence[tuple[GVR, str]],
        namespaces: Sequence[str],
        *,
        open_session: OpenSession,
        deliver: Deliver,
        before_start: Callable[[], Awaitable[None]],
        on_restart: Callable[[], None],
        rng: Callable[[], float] = random.random,
    ) -> None:
        self._kinds = kinds
        self._namespaces = namespaces
        self._open_session = open_session
        self._deliver = deliver
        self._before_start = before_start
        self._on_restart = on_restart
        self._rng = rng
        self._main: asyncio.AbstractEventLoop | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._inbox: deque[tuple[GVR, str, dict[str, Any]]] = deque()
        self.restarts = 0

    async def run(self) -> None:
        """Runs until cancelled; then stops kopf and waits for its thread."""
        self._main = asyncio.get_running_loop()
        failures = 0
        while True:
            await self._before_start()
            started = self._main.time()
            error = await self._run_once()
            failures = failures + 1 if self._main.time() - started < 60.0 else 1
            delay = min(15.0, 0.25 * 2.0 ** min(failures - 1, 10)) * (0.5 + 0.5 * self._rng())
            self.restarts += 1
            self._on_restart()
            log.warning("kopf ended (%s); it starts again in %.1f s", error or "without an error", delay)
            await asyncio.sleep(delay)

    async def _run_once(self) -> BaseException | None:
        """One life of kopf; returns what it died of."""
        assert self._main is not None  # noqa: S101 - set by run(), for the type checker
        ended: asyncio.Future[BaseException | None] = self._main.create_future()
        main = self._main

        def report(error: BaseException | None) -> None:
            if not ended.done():
                ended.set_result(error)

        def live() -> None:
            error: BaseException | None = None
            try:
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    runner.run(self._operate())
            except BaseException as failure:  # noqa: BLE001 - whatever kopf dies of is reported to the supervisor, in the other thread
                error = failure
            main.call_soon_threadsafe(report, error)

        thread = threading.Thread(target=live, name="kopf", daemon=True)
        thread.start()
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            self.stop()
            await asyncio.wait([ended], timeout=5.0)
            raise
        finally:
            self._loop = self._stop = None

    async def _operate(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        await kopf.operator(
            registry=self._registry(),
            settings=_settings(self._kinds),
            stop_flag=self._stop,  # an asyncio.Event: with a threading one a crashed operator hangs in its executor's shutdown
            standalone=True,
            clusterwide=not self._namespaces,
            namespaces=list(self._namespaces),
        )

    def stop(self) -> None:
        """Ask kopf to end its present life; `run` starts another, unless it was cancelled."""
        loop, stop = self._loop, self._stop
        if loop is not None and stop is not None:
            loop.call_soon_threadsafe(stop.set)

    def missing_watchers(self) -> list[str]:
        """Kinds that no living task of kopf watches. kopf does not respawn a watcher that was cancelled: the process would be deaf."""
        loop = self._loop
        if loop is None:
            return [gvr.plural for gvr, _ in self._kinds]
        names = [task.get_name() for task in asyncio.all_tasks(loop) if not task.done()]
        wanted = [gvr.plural for gvr, _ in self._kinds]
        return [plural for plural in wanted if not any(n.startswith("watcher for ") and plural in n for n in names)]

    def _registry(self) -> kopf.OperatorRegistry:
        """A fresh registry for every life: kopf cannot start twice from one."""
        registry = kopf.OperatorRegistry()

        async def login(**_: Any) -> kopf.AiohttpSession:
            server, session = await self._open_session()
            return kopf.AiohttpSession(server=server, aiohttp_session=session)

        kopf.on.login(registry=registry, id="login")(login)
        for gvr, _ in self._kinds:
            self._register(registry, gvr)
        return registry

    def _register(self, registry: kopf.OperatorRegistry, gvr: GVR) -> None:
        async def handler(event: Any, **_: Any) -> None:
            self._inbox.append((gvr, event["type"] or "ADDED", event["object"]))
            if len(self._inbox) == 1 and self._main is not None:  # one wake-up for a whole burst
                self._main.call_soon_threadsafe(self._drain)

        kopf.on.event(gvr.group, gvr.version, gvr.plural, registry=registry, id=f"watch-{gvr.plural}")(handler)

    def _drain(self) -> None:
        while self._inbox:
            gvr, type_, body = self._inbox[0]
            try:
                self._deliver(gvr, type_, msgspec.json.encode(body))
            except msgspec.MsgspecError as error:
                log.warning("an event of %s is not readable and is ignored until the next list: %s", gvr.plural, error)
            self._inbox.popleft()  # last, so that the handler's length check stays true while we work
