"""Field ownership (KEP-555): managedFields, and what a server-side apply does with them.

A path is a tuple of the steps of FieldsV1: `f:spec`, `k:{"name":"memcached"}`, `v:"drain"`. An entry owns leaves, and
the items of keyed lists as such. Lists are atomic unless they are named here.
"""

from __future__ import annotations

import json
from typing import Any

JSONObject = dict[str, Any]
Path = tuple[str, ...]

KEYS = {
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "imagePullSecrets": ("name",),
    "ownerReferences": ("uid",),
    "conditions": ("type",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "ports": ("containerPort", "port"),  # of a container, of a Service: whichever there is
}
SETS = frozenset({"finalizers"})
ATOMIC_MAPS = frozenset({"selector", "nodeSelector", "labelSelector", "namespaceSelector"})
SYSTEM = frozenset(
    {"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "name", "namespace"}
    | {"deletionTimestamp", "deletionGracePeriodSeconds"}
)


def leaves(body: JSONObject, *, status: bool = False) -> dict[Path, Any]:
    """Every path that can be owned -> its value. `status`: of the status alone."""
    found: dict[Path, Any] = {}
    for key, value in body.items():
        if key in ("apiVersion", "kind") or (key == "status") != status:
            continue
        part = {k: v for k, v in value.items() if k not in SYSTEM} if key == "metadata" else value
        if part or key != "metadata":
            _walk(part, (f"f:{key}",), key, found)
    return found


def _walk(value: Any, path: Path, name: str, found: dict[Path, Any]) -> None:
    if isinstance(value, dict) and value and name not in ATOMIC_MAPS:
        for key, inner in value.items():
            _walk(inner, (*path, f"f:{key}"), key, found)
    elif isinstance(value, list) and name in SETS:
        for item in value:
            found[(*path, f"v:{json.dumps(item)}")] = item
    elif isinstance(value, list) and value and all(_key(item, name) for item in value):
        for item in value:
            step = (*path, f"k:{_key(item, name)}")
            found[step] = None  # the item itself
            _walk(item, step, "", found)
    else:
        found[path] = value


def _key(item: Any, name: str) -> str:
    """The key of an item of the list `name`; empty when the list is atomic."""
    if not isinstance(item, dict) or name not in KEYS:
        return ""
    key = {part: item[part] for part in KEYS[name] if part in item}
    return json.dumps(key) if key else ""


def _to_v1(paths: set[Path]) -> JSONObject:
    tree: JSONObject = {}
    for path in sorted(paths):
        node = tree
        for step in path:
            node = node.setdefault(step, {})
        if path[-1].startswith("k:"):
            node["."] = {}
    return tree


def _from_v1(tree: JSONObject, path: Path = ()) -> set[Path]:
    paths: set[Path] = set()
    for step, inner in tree.items():
        if step == ".":
            paths.add(path)
        elif inner:
            paths |= _from_v1(inner, (*path, step))
        else:
            paths.add((*path, step))
    return paths


def _entries(body: JSONObject) -> list[JSONObject]:
    fields: list[JSONObject] = body["metadata"].setdefault("managedFields", [])
    return fields


def _disown(body: JSONObject, paths: set[Path], but: tuple[str, str, str]) -> None:
    """Everybody but one loses the paths."""
    for entry in list(_entries(body)):
        if _identity(entry) == but:
            continue
        left = _from_v1(entry["fieldsV1"]) - paths
        if left:
            entry["fieldsV1"] = _to_v1(left)
        else:
            _entries(body).remove(entry)


def _identity(entry: JSONObject) -> tuple[str, str, str]:
    return entry["manager"], entry["operation"], entry.get("subresource", "")


def _own(body: JSONObject, who: tuple[str, str, str], paths: set[Path], time: str) -> None:
    manager, operation, subresource = who
    entry = next((entry for entry in _entries(body) if _identity(entry) == who), None)
    if entry is None:
        if not paths:
            return
        entry = {"manager": manager, "operation": operation, "fieldsType": "FieldsV1"}
        entry["apiVersion"] = body.get("apiVersion", "")
        if subresource:
            entry["subresource"] = subresource
        _entries(body).append(entry)
    if not paths:
        _entries(body).remove(entry)
        return
    fields = _to_v1(paths)
    if entry.get("fieldsV1") != fields:
        entry.update({"fieldsV1": fields, "time": time})


def track_update(old: JSONObject, new: JSONObject, manager: str, time: str, subresource: str = "") -> None:
    """After a write that is no apply: what it changed belongs to its manager, what it removed to nobody."""
    before, after = leaves(old, status=subresource == "status"), leaves(new, status=subresource == "status")
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    gone = set(before) - set(after)
    who = (manager, "Update", subresource)
    mine = next((_from_v1(entry["fieldsV1"]) for entry in _entries(new) if _identity(entry) == who), set())
    _disown(new, changed | gone, who)
    _own(new, who, (mine | changed) - gone, time)
    if not _entries(new):
        del new["metadata"]["managedFields"]


def apply_fields(live: JSONObject, config: JSONObject, manager: str, time: str) -> JSONObject:
    """A forced server-side apply of `config` to `live`, which is changed in place and returned.

    What the manager applied before and no longer names goes, unless somebody else owns it too: also the same manager by
    another operation.
    """
    who = (manager, "Apply", "")
    wanted = leaves(config)
    mine = next((_from_v1(entry["fieldsV1"]) for entry in _entries(live) if _identity(entry) == who), set())
    others: set[Path] = set()
    for entry in _entries(live):
        if _identity(entry) != who:
            others |= _from_v1(entry["fieldsV1"])
    for path in sorted(mine - set(wanted) - others, key=len, reverse=True):
        if not _is_part_of_a_key(path):
            _remove(live, path)
    before = leaves(live)
    for key, value in config.items():
        live[key] = _merge(live.get(key), value, key)
    changed = {path for path, value in wanted.items() if path in before and before[path] != value}
    _disown(live, changed, who)
    _own(live, who, set(wanted), time)
    return live


def _is_part_of_a_key(path: Path) -> bool:
    """It goes with its item, and not before: the item is found by it."""
    return path[-2:-1] != () and path[-2].startswith("k:") and path[-1][2:] in json.loads(path[-2][2:])


def _merge(live: Any, value: Any, name: str) -> Any:
    if isinstance(value, dict) and isinstance(live, dict) and name not in ATOMIC_MAPS:
        return {**live, **{key: _merge(live.get(key), inner, key) for key, inner in value.items()}}
    if isinstance(value, list) and isinstance(live, list):
        if name in SETS:
            return [*live, *(item for item in value if item not in live)]
        if value and all(_key(item, name) for item in value):
            return _merge_items(live, value, name)
    return value


def _merge_items(live: list[Any], value: list[Any], name: str) -> list[Any]:
    """Items are ordered as applied; those of others stay behind what they stood behind (structured-merge-diff 4)."""
    left = {_key(item, name): item for item in live}
    applied = {_key(item, name) for item in value}
    merged: list[Any] = []
    for item in value:
        key = _key(item, name)
        if key in left:
            for other in list(left):
                if other == key:
                    break
                if other not in applied:
                    merged.append(left.pop(other))
        merged.append(_merge(left.pop(key, None), item, ""))
    return [*merged, *left.values()]


def _remove(body: Any, path: Path) -> None:
    """Remove a leaf, an item of a list, or an object that is empty by now."""
    parents: list[tuple[Any, Any]] = []
    node = body
    for step in path:
        index = _index(node, step)
        if index is None:
            return
        parents.append((node, index))
        node = node[index]
    holder, index = parents.pop()
    if isinstance(node, dict) and path[-1].startswith("k:") and set(node) - set(json.loads(path[-1][2:])):
        return  # others own fields of this item
    del holder[index]
    while parents and not holder:
        holder, index = parents.pop()
        if holder is body:
            return
        del holder[index]


def _index(node: Any, step: str) -> Any:
    kind, text = step[:2], step[2:]
    if kind == "f:":
        return text if isinstance(node, dict) and text in node else None
    if not isinstance(node, list):
        return None
    wanted = json.loads(text)
    for number, item in enumerate(node):
        if item == wanted if kind == "v:" else all(item.get(key) == value for key, value in wanted.items()):
            return number
    return None
