"""When a status is written: not for every twitch of a roll-out, and never late when its meaning has changed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from memcached_operator.api.conditions import Reason
from memcached_operator.runtime.store import Key

COALESCE_SECONDS = 0.2
"""How long a difference is left alone, so that a repaired drift writes no status at all, and a burst of events one."""
ENOUGH_SECONDS = 0.1
"""A difference that old is written when the key comes up for another reason."""
GRACE_SECONDS = 5.0
"""A pod's trouble that passes sooner (a node that was just tainted, a first try at a pull) is no news."""
PROGRESS_SECONDS = 30.0
"""While pods come and go, numbers alone are written this rarely; a change of meaning does not wait for it."""

_STAGES = frozenset(
    reason.value
    for reason in (
        Reason.CREATING,
        Reason.ROLLING_OUT,
        Reason.SCALING,
        Reason.WAITING_FOR_PODS,
        Reason.NO_PODS_READY,
        Reason.MINIMUM_AVAILABLE,
    )
)

_PASSING = frozenset(
    reason.value
    for reason in (Reason.UNSCHEDULABLE, Reason.IMAGE_PULL_FAILED, Reason.CRASH_LOOPING, Reason.CONTAINER_FAILED)
)


def meaning(status: dict[str, Any]) -> tuple[Any, ...]:
    """What a reader acts on: generation, each condition's status and reason. All stages of a roll-out mean the same."""
    judged = tuple(
        (c.get("type"), c.get("status"), "" if c.get("reason") in _STAGES else c.get("reason"))
        for c in status.get("conditions") or ()
    )
    return status.get("observedGeneration"), judged


def is_progressing(status: dict[str, Any]) -> bool:
    """Whether the numbers are about to change again."""
    return any(c["type"] == "Progressing" and c["status"] == "True" for c in status["conditions"])


class StatusPacer:
    """Remembers when a difference was noticed, and when a status was last written: of resources on the move alone."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._noticed: dict[Key, float] = {}
        self._written: dict[Key, float] = {}

    def wait(self, key: Key, before: dict[str, Any], after: dict[str, Any]) -> float | None:
        """Seconds to wait before `after` is written over `before`; 0: write it now; None: there is nothing to write."""
        if before == after:
            self._noticed.pop(key, None)
            if not is_progressing(after):
                self._written.pop(key, None)
            return None
        now = self._clock()
        if key in self._written and is_progressing(after) and meaning(before) == meaning(after):
            return max(0.0, self._written[key] + PROGRESS_SECONDS - now)
        waited = now - self._noticed.setdefault(key, now)
        if key in self._written and _has_passing_trouble(after) and not _has_passing_trouble(before):
            return max(0.0, GRACE_SECONDS - waited)
        return 0.0 if waited >= ENOUGH_SECONDS else COALESCE_SECONDS - waited

    def wrote(self, key: Key, status: dict[str, Any]) -> None:
        """The status is in the cluster."""
        self._noticed.pop(key, None)
        if is_progressing(status):
            self._written[key] = self._clock()
        else:
            self._written.pop(key, None)

    def forget(self, key: Key) -> None:
        """The resource is gone."""
        self._noticed.pop(key, None)
        self._written.pop(key, None)


def _has_passing_trouble(status: dict[str, Any]) -> bool:
    return any(
        c.get("type") == "Degraded" and c.get("status") == "True" and c.get("reason") in _PASSING
        for c in status.get("conditions") or ()
    )
