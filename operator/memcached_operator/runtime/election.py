"""Leader election on a Lease, written for what must never happen: two leaders.

- Every decision is taken on a clock of our own that never jumps; a remote timestamp is never compared, only seen to
change
  (client-go's rule).
- The deadline counts from the moment a renewal was *sent*, and what is under way ends at it. Past it no write leaves
the
  process: `may_write` is asked by the client right before each one, so a process that was stopped for minutes writes
  nothing when it wakes. What the network did not deliver in `duration` - `renew_deadline` is given up by the sockets
  (kube/client.py): it would arrive when others may lead.
- After an outage the Lease is taken again only if nobody held it since (the PUT is guarded by the resourceVersion); if
  another identity did, it is lost for good and the process must end.
- A Lease that vanishes, or whose holder is cleared by hand, is free a whole duration later: its holder may not know
yet.
- On stop the Lease is released, and standbys watch it: a hand-over takes milliseconds.

One gap is left open on purpose: a replica that starts while the Lease of a living leader has just been deleted, and
has never seen it, takes it at once. The leader learns of it at its next renewal and ends. Closing it would make every
first start wait.

The two electors of the official client are not used: one stops leading only in theory when the connection is lost,
the other cannot create its Lease.
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

REQUEST_SECONDS = 5.0
RELEASE_SECONDS = 2.0
TICK_SECONDS = 0.01  # timers are no finer than that
GRACE_SECONDS = 60.0  # how late a step may be before the elector counts as standing still


def steady_clock() -> float:
    """Seconds on a clock that never jumps and counts the time that the machine was asleep, where the system has one."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


@dataclass(frozen=True, slots=True)
class LeaseConfig:
    """Where the Lease is, who we are, and its times in seconds: renew_every < renew_deadline < duration.

    `identity` is of this process alone: who finds it in the Lease has written it itself.
    """

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


