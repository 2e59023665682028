"""Primary resources come through kopf: the only module that imports it.

kopf lists and watches, and hands every event to a handler that does three things: pass it on, and nothing else. It
decides nothing, writes nothing and keeps nothing: change handlers cost three PATCHes a create, indexes start
quadratically and keep ghosts after a 410, and an error in a handler is logged and dropped. So there are null
storages, no peering, no scanning, no posting.

kopf runs in a thread and loop of its own, because it cancels every task that is younger than itself when it stops.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Protocol

import aiohttp
import kopf
import msgspec
import uvloop
import yarl
from kopf._core.reactor.inventory import ResourceMemories  # kopf.operator() takes one, and has no public name for it

from memcached_operator.gvr import GVR

log = logging.getLogger(__name__)

OpenSession = Callable[[], Awaitable[tuple[str, aiohttp.ClientSession]]]
"""Opens (server URL, session) in the running loop. kopf closes the session when it stops."""

Deliver = Callable[[GVR, str, bytes], None]
"""`deliver(gvr, type, object)`: called in the main loop; type is ADDED, MODIFIED or DELETED."""

LISTED = "LISTED"
"""In the inbox: kopf has listed the kind and opened a watch from there."""

_IDENTITY: Any = "kopf"  # kopf's own type for it is private
SLICE = 100  # events that are taken from the inbox before the main loop may do something else
DEAF_SECONDS = 400.0  # kopf asks for each watch anew after 330 s at most, and after 15 s when that fails
STOP_SECONDS = 5.0


class _Backoffs:
    """Endless, jittered back-offs in seconds.

    Kopf iterates them once a request, so this must be iterable again and again.
    """

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


class _NoMemories(ResourceMemories):
    """Nothing is known of an object between two events: 1.3 KiB each, and for ever where a watch misses its end."""

    async def recall(self, raw_body: Any, **options: Any) -> Any:
        return await super().recall(raw_body, **{**options, "ephemeral": True})


def _settings(selectors: Sequence[tuple[GVR, str]]) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.process.ultimate_exiting_timeout = None  # we end the process, nobody else
    settings.posting.enabled = False
    settings.scanning.disabled = True  # else it lists every CRD of the cluster
    settings.peering.standalone = True
    settings.persistence.finalizer = "kopf-sets-none.invalid/ever"  # it takes its own off whatever it finds it on
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
    settings.watching.chunk_size = 50  # a list costs memory, and long turns of the GIL, by its largest page
    settings.queueing.idle_timeout = 0.05  # of the task and the body that it keeps for each object: 10 KiB
    settings.execution.max_workers = 1
    for gvr, labels in selectors:
        if labels:
            settings.watching.label_selectors[gvr.group, gvr.version, gvr.plural] = labels
    return settings


class Source(Protocol):
    """Where primary resources come from."""

    async def run(self) -> None:
        """Delivers until it is cancelled."""
        ...

    def missing_watchers(self) -> list[str]:
        """Kinds to which it is deaf."""
        ...

    def stop(self) -> None:
        """Begin anew."""
        ...


class KopfSource:
    """Runs `kopf.operator()` in a thread, restarts it whatever it dies of, and delivers its events to the main loop.

    `before_start` is awaited in the main loop before every start. `on_listed` is called in the main loop when kopf
    has listed a kind and watches it from there: it does not tell what vanished before that list, so somebody else
    must look.
    """

    def __init__(  # noqa: PLR0913 - callbacks, each named by its keyword
        self,
        kinds: Sequence[tuple[GVR, str]],
        namespaces: Sequence[str],
        *,
        open_session: OpenSession,
        deliver: Deliver,
        before_start: Callable[[], Awaitable[None]],
        on_listed: Callable[[], None],
        on_restart: Callable[[], None],
        rng: Callable[[], float] = random.random,
    ) -> None:
        self._kinds = kinds
        self._namespaces = namespaces
        self._open_session = open_session
        self._deliver = deliver
        self._before_start = before_start
        self._on_listed = on_listed
        self._on_restart = on_restart
        self._rng = rng
        self._main: asyncio.AbstractEventLoop | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._life: asyncio.Task[None] | None = None
        self._stopping = False
        self._sessions: list[aiohttp.ClientSession] = []
        self._inbox: deque[tuple[GVR, str, bytes]] = deque()
        self._asked_at: dict[str, float] = {}  # path -> when kopf last asked for it
        self._listed: set[str] = set()  # paths that were listed and are not watched from there yet
        self._logins: deque[float] = deque(maxlen=8)
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
            words = "as it was told to" if isinstance(error, asyncio.CancelledError) else repr(error)
            log.warning("kopf ended (%s); it starts again in %.1f s", words, delay)
            await asyncio.sleep(delay)

    def stop(self) -> None:
        """Ask kopf to end its present life; `run` starts another, unless it was cancelled."""
        self._stopping = True
        loop, life = self._loop, self._life
        if loop is not None and life is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed this very moment
                loop.call_soon_threadsafe(life.cancel)

    def missing_watchers(self) -> list[str]:
        """Kinds that kopf does not watch, as far as can be seen from outside: the process is deaf to them.

        kopf does not respawn a watcher that was cancelled, and one that hangs does not ask for its watch anew.
        """
        loop = self._loop
        if loop is None:
            return []  # between two lives: `run` is at it
        names = {task.get_name() for task in asyncio.all_tasks(loop) if not task.done()}
        late = time.monotonic() - DEAF_SECONDS
        missing = []
        for gvr, _ in self._kinds:
            for namespace in self._namespaces or (None,):
                task = f"watcher for {f'{gvr.plural}.{gvr.version}.{gvr.group}'.strip('.')}@{namespace}"
                if task not in names or self._asked_at.get(gvr.path(namespace or ""), late) <= late:
                    missing.append(gvr.plural)
                    break
        return missing

    # One life, and its thread

    async def _run_once(self) -> BaseException | None:
        """One life of kopf; returns what it died of."""
        main = asyncio.get_running_loop()
        ended: asyncio.Future[BaseException | None] = main.create_future()
        self._stopping = False
        self._asked_at = {}
        self._listed.clear()

        def report(error: BaseException | None) -> None:
            if not ended.done():
                ended.set_result(error)

        def live() -> None:
            error: BaseException | None = None
            try:
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    runner.run(self._operate())
            except BaseException as failure:  # noqa: BLE001 - whatever it dies of is the supervisor's, in the other thread
                error = failure
            with contextlib.suppress(RuntimeError):  # nobody waits any more: the process ends
                main.call_soon_threadsafe(report, error)

        thread = threading.Thread(target=live, name="kopf", daemon=True)
        thread.start()
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            self.stop()
            await asyncio.wait([ended], timeout=STOP_SECONDS)
            raise
        finally:
            self._loop = self._life = None
            if ended.done():
                thread.join(1.0)  # it has nothing left to do but return

    async def _operate(self) -> None:
        """Ends by cancellation or by an error.

        kopf has a flag for being stopped, but then a crash takes it five seconds (it waits for its own waiter for
        that flag), and a stop before its first answer as long.
        """
        self._life = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        if self._stopping:  # it was told to before it could hear
            return
        try:
            await kopf.operator(
                registry=self._registry(),
                settings=_settings(self._kinds),
                # Unused without peering. But kopf would look for a user name, and a pod's numeric user has none.
                identity=_IDENTITY,
                standalone=True,
                clusterwide=not self._namespaces,
                namespaces=list(self._namespaces),
            )
        finally:
            while self._sessions:
                await self._sessions.pop().close()

    def _registry(self) -> kopf.OperatorRegistry:
        """A fresh registry for every life: kopf cannot start twice from one."""
        registry = kopf.OperatorRegistry()
        kopf.on.login(registry=registry, id="login", backoff=5.0)(self._login)
        for gvr, _ in self._kinds:
            self._register(registry, gvr)
        return registry

    # Called by kopf, in its thread

    async def _login(self, **_: Any) -> kopf.AiohttpSession:
        """A session for every login. kopf logs in anew at each 401, at once: it is slowed down here."""
        now = time.monotonic()
        recent = sum(1 for at in self._logins if now - at < 60.0)
        self._logins.append(now)
        if recent > 1:
            await asyncio.sleep(min(15.0, 0.5 * 2.0**recent) * (0.5 + 0.5 * self._rng()))
        server, session = await self._open_session()
        trace = aiohttp.TraceConfig()
        trace.on_request_start.append(self._asked)
        trace.on_request_end.append(self._answered)
        trace.freeze()
        session.trace_configs.append(trace)
        self._sessions.append(session)
        return kopf.AiohttpSession(server=server, aiohttp_session=session)

    def _path(self, url: yarl.URL) -> tuple[GVR, str] | None:
        """The kind, and the path by which it is listed and watched, of a request; None for any other request."""
        for gvr, _ in self._kinds:
            for namespace in self._namespaces or ("",):
                if url.path.endswith(path := gvr.path(namespace)):  # the server's own path may come before
                    return gvr, path
        return None

    async def _asked(self, _session: Any, _context: Any, request: aiohttp.TraceRequestStartParams) -> None:
        if known := self._path(request.url):
            self._asked_at[known[1]] = time.monotonic()

    async def _answered(self, _session: Any, _context: Any, request: aiohttp.TraceRequestEndParams) -> None:
        known = self._path(request.url)
        if known is None or request.response.status != 200:
            return
        gvr, path = known
        if "watch" not in request.url.query:
            self._listed.add(path)
        elif path in self._listed:
            self._listed.discard(path)
            self._pass_on(gvr, LISTED, b"")

    def _register(self, registry: kopf.OperatorRegistry, gvr: GVR) -> None:
        async def handler(event: Any, **_: Any) -> None:
            self._pass_on(gvr, event["type"] or "ADDED", msgspec.json.encode(event["object"]))

        kopf.on.event(gvr.group, gvr.version, gvr.plural, registry=registry, id=f"watch-{gvr.plural}")(handler)

    def _pass_on(self, gvr: GVR, type_: str, body: bytes) -> None:
        self._inbox.append((gvr, type_, body))
        if len(self._inbox) == 1 and self._main is not None:  # one wake-up for a whole burst
            with contextlib.suppress(RuntimeError):  # the main loop is closed: the process ends
                self._main.call_soon_threadsafe(self._drain)

    # In the main loop

    def _drain(self) -> None:
        for _ in range(SLICE):
            if not self._inbox:
                return
            gvr, type_, body = self._inbox[0]
            try:
                if type_ == LISTED:
                    self._on_listed()
                else:
                    self._deliver(gvr, type_, body)
            except Exception:  # an event that cannot be delivered must not stop those behind it
                log.exception("an event of %s cannot be delivered; the next list makes up for it", gvr.plural)
            finally:
                self._inbox.popleft()  # last, so that the length check in the other thread stays true while we work
        if self._inbox and self._main is not None:
            self._main.call_soon(self._drain)
