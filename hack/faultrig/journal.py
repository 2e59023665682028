"""What an operator asked of its API server, and what was done to it on the way: one JSON line a request."""

from __future__ import annotations

import dataclasses
import json
import threading
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from controlplane.audit import WRITE_VERBS

EVENT = "event"
"""The verb of an entry that stands for one altered line of a watch, not for a request."""


@dataclass(frozen=True, slots=True)
class Call:
    """What a request asks for, in RBAC's words. `resource` is empty for paths such as /version.

    `selects`: a list or watch that asks for objects of some labels, or of one name, not for all of them.
    """

    identity: str
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    selects: bool = False

    @property
    def is_write(self) -> bool:
        """Whether it asks to change something."""
        return self.verb in WRITE_VERBS

    def __str__(self) -> str:
        target = "/".join(part for part in (self.resource, self.subresource) if part)
        return " ".join(part for part in (self.verb, target, self.name) if part)


@dataclass(frozen=True, slots=True)
class Entry:
    """One request.

    `began` and `ended` are seconds on the monotonic clock of this machine. `committed` is the API server's status, 0
    when the request was not forwarded; `answered` is what the operator saw, 0 when that was nothing. `fault` names the
    rule that struck. `holder` is what a written Lease says; `uid` that of a created object.
    """

    call: Call
    began: float
    ended: float
    committed: int = 0
    answered: int = 0
    fault: str = ""
    holder: str = ""
    uid: str = ""

    @property
    def took_effect(self) -> bool:
        """Whether it is a write that the API server has carried out, whatever the operator heard of it."""
        return self.call.is_write and 200 <= self.committed < 300

    def line(self) -> str:
        """One JSON line."""
        flat = {**dataclasses.asdict(self), **dataclasses.asdict(self.call)}
        del flat["call"]
        return json.dumps({key: value for key, value in flat.items() if value != ""})


class Journal:
    """Entries in the order of their answers; several proxies may share one. `path`: they are also written there."""

    def __init__(self, path: Path | None = None) -> None:
        self._entries: list[Entry] = []
        self._file: TextIO | None = path.open("a", encoding="utf-8", buffering=1) if path else None
        self._lock = threading.Lock()

    def append(self, entry: Entry) -> None:
        """Add one."""
        with self._lock:
            self._entries.append(entry)
            if self._file is not None:
                self._file.write(entry.line() + "\n")

    def mark(self) -> int:
        """The `since` of a later `entries`."""
        with self._lock:
            return len(self._entries)

    def entries(self, since: int = 0) -> tuple[Entry, ...]:
        """What was added after a mark."""
        with self._lock:
            return tuple(self._entries[since:])

    def faults(self, since: int = 0) -> int:
        """How many of them were struck by a rule."""
        return sum(bool(entry.fault) for entry in self.entries(since))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def parse_call(identity: str, method: str, path: str, query: Mapping[str, str], body: bytes = b"") -> Call:
    """Say what a request asks for. The name of what is created is in the body."""
    parts = [urllib.parse.unquote(part) for part in path.strip("/").split("/")]
    group, rest = "", list[str]()
    if parts[0] == "api" and len(parts) > 2:
        rest = parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    resource, name, subresource = (*rest, "", "", "")[:3]
    verb = _verb(method, name, query)
    if verb == "create" and not name:
        name = _name_in(body)
    selects = bool(query.get("labelSelector") or query.get("fieldSelector"))
    return Call(identity, verb, group, resource, subresource, namespace, name, selects)


def _verb(method: str, name: str, query: Mapping[str, str]) -> str:
    if method == "GET":
        if query.get("watch") in ("1", "true"):
            return "watch"
        return "get" if name else "list"
    verbs = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete" if name else "deletecollection"}
    return verbs.get(method, method.lower())


def _name_in(body: bytes) -> str:
    try:
        return str(json.loads(body)["metadata"].get("name", ""))
    except (ValueError, LookupError, TypeError, AttributeError):
        return ""
