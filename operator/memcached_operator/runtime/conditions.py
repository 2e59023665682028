"""One status condition as the API conventions want it: its time changes only when its status does."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def condition(
    previous: Sequence[dict[str, Any]],
    type_: str,
    *,
    status: bool,
    reason: str,
    message: str,
    now: Callable[[], datetime.datetime] = _now,
) -> dict[str, Any]:
    """The condition `type_` as JSON. `previous` are the conditions in the cluster: with an equal status, time is kept.

    So the same facts give the same JSON, and a status that is compared before it is written is written once.
    """
    word = "True" if status else "False"
    old = next((old for old in previous if old["type"] == type_ and old["status"] == word), None)
    since = old["lastTransitionTime"] if old else now().strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"type": type_, "status": word, "reason": reason, "message": message, "lastTransitionTime": since}
