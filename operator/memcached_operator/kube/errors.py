"""HTTP answers of the API server -> the operator's error tree, in one place."""

from __future__ import annotations

import email.utils
import time

import msgspec

from memcached_operator.errors import ConflictError, NotFoundError, OperatorError, TerminalError, TransientError


class _Details(msgspec.Struct, gc=False):
    retryAfterSeconds: int = 0


class _Status(msgspec.Struct, gc=False):
    message: str = ""
    reason: str = ""
    details: _Details | None = None


_decode_status = msgspec.json.Decoder(_Status).decode

_BY_CODE: dict[int, type[OperatorError]] = {
    400: TerminalError,
    404: NotFoundError,
    409: ConflictError,
    413: TerminalError,
    415: TerminalError,
    422: TerminalError,
}


def retry_after_seconds(header: str | None, now: float | None = None) -> float | None:
    """Seconds to wait from a `Retry-After` header: a number or an HTTP date (RFC 9110, 10.2.3); None when there is none or it is nonsense."""
    if not header:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        moment = email.utils.parsedate_to_datetime(header).timestamp()
    except ValueError:
        return None
    return max(0.0, moment - (time.time() if now is None else now))


def error_from_response(code: int, body: bytes, what: str, retry_after: str | None = None) -> OperatorError:
    """The error for an answer of `code` >= 400; `what` names the request for people. A body that is not a Status is quoted, shortened."""
    try:
        status = _decode_status(body)
    except msgspec.DecodeError:
        status = _Status(message=body[:200].decode("utf-8", "replace"))
    seconds = retry_after_seconds(retry_after)
    if seconds is None and status.details and status.details.retryAfterSeconds:
        seconds = float(status.details.retryAfterSeconds)
    cls = _BY_CODE.get(code, TransientError)
    return cls(f"{what}: {status.message or f'HTTP {code}'}", status=code, reason=status.reason, retry_after=seconds)
