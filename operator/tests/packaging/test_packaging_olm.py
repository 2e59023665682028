"""operator-sdk and opm have no error and no warning about the bundle, nor about a catalog with it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

import catalog
import shipped
from memcached_operator.codegen import upgrades
from memcached_operator.codegen.yamltext import to_yaml
from shipped import Json


def findings(folder: Path, *flags: str) -> list[Json]:
    """What the validators say, warnings too: those do not change the exit code."""
    said = shipped.run("operator-sdk", "bundle", "validate", str(folder), "-o", "json-alpha1", *flags, ok=(0, 1))
    return json.loads(said)["outputs"] or []


@pytest.mark.parametrize(
    "flags",
    (
        (),
        ("--select-optional", "suite=operatorframework"),
        ("--select-optional", "suite=operatorframework", "--optional-values=k8s-version=1.35"),
        ("--select-optional", "name=good-practices"),
    ),
)
def test_the_validators_find_nothing(flags: tuple[str, ...]) -> None:
    assert findings(shipped.BUNDLE, *flags) == []


def test_the_rules_of_operatorhub_find_nothing_but_their_own_age() -> None:
    (finding,) = findings(shipped.BUNDLE, "--select-optional", "name=operatorhub")
    assert 'The "operatorhub" validator is deprecated' in finding["message"]


@pytest.mark.parametrize(("instead", "level"), (("minKubeVersion: '1.30'", "error"), ("", "warning")))
def test_the_validators_can_find_something(tmp_path: Path, instead: str, level: str) -> None:
    subprocess.run(["cp", "-R", str(shipped.BUNDLE), str(tmp_path / "bundle")], check=True)
    path = next((tmp_path / "bundle" / "manifests").glob("*clusterserviceversion*"))
    path.write_text(path.read_text().replace("minKubeVersion: 1.30.0", instead))
    assert [finding["type"] for finding in findings(tmp_path / "bundle")] == [level]


def rendered(bundle: Path, image: str) -> list[Json]:
    """The catalog's documents of a bundle in a folder."""
    documents = shipped.documents(shipped.run("opm", "render", str(bundle), "-o", "yaml", catalog.MIGRATE))
    return [{**document, "image": image} for document in documents]


def previous_bundle(tmp_path: Path) -> Path:
    """The bundle, made to look like that of the release before. `make previous-release` builds the real one."""
    subprocess.run(["cp", "-R", str(shipped.BUNDLE), str(tmp_path / "previous")], check=True)
    path = next((tmp_path / "previous" / "manifests").glob("*clusterserviceversion*"))
    csv = yaml.safe_load(path.read_text())
    csv["metadata"]["name"] = csv["spec"].pop("replaces")
    csv["spec"]["version"] = csv["metadata"]["name"].partition(".v")[2]
    path.write_text(to_yaml(csv))
    return tmp_path / "previous"


def test_a_catalog_of_two_releases_is_valid(tmp_path: Path) -> None:
    old = rendered(previous_bundle(tmp_path), "example.com/bundle:old")
    new = rendered(shipped.BUNDLE, "example.com/bundle:new")
    documents = catalog.documents([*old, *new])
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "catalog.yaml").write_text("".join(f"---\n{to_yaml(document)}" for document in documents))
    shipped.run("opm", "validate", str(tmp_path / "configs"))
    assert [entry["name"] for entry in upgrades.entries(documents)] == [old[0]["name"], new[0]["name"]]
    assert upgrades.entries(documents)[1]["replaces"] == old[0]["name"]


def test_a_catalog_of_this_release_alone_is_valid_and_still_leads_here(tmp_path: Path) -> None:
    documents = catalog.documents(rendered(shipped.BUNDLE, "example.com/bundle:new"))
    (tmp_path / "catalog.yaml").write_text("".join(f"---\n{to_yaml(document)}" for document in documents))
    shipped.run("opm", "validate", str(tmp_path))
    (entry,) = upgrades.entries(documents)
    assert entry["replaces"]
    assert entry["skipRange"]
