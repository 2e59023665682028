"""Leader election on a Lease, written for what must never happen: two leaders.

- Every decision is taken on the monotonic clock; a remote timestamp is never compared, only seen to change (client-go's rule).
- The deadline counts from the moment a renewal was *sent*, and every request ends before it. Past it no write leaves the process:
  `may_write` is asked by the client right before each one, so a process that was stopped for minutes writes nothing when it wakes.
- After an outage the Lease is taken again only if nobody held it since (the PUT is guarded by the resourceVersion); if another identity
  did, `lead` is lost for good and the process must end.
- On stop the Lease is released, and standbys watch it: a hand-over takes milliseconds.

The two electors of the official client are not used: one stops leading only in theory when the connection is lost, the other cannot
create its Lease.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import random
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec

from memcached_operator.errors import ConflictError, NotFoundError, OperatorError
from memcached_operator.gvr import LEASES
from memcached_operator.runtime.ports import Api

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseConfig:
    """Where the Lease is, who we are, and its times in seconds. renew_every < renew_deadline < duration."""

    namespace: str
    name: str
    identity: str
    duration: float = 15.0
    renew_deadline: float = 10.0
    renew_every: float = 5.0
    retry_every: float = 1.0


class Lead(Enum):
    """The states of an elector."""

    STANDBY = "standby"
    LEADING = "leading"
    FENCED = "fenced"  # past the deadline: nothing is written, but the lease may still be ours
    LOST = "lost"  # somebody else held it: final
    RELEASED = "released"


class _Spec(msgspec.Struct, gc=False):
    holderIdentity: str | None = None
    leaseDurationSeconds: int | None = None
    leaseTransitions: int | None = None
    acquireTime: str | None = None
    renewTime: str | None = None


class _Meta(msgspec.Struct, gc=False):
    resourceVersion: str


class _Lease(msgspec.Struct, gc=False):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _Event(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


_decode_lease = msgspec.json.Decoder(_Lease).decode
_decode_event = msgspec.json.Decoder(_Event).decode


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Elector:
    """One candidate. `run` acquires, renews and, when cancelled through `release`, gives the Lease back."""

    def __init__(
        self,
        api: Api,
        config: LeaseConfig,
        *,
        on_started: Callable[[], None] = lambda: None,
        on_fenced: Callable[[], None] = lambda: None,
        on_regained: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self._api = api
        self.config = config
        self.state = Lead.STANDBY
        self.lost_to = ""
        self.ticked_at = clock()
        self._on_started = on_started
        self._on_fenced = on_fenced
        self._on_regained = on_regained
        self._clock = clock
        self._rng = rng
        self._deadline = 0.0
        self._version = ""  # resourceVersion of the Lease as we last saw it
        self._spec = _Spec()
        self._seen_at = clock()  # when that version was first seen
        self._acquired_at = ""

    def may_write(self) -> bool:
        """Whether a write may leave the process at this very moment."""
        return self.state is Lead.LEADING and self._clock() < self._deadline

    async def run(self) -> None:
        """Runs until the Lease is lost to somebody else (returns) or the task is cancelled."""
        failures = 0
        while self.state not in (Lead.LOST, Lead.RELEASED):
            self.ticked_at = self._clock()
            if self.state is Lead.LEADING and self._clock() >= self._deadline:
                self.state = Lead.FENCED
                log.error("lease %s was not renewed in time: no write leaves this process until it is ours again", self.config.name)
                self._on_fenced()
            try:
                pause = await self._step()
                failures = 0
            except OperatorError as error:
                failures += 1
                log.log(logging.WARNING if failures in (2, 30) else logging.DEBUG, "lease %s: %s", self.config.name, error)
                pause = self.config.retry_every * (0.5 + 0.5 * self._rng())
            if self.state is Lead.LEADING:
                pause = min(pause, max(0.0, self._deadline - self._clock()))
            if pause > 0 and self.state is not Lead.LOST:
                await asyncio.sleep(pause)

    async def release(self) -> None:
        """Give the Lease back so that a standby takes it at once. Call it after the last write; never raises."""
        leading, self.state = self.state is Lead.LEADING, Lead.RELEASED
        if not leading:
            return
        spec = _Spec(
            holderIdentity="", leaseDurationSeconds=1, leaseTransitions=self._spec.leaseTransitions, renewTime=_now()
        )
        try:
            try:
                await self._put(spec, timeout=2.0)
            except ConflictError:  # the answer to a renewal was cut off by our own stop
                await self._observe()
                if self._spec.holderIdentity == self.config.identity:
                    await self._put(spec, timeout=2.0)
            log.info("lease %s released", self.config.name)
        except OperatorError as error:
            log.warning("lease %s could not be released, it expires in %.0f s: %s", self.config.name, self.config.duration, error)

    async def _step(self) -> float:
        """One action; returns the seconds to wait before the next."""
        match self.state:
            case Lead.LEADING:
                return await self._renew()
            case Lead.FENCED:
                return await self._regain()
            case _:
                return await self._try_to_acquire()

    async def _renew(self) -> float:
        sent = self._clock()
        try:
            await self._put(self._ours(), timeout=max(0.1, min(5.0, self._deadline - sent)))
        except (ConflictError, NotFoundError):
            return await self._regain()
        self._deadline = sent + self.config.renew_deadline
        return self.config.renew_every

    async def _regain(self) -> float:
        """Our view of the Lease is not the server's, or too old. Go on only if nobody else has held it."""
        transitions = self._spec.leaseTransitions or 0
        try:
            await self._observe()
        except NotFoundError:
            await self._create()
            return self._resume(self._clock())
        holder = self._spec.holderIdentity or ""
        if holder not in ("", self.config.identity) or (self._spec.leaseTransitions or 0) != transitions:
            self.state = Lead.LOST
            self.lost_to = holder or "another replica, which has released it since"
            return 0.0
        sent = self._clock()
        await self._put(self._ours(), timeout=5.0)
        return self._resume(sent)

    def _resume(self, sent: float) -> float:
        self._deadline = sent + self.config.renew_deadline
        if self.state is Lead.FENCED:
            self.state = Lead.LEADING
            log.warning("lease %s is ours again, nobody held it in between", self.config.name)
            self._on_regained()
        return self.config.renew_every

    async def _try_to_acquire(self) -> float:
        if not self._version:
            try:
                await self._observe()
            except NotFoundError:
                sent = self._clock()
                self._acquired_at = _now()
                await self._create()
                return self._lead(sent)
        left = self._seconds_left()
        if left > 0:
            await self._watch_until(left)
            if self._seconds_left() > 0:
                return 0.0
        sent = self._clock()
        self._acquired_at = _now()
        previous = self._spec
        self._spec = _Spec(leaseTransitions=(previous.leaseTransitions or 0) + 1)
        try:
            await self._put(self._ours(), timeout=5.0)
        except OperatorError:
            self._version = ""  # somebody was faster, or we do not know: look again before the next try
            self._spec = previous
            raise
        return self._lead(sent)

    def _lead(self, sent: float) -> float:
        self.state = Lead.LEADING
        self._deadline = sent + self.config.renew_deadline
        log.info("lease %s acquired, %s leads", self.config.name, self.config.identity)
        self._on_started()
        return self.config.renew_every

    def _seconds_left(self) -> float:
        """Seconds until the Lease we last saw may be taken: its own duration after we first saw this version of it."""
        if not self._spec.holderIdentity or self._spec.holderIdentity == self.config.identity:
            return 0.0
        duration = self._spec.leaseDurationSeconds or self.config.duration
        return self._seen_at + duration - self._clock()

    async def _watch_until(self, seconds: float) -> None:
        """Follow the Lease until it changes hands, is deleted, or could expire. A watch, so that a release is seen at once."""
        query = {
            "fieldSelector": f"metadata.name={self.config.name}",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": "290",
        }
        stream = self._api.watch(LEASES, self.config.namespace, query=query, silence_seconds=self.config.duration)
        try:
            async with asyncio.timeout(seconds) as limit, aclosing(stream) as batches:
                async for lines in batches:
                    for line in lines:
                        event = _decode_event(line)
                        if event.type not in ("ADDED", "MODIFIED"):
                            if event.type != "BOOKMARK":
                                self._version = ""  # deleted, or the watch is of no more use: look anew
                                return
                            continue
                        self._saw(_decode_lease(event.object))
                        left = self._seconds_left()
                        if left <= 0:
                            return
                        self.ticked_at = self._clock()
                        limit.reschedule(asyncio.get_running_loop().time() + left)
        except TimeoutError:
            return
        except (OperatorError, msgspec.MsgspecError):
            # The stream broke. What we saw still holds: if it goes on unrenewed, the next look decides, never the clock alone.
            self._version = ""
            raise

    async def _observe(self) -> None:
        raw = await self._api.get(LEASES, self.config.namespace, self.config.name, timeout=5.0)
        self._saw(_decode_lease(raw))

    def _saw(self, lease: _Lease) -> None:
        if (lease.spec.renewTime, lease.spec.holderIdentity) != (self._spec.renewTime, self._spec.holderIdentity):
            self._seen_at = self._clock()
        self._version = lease.metadata.resourceVersion
        self._spec = lease.spec

    def _ours(self) -> _Spec:
        return _Spec(
            holderIdentity=self.config.identity,
            leaseDurationSeconds=max(1, round(self.config.duration)),
            leaseTransitions=self._spec.leaseTransitions or 0,
            acquireTime=self._acquired_at,
            renewTime=_now(),
        )

    async def _create(self) -> None:
        raw = await self._api.create(LEASES, self.config.namespace, self._manifest(self._ours()), fenced=False)
        self._saw(_decode_lease(raw))

    async def _put(self, spec: _Spec, timeout: float) -> None:
        body = self._manifest(spec)
        body["metadata"]["resourceVersion"] = self._version
        namespace, name = self.config.namespace, self.config.name
        self._saw(_decode_lease(await self._api.replace(LEASES, namespace, name, body, fenced=False, timeout=timeout)))

    def _manifest(self, spec: _Spec) -> dict[str, Any]:
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self.config.name, "namespace": self.config.namespace},
            "spec": {key: value for key, value in msgspec.structs.asdict(spec).items() if value is not None},
        }
