"""The manager: starts what a controller needs in the right order, watches over it, and stops it in the right order.

Start: informers and kopf (on every replica), then the Lease, then the workers. Stop: workers, events, the Lease, then the watches, so
that a standby leads before this process has closed its connections.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from memcached_operator.errors import OperatorError
from memcached_operator.gvr import GVR
from memcached_operator.runtime.controller import Controller, run_workers
from memcached_operator.runtime.election import Elector, Lead, LeaseConfig
from memcached_operator.runtime.events import Recorder
from memcached_operator.runtime.informer import Informer, list_into
from memcached_operator.runtime.kopf_source import KopfSource, OpenSession
from memcached_operator.runtime.ports import Api, Metrics, Tracer

log = logging.getLogger(__name__)

EXIT_LOST_LEASE = 1
STUCK_SECONDS = 300.0  # a reconcile makes a handful of requests of at most 30 s each
DEAF_SECONDS = 60.0
DRAIN_SECONDS = 5.0


class Manager:
    """Runs controllers. `lease` None means: no election, this process leads from the start."""

    def __init__(
        self,
        api: Api,
        *,
        open_session: OpenSession,
        metrics: Metrics,
        tracer: Tracer,
        recorder: Recorder,
        lease: LeaseConfig | None = None,
        namespaces: Sequence[str] = (),
        resync_seconds: float = 600.0,
    ) -> None:
        self._api = api
        self._open_session = open_session
        self._metrics = metrics
        self._tracer = tracer
        self._recorder = recorder
        self._namespaces = tuple(namespaces) or ("",)
        self._resync_seconds = resync_seconds
        self._controllers: list[Controller] = []
        self._informers: list[Informer] = []
        self._primaries_listed = asyncio.Event()
        self._leading = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}  # these never end while the process lives
        self._beginnings: set[asyncio.Task[None]] = set()
        self._workers: asyncio.Task[None] | None = None
        self._kopf: KopfSource | None = None
        self._deaf_since: float | None = None
        self.synced = asyncio.Event()
        self.elector = (
            Elector(api, lease, on_started=self._leading.set, on_fenced=self._fence, on_regained=self._regain) if lease else None
        )
        api.fence = self.may_write

    def add(self, controller: Controller) -> None:
        """Before run()."""
        self._controllers.append(controller)

    def may_write(self) -> bool:
        """Whether this process may change the cluster now."""
        return self.elector is None or self.elector.may_write()

    # Probes

    def alive(self) -> str | None:
        """What stands still, or None. Every part that could die or hang without the process ending is asked."""
        for name, task in self._tasks.items():
            if task.done():
                return f"task {name} has ended"
        if self._workers and self._workers.done() and self.may_write():
            return "the workers have ended"
        now = time.monotonic()
        for controller in self._controllers:
            for key, since in controller.busy_since.items():
                if now - since > STUCK_SECONDS:
                    return f"{controller.name} {key}: the reconcile has been running for {now - since:.0f} s"
        if self.elector and now - self.elector.ticked_at > 60.0 + self.elector.config.duration:
            return "the leader election stands still"
        return None

    def ready(self) -> str | None:
        """None once every kind is listed, leader or not."""
        return None if self.synced.is_set() else "the caches are not synced yet"

    # Life

    async def run(self, stop: asyncio.Event) -> int:
        """Runs until `stop` is set or the lease is lost; returns the exit code."""
        self._make_sources()
        self._register_gauges()
        for informer in self._informers:
            self._start(f"informer {informer.gvr.plural}", informer.run())
        assert self._kopf is not None  # noqa: S101 - made two lines above, for the type checker
        self._start("kopf", self._kopf.run())
        self._start("events", self._recorder.run())
        self._start("watchdog", self._watch_over())
        self._start("resync", self._resync_for_ever())
        if self.elector:
            self._start("elector", self.elector.run())
        else:
            self._leading.set()
        self._begin(self._lead())
        stopped = asyncio.create_task(stop.wait())
        watched = [stopped, *((self._tasks["elector"],) if self.elector else ())]
        await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        lost = self.elector is not None and self.elector.state is Lead.LOST
        await self._shut_down(lost=lost)
        if lost and self.elector:
            log.critical(
                "exit 1: lease %s was lost to %s while this process was away; it wrote nothing since",
                self.elector.config.name,
                self.elector.lost_to,
            )
            return EXIT_LOST_LEASE
        return 0

    async def _shut_down(self, *, lost: bool) -> None:
        for controller in self._controllers:
            controller.queue.close()
        await _end(list(self._beginnings))
        if self._workers and not lost:
            await asyncio.wait([self._workers], timeout=DRAIN_SECONDS)
            await self._recorder.drain(1.0)
        await _end([self._workers] if self._workers else [])
        if elector := self._tasks.pop("elector", None):
            await _end([elector])
        if self.elector and not lost:
            await self.elector.release()
        await _end(list(self._tasks.values()))

    def _make_sources(self) -> None:
        for controller in self._controllers:
            for store in controller.owned:
                self._informers += [Informer(self._api, store, namespace, self._metrics) for namespace in self._namespaces]
        self._kopf = KopfSource(
            [(c.primary.watch.gvr, c.primary.watch.labels) for c in self._controllers],
            [namespace for namespace in self._namespaces if namespace],
            open_session=self._open_session,
            deliver=self._deliver,
            before_start=self._list_primaries,
            on_restart=self._metrics.kopf_restarted,
        )

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._beginnings.add(task)
        task.add_done_callback(self._beginnings.discard)

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        while name in self._tasks:
            name += "'"
        self._tasks[name] = asyncio.create_task(work, name=name)

    def _deliver(self, gvr: GVR, type_: str, raw: bytes) -> None:
        for controller in self._controllers:
            store = controller.primary
            if store.watch.gvr != gvr:
                continue
            if type_ == "DELETED":
                gone = store.watch.decode(raw)
                store.remove(gone.key, gone.uid)
            else:
                store.put(raw)

    async def _list_primaries(self) -> None:
        """The list that kopf does not give us: it says when it is complete, and what is gone. Retried for ever."""
        failures = 0
        while True:
            try:
                await self._relist([controller.primary for controller in self._controllers])
            except OperatorError as error:
                if error.status == 404:
                    self._forget_all()
                failures += 1
                delay = min(10.0, 0.25 * 2.0 ** min(failures - 1, 10)) * (0.5 + 0.5 * random.random())  # noqa: S311 - jitter
                log.log(logging.WARNING if failures in (2, 8) else logging.DEBUG, "%s; next try in %.1f s", error, delay)
                await asyncio.sleep(delay)
            else:
                self._primaries_listed.set()
                return

    def _forget_all(self) -> None:
        """The kind itself is gone (its CRD was deleted), and with it every resource."""
        for controller in self._controllers:
            controller.primary.keep_only(set(), "")

    async def _relist(self, stores: Sequence[Any]) -> None:
        for controller in self._controllers:
            for store in (controller.primary, *controller.owned):
                if store not in stores:
                    continue
                for namespace in self._namespaces:
                    controller.listing(active=True)
                    try:
                        await list_into(self._api, store, namespace)
                    finally:
                        controller.listing(active=not self.synced.is_set())

    async def _lead(self) -> None:
        """Once everything is listed and the lease is ours: freeze what is there, reconcile everything, work."""
        await asyncio.gather(self._primaries_listed.wait(), *(informer.synced.wait() for informer in self._informers))
        gc.collect()
        gc.freeze()  # a full collection over 5,000 resources is a pause of 168 ms; frozen it is none
        self.synced.set()
        for controller in self._controllers:
            controller.listing(active=False)
        log.info("caches are synced: %s", ", ".join(f"{len(s)} {g.plural}" for c in self._controllers for g, s in c.stores.items()))
        await self._leading.wait()
        self._begin_work()

    def _begin_work(self) -> None:
        for controller in self._controllers:
            controller.enqueue_all()
        self._workers = asyncio.create_task(self._work(), name="workers")

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            for controller in self._controllers:
                group.create_task(run_workers(controller, self._metrics, self._tracer), name=controller.name)

    def _fence(self) -> None:
        """Past the renew deadline: what is under way is cut off, and nothing is begun."""
        if self._workers:
            self._workers.cancel()

    def _regain(self) -> None:
        """The lease is ours again, and nobody had it: look at everything anew and go on."""
        self._begin(self._resume())

    async def _resume(self) -> None:
        if self._workers:
            await asyncio.wait([self._workers])
        try:
            await self._relist([store for controller in self._controllers for store in (controller.primary, *controller.owned)])
        except OperatorError as error:
            log.warning("resync after an outage: %s; the watches go on", error)
        self._begin_work()

    async def _resync_for_ever(self) -> None:
        """Live reads of everything, now and then: heals an event that the server never sent, and ghosts that kopf keeps."""
        while True:
            await asyncio.sleep(self._resync_seconds * (0.9 + 0.2 * random.random()))  # noqa: S311 - jitter
            if not self.synced.is_set():
                continue
            try:
                await self._relist([store for c in self._controllers for store in (c.primary, *c.owned)])
            except OperatorError as error:
                log.warning("resync: %s; the next one is in %.0f s", error, self._resync_seconds)
                continue
            for controller in self._controllers:
                controller.enqueue_all()

    async def _watch_over(self) -> None:
        """Restarts kopf when it is alive but deaf."""
        while True:
            await asyncio.sleep(10.0)
            missing = self._kopf.missing_watchers() if self._kopf and self.synced.is_set() else []
            if not missing:
                self._deaf_since = None
                continue
            now = time.monotonic()
            self._deaf_since = self._deaf_since or now
            if now - self._deaf_since > DEAF_SECONDS and self._kopf:
                log.error("kopf watches no %s: it is restarted", ", ".join(missing))
                self._kopf.stop()
                self._deaf_since = None

    def _register_gauges(self) -> None:
        controllers, informers = self._controllers, self._informers
        gauges: dict[str, Callable[[], dict[str, float]]] = {
            "workqueue_depth": lambda: {c.name: float(len(c.queue)) for c in controllers},
            "informer_objects": lambda: {g.plural: float(len(s)) for c in controllers for g, s in c.stores.items()},
            "informer_last_event_age_seconds": lambda: {i.gvr.plural: time.monotonic() - i.heard_at for i in informers},
            "leader": lambda: {"": 1.0 if self.may_write() else 0.0},
        }
        for name, callback in gauges.items():
            self._metrics.gauge(name, callback)


async def _end(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
