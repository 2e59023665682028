"""HTTP answers of the API server -> the operator's error tree, in one place."""

from __future__ import annotations

import email.utils
import math
import time

import msgspec

from memcached_operator.errors import ConflictError, NotFoundError, OperatorError, TerminalError, TransientError


class _Details(msgspec.Struct, gc=False):
    retryAfterSeconds: int = 0


class _Status(msgspec.Struct, gc=False):
    message: str = ""
    reason: str = ""
    details: _Details | None = None


LONGEST_WAIT_SECONDS = 300.0

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
    """Seconds to wait from a `Retry-After` header, a number or an HTTP date (RFC 9110, 10.2.3).

    None when there is none, or it is nonsense. Never more than five minutes: whoever asks for more is asked again.
    """
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            moment = email.utils.parsedate_to_datetime(header).timestamp()
        except (ValueError, OverflowError):
            return None
        seconds = moment - (time.time() if now is None else now)
    return min(max(0.0, seconds), LONGEST_WAIT_SECONDS) if math.isfinite(seconds) else None


def error_from_response(code: int, body: bytes, what: str, retry_after: str | None = None) -> OperatorError:
    """The error for an answer that is no success; `what` names the request for people.

    A body that is not a Status is quoted, shortened. Such a 404 comes from a proxy, or from an API server that does
    not serve the kind (yet, or any more): it does not say that the object is gone, so it is no NotFoundError.
    """
    try:
        status = _decode_status(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        status = _Status(message=body[:200].decode("utf-8", "replace").strip())
    seconds = retry_after_seconds(retry_after)
    if seconds is None and status.details and status.details.retryAfterSeconds:
        seconds = float(status.details.retryAfterSeconds)
    cls = _BY_CODE.get(code, TransientError)
    if cls is NotFoundError and status.reason != "NotFound":
        cls = TransientError
    return cls(f"{what}: {status.message or f'HTTP {code}'}", status=code, reason=status.reason, retry_after=seconds)
