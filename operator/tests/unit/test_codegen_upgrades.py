from __future__ import annotations

import pytest

from memcached_operator.codegen.upgrades import Document, Upgrade, entries, upgrade, with_bundles

PACKAGE = {"schema": "olm.package", "name": "cache", "defaultChannel": "candidate"}
CHANNEL: Document = {
    "schema": "olm.channel",
    "package": "cache",
    "name": "candidate",
    "entries": [
        {"name": "cache.v0.0.1"},
        {"name": "cache.v0.9.0", "replaces": "cache.v0.0.1", "skipRange": ">=0.0.1 <0.9.0"},
        {"name": "cache.v0.10.0", "replaces": "cache.v0.9.0", "skipRange": ">=0.0.1 <0.10.0"},
    ],
}
GRAPH = [PACKAGE, CHANNEL]


def bundle(version: str) -> Document:
    return {"schema": "olm.bundle", "package": "cache", "name": f"cache.v{version}"}


@pytest.mark.parametrize(
    ("version", "way"),
    (
        ("0.0.1", Upgrade(None, None)),
        ("0.9.0", Upgrade("cache.v0.0.1", ">=0.0.1 <0.9.0")),
        # Not in the graph: from the newest that is older. 0.10 is newer than 0.9.
        ("1.0.0", Upgrade("cache.v0.10.0", ">=0.0.1 <1.0.0")),
        ("0.9.1", Upgrade("cache.v0.9.0", ">=0.0.1 <0.9.1")),
        ("0.10.0-rc.1", Upgrade("cache.v0.9.0", ">=0.0.1 <0.10.0-rc.1")),
        ("0.10.1-rc.1", Upgrade("cache.v0.10.0", ">=0.0.1 <0.10.1-rc.1")),
        ("0.0.0", Upgrade(None, None)),
    ),
)
def test_what_a_version_replaces(version: str, way: Upgrade) -> None:
    assert upgrade(GRAPH, "cache", version) == way


def test_a_catalog_has_the_entries_of_its_bundles() -> None:
    catalog = with_bundles(GRAPH, [bundle("0.9.0"), bundle("0.10.0")])
    assert entries(catalog) == CHANNEL["entries"][1:]
    assert catalog[0] == PACKAGE
    assert [document["name"] for document in catalog[2:]] == ["cache.v0.9.0", "cache.v0.10.0"]


def test_a_bundle_without_an_entry_gets_one() -> None:
    catalog = with_bundles(GRAPH, [bundle("1.0.0")])
    assert entries(catalog) == [{"name": "cache.v1.0.0", "replaces": "cache.v0.10.0", "skipRange": ">=0.0.1 <1.0.0"}]


def test_pre_releases_are_in_order() -> None:
    channel = {**CHANNEL, "entries": [{"name": f"cache.v1.0.0-rc.{n}"} for n in (1, 2, 10)]}
    assert upgrade([PACKAGE, channel], "cache", "1.0.0").replaces == "cache.v1.0.0-rc.10"


def test_one_channel_is_all_that_is_understood() -> None:
    with pytest.raises(ValueError, match="unpack"):
        entries([PACKAGE])