class _Lease(msgspec.Struct, gc=False):
    metadata: dict[str, Any] = {}
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _Event(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


_decode_lease = msgspec.json.Decoder(_Lease).decode
_decode_event = msgspec.json.Decoder(_Event).decode


def _nothing() -> None:
    return None


class Elector:
    """One candidate: `run` acquires and renews, `release` gives the Lease back."""

    def __init__(
        self,
        api: Api,
        config: LeaseConfig,
        *,
        on_started: Callable[[], None] = _nothing,
        on_fenced: Callable[[], None] = _nothing,
        on_regained: Callable[[], None] = _nothing,
        clock: Callable[[], float] = steady_clock,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self._api = api
        self.config = config
        self.state = Lead.STANDBY
        self.lost_to = ""
        self._on_started = on_started
        self._on_fenced = on_fenced
        self._on_regained = on_regained
        self._clock = clock
        self._rng = rng
        self._deadline = 0.0
        self._due_at = clock() + GRACE_SECONDS  # when the next sign of life is overdue
        self._lease = _Lease()  # as we last saw it
        self._known = False  # whether it is still there, and unchanged, as far as we know
        self._seen_at = clock()  # when its holder or renewal was first seen
        self._term = ("", 0)  # uid and leaseTransitions of the Lease while we hold it
        self._acquired_at = ""
        self._missing_since: float | None = None
        self._unsure = False  # an acquisition was sent and not answered: the Lease may be ours
        self._stamped: datetime.datetime | None = None

    def may_write(self) -> bool:
        """Whether a write may leave the process at this very moment."""
        return self.state is Lead.LEADING and self._clock() < self._deadline

    def stands_still(self) -> bool:
        """Whether `run` has not moved for longer than any of its steps can take."""
        return self._clock() > self._due_at

    async def run(self) -> None:
        """Runs until the Lease is lost to somebody else (returns) or the task is cancelled."""
        failures = 0
        while self.state not in (Lead.LOST, Lead.RELEASED):
            self._fence_if_late()
            self._due_at = self._clock() + GRACE_SECONDS
            try:
                # What is under way at the deadline is cut off there, so that the fence falls in time.
                async with asyncio.timeout(self._seconds_to_deadline()):
                    pause = await self._step()
                failures = 0
            except TimeoutError:
                pause = 0.0
            except (OperatorError, msgspec.MsgspecError) as error:
                failures += 1
                level = logging.WARNING if failures in (2, 30) else logging.DEBUG
                log.log(level, "lease %s: %s", self.config.name, error)
                pause = self._retry_pause()
            seconds = self._seconds_to_deadline()
            pause = pause if seconds is None else min(pause, seconds)
            if pause > 0:
                self._due_at = self._clock() + pause + GRACE_SECONDS
                await asyncio.sleep(pause)

    async def release(self) -> None:
        """Give the Lease back so that a standby takes it at once. Call it after the last write; never raises."""
        leading, self.state = self.state is Lead.LEADING, Lead.RELEASED
        if not leading and not self._unsure:
            return
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                await self._give_back(look_first=not leading)
        except (OperatorError, msgspec.MsgspecError, TimeoutError) as error:
            log.warning(
                "lease %s could not be released, it expires in %.0f s: %s",
                self.config.name,
                self.config.duration,
                str(error) or "no answer in time",
            )

    async def _give_back(self, *, look_first: bool) -> None:
        if look_first:
            await self._look()
        while self._lease.spec.holderIdentity == self.config.identity:
            transitions = self._lease.spec.leaseTransitions
            spec = _Spec("", leaseDurationSeconds=1, leaseTransitions=transitions, renewTime=self._stamp())
            try:
                await self._put(spec, timeout=RELEASE_SECONDS)
            except ConflictError:  # a renewal was under way when we stopped, and took effect unanswered
                await self._look()
            else:
                log.info("lease %s released", self.config.name)

    async def _step(self) -> float:
        """One action; returns the seconds to wait before the next."""
        match self.state:
            case Lead.LEADING:
                return await self._renew()
            case Lead.FENCED:
                return await self._regain()
            case _:
                return await self._try_to_acquire()

    # Leading

    async def _renew(self) -> float:
        sent = self._clock()
        left = self._deadline - sent
        try:
            # Not all of the time that is left: a connection that hangs must leave some for a second try, on another
            # one.
            await self._put(self._ours(self._term[1]), timeout=max(1.0, 0.6 * left))
        except (ConflictError, NotFoundError):
            return await self._regain()
        return self._extend(sent)

    async def _regain(self) -> float:
        """Our view of the Lease is not the server's, or too old. Go on only if nobody else has held it."""
        try:
            await self._look()
        except NotFoundError:
            return await self._recreate()
        spec = self._lease.spec
        holder, term = spec.holderIdentity or "", (self._uid(), spec.leaseTransitions or 0)
        if holder != self.config.identity and (holder or term != self._term):
            self.state = Lead.LOST
            self.lost_to = holder or "another replica, which has released it since"
            return 0.0
        sent = self._clock()
        await self._put(self._ours(term[1]), timeout=REQUEST_SECONDS)
        self._term = (self._uid(), term[1])
        return self._extend(sent)

    async def _recreate(self) -> float:
        """The Lease was deleted. Before the deadline it can only have been ours; past it, perhaps somebody else's."""
        if self.state is Lead.FENCED and not self._missing_for_long():
            return self._retry_pause()
        sent = self._clock()
        await self._create(self._term[1])
        self._term = (self._uid(), self._term[1])
        return self._extend(sent)

    def _extend(self, sent: float) -> float:
        """A renewal that was sent at `sent` is in the Lease."""
        self._fence_if_late()  # the answer came after the old deadline: keys were refused meanwhile
        self._deadline = sent + self.config.renew_deadline
        if self.state is Lead.FENCED:
            self.state = Lead.LEADING
            log.warning("lease %s is ours again, nobody held it in between", self.config.name)
            self._on_regained()
        return max(0.0, sent + self.config.renew_every - self._clock())

    def _fence_if_late(self) -> None:
        if self.state is Lead.LEADING and self._clock() > self._deadline - TICK_SECONDS:
            self.state = Lead.FENCED
            text = "lease %s was not renewed in time: no write leaves this process until it is ours again"
            log.error(text, self.config.name)
            self._on_fenced()

    def _seconds_to_deadline(self) -> float | None:
        return max(0.0, self._deadline - self._clock()) if self.state is Lead.LEADING else None

    # Standing by

    async def _try_to_acquire(self) -> float:
        if not self._known:
            try:
                await self._look()
            except NotFoundError:
                if self._uid() and not self._missing_for_long():  # its holder may not know yet
                    return self._retry_pause()
                return await self._acquire(self._create)
        left = self._seconds_left()
        if left > 0:
            await self._watch_until(left)
            left = self._seconds_left()
            if not self._known or left > 0:  # the watch ended early: not in a hot loop
                return min(max(left, TICK_SECONDS), self._retry_pause())
        return await self._acquire(self._take)

    async def _take(self, transitions: int) -> None:
        await self._put(self._ours(transitions), timeout=REQUEST_SECONDS)

    async def _acquire(self, write: Callable[[int], Any]) -> float:
        """Write ourselves into the Lease, by a `write` that succeeds only if nobody else has since we looked."""
        sent = self._clock()
        self._acquired_at = self._stamp()
        transitions = (self._lease.spec.leaseTransitions or 0) + 1
        self._unsure = True
        try:
            await write(transitions)
        except OperatorError as error:
            self._known = False  # somebody was faster, or we do not know: look again before the next try
            self._unsure = error.status == 0
            raise
        self._unsure = False
        self._term = (self._uid(), transitions)
        self.state = Lead.LEADING
        self._deadline = sent + self.config.renew_deadline
        log.info("lease %s acquired, %s leads", self.config.name, self.config.identity)
        self._on_started()
        return max(0.0, sent + self.config.renew_every - self._clock())

    def _seconds_left(self) -> float:
        """Seconds until the Lease may be taken: its own duration after its holder, or a renewal, was first seen."""
        spec = self._lease.spec
        released = not spec.holderIdentity and (spec.leaseDurationSeconds or 0) <= 1  # or never held
        if released or spec.holderIdentity == self.config.identity:
            return 0.0
        return self._seen_at + (spec.leaseDurationSeconds or self.config.duration) - self._clock()

    async def _watch_until(self, seconds: float) -> None:
        """Follow the Lease until it is released, is gone, or could expire.

        A watch, so that a release is seen at once.
        """
        query = {
            "fieldSelector": f"metadata.name={self.config.name}",
            "resourceVersion": self._version(),
            "allowWatchBookmarks": "true",
            "timeoutSeconds": "290",
        }
        stream = self._api.watch(LEASES, self.config.namespace, query=query, silence_seconds=self.config.duration)
        self._due_at = self._clock() + seconds + GRACE_SECONDS
        try:
            async with asyncio.timeout(seconds) as limit, aclosing(stream) as batches:
                async for lines in batches:
                    for line in lines:
                        self._hear(_decode_event(line))
                    left = self._seconds_left()
                    if left <= 0 or not self._known:
                        return
                    self._due_at = self._clock() + left + GRACE_SECONDS
                    limit.reschedule(asyncio.get_running_loop().time() + left)
        except TimeoutError:
            return
        except (OperatorError, msgspec.MsgspecError):
            # The stream broke. What we saw still holds: if it goes on unrenewed, the next look decides, never the
            # clock alone.
            self._known = False
            raise

    def _hear(self, event: _Event) -> None:
        match event.type:
            case "ADDED" | "MODIFIED":
                self._saw(_decode_lease(event.object))
            case "BOOKMARK":
                pass
            case _:  # it was deleted, or the watch is of no more use
                self._known = False

    # The Lease

    async def _look(self) -> None:
        try:
            raw = await self._api.get(LEASES, self.config.namespace, self.config.name, timeout=REQUEST_SECONDS)
        except NotFoundError:
            raise
        except OperatorError:
            self._missing_since = None  # it may have been there meanwhile
            raise
        self._saw(_decode_lease(raw))

    def _saw(self, lease: _Lease) -> None:
        old, new = self._lease.spec, lease.spec
        if (old.renewTime, old.holderIdentity) != (new.renewTime, new.holderIdentity):
            self._seen_at = self._clock()
            others = new.holderIdentity not in (None, "", self.config.identity)
            if others and new.holderIdentity != old.holderIdentity:
                log.info("lease %s is held by %s", self.config.name, new.holderIdentity)
        self._lease = lease
        self._known = True
        self._missing_since = None
        if self._unsure and new.holderIdentity != self.config.identity:
            self._unsure = False

    def _missing_for_long(self) -> bool:
        """Whether the Lease is away for so long that whoever held it has made it anew, or is fenced.

        It is no help that we saw it run out: it may have been renewed, or taken, while we could not look.
        """
        now = self._clock()
        if self._missing_since is None:
            self._missing_since = now
        return now >= self._missing_since + max(self.config.duration, self._lease.spec.leaseDurationSeconds or 0)

    def _uid(self) -> str:
        return str(self._lease.metadata.get("uid", ""))

    def _version(self) -> str:
        return str(self._lease.metadata.get("resourceVersion", ""))

    def _ours(self, transitions: int) -> _Spec:
        return _Spec(
            holderIdentity=self.config.identity,
            leaseDurationSeconds=max(1, round(self.config.duration)),
            leaseTransitions=transitions,
            acquireTime=self._acquired_at,
            renewTime=self._stamp(),
        )

    async def _create(self, transitions: int) -> None:
        metadata = {"name": self.config.name, "namespace": self.config.namespace}
        body = _manifest(metadata, self._ours(transitions))
        raw = await self._api.create(LEASES, self.config.namespace, body, fenced=False, timeout=REQUEST_SECONDS)
        self._saw(_decode_lease(raw))

    async def _put(self, spec: _Spec, timeout: float) -> None:
        """Replace the Lease that we last saw, and no other: uid and resourceVersion go with it, foreign labels stay."""
        metadata = {key: value for key, value in self._lease.metadata.items() if key != "managedFields"}
        body = _manifest(metadata, spec)
        namespace, name = self.config.namespace, self.config.name
        self._saw(_decode_lease(await self._api.replace(LEASES, namespace, name, body, fenced=False, timeout=timeout)))

    def _stamp(self) -> str:
        """The time of day. Never the same twice, though the clock stand still.

        A PUT without a change would be no renewal.
        """
        now = datetime.datetime.now(datetime.UTC)
        if now == self._stamped:
            now += datetime.timedelta(microseconds=1)
        self._stamped = now
        return now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def _retry_pause(self) -> float:
        return self.config.retry_every * (0.5 + 0.5 * self._rng())


def _manifest(metadata: dict[str, Any], spec: _Spec) -> dict[str, Any]:
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": metadata,
        "spec": {key: value for key, value in msgspec.structs.asdict(spec).items() if value is not None},
    }
