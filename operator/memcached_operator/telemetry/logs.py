"""Log lines: for people on a terminal, JSON elsewhere; one record is one line, and no secret leaves the process.

Call sites use the standard library: `log.info("created %s", name, extra={"namespace": namespace})`. What is in `extra`
becomes a field of its own. (`logging` itself refuses the names `name`, `message`, `args` and its other own ones there.)
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, TextIO

from opentelemetry import trace

# Libraries that talk more than they should, and how much of it we pass on, whatever --log-level says.
FLOORS = {
    "aiohttp.access": logging.WARNING,  # a line for each probe and each scrape
    "asyncio": logging.WARNING,
    "kopf": logging.WARNING,  # a line for each watch event, and how it logs in and stops
    # Warns that it leaves signals alone, which is what we want of it, and prints stack traces when a watch of it ends:
    # our supervisor starts it again, and says so in one line.
    "kopf._core.reactor.running": logging.CRITICAL,
    "kopf._core.reactor.orchestration": logging.CRITICAL,
    "kubernetes": logging.INFO,  # debug prints whole response bodies, secrets included
    "urllib3": logging.INFO,
}

# What a LogRecord has by itself; anything else came in through `extra`. kopf's extras hold its whole settings: no news.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "settings", "k8s_skip"}

_SECRET_KEY = re.compile(r"authorization|token|passw|secret|private.?key|key-data|credential", re.IGNORECASE)
_SECRET_TEXT = re.compile(
    r"""
      (?P<scheme>\b(?:Bearer|Basic)\s+)[\w.~+/=-]{8,}                        # Authorization: Bearer ...
    | \beyJ[\w-]{8,}\.[\w-]+\.[\w-]*                                         # a JSON web token (a service account's)
    | (?P<key>\b(?:authorization|token|password|client-key-data)["']?\s*[=:]\s*["']?)(?!Bearer\b|Basic\b)[^\s"',;&]+
    | (?P<url>://[^/\s:@]*:)[^/\s@]+(?=@)                                    # https://user:password@host
    | -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----.*?(?:-----END[ ][A-Z ]*PRIVATE[ ]KEY-----|$)
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_HIDDEN = "[hidden]"

_COLOURS = {
    "DEBUG": "\x1b[2m",
    "INFO": "\x1b[36m",
    "WARNING": "\x1b[33m",
    "ERROR": "\x1b[31m",
    "CRITICAL": "\x1b[1;31m",
}
_RESET = "\x1b[0m"
# Control characters of a message would let a resource's text write lines, or colours, of its own.
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")


def redact(text: str) -> str:
    """`text` without bearer tokens, JSON web tokens, passwords in URLs and private keys."""
    return _SECRET_TEXT.sub(_hide, text)


def configure_logging(level: str, *, json_lines: bool, colour: bool, stream: TextIO | None = None) -> None:
    """Send all logging of this process to `stream` (default: stderr). `level`: debug, info, warning or error.

    Uncaught exceptions of the main thread and of others, and Python's warnings, become log records too.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if json_lines else ConsoleFormatter(colour=colour))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name, floor in FLOORS.items():
        logging.getLogger(name).setLevel(max(floor, root.level))
    logging.captureWarnings(capture=True)
    sys.excepthook = _log_uncaught
    threading.excepthook = _log_uncaught_in_thread


class JsonFormatter(logging.Formatter):
    """A record as one JSON object: time, level, logger, message, the fields of `extra`; trace ids and stack if any."""

    def format(self, record: logging.LogRecord) -> str:
        """One line of JSON."""
        line: dict[str, Any] = {
            "time": _timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        # What stands in front is what people look for first; a field cannot take the place of it.
        line |= {key: value for key, value in _fields(record).items() if key not in line} | _trace()
        if record.exc_info or record.stack_info:
            line["stack"] = redact(_stack(self, record))
        return json.dumps(line, default=str, ensure_ascii=False, separators=(",", ":"))


class ConsoleFormatter(logging.Formatter):
    """A record for a person: time, level, message, fields. A stack follows on lines of its own, indented."""

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the indented stack below it if there is one."""
        fields = "".join(f" {key}={_plain(value)}" for key, value in _fields(record).items())
        level = f"{record.levelname:<8}"
        message = _one_line(redact(record.getMessage()))
        if self._colour:
            level = f"{_COLOURS.get(record.levelname, '')}{level}{_RESET}"
            fields = f"\x1b[2m{fields}{_RESET}" if fields else ""
        line = f"{_timestamp(record)} {level}{message}{fields}"
        if record.exc_info or record.stack_info:
            stack = redact(_stack(self, record))
            line += "".join(f"\n    {_one_line(each)}" for each in stack.splitlines())
        return line


def _timestamp(record: logging.LogRecord) -> str:
    """RFC 3339 in UTC, to the millisecond."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {key: _redact_value(key, value) for key, value in vars(record).items() if key not in _STANDARD}


def _redact_value(key: str, value: Any) -> Any:
    if _SECRET_KEY.search(key):
        return _HIDDEN
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {str(each): _redact_value(str(each), inner) for each, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_redact_value("", each) for each in value]
    if value is None or isinstance(value, int | float):
        return value
    return redact(str(value))


def _hide(found: re.Match[str]) -> str:
    return (found["scheme"] or found["key"] or found["url"] or "") + _HIDDEN


def _trace() -> dict[str, str]:
    """The open span's ids, by which a line is found from its trace."""
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": trace.format_trace_id(context.trace_id), "span_id": trace.format_span_id(context.span_id)}


def _stack(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    exception = formatter.formatException(record.exc_info) if record.exc_info else ""
    return "\n".join(part for part in (exception, record.stack_info) if part)


def _one_line(text: str) -> str:
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _plain(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return _one_line(json.dumps(text, ensure_ascii=False) if " " in text and isinstance(value, str) else text)


def _log_uncaught(kind: type[BaseException], error: BaseException, trace_: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace_)
        return
    logging.getLogger("memcached_operator").critical("uncaught exception", exc_info=(kind, error, trace_))


def _log_uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None:
        thread = args.thread.name if args.thread else "?"
        logging.getLogger("memcached_operator").critical(
            "uncaught exception in thread %s",
            thread,
            exc_info=(args.exc_type, args.exc_value, args.exc_traceback),
        )
