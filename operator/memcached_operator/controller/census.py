"""Counts Memcacheds by what their status says, for whoever scrapes.

Nothing is kept up to date in between: a reconcile pays nothing, and reading 5,000 of them takes 15 ms at each scrape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from memcached_operator.api.conditions import ConditionType, Reason
from memcached_operator.controller.views import MemcachedView
from memcached_operator.runtime.store import Store

# Others may write conditions too: their words must not become label values.
_TYPES = frozenset(kind.value for kind in ConditionType)
_REASONS = frozenset(reason.value for reason in Reason)
_NO_STATUS_YET = (ConditionType.READY.value, "Unknown", "")


class _Condition(msgspec.Struct, gc=False):
    type: str = ""
    status: str = ""
    reason: str = ""


class _Status(msgspec.Struct, gc=False):
    observedGeneration: int = 0
    conditions: list[_Condition] = []


_status = msgspec.json.Decoder(_Status).decode


def everyone(store: Store[Any]) -> list[MemcachedView]:
    """The Memcacheds that are to stay. A copy, safe to take in another thread."""
    found = [store.get(key) for key in store.keys()]  # noqa: SIM118 - a Store is no mapping
    return [view for view in found if view is not None and view.deleted_at is None]


def by_condition(views: Iterable[MemcachedView]) -> dict[tuple[str, ...], float]:
    """(condition, status, reason) -> how many. Without a status one counts as (Ready, Unknown, "")."""
    found = [_status(view.status).conditions for view in views]
    seen = Counter([(each.type, each.status, each.reason) for conditions in found for each in conditions])
    counts: Counter[tuple[str, ...]] = Counter()
    for (type_, status, reason), number in seen.items():
        if type_ in _TYPES:
            counts[type_, status, reason if reason in _REASONS else ""] += number
    if new := sum(not conditions for conditions in found):
        counts[_NO_STATUS_YET] += new
    return {labels: float(number) for labels, number in counts.items()}


def unobserved(views: Iterable[MemcachedView]) -> dict[tuple[str, ...], float]:
    """How many have a spec that their status does not speak of: nobody has looked at it yet."""
    return {(): float(sum(_status(view.status).observedGeneration != view.generation for view in views))}
