"""The manager: starts what a controller needs in the right order, watches over it, and stops it in the right order.

Start: informers and kopf (on every replica), then the Lease, then the workers. Stop: workers, events, the Lease, then
the watches, so that a standby leads before this process has closed its connections.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import time
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any

from memcached_operator.errors import OperatorError
from memcached_operator.gvr import GVR
from memcached_operator.runtime.controller import Controller, run_workers
from memcached_operator.runtime.election import Elector, Lead, LeaseConfig, steady_clock
from memcached_operator.runtime.events import Recorder
from memcached_operator.runtime.informer import Informer, list_into
from memcached_operator.runtime.kopf_source import KopfSource, OpenSession, Source
from memcached_operator.runtime.ports import Api, Metrics, Tracer
from memcached_operator.runtime.store import Store

log = logging.getLogger(__name__)

EXIT_FAILED = 1
STUCK_SECONDS = 900.0  # a reconcile makes a dozen requests of at most 30 s each
DEAF_SECONDS = 30.0  # kopf asks the API server a few things before it watches: more than that is deafness
DRAIN_SECONDS = 5.0
RELIST_SECONDS = 60.0  # after an outage: what is not listed by then is left to the watches


class Manager:
    """Runs controllers. `lease` None means: no election, this process leads from the start."""

    def __init__(  # noqa: PLR0913 - the parts of a process, each named by its keyword
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
        make_source: Callable[..., Source] = KopfSource,
        clock: Callable[[], float] = steady_clock,
    ) -> None:
        self._api = api
        self._open_session = open_session
        self._metrics = metrics
        self._tracer = tracer
        self._recorder = recorder
        self._namespaces = tuple(namespaces) or ("",)
        self._resync_seconds = resync_seconds
        self._make_source = make_source
        self._controllers: list[Controller] = []
        self._informers: list[Informer] = []
        self._primaries_listed = asyncio.Event()
        self._kopf_listed = asyncio.Event()
        self._leading = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}  # these never end while the process lives
        self._workers: asyncio.Task[None] | None = None
        self._lag = 0.0
        self.synced = asyncio.Event()
        self.elector = (
            Elector(
                api,
                lease,
                on_started=self._leading.set,
                on_fenced=self._fence,
                on_regained=self._leading.set,
                clock=clock,
            )
            if lease
            else None
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
        """What stands still, or None. Every part that could hang without the process ending is asked.

        An API server that is away stops nothing: all parts go on trying.
        """
        for name, task in self._tasks.items():
            if task.done():
                return f"task {name} has ended"
        now = time.monotonic()
        for controller in self._controllers:
            for key, since in controller.busy_since.items():
                if now - since > STUCK_SECONDS:
                    return f"{controller.name} {key}: the reconcile has been running for {now - since:.0f} s"
        for informer in self._informers:
            if informer.stands_still():
                return f"the watch of {informer.gvr.plural} stands still"
        if self.elector and self.elector.stands_still():
            return "the leader election stands still"
        return None

    def ready(self) -> str | None:
        """None once every kind is listed, leader or not."""
        return None if self.synced.is_set() else "the caches are not synced yet"

    # Life

    async def run(self, stop: asyncio.Event) -> int:
        """Runs until `stop` is set, the lease is lost, or a part of it fails; returns the exit code."""
        self._make_sources()
        self._register_gauges()
        if self.elector:
            self._start("elector", self.elector.run())
        else:
            self._leading.set()
        self._start("lead", self._lead())
        stopped = asyncio.create_task(stop.wait(), name="stop")
        await asyncio.wait([stopped, *self._tasks.values()], return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        lost = self.elector is not None and self.elector.state is Lead.LOST
        broken = {} if lost or stop.is_set() else {name: task for name, task in self._tasks.items() if task.done()}
        await self._shut_down(lost=lost)
        for name, task in broken.items():
            error = None if task.cancelled() else task.exception()
            log.critical("exit 1: task %s has ended, a bug; please report it", name, exc_info=error)
        if lost and self.elector:
            text = "exit 1: lease %s was lost to %s while this process was away; it wrote nothing since"
            log.critical(text, self.elector.config.name, self.elector.lost_to)
        return EXIT_FAILED if lost or broken else 0

    async def _shut_down(self, *, lost: bool) -> None:
        for controller in self._controllers:
            controller.queue.close()
        late: Collection[asyncio.Task[None]] = ()
        if self._workers and not lost and self.may_write():
            _, late = await asyncio.wait([self._workers], timeout=DRAIN_SECONDS)
            await self._recorder.drain(1.0)
        await _end([self._workers] if self._workers else [])
        if elector := self._tasks.pop("elector", None):
            await _end([elector])
        if late:
            log.warning("a write may still be under way: the lease is left to expire")
        elif self.elector and not lost:
            await self.elector.release()
        await _end(list(self._tasks.values()))

    def _make_sources(self) -> None:
        loop = asyncio.get_running_loop()
        for controller in self._controllers:
            for store in controller.owned:
                for namespace in self._namespaces:
                    informer = Informer(self._api, store, namespace, self._metrics, clock=loop.time)
                    self._informers.append(informer)
                    self._start(f"informer {controller.name} {store.watch.gvr.plural} {namespace}", informer.run())
        kopf = self._make_source(
            [(c.primary.watch.gvr, c.primary.watch.labels) for c in self._controllers],
            [namespace for namespace in self._namespaces if namespace],
            open_session=self._open_session,
            deliver=self._deliver,
            before_start=self._list_primaries,
            on_listed=self._kopf_listed.set,
            on_restart=self._metrics.kopf_restarted,
        )
        self._start("kopf", kopf.run())
        self._start("kopf lists", self._follow_kopf_lists())
        self._start("events", self._recorder.run())
        self._start("watchdog", self._watch_over(kopf))
        self._start("resync", self._resync_for_ever())

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._tasks[name] = asyncio.create_task(work, name=name)

    # Sources

    def _deliver(self, gvr: GVR, type_: str, raw: bytes) -> None:
        for controller in self._controllers:
            store = controller.primary
            if store.watch.gvr != gvr:
                continue
            if type_ == "DELETED":
                store.drop(raw)
            else:
                store.put(raw)

    async def _list_primaries(self) -> None:
        """The list that kopf does not give us: it says when it is complete, and what is gone. Retried for ever."""
        stores = [controller.primary for controller in self._controllers]
        failures = 0
        while stores:
            errors = await self._relist(stores)
            for store, error in errors:
                if error.status == 404:  # the kind itself is gone: its CRD was deleted
                    store.clear()
            stores = [store for store, _ in errors]
            if stores:
                failures += 1
                delay = min(10.0, 0.25 * 2.0 ** min(failures - 1, 10)) * (0.5 + 0.5 * random.random())  # noqa: S311 - jitter
                level = logging.WARNING if failures in (2, 8) or failures % 60 == 0 else logging.DEBUG
                log.log(level, "%s; next try in %.1f s", errors[0][1], delay)
                await asyncio.sleep(delay)
        self._primaries_listed.set()

    async def _follow_kopf_lists(self) -> None:
        """Whenever kopf has listed (at its start, after a 410), list too: it does not tell what vanished meanwhile."""
        while True:
            await self._kopf_listed.wait()
            await asyncio.sleep(0.2)  # one list of ours for those of several kinds and namespaces
            self._kopf_listed.clear()
            await self._list_primaries()

    async def _relist(self, stores: Sequence[Store[Any]]) -> list[tuple[Store[Any], OperatorError]]:
        """Live reads into the stores. Returns those that could not be read.

        One kind does not keep the others from it.
        """
        errors = []
        for store in stores:
            try:
                for namespace in self._namespaces:
                    await list_into(self._api, store, namespace)
            except OperatorError as error:
                errors.append((store, error))
        return errors

    def _stores(self) -> list[Store[Any]]:
        return [store for controller in self._controllers for store in (controller.primary, *controller.owned)]

    async def _resync_for_ever(self) -> None:
        """Live reads of everything, now and then: heals an event that was never sent, and ghosts."""
        while True:
            await asyncio.sleep(self._resync_seconds * (0.9 + 0.2 * random.random()))  # noqa: S311 - jitter
            if not self.synced.is_set():
                continue
            for _, error in await self._relist(self._stores()):
                log.warning("resync: %s; the next one is in %.0f s", error, self._resync_seconds)
            for controller in self._controllers:
                controller.enqueue_all()

    # Leading

    async def _lead(self) -> None:
        """Once everything is listed, and whenever the lease is ours.

        Look at everything, and work until we are fenced.
        """
        await self._sync()
        fenced = False
        while True:
            await self._leading.wait()
            if fenced:
                await self._catch_up()
            if not self._leading.is_set():
                continue
            for controller in self._controllers:
                controller.queue.waiting_counts_from_now()
                controller.enqueue_all()
            self._workers = asyncio.create_task(self._work(), name="workers")
            await asyncio.wait([self._workers])
            if not self._workers.cancelled():
                self._workers.result()  # raises what they died of
                return  # the queues are closed: the process ends
            fenced = True

    async def _sync(self) -> None:
        await asyncio.gather(self._primaries_listed.wait(), *(informer.synced.wait() for informer in self._informers))
        gc.collect()
        gc.freeze()  # a full collection over 5,000 resources is a pause of 168 ms; frozen it is none
        # Structs hold no cycles: collect for what frameworks leave behind, not at every turn.
        gc.set_threshold(50_000, 20, 20)
        self.synced.set()
        for controller in self._controllers:
            controller.synced = True
        stores = self._stores()
        log.info("caches are synced: %s", ", ".join(f"{len(store)} {store.watch.gvr.plural}" for store in stores))

    async def _catch_up(self) -> None:
        """The lease is ours again, and nobody had it: look at everything anew before going on."""
        try:
            async with asyncio.timeout(RELIST_SECONDS):
                for _, error in await self._relist(self._stores()):
                    log.warning("resync after an outage: %s; the watches go on", error)
        except TimeoutError:
            log.warning("resync after an outage: not complete in %.0f s; the watches go on", RELIST_SECONDS)

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            for controller in self._controllers:
                group.create_task(run_workers(controller, self._metrics, self._tracer), name=controller.name)

    def _fence(self) -> None:
        """Past the renew deadline: what is under way is cut off, and nothing is begun."""
        self._leading.clear()
        if self._workers:
            self._workers.cancel()

    # Watchdog

    async def _watch_over(self, kopf: Source) -> None:
        """Restarts kopf when it is alive but deaf; measures how late the loop is."""
        loop = asyncio.get_running_loop()
        deaf_since: float | None = None
        while True:
            expected = loop.time() + 1.0
            await asyncio.sleep(1.0)
            self._lag = max(0.0, loop.time() - expected)
            missing = kopf.missing_watchers() if self.synced.is_set() else []
            if not missing:
                deaf_since = None
                continue
            deaf_since = deaf_since if deaf_since is not None else loop.time()
            if loop.time() - deaf_since >= DEAF_SECONDS:
                log.error("kopf watches no %s: it is restarted", ", ".join(missing))
                kopf.stop()
                deaf_since = None

    def _register_gauges(self) -> None:
        controllers, informers = self._controllers, self._informers
        gauges: dict[str, Callable[[], dict[tuple[str, ...], float]]] = {
            "workqueue_depth": lambda: {(c.name,): float(len(c.queue)) for c in controllers},
            "informer_objects": lambda: {(g.plural,): float(len(s)) for c in controllers for g, s in c.stores.items()},
            "informer_last_event_age_seconds": lambda: _oldest(informers),
            "leader": lambda: {(): 1.0 if self.may_write() else 0.0},
            "event_loop_lag_seconds": lambda: {("main",): self._lag},
        }
        for name, callback in gauges.items():
            self._metrics.gauge(name, callback)


def _oldest(informers: Sequence[Informer]) -> dict[tuple[str, ...], float]:
    """By resource, the age (s) of the watch that was silent for the longest: each namespace has one of its own."""
    ages: dict[tuple[str, ...], float] = {}
    for informer in informers:
        resource = (informer.gvr.plural,)
        ages[resource] = max(ages.get(resource, 0.0), informer.age())
    return ages


async def _end(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
