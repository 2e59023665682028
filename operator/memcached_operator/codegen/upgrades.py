"""The upgrade graph: which release a version replaces. Pure functions over the documents of catalog/template.yaml."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

Document = dict[str, Any]
"""One file-based catalog document: `olm.package`, `olm.channel` or `olm.bundle`."""


class Upgrade(NamedTuple):
    """How a version is reached: from `replaces` by an edge, from all of `skip_range` directly. None: from nowhere."""

    replaces: str | None
    skip_range: str | None


def release_name(package: str, version: str) -> str:
    """The name that OLM gives a version of a package: exactly one `.v`."""
    return f"{package}.v{version}"


def entries(documents: list[Document]) -> list[Document]:
    """The entries of the one channel. Raises ValueError when there are more channels, or none."""
    (channel,) = (document for document in documents if document["schema"] == "olm.channel")
    found: list[Document] = channel["entries"]
    return found


def upgrade(documents: list[Document], package: str, version: str) -> Upgrade:
    """The upgrade to `version`: as written in the channel, else from the newest release that is older than it."""
    name = release_name(package, version)
    for entry in entries(documents):
        if entry["name"] == name:
            return Upgrade(entry.get("replaces"), entry.get("skipRange"))
    older = sorted(
        (found for entry in entries(documents) if _order(found := _version(entry["name"])) < _order(version)),
        key=_order,
    )
    if not older:
        return Upgrade(None, None)
    return Upgrade(release_name(package, older[-1]), f">={older[0]} <{version}")


def with_bundles(documents: list[Document], bundles: list[Document]) -> list[Document]:
    """The catalog that offers these bundles (`olm.bundle` documents, of one package).

    An entry without a bundle is left out: a catalog may begin with any release, and whoever runs an older one is led
    on by `replaces` and `skipRange` of those that are there. A bundle without an entry gets what `upgrade` says.
    """
    (package,) = {bundle["package"] for bundle in bundles}
    offered = {bundle["name"] for bundle in bundles}
    known = [entry for entry in entries(documents) if entry["name"] in offered]
    new = sorted(offered - {entry["name"] for entry in known}, key=lambda name: _order(_version(name)))
    added = [_entry(name, upgrade(documents, package, _version(name))) for name in new]
    return [
        *({**d, "entries": [*known, *added]} if d["schema"] == "olm.channel" else d for d in documents),
        *bundles,
    ]


def _entry(name: str, way: Upgrade) -> Document:
    optional = {"replaces": way.replaces, "skipRange": way.skip_range}
    return {"name": name, **{key: value for key, value in optional.items() if value}}


def _version(name: str) -> str:
    return name.partition(".v")[2]


def _order(version: str) -> tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]:
    """Sort key by semantic versioning: a pre-release comes before its release, its numbers before its words."""
    core, _, pre = version.partition("+")[0].partition("-")
    words = re.split(r"\.", pre) if pre else []
    parts = tuple((not word.isdigit(), int(word) if word.isdigit() else 0, word) for word in words)
    return tuple(map(int, core.split("."))), not pre, parts
