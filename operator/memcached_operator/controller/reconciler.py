"""Reconciles one Memcached: the seven steps of docs/architecture.md, with a single exit that writes status and posts events."""

from __future__ import annotations

import datetime
import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from memcached_operator.api import names
from memcached_operator.api.problems import Invalid
from memcached_operator.api.v1alpha1 import Memcached
from memcached_operator.api.validation import parse
from memcached_operator.controller import deletion
from memcached_operator.controller.apply import Applied, Writer
from memcached_operator.controller.autoscaler import find_autoscaler
from memcached_operator.controller.events import Occurrence, deeds, troubles
from memcached_operator.controller.observe import Observed, observe
from memcached_operator.controller.pacing import StatusPacer
from memcached_operator.controller.plan import Action, Apply, Create, Scale, plan
from memcached_operator.controller.status import compute_status
from memcached_operator.controller.views import MemcachedView
from memcached_operator.errors import ConflictError, FencedError, NotFoundError, OperatorError, TerminalError
from memcached_operator.gvr import MEMCACHEDS, NAMESPACES
from memcached_operator.resources.desired import desired_resources
from memcached_operator.runtime.events import Recorder
from memcached_operator.runtime.ports import Api
from memcached_operator.runtime.result import Result, done, requeue_after
from memcached_operator.runtime.store import Key, Stores

log = logging.getLogger(__name__)

RECHECK_SECONDS = 60.0
"""How soon something that no watch of ours shows is looked at again: a foreign object, an autoscaler."""


class DriftMetrics(Protocol):
    """Where repairs are counted."""

    def drift_repaired(self, kind: str) -> None: ...


