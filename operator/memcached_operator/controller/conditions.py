"""Conditions: one small function each, over the same facts; Ready is the summary of the others."""

from __future__ import annotations

from typing import Any

from memcached_operator.api.conditions import ConditionType, Reason
from memcached_operator.controller.facts import Facts

Verdict = tuple[bool, Reason, str]
"""(status, reason, message)"""

_UNTIL_EDITED = frozenset({Reason.INVALID_SPEC, Reason.NAME_CONFLICT, Reason.FOREIGN_AUTOSCALER})
"""Troubles that end when a person does something: until then nothing is under way."""

_MESSAGE_CHARACTERS = 2048


def ready(facts: Facts) -> Verdict:
    """Everything is as the spec asks for."""
    if facts.deleting:
        return False, *facts.deleting
    if facts.trouble:
        return False, *facts.trouble
    if facts.settled and facts.size == 0:
        return True, Reason.SCALED_TO_ZERO, "no pods are wanted, and there are none"
    if facts.settled:
        return True, Reason.ALL_READY, f"{facts.size} of {facts.size} pods are ready"
    if facts.paused:
        return False, Reason.PAUSED, f"spec.paused is true, and there is something to do: {facts.stage[1]}"
    return False, *facts.stage


def available(facts: Facts) -> Verdict:
    """Somebody answers, or nobody is asked to."""
    if facts.size == 0:
        return True, Reason.SCALED_TO_ZERO, "no pods are wanted"
    if facts.serving:
        reason = Reason.ALL_READY if facts.serving >= facts.size else Reason.MINIMUM_AVAILABLE
        return True, reason, f"{facts.serving} of {facts.pods} pods serve"
    return False, Reason.NO_PODS_READY, f"none of {facts.pods} pods serves"


def progressing(facts: Facts) -> Verdict:
    """Something is still being done."""
    if facts.deleting:
        return True, *facts.deleting
    if facts.paused:
        return False, Reason.PAUSED, "spec.paused is true: children are left as they are; set it to false to go on"
    if facts.trouble and facts.trouble[0] in _UNTIL_EDITED:
        return False, *facts.trouble
    if facts.settled:
        return False, Reason.ALL_READY if facts.size else Reason.SCALED_TO_ZERO, "there is nothing left to do"
    return True, *facts.stage


def degraded(facts: Facts) -> Verdict:
    """Something is wrong."""
    if facts.trouble:
        return True, *facts.trouble
    return False, Reason.AS_EXPECTED, ""


_ALL = (
    (ConditionType.READY, ready),
    (ConditionType.AVAILABLE, available),
    (ConditionType.PROGRESSING, progressing),
    (ConditionType.DEGRADED, degraded),
)


def conditions(facts: Facts, previous: list[dict[str, Any]], now: str) -> list[dict[str, Any]]:
    """All conditions as JSON, in a fixed order.

    `lastTransitionTime` changes only with the status; conditions of others, which follow ours, are kept.
    """
    before = {condition.get("type"): condition for condition in previous}
    judged = []
    for type_, judge in _ALL:
        holds, reason, message = judge(facts)
        status = "True" if holds else "False"
        old = before.pop(type_.value, {})
        same = old.get("status") == status
        judged.append(
            {
                "type": type_.value,
                "status": status,
                "reason": reason.value,
                "message": message[:_MESSAGE_CHARACTERS],
                "lastTransitionTime": old.get("lastTransitionTime", now) if same else now,
                "observedGeneration": facts.generation,
            }
        )
    return judged + list(before.values())
