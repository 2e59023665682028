"""What an error of a write means: to the user, and to the queue."""

from __future__ import annotations

from collections.abc import Sequence

from memcached_operator.api.conditions import Reason
from memcached_operator.errors import ConflictError, FencedError, NotFoundError, OperatorError, TerminalError

QUOTA = "exceeded quota"
"""In every message of the quota admission plug-in, wherever it is quoted."""


def reason_of(error: OperatorError) -> Reason | None:
    """The condition's reason; None when our view was stale, and the next try sees better."""
    if error.status == 403:
        return Reason.QUOTA_EXCEEDED if QUOTA in error.message else Reason.FORBIDDEN
    if isinstance(error, TerminalError):
        return Reason.REJECTED
    if isinstance(error, ConflictError | NotFoundError):
        return None
    return Reason.API_ERROR


def worst(errors: Sequence[OperatorError]) -> OperatorError:
    """The error that decides when to try again: failures before a stale view, what may heal before what cannot."""
    return min(errors, key=_rank)


def _rank(error: OperatorError) -> int:
    if isinstance(error, FencedError):
        return 0
    if isinstance(error, TerminalError):
        return 2
    return 3 if isinstance(error, ConflictError) else 1
