"""Metrics and traces that are remembered, a reconciler that is scripted, and a source of primaries without kopf."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from fake_api import FakeApi

from memcached_operator.gvr import GVR
from memcached_operator.runtime.informer import Informer
from memcached_operator.runtime.result import Result, done
from memcached_operator.runtime.store import Key, Store, Watch, decode_unstructured


class RecordedMetrics:
    """Satisfies runtime.ports.Metrics; counts by name."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.gauges: dict[str, Callable[[], Mapping[tuple[str, ...], float]]] = {}

    def reconcile_finished(self, controller: str, result: str, seconds: float) -> None:
        assert seconds >= 0
        self.counts[f"{controller} {result}"] += 1

    def queue_waited(self, seconds: float) -> None:
        assert seconds >= 0
        self.counts["waited"] += 1

    def queue_retried(self) -> None:
        self.counts["retried"] += 1

    def relisted(self, resource: str, why: str) -> None:
        self.counts[f"relisted {resource} {why}"] += 1

    def kopf_restarted(self) -> None:
        self.counts["kopf restarted"] += 1

    def event_dropped(self) -> None:
        self.counts["event dropped"] += 1

    def gauge(self, name: str, callback: Callable[[], Mapping[tuple[str, ...], float]]) -> None:
        self.gauges[name] = callback


class NoTracer:
    """Satisfies runtime.ports.Tracer."""

    def span(self, name: str, **attributes: str) -> AbstractContextManager[object]:
        assert name
        assert attributes
        return contextlib.nullcontext()


Script = Callable[[Key], Awaitable[Result]]


async def _nothing_to_do(_: Key) -> Result:
    return done()


class ScriptedReconciler:
    """Does what it is told, and remembers the keys."""

    def __init__(self, script: Script = _nothing_to_do) -> None:
        self.script = script
        self.keys: list[Key] = []

    def take(self) -> list[str]:
        """Names of the keys since the last call."""
        names = [key.name for key in self.keys]
        self.keys.clear()
        return names

    async def reconcile(self, key: Key) -> Result:
        self.keys.append(key)
        return await self.script(key)


class WatchedSource:
    """Primary resources by an informer of ours, in the place of kopf: same promises, no thread."""

    def __init__(
        self,
        kinds: Sequence[tuple[GVR, str]],
        namespaces: Sequence[str],
        *,
        open_session: Callable[[], Awaitable[Any]],
        deliver: Callable[[GVR, str, bytes], None],
        before_start: Callable[[], Awaitable[None]],
        on_listed: Callable[[], None],
        on_restart: Callable[[], None],
    ) -> None:
        self._kinds = kinds
        self._namespaces = namespaces or ("",)
        self._deliver = deliver
        self._before_start = before_start
        self.on_listed = on_listed
        self._on_restart = on_restart
        self._open_session = open_session
        self.restart = asyncio.Event()
        self.deaf: list[str] = []

    async def run(self) -> None:
        while True:
            await self._before_start()
            api, _ = await self._open_session()
            async with self._watching(api):
                await self.restart.wait()
            self.restart.clear()
            self._on_restart()

    @contextlib.asynccontextmanager
    async def _watching(self, api: FakeApi) -> AsyncGenerator[None]:
        tasks = []
        for gvr, labels in self._kinds:
            for namespace in self._namespaces:
                store: Store[Any] = Store(Watch(gvr, decode_unstructured, labels=labels), self._changed(gvr))
                loop = asyncio.get_running_loop()
                informer = Informer(api, store, namespace, RecordedMetrics(), clock=loop.time, rng=lambda: 0.5)
                tasks.append(asyncio.create_task(informer.run()))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _changed(self, gvr: GVR) -> Callable[[Any, Any, bool], None]:
        def changed(old: Any, new: Any, listed: bool) -> None:  # noqa: FBT001 - see OnChange
            if new is not None:
                self._deliver(gvr, "MODIFIED" if old else "ADDED", _encode(new))
            elif not listed:
                self._deliver(gvr, "DELETED", _encode(old))  # of its last version: all that is left

        return changed

    def missing_watchers(self) -> list[str]:
        return self.deaf

    def stop(self) -> None:
        self.restart.set()


def _encode(thing: Any) -> bytes:
    return json.dumps(thing.body).encode()
