"""Is what we want already there? One pure function, because every write that it saves is an API request.

It must agree with server-side apply on what a field is. A false difference would be applied for ever, and a missed one
is drift that nobody repairs. So, as in the API's own schema (`x-kubernetes-list-type` and `x-kubernetes-map-type` in
its OpenAPI file):

* A map is granular: what others add to it is theirs.
* A list of `_LIST_KEYS` is associative: items are found by key, and what others add to it is theirs.
* Any other list is atomic, and so are selectors: all of it is ours, and an addition is a difference. Without this a
  label added to the Service's selector would empty a cache's endpoints unseen.

A value that Go calls empty (null, false, 0, "", {}, []) is the same as none, since the API server does not store it;
the fields of `_EXPLICIT` are pointers in Go, which do keep it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcached_operator.resources.manifest import Manifest
from memcached_operator.resources.quantity import equal_quantities

_LIST_KEYS: Mapping[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "volumes": ("name",),
    "imagePullSecrets": ("name",),
    "env": ("name",),
    "claims": ("name",),
    "volumeMounts": ("mountPath",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "ownerReferences": ("uid",),
}

_CONTAINER_PORT_KEYS = ("containerPort", "protocol")
_SERVICE_PORT_KEYS = ("port", "protocol")

_ATOMIC_MAPS = frozenset({"selector", "nodeSelector", "labelSelector", "namespaceSelector"})

_QUANTITIES = frozenset({"limits", "requests"})

_EXPLICIT = frozenset(
    {
        "allowPrivilegeEscalation",
        "automountServiceAccountToken",
        "enableServiceLinks",
        "labelSelector",
        "maxSurge",
        "maxUnavailable",
        "namespaceSelector",
        "tolerationSeconds",
    }
)

_METADATA = ("labels", "annotations", "ownerReferences")

_ABSENT = object()

_SHOWN = 120
"""Characters of a value that a difference shows: it goes into logs and events."""


def covers(desired: Manifest, observed: Manifest) -> str | None:
    """None when `observed` has every field of `desired`, else the first difference in words.

    `spec.template.spec.containers[memcached].image: 'a' wanted, 'b' found`

    Compared are metadata.{labels, annotations, ownerReferences} and spec without `replicas`, which has its own
    subresource. Not compared are type and name: the caller looked the object up by them, and items of a list do not
    carry their type.
    """
    metadata = {name: value for name, value in desired["metadata"].items() if name in _METADATA}
    spec = {name: value for name, value in desired["spec"].items() if name != "replicas"}
    if difference := _map(metadata, observed.get("metadata") or {}, exact=False):
        return f"metadata{difference}"
    if difference := _map(spec, observed.get("spec") or {}, exact=False):
        return f"spec{difference}"
    return None


def _map(wanted: dict[str, Any], found: dict[str, Any], *, exact: bool) -> str | None:
    """The first difference between two maps: the path below them, and words. Additions count only when `exact`."""
    for name, value in wanted.items():
        other = found.get(name, _ABSENT)
        # The usual case first, and in C: == on JSON values is what we mean, whatever they are.
        if value != other and (difference := _value(name, value, other, exact=exact)):
            return f"{_step(name)}{difference}"
    if exact:
        for name in sorted(found.keys() - wanted.keys()):
            if not _is_nothing(name, found[name]):
                return f"{_step(name)}{_words(_ABSENT, found[name])}"
    return None


def _value(name: str, wanted: Any, found: Any, *, exact: bool) -> str | None:
    if isinstance(wanted, dict) and isinstance(found, dict):
        if name in _QUANTITIES:
            return _quantities(wanted, found)
        return _map(wanted, found, exact=exact or name in _ATOMIC_MAPS)
    if isinstance(wanted, list) and isinstance(found, list):
        keys = None if exact else _list_keys(name, wanted)
        return _atomic_list(wanted, found) if keys is None else _associative_list(keys, wanted, found)
    if _is_nothing(name, wanted) and _is_nothing(name, found):
        return None
    return _words(wanted, found)


def _list_keys(name: str, items: list[Any]) -> tuple[str, ...] | None:
    if name == "ports":
        return _CONTAINER_PORT_KEYS if items and "containerPort" in items[0] else _SERVICE_PORT_KEYS
    return _LIST_KEYS.get(name)


def _associative_list(keys: tuple[str, ...], wanted: list[Any], found: list[Any]) -> str | None:
    there = {tuple(item.get(key) for key in keys): item for item in found}
    for item in wanted:
        identity = tuple(item.get(key) for key in keys)
        step = f"[{','.join(map(str, identity))}]"
        if identity not in there:
            return f"{step}{_words(item, _ABSENT)}"
        if difference := _map(item, there[identity], exact=False):
            return f"{step}{difference}"
    return None


def _atomic_list(wanted: list[Any], found: list[Any]) -> str | None:
    if len(wanted) != len(found):
        return _words(wanted, found)
    for position, (item, other) in enumerate(zip(wanted, found, strict=True)):
        if item != other and (difference := _value("", item, other, exact=True)):
            return f"[{position}]{difference}"
    return None


def _quantities(wanted: dict[str, Any], found: dict[str, Any]) -> str | None:
    for name, quantity in wanted.items():
        other = found.get(name, _ABSENT)
        if quantity != other and not equal_quantities(quantity, other):
            return f"{_step(name)}{_words(quantity, other)}"
    return None


def _is_nothing(name: str, value: Any) -> bool:
    """Whether a field of this name and value is the same as none; a map of nothing but such fields is."""
    if value is _ABSENT or value is None:
        return True
    if name in _EXPLICIT:
        return False
    return not value or (isinstance(value, dict) and all(_is_nothing(key, item) for key, item in value.items()))


def _step(name: str) -> str:
    """One step of a path: `.spec`, but `[cache.example.com/owner-uid]` for what would read as several steps."""
    return f".{name}" if name.isidentifier() else f"[{name}]"


def _words(wanted: Any, found: Any) -> str:
    return f": {_shown(wanted)} wanted, {_shown(found)} found"


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
