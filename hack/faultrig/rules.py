"""What a fault proxy does to requests and to the lines of watches: rule = match + phase + action.

A rule strikes the first request that it matches in its own count; the first rule of the book that strikes wins.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from faultrig.journal import Call


class Phase(Enum):
    """When an action happens: before the request reaches the API server, or when it was carried out, unanswered."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True)
class Match:
    """Which requests. An empty field matches all; `writes` only writes, without Leases unless they are named."""

    verbs: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    subresource: str | None = None
    name: str = ""
    identity: str = ""
    writes: bool = False

    def fits(self, call: Call) -> bool:
        """Whether the request is one of those."""
        return (
            (not self.verbs or call.verb in self.verbs)
            and (not self.resources or call.resource in self.resources)
            and self.subresource in (None, call.subresource)
            and self.name in ("", call.name)
            and self.identity in ("", call.identity)
            and (not self.writes or (call.is_write and (call.resource != "leases" or bool(self.resources))))
        )


EVERYTHING = Match()


@dataclass(frozen=True)
class Answer:
    """This instead of the API server's answer. `body` None: a Status as Kubernetes writes it."""

    status: int
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"


@dataclass(frozen=True)
class Delay:
    """The request goes on after so many seconds."""

    seconds: float


@dataclass(frozen=True)
class Reset:
    """The connection breaks (RST), with nothing said."""


@dataclass(frozen=True)
class Hang:
    """Nothing is said, and the connection stays open, until the rules change."""


@dataclass(frozen=True)
class Truncate:
    """The answer ends after a share of its bytes, and the connection with it."""

    share: float = 0.5


@dataclass(frozen=True)
class Cut:
    """A watch is broken off after so many seconds."""

    seconds: float


@dataclass(frozen=True)
class Throttle:
    """The answer comes at so many bytes a second."""

    bytes_per_second: int


@dataclass(frozen=True)
class Lines:
    """A watch that was accepted says these lines, and ends."""

    lines: tuple[bytes, ...]


@dataclass(frozen=True)
class Signal:
    """`send` is called, to kill the operator, say. `drops`: then the connection breaks, as that of a dead client."""

    send: Callable[[], object]
    drops: bool = True


Action = Answer | Delay | Reset | Hang | Truncate | Cut | Throttle | Lines | Signal


@dataclass(frozen=True)
class Rule:
    """`action` for requests that `match`, at their `phase`.

    `nth`: only the n-th of those that match since the rule is in the book, counted from 1. `times`: only the first so
    many. `share`: of the rest, this share at random.
    """

    name: str
    action: Action
    match: Match = EVERYTHING
    phase: Phase = Phase.BEFORE
    nth: int = 0
    times: int = 0
    share: float = 1.0


Line = dict[str, Any]
"""One event of a watch: type and object."""


@dataclass(frozen=True)
class EventRule:
    """What becomes of lines of watches that are open: `alter` returns those that are passed on in its place.

    It returns None to leave a line as it is; it may keep state, to reorder, say. `resource` and `identity` as in Match.
    `only_open`: those watches alone that were open when the rule came into force.
    """

    name: str
    alter: Callable[[Line], list[Line] | None]
    resource: str = ""
    identity: str = ""
    only_open: bool = False


@dataclass
class _Count:
    matched: int = 0
    struck: int = 0


@dataclass
class RuleBook:
    """The rules in force. The same seed has the same requests struck. Threads may share it."""

    seed: int = 11211
    _rules: tuple[Rule, ...] = ()
    _event_rules: tuple[EventRule, ...] = ()
    _counts: dict[str, _Count] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _written_at: float = 0.0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - it is to be repeatable

    def write(self, *rules: Rule | EventRule) -> None:
        """From now on these rules and no others; their counts begin."""
        with self._lock:
            self._rules = tuple(rule for rule in rules if isinstance(rule, Rule))
            self._event_rules = tuple(rule for rule in rules if isinstance(rule, EventRule))
            self._counts = {rule.name: _Count() for rule in rules}
            self._written_at = time.monotonic()

    def strike(self, call: Call) -> Rule | None:
        """The rule that strikes this request; counts it."""
        with self._lock:
            return next((rule for rule in self._rules if rule.match.fits(call) and self._falls(rule)), None)

    def struck(self, name: str) -> int:
        """How often a rule has struck."""
        with self._lock:
            return self._counts[name].struck

    def alter(self, call: Call, line: Line, began: float) -> tuple[list[Line], str]:
        """The lines that are passed on in place of `line`, and the rule that altered it, "" when none did.

        `began`: when the watch was asked for, on the monotonic clock.
        """
        with self._lock:
            for rule in self._event_rules:
                if rule.only_open and began > self._written_at:
                    continue
                if rule.resource in ("", call.resource) and rule.identity in ("", call.identity):
                    altered = rule.alter(line)
                    if altered is not None:
                        self._counts[rule.name].struck += 1
                        return altered, rule.name
        return [line], ""

    def _falls(self, rule: Rule) -> bool:
        count = self._counts[rule.name]
        count.matched += 1
        if rule.nth and count.matched != rule.nth:
            return False
        if rule.times and count.struck >= rule.times:
            return False
        if rule.share < 1.0 and self._random.random() >= rule.share:
            return False
        count.struck += 1
        return True