class MemcachedReconciler:
    """`reconcile(key)` makes the cluster look as the Memcached under `key` says."""

    def __init__(
        self,
        api: Api,
        stores: Stores,
        recorder: Recorder,
        metrics: DriftMetrics,
        *,
        default_image: str,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        self._api = api
        self._stores = stores
        self._recorder = recorder
        self._metrics = metrics
        self._writer = Writer(api, stores)
        self._default_image = default_image
        self._now = now
        self._pacer = StatusPacer(clock)

    async def reconcile(self, key: Key) -> Result:
        """One level-triggered pass; a second one over the same state writes nothing."""
        observed = observe(self._stores, key)
        if observed is None:
            self._pacer.forget(key)
            return done()
        if observed.memcached.deleted_at:
            return await self._delete(key, observed)
        parsed = _parse(observed.memcached)
        if isinstance(parsed, Invalid):
            return await self._finish(key, parsed, Applied())
        await self._keep_finalizer(key, observed.memcached, parsed)
        if parsed.spec.paused:
            return await self._finish(key, parsed, Applied())
        autoscaler = await self._foreign_autoscaler(key, observed, parsed)
        desired = desired_resources(parsed, default_image=self._default_image, replicas=parsed.spec.size)
        actions = plan(desired, observed, autoscaled=bool(autoscaler))
        applied = await self._writer.apply(key, parsed.uid, actions)
        self._count_drift(observed.memcached, applied.done)
        return await self._finish(key, parsed, applied, autoscaler=autoscaler)

    async def _finish(
        self, key: Key, parsed: Memcached | Invalid, applied: Applied, *, autoscaler: str = "", deleting: str = "", after: float | None = None
    ) -> Result:
        """The single exit: status, events, and what to do next. Runs after errors too; the worst of them is raised at the end."""
        observed = observe(self._stores, key)
        if observed is None:
            return done()
        before = observed.memcached.status_json()
        now = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        status = compute_status(observed, parsed, applied, now=now, autoscaler=autoscaler, deleting=deleting)
        self._record(observed.memcached, deeds(applied))
        # An error ends this pass with a back-off, or for good: the status that tells of it cannot wait for the next one.
        held = await self._write_status(key, observed.memcached, before, status, at_once=bool(applied.errors))
        if applied.errors:
            raise _worst([error for _, error in applied.errors])
        waits = [seconds for seconds in (held, after) if seconds is not None]
        if applied.conflicts or autoscaler:
            waits.append(RECHECK_SECONDS)
        return requeue_after(min(waits), "something to look at again") if waits else done()

    async def _write_status(
        self, key: Key, view: MemcachedView, before: dict[str, Any], status: dict[str, Any], *, at_once: bool
    ) -> float | None:
        """Write the status if it differs and its time has come; else the seconds until then, or None."""
        wait = self._pacer.wait(key, before, status)
        if wait is None or (wait > 0 and not at_once):
            return wait
        body = {"metadata": {"uid": view.uid}, "status": status}
        raw = await self._api.patch(MEMCACHEDS, key.namespace, key.name, body, subresource="status")
        self._stores[MEMCACHEDS].remember(raw)
        self._pacer.wrote(key, status)
        self._record(view, troubles(before, status))
        return None

    def _record(self, view: MemcachedView, events: list[Occurrence]) -> None:
        for event in events:
            self._recorder.record(MEMCACHEDS, view, event.type, event.reason, event.action, event.note)

    async def _delete(self, key: Key, observed: Observed) -> Result:
        """Only a drain has work to do; children with owner references are the garbage collector's, orphans stay."""
        if not deletion.has_finalizer(observed):
            self._pacer.forget(key)
            return done()
        if await self._namespace_is_going(key.namespace):
            await self._set_finalizers(key, observed.memcached, remove=True)
            return done()
        step = deletion.drain(observed, self._now())
        applied = await self._writer.apply(key, observed.memcached.uid, step.actions)
        if step.release and not applied.errors:
            await self._set_finalizers(key, observed.memcached, remove=True)
            return done()
        return await self._finish(key, _parse(observed.memcached), applied, deleting=f"Drain: {step.words}", after=step.after)

    async def _keep_finalizer(self, key: Key, view: MemcachedView, parsed: Memcached) -> None:
        wanted = deletion.wants_finalizer(parsed)
        if wanted != (names.DRAIN_FINALIZER in view.finalizers):
            await self._set_finalizers(key, view, remove=not wanted)

    async def _set_finalizers(self, key: Key, view: MemcachedView, *, remove: bool) -> None:
        others = [finalizer for finalizer in view.finalizers if finalizer != names.DRAIN_FINALIZER]
        finalizers = others if remove else [*others, names.DRAIN_FINALIZER]
        body = {"metadata": {"finalizers": finalizers, "resourceVersion": view.resource_version, "uid": view.uid}}
        try:
            raw = await self._api.patch(MEMCACHEDS, key.namespace, key.name, body)
        except NotFoundError:
            if not remove:
                raise
            self._stores[MEMCACHEDS].forget(key, view.uid)
            return
        if remove and view.deleted_at and not others:
            self._stores[MEMCACHEDS].forget(key, view.uid)
        else:
            self._stores[MEMCACHEDS].remember(raw)

    async def _namespace_is_going(self, namespace: str) -> bool:
        """A drain must not hold a namespace hostage: its pods are going anyway."""
        try:
            raw = await self._api.get(NAMESPACES, "", namespace)
        except NotFoundError:
            return True
        return bool(msgspec.json.decode(raw).get("metadata", {}).get("deletionTimestamp"))

    async def _foreign_autoscaler(self, key: Key, observed: Observed, parsed: Memcached) -> str:
        deployment = observed.deployment
        if deployment is None or not deployment.autoscaled or deployment.replicas == parsed.spec.size:
            return ""
        return await find_autoscaler(self._api, key)

    def _count_drift(self, view: MemcachedView, actions: list[Action]) -> None:
        """A repair without a new generation: somebody else had changed what is ours."""
        if view.status_json().get("observedGeneration") != view.generation:
            return
        for action in actions:
            if isinstance(action, Create | Apply | Scale):
                self._metrics.drift_repaired(action.kind)


def _parse(view: MemcachedView) -> Memcached | Invalid:
    return parse(view.name, view.namespace, view.uid, view.generation, msgspec.json.decode(view.spec))


def _worst(errors: list[OperatorError]) -> OperatorError:
    """The error that decides when to try again: a real failure before a stale view, and what may heal before what cannot."""

    def rank(error: OperatorError) -> int:
        return 0 if isinstance(error, FencedError) else 3 if isinstance(error, ConflictError) else 2 if isinstance(error, TerminalError) else 1

    return min(errors, key=rank)
