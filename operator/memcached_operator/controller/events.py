"""Which Kubernetes events a reconcile causes. Pure: one for all that was done, one for a trouble that is new."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from memcached_operator.controller.actions import Apply, Create, Deed, Delete, Scale, SetServing
from memcached_operator.runtime.events import EventType


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One event to post."""

    type: EventType
    reason: str
    action: str
    note: str


def deeds(done: list[Deed]) -> list[Occurrence]:
    """At most one event: its reason is the first sentence's, its note has them all."""
    told = list(_sentences(done))
    if not told:
        return []
    reason, action, _ = told[0]
    return [Occurrence("Normal", reason, action, ". ".join(sentence for _, _, sentence in told))]


def troubles(before: dict[str, Any], after: dict[str, Any]) -> list[Occurrence]:
    """An event for a trouble that a status tells of for the first time."""
    reason, message = _trouble(after)
    if not reason or reason == _trouble(before)[0]:
        return []
    return [Occurrence("Warning", reason, "Reconcile", message)]


def _sentences(done: list[Deed]) -> Iterator[tuple[str, str, str]]:
    """(reason, action, sentence) of each sort of deed, the most telling first."""
    applied = [deed for deed in done if isinstance(deed, Apply)]
    if adopted := ", ".join(f"{deed.kind} {deed.child.name}" for deed in applied if deed.adopted):
        yield "Adopted", "Adopt", f"Adopted {adopted}, left behind by a former resource of this name"
    for deed in done:
        if isinstance(deed, SetServing) and not deed.serving:
            yield "Draining", "Drain", "Clients are sent away; the pods stop when the drain time is over"
        elif isinstance(deed, Scale):
            yield "Scaled", "Scale", f"Scaled Deployment {deed.deployment.name}: {deed.reason}"
    if updated := "; ".join(f"{deed.kind} {deed.child.name}: {deed.reason}" for deed in applied if not deed.adopted):
        yield "Updated", "Update", f"Updated {updated}"
    creates = [deed for deed in done if isinstance(deed, Create)]
    if created := ", ".join(f"{deed.kind} {deed.manifest['metadata']['name']}" for deed in creates):
        yield "Created", "Create", f"Created {created}"
    deleted = [deed for deed in done if isinstance(deed, Delete)]
    if deleted:
        names = ", ".join(f"{deed.kind} {deed.child.name}" for deed in deleted)
        yield "Deleted", "Delete", f"Deleted {names}: {deleted[0].reason}"


def _trouble(status: dict[str, Any]) -> tuple[str, str]:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Degraded" and condition.get("status") == "True":
            return condition.get("reason", ""), condition.get("message", "")
    return "", ""
