"""A controller: one primary kind, the kinds that it owns, a reconciler, and N workers on one queue."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from memcached_operator.errors import BugError, ConflictError, FencedError, OperatorError, TerminalError
from memcached_operator.runtime.ports import Metrics, Tracer
from memcached_operator.runtime.result import Reconciler, Result
from memcached_operator.runtime.store import Key, Store, Stores, Watch
from memcached_operator.runtime.workqueue import Backoff, ShutDown, WorkQueue

log = logging.getLogger(__name__)


class Controller:
    """Maps events to keys, and keys to `reconcile(key)`. One key is never worked on twice at the same time.

    `reconciler` makes the reconciler from the stores that it reads.
    """

    def __init__(
        self,
        name: str,
        *,
        for_: Watch[Any],
        reconciler: Callable[[Stores], Reconciler],
        owns: Sequence[Watch[Any]] = (),
        workers: int = 1,
        backoff: Backoff | None = None,
    ) -> None:
        self.name = name
        self.workers = workers
        self.queue = WorkQueue()
        self.primary: Store[Any] = Store(for_, self._primary_changed)
        self.owned = [Store(watch, self._owned_changed(watch)) for watch in owns]
        self.busy_since: dict[Key, float] = {}  # for liveness: a reconcile that never ends
        self._backoff = backoff or Backoff()
        self.reconciler = reconciler(self.stores)
        self.synced = False  # the first lists are in: set by the manager

    @property
    def stores(self) -> Stores:
        """Every store of this controller by its kind."""
        return {store.watch.gvr: store for store in (self.primary, *self.owned)}

    def _primary_changed(self, old: Any, new: Any, listed: bool) -> None:  # noqa: FBT001 - as OnChange has it
        thing = new or old
        self.queue.add(thing.key, background=(listed or not self.synced) and not self._waits(thing))

    def _waits(self, thing: Any) -> bool:
        return self.primary.watch.waits(thing)

    def _owned_changed(self, watch: Watch[Any]) -> Any:
        def changed(old: Any, new: Any, listed: bool) -> None:  # noqa: FBT001 - as OnChange has it
            delay = watch.delay(old, new)
            owners = {watch.owner(thing) for thing in (old, new) if thing is not None}
            for owner in owners:
                if owner is None:
                    continue
                if listed or not self.synced:
                    self.queue.add(owner, background=True)
                else:
                    self.queue.add_after(owner, delay)

        return changed

    def enqueue_all(self) -> None:
        """Every primary resource, those for which somebody waits first: after a change of leader and at a resync."""
        for key in self.primary.keys():  # noqa: SIM118 - a Store is no mapping
            self.queue.add(key, background=not self._waits(self.primary.get(key)))

    async def work(self, metrics: Metrics, tracer: Tracer) -> None:
        """One worker: runs until the queue is closed, or it is cancelled."""
        while True:
            try:
                key, waited = await self.queue.get()
            except ShutDown:
                return
            metrics.queue_waited(waited)
            started = time.monotonic()
            self.busy_since[key] = started
            outcome = "cancelled"
            try:
                with tracer.span("reconcile", controller=self.name, key=str(key)):
                    outcome = self._settle(key, await self.reconciler.reconcile(key))
            except OperatorError as error:
                outcome = self._failed(key, error, metrics)
            except Exception as error:  # the worker loop: a bug in one resource must not stop the others
                log.exception("%s %s: a bug; please report it", self.name, key)
                outcome = self._failed(key, BugError(repr(error)), metrics)
            finally:
                del self.busy_since[key]
                self.queue.done(key)
                metrics.reconcile_finished(self.name, outcome, time.monotonic() - started)

    def _settle(self, key: Key, result: Result) -> str:
        self._backoff.forget(key)
        if result.after is None:
            return "done"
        self.queue.add_after(key, result.after)
        return "requeue"

    def _failed(self, key: Key, error: OperatorError, metrics: Metrics) -> str:
        match error:
            case FencedError():
                pass  # whoever leads next reconciles every key
            case TerminalError():
                self._backoff.forget(key)
                log.warning("%s %s: %s; it waits for an edit", self.name, key, error)
            case _:
                stale = isinstance(error, ConflictError)
                delay = max(self._backoff.next_delay(key), error.retry_after or 0.0)
                level = logging.DEBUG if stale or not _is_news(self._backoff.failures(key)) else logging.WARNING
                log.log(level, "%s %s: %s; next try in %.2f s", self.name, key, error, delay)
                metrics.queue_retried()
                self.queue.add_after(key, delay)
        return error.category


def _is_news(failures: int) -> bool:
    """Whether a failure is worth a line: the 4th, the 8th, the 16th...: not a blip, and not a line for every try."""
    return failures >= 4 and failures & (failures - 1) == 0


async def run_workers(controller: Controller, metrics: Metrics, tracer: Tracer) -> None:
    """All workers of a controller, until the queue closes; cancelling this cancels what they write."""
    async with asyncio.TaskGroup() as group:
        for number in range(controller.workers):
            group.create_task(controller.work(metrics, tracer), name=f"worker {controller.name}/{number}")
