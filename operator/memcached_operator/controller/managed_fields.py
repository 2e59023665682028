"""Which manager owns which field: `metadata.managedFields`, as server-side apply keeps it (KEP-555). Pure."""

from __future__ import annotations

from typing import Any

from memcached_operator.api import names


def as_apply(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries, in which every field that we own through `Update` is owned through one `Apply` entry.

    What we own of subresources (`scale`) is no part of what we apply.
    """
    ours = [entry for entry in entries if _is_ours(entry)]
    others = [entry for entry in entries if not _is_ours(entry)]
    if not ours:
        return others
    merged: dict[str, Any] = {}
    for entry in ours:
        merged = _union(merged, entry.get("fieldsV1", {}))
    newest = max(ours, key=lambda entry: str(entry.get("time", "")))
    return [*others, {**newest, "operation": "Apply", "fieldsV1": merged}]


def _is_ours(entry: dict[str, Any]) -> bool:
    return entry.get("manager") == names.FIELD_MANAGER and not entry.get("subresource")


def _union(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    both = dict(one)
    for key, value in other.items():
        mine = both.get(key)
        both[key] = _union(mine, value) if isinstance(mine, dict) and isinstance(value, dict) else value
    return both
