"""What in a new CRD would break the users of an old one: the rules by which OLM v1 refuses an upgrade, and a few more.

`python hack/crd_compatibility.py OLD.yaml NEW.yaml` prints each breach; exit code 1 when there is one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

Schema = dict[str, Any]

_CEILINGS = ("maximum", "maxLength", "maxItems", "maxProperties")
_FLOORS = ("minimum", "minLength", "minItems", "minProperties")
_FIXED = (
    "pattern",
    "format",
    "nullable",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
)
"""Keywords of which a change may refuse what was accepted, or merge it in another way: any change counts."""


def breaches(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """One line for each breach, with the path of the field. Empty: whoever uses `old` may take `new`."""
    return [*_kind_breaches(old["spec"], new["spec"]), *_version_breaches(old, new)]


def _kind_breaches(old: Schema, new: Schema) -> Iterator[str]:
    if old["scope"] != new["scope"]:
        yield f"scope: was {old['scope']}, is {new['scope']}"
    for name in ("kind", "plural"):
        if old["names"][name] != new["names"][name]:
            yield f"names.{name}: was {old['names'][name]}, is {new['names'][name]}"


def _version_breaches(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    after = {version["name"]: version for version in new["spec"]["versions"]}
    stored = set(old.get("status", {}).get("storedVersions", ()))
    for version in old["spec"]["versions"]:
        name = version["name"]
        if name not in after:
            if version["storage"] or name in stored:
                yield f"{name}: objects are stored in this version, and it is gone"
            elif version["served"]:
                yield f"{name}: was served, and is gone"
            continue
        if version["served"] and not after[name]["served"]:
            yield f"{name}: is not served any more"
        for subresource in sorted(version.get("subresources", {}).keys() - after[name].get("subresources", {}).keys()):
            yield f"{name}: the subresource {subresource} is gone"
        yield from _schema_breaches(_root(version), _root(after[name]), name)


def _root(version: Schema) -> Schema:
    schema: Schema = version["schema"]["openAPIV3Schema"]
    return schema


def _schema_breaches(old: Schema, new: Schema, path: str) -> Iterator[str]:
    if _type(old) != _type(new):
        yield f"{path}: was of type {_type(old)}, is of type {_type(new)}"
        return
    yield from _value_breaches(old, new, path)
    for name in sorted(set(new.get("required", ())) - set(old.get("required", ()))):
        yield f"{path}.{name}: is required, and was not"
    for name, inner in old.get("properties", {}).items():
        if name in new.get("properties", {}):
            yield from _schema_breaches(inner, new["properties"][name], f"{path}.{name}")
        elif not new.get("x-kubernetes-preserve-unknown-fields"):
            yield f"{path}.{name}: is gone"
    for key in ("items", "additionalProperties"):
        if isinstance(old.get(key), dict) and isinstance(new.get(key), dict):
            yield from _schema_breaches(old[key], new[key], f"{path}[]")


def _type(node: Schema) -> str:
    return "integer or string" if node.get("x-kubernetes-int-or-string") else node.get("type", "any")


def _value_breaches(old: Schema, new: Schema, path: str) -> Iterator[str]:
    if old.get("default") != new.get("default"):
        yield f"{path}: the default was {_shown(old.get('default'))}, is {_shown(new.get('default'))}"
    if ("enum" in old) != ("enum" in new) or set(old.get("enum", ())) != set(new.get("enum", ())):
        yield f"{path}: allowed were {_shown(old.get('enum'))}, are {_shown(new.get('enum'))}"
    for key in _CEILINGS:
        if key in new and (key not in old or new[key] < old[key]):
            yield f"{path}: {key} was {_shown(old.get(key))}, is {new[key]}"
    for key in _FLOORS:
        if key in new and (key not in old or new[key] > old[key]):
            yield f"{path}: {key} was {_shown(old.get(key))}, is {new[key]}"
    for key in _FIXED:
        if old.get(key) != new.get(key):
            yield f"{path}: {key} was {_shown(old.get(key))}, is {_shown(new.get(key))}"


def _shown(value: object) -> str:
    return "none" if value is None else str(value)


def main(arguments: list[str]) -> int:
    """Exit code 0, or 1 when there is a breach."""
    old, new = (yaml.safe_load(Path(path).read_text(encoding="utf-8")) for path in arguments)
    found = breaches(old, new)
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
