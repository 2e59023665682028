"""The operator's errors: one small tree, because the retry policy follows from the type.

::

    OperatorError            category: a stable word, used as a metric label
      TransientError         5xx, 429, time-outs, 403 (RBAC or quota)   back-off with a long ceiling
        ConflictError        409: our view is stale                     requeue at once, not a failure
        NotFoundError        404: the object or its namespace is gone   back-off, unless the caller expects it
        FencedError          not (or no longer) the leader              dropped: the next leader does the work
      TerminalError          400, 422: the same request never succeeds  wait for a new generation
      BugError               an invariant of ours is broken             log with stack, back-off, alert

Waiting is not an error: it is a `Result` (runtime/result.py).
"""

from __future__ import annotations


class OperatorError(Exception):
    """Root of the tree. `status` is the HTTP status that caused it (0.

    None), `reason` the API's own machine-readable reason.
    """

    category = "operator"

    def __init__(self, message: str, *, status: int = 0, reason: str = "", retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason
        self.retry_after = retry_after


class TransientError(OperatorError):
    """The world may change without the resource being edited: try again later."""

    category = "transient"


class ConflictError(TransientError):
    """HTTP 409: somebody else wrote in between, or the object exists already (`reason` tells which)."""

    category = "conflict"


class NotFoundError(TransientError):
    """HTTP 404."""

    category = "not_found"


class FencedError(TransientError):
    """A write was refused by ourselves: this process does not hold the lease."""

    category = "fenced"


class TerminalError(OperatorError):
    """The same request will fail for ever: only a new generation can help."""

    category = "terminal"


class BugError(OperatorError):
    """One of our own invariants does not hold."""

    category = "bug"
