"""Which fields of an object a field manager owns, and how to change one of them: JSON patches from managedFields.

managedFields (KEP-555): `f:name` is a field, `k:{"key": "value"}` the list element with these keys, `v:...` an element
of a set, `.` the element itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Path = tuple[str | int, ...]


def owned_leaves(body: dict[str, Any], manager: str) -> Iterator[tuple[Path, Any]]:
    """Path and value of each leaf that `manager` owns by server-side apply."""
    for entry in body["metadata"]["managedFields"]:
        if entry["manager"] == manager and entry["operation"] == "Apply" and not entry.get("subresource"):
            yield from _leaves(entry["fieldsV1"], body, ())


def pointer(path: Path) -> str:
    """The path as a JSON pointer (RFC 6901)."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def lookup(body: Any, path: Path) -> Any:
    """The value at `path`; None when there is none."""
    for step in path:
        try:
            body = body[step]
        except (KeyError, IndexError, TypeError):
            return None
    return body


def changes(path: Path, value: Any) -> Iterator[list[dict[str, Any]]]:
    """JSON patches (RFC 6902) that make the value another one, the likeliest to be allowed first."""
    for other in _others(value):
        yield [{"op": "add" if value is None else "replace", "path": pointer(path), "value": other}]
    if value is not None:
        yield [{"op": "remove", "path": pointer(path)}]


def _others(value: Any) -> Iterator[Any]:
    if value is None:  # false, which is not shown
        yield True
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
        yield value - 1
    elif isinstance(value, str):
        yield f"1{value}"  # a quantity, too
        yield f"{value}x"
        yield "Unconfined"  # a seccomp profile
    elif isinstance(value, dict):
        yield {**value, "matchLabels": {"other": "other"}}


def _leaves(fields: dict[str, Any], value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    inner = {name: below for name, below in fields.items() if name != "."}
    if not inner:
        yield path, value
        return
    for name, below in inner.items():
        kind, _, word = name.partition(":")
        if kind == "f":
            yield from _leaves(below, value.get(word), (*path, word))
        elif kind == "k":
            keys = json.loads(word)
            index = next(i for i, item in enumerate(value) if all(item.get(key) == keys[key] for key in keys))
            yield (*path, index), value[index]  # to change a key of it is to remove it
            others = {name: each for name, each in below.items() if name.partition(":")[2] not in keys}
            if others.keys() - {"."}:
                yield from _leaves(others, value[index], (*path, index))
        elif kind == "v":
            yield (*path, value.index(json.loads(word))), json.loads(word)
