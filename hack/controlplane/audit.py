"""Reading the API server's audit log: who asked for what, and what the answer was."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

WRITE_VERBS = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_OK = 200
_LONGEST_LINE = 1 << 16
"""Bytes; metadata of a request, without its body, is a kilobyte or two."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `resource` is plural and empty for paths such as /version; `time` is RFC 3339, of its arrival."""

    verb: str
    resource: str
    subresource: str
    name: str
    namespace: str
    code: int
    user: str
    group: str
    uri: str
    time: str

    @property
    def is_write(self) -> bool:
        """Tell whether the request asked to change something; a refused one counts as well."""
        return self.verb in WRITE_VERBS

    def __str__(self) -> str:
        target = "/".join(part for part in (self.resource, self.subresource) if part) or self.uri
        name = "/".join(part for part in (self.namespace, self.name) if part)
        return " ".join(part for part in (self.user, self.verb, target, name, str(self.code)) if part)


@dataclass(frozen=True, slots=True)
class AuditLog:
    """The log file at `path`, in the API server's JSON lines. Offsets are bytes."""

    path: Path

    def offset(self) -> int:
        """Return where the log's last whole line ends: the `since` of a later `requests`."""
        with self.path.open("rb") as file:
            begin = max(0, file.seek(0, os.SEEK_END) - _LONGEST_LINE)
            file.seek(begin)
            return begin + file.read().rfind(b"\n") + 1

    def requests(self, *, user: str | None = None, since: int = 0) -> list[Request]:
        """Return the requests logged after the offset `since`, of one user or of all, each once, in order.

        A watch that was accepted counts when it starts, everything else when it is answered. A line that is being
        written is left for the next call.
        """
        with self.path.open("rb") as file:
            file.seek(since)
            lines = file.read().split(b"\n")[:-1]
        requests = (_request(json.loads(line)) for line in lines)
        return [request for request in requests if request and user in {None, request.user}]


class ReadAudit(Protocol):
    """Reads a cluster's audit log up to now: `ControlPlane.audit`."""

    def __call__(self, user: str | None = None, since: int = 0) -> list[Request]:
        """Return the requests after the offset `since`, of one user or of all."""


def _request(event: dict[str, Any]) -> Request | None:
    """Return what the event tells, None for the second event of a watch."""
    code = event.get("responseStatus", {}).get("code", 0)
    starts = event["stage"] == "ResponseStarted"
    accepted_watch = event["verb"] == "watch" and code == _OK
    if starts != accepted_watch:
        return None
    target = event.get("objectRef", {})
    return Request(
        verb=event["verb"],
        resource=target.get("resource", ""),
        subresource=target.get("subresource", ""),
        name=target.get("name", ""),
        namespace=target.get("namespace", ""),
        code=code,
        user=event.get("user", {}).get("username", ""),
        group=target.get("apiGroup", ""),
        uri=event["requestURI"],
        time=event["requestReceivedTimestamp"],
    )
