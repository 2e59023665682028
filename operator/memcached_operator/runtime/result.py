"""What a reconcile returns. Waiting is a value, never an exception."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from memcached_operator.runtime.store import Key


@dataclass(frozen=True, slots=True)
class Result:
    """`after` seconds the key is reconciled again even if nothing happens, and why; None: not before something does."""

    after: float | None = None
    why: str = ""


_DONE = Result()


def done() -> Result:
    """Nothing is left to do until the next event."""
    return _DONE


def requeue_after(seconds: float, why: str) -> Result:
    """Look again after `seconds`; an earlier event comes first."""
    return Result(seconds, why)


class Reconciler(Protocol):
    """Makes the world look as the resource under `key` says: level-triggered and idempotent."""

    async def reconcile(self, key: Key) -> Result:
        """One pass. Waiting is returned; errors are raised, and their type says when to try again."""
        ...
