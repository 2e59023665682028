"""Which Kubernetes events a reconcile causes. Pure: one event for all that was done, one for what went wrong since the last status."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memcached_operator.api.conditions import Reason
from memcached_operator.controller.apply import Applied
from memcached_operator.controller.plan import Apply, Create, Delete, Scale, StopServing
from memcached_operator.runtime.events import EventType


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One event to post."""

    type: EventType
    reason: str
    action: str
    note: str


_SILENT = frozenset({Reason.DELETING.value, Reason.DRAINING.value})


def troubles(before: dict[str, Any], after: dict[str, Any]) -> list[Occurrence]:
    """An event for a trouble that a status tells of for the first time."""
    reason, message = _trouble(after)
    if not reason or reason == _trouble(before)[0] or reason in _SILENT:
        return []
    return [Occurrence("Warning", reason, "Reconcile", message)]


def deeds(applied: Applied) -> list[Occurrence]:
    """One event for each sort of thing that was done."""
    created = [a for a in applied.done if isinstance(a, Create)]
    adopted = [a for a in applied.done if isinstance(a, Apply) and a.adopted]
    updated = [a for a in applied.done if isinstance(a, Apply) and not a.adopted]
    scaled = [a for a in applied.done if isinstance(a, Scale)]
    deleted = [a for a in applied.done if isinstance(a, Delete)]
    events = []
    if created:
        names = ", ".join(f"{a.kind} {a.manifest['metadata']['name']}" for a in created)
        events.append(Occurrence("Normal", "Created", "Create", f"Created {names}"))
    if adopted:
        names = ", ".join(f"{a.kind} {a.child.name}" for a in adopted)
        events.append(Occurrence("Normal", "Adopted", "Adopt", f"Adopted {names}, left behind by a former resource of this name"))
    if scaled:
        events.append(Occurrence("Normal", "Scaled", "Scale", f"Scaled Deployment {scaled[0].deployment.name}: {scaled[0].reason}"))
    if updated:
        words = "; ".join(f"{a.kind} {a.child.name}: {a.reason}" for a in updated)
        events.append(Occurrence("Normal", "Updated", "Update", f"Updated {words}"))
    if any(isinstance(a, StopServing) for a in applied.done):
        events.append(Occurrence("Normal", "Draining", "Drain", "Clients are sent away; the pods stop when the drain time is over"))
    if deleted:
        names = ", ".join(f"{a.kind} {a.child.name}" for a in deleted)
        events.append(Occurrence("Normal", "Deleted", "Delete", f"Deleted {names}: {deleted[0].reason}"))
    return events


def _trouble(status: dict[str, Any]) -> tuple[str, str]:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Degraded" and condition.get("status") == "True":
            return condition.get("reason", ""), condition.get("message", "")
    return "", ""
