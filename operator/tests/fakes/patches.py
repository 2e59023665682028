"""Merge patch (RFC 7386) and JSON patch (RFC 6902), as far as they are used here."""

from __future__ import annotations

from typing import Any

from memcached_operator.errors import TerminalError


def merge_patch(target: Any, patch: Any) -> Any:
    """The target with the patch merged in; null removes."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def json_patch(target: Any, operations: list[dict[str, Any]]) -> Any:
    """The target after the operations; changes it in place. Raises TerminalError (422) as the API server does."""
    for operation in operations:
        path = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        *parents, last = path
        node = target
        try:
            for part in parents:
                node = node[int(part)] if isinstance(node, list) else node[part]
            _operate(node, last, operation)
        except (KeyError, IndexError, ValueError) as error:
            text = f"the server rejected our request: {operation['op']} {operation['path']}: {error!r}"
            raise TerminalError(text, status=422, reason="Invalid") from error
    return target


def _operate(node: Any, last: str, operation: dict[str, Any]) -> None:
    key: Any = last
    if isinstance(node, list):
        key = len(node) if last == "-" else int(last)
    match operation["op"]:
        case "add" if isinstance(node, list):
            node.insert(key, operation["value"])
        case "add":
            node[key] = operation["value"]
        case "replace":
            _ = node[key]
            node[key] = operation["value"]
        case "remove":
            del node[key]
        case "test":
            if node[key] != operation["value"]:
                raise ValueError("the test failed")
        case other:
            raise ValueError(f"unknown operation {other}")
