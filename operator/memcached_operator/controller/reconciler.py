"""Reconciles one Memcached: the seven steps of docs/architecture.md."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import msgspec

from memcached_operator.api.problems import Invalid
from memcached_operator.api.v1alpha1 import Memcached
from memcached_operator.api.validation import parse
from memcached_operator.controller.actions import Apply, Create, Deed, Plan, Scale
from memcached_operator.controller.apply import Applied, Writer
from memcached_operator.controller.deletion import plan_deletion
from memcached_operator.controller.errors import reason_of, worst
from memcached_operator.controller.events import Occurrence, deeds, troubles
from memcached_operator.controller.facts import assess
from memcached_operator.controller.observe import Observed, observe, snapshot
from memcached_operator.controller.pacing import StatusPacer, meaning
from memcached_operator.controller.plan import plan
from memcached_operator.controller.status import compute_status
from memcached_operator.controller.views import MemcachedView
from memcached_operator.errors import OperatorError
from memcached_operator.gvr import MEMCACHEDS
from memcached_operator.resources.desired import desired_resources
from memcached_operator.runtime.events import Recorder
from memcached_operator.runtime.ports import Api
from memcached_operator.runtime.result import Result, done, requeue_after
from memcached_operator.runtime.store import Key, Stores

RECHECK_SECONDS = 45.0
"""How soon what no watch of ours shows is looked at again: a foreign object, an autoscaler. Promised: a minute."""


class DriftMetrics(Protocol):
    """Where repairs are counted."""

    def drift_repaired(self, kind: str) -> None:
        """One repair of a child of this kind."""


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
        """One level-triggered pass; a second one over the same state writes nothing.

        Raises the worst error of the pass, after the status was written that tells of it.
        """
        observed = await observe(self._api, self._stores, key)
        if observed is None or (observed.deleting and not observed.held):
            self._pacer.forget(key)  # the garbage collector does the rest, if there is any
            return done()
        parsed = _parse(observed.memcached)
        planned = self._plan(observed, parsed)
        applied = await self._writer.apply(observed.memcached, planned.actions)
        self._tell(observed.memcached, applied.done)
        held = await self._keep_status(key, observed, parsed, applied, planned)
        return _result(observed, applied, held, planned.after)

    def _plan(self, observed: Observed, parsed: Memcached | Invalid) -> Plan:
        if observed.deleting:
            return plan_deletion(observed, self._now())
        if isinstance(parsed, Invalid):
            return Plan()
        desired = desired_resources(parsed, default_image=self._default_image, replicas=parsed.spec.size)
        return plan(parsed, desired, observed)

    async def _keep_status(
        self, key: Key, before: Observed, parsed: Memcached | Invalid, applied: Applied, planned: Plan
    ) -> float | None:
        """Write the status if it differs and its time has come; else the seconds until then, or None."""
        after = snapshot(self._stores, key)
        if after is None:
            return None
        observed = replace(after, autoscaler=before.autoscaler, errors=before.errors)
        now = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        status = compute_status(observed, assess(observed, parsed, applied, deleting=planned.deleting), now=now)
        old = observed.memcached.status_json()
        wait = self._pacer.wait(key, old, status)
        # An error ends this pass with a back-off, or for good: a status that tells of it cannot wait for the next one.
        news = any(reason_of(error) for _, error in (*observed.errors, *applied.errors)) and meaning(old) != meaning(
            status
        )
        if wait is None or (wait > 0 and not news):
            return wait
        await self._write_status(observed.memcached, status)
        self._pacer.wrote(key, status)
        self._record(observed.memcached, troubles(old, status))
        return None

    async def _write_status(self, view: MemcachedView, status: dict[str, Any]) -> None:
        body = {"metadata": {"uid": view.uid}, "status": status}
        raw = await self._api.patch(MEMCACHEDS, view.namespace, view.name, body, subresource="status")
        self._stores[MEMCACHEDS].remember(raw)

    def _tell(self, view: MemcachedView, done: list[Deed]) -> None:
        """Events of what was done; and counted is what was done without a new generation: a repair."""
        self._record(view, deeds(done))
        if view.status_json().get("observedGeneration") != view.generation:
            return
        for deed in done:
            if isinstance(deed, Create | Apply | Scale):
                self._metrics.drift_repaired(deed.kind)

    def _record(self, view: MemcachedView, events: list[Occurrence]) -> None:
        for event in events:
            self._recorder.record(MEMCACHEDS, view, event.type, event.reason, event.action, event.note)


def _parse(view: MemcachedView) -> Memcached | Invalid:
    return parse(view.name, view.namespace, view.uid, view.generation, msgspec.json.decode(view.spec))


def _result(observed: Observed, applied: Applied, *moments: float | None) -> Result:
    """When to look again. Raises the worst of the errors."""
    errors: list[OperatorError] = [error for _, error in (*observed.errors, *applied.errors)]
    if errors:
        raise worst(errors)
    waits = [seconds for seconds in moments if seconds is not None]
    if applied.conflicts or applied.waits or observed.autoscaler:
        waits.append(RECHECK_SECONDS)
    return requeue_after(min(waits), "something to look at again") if waits else done()
