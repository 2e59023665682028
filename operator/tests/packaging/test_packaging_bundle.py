"""The bundle and the catalog, judged by operator-sdk and opm. What these do not look at: unit/test_olm_bundle.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

import shipped
from memcached_operator.codegen import upgrades

BUNDLE = shipped.REPOSITORY / "bundle"
NEWEST = "--optional-values=k8s-version=1.35"
DEPRECATED = 'The "operatorhub" validator is deprecated'


def findings(folder: Path, *flags: str) -> list[str]:
    """Errors and warnings of `operator-sdk bundle validate`. It exits with 0 in spite of warnings, so they are read."""
    words = shipped.run("operator-sdk", "bundle", "validate", str(folder), "-o", "json-alpha1", *flags, ok=(0, 1))
    answer = json.loads(words)
    found = [f"{output['type']}: {output['message']}" for output in answer["outputs"] or []]
    assert answer["passed"] is not any(line.startswith("error") for line in found)
    return found


@pytest.mark.parametrize("select", ("", "suite=operatorframework", "name=good-practices"))
def test_the_bundle_has_no_error_and_no_warning(select: str) -> None:
    assert findings(BUNDLE, *([f"--select-optional={select}", NEWEST] if select else [])) == []


def test_the_rules_of_operatorhub_find_nothing_but_their_own_age() -> None:
    found = findings(BUNDLE, "--select-optional=name=operatorhub", NEWEST)
    assert [line for line in found if DEPRECATED not in line] == []


def test_a_bundle_with_a_mistake_is_found_out(tmp_path: Path) -> None:
    for path in BUNDLE.rglob("*.yaml"):
        copy = tmp_path / path.relative_to(BUNDLE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        if content.get("kind") == "ClusterServiceVersion":
            del content["spec"]["minKubeVersion"]
            content["metadata"]["annotations"]["capabilities"] = "Very Good"
        copy.write_text(yaml.safe_dump(content), encoding="utf-8")
    found = findings(tmp_path, "--select-optional=suite=operatorframework", NEWEST)
    assert any(line.startswith("warning") and "minKubeVersion" in line for line in found), found
    assert any(line.startswith("error") and "Very Good" in line for line in found), found


def test_opm_takes_the_catalog_of_this_bundle(tmp_path: Path) -> None:
    template = list(yaml.safe_load_all((shipped.REPOSITORY / "catalog" / "template.yaml").read_text(encoding="utf-8")))
    rendered = yaml.safe_load_all(
        shipped.run("opm", "render", str(BUNDLE), "-o", "yaml", "--migrate-level=bundle-object-to-csv-metadata")
    )
    # Rendered from a folder it has no image yet.
    bundles = [{**document, "image": "example.com/bundle:v0"} for document in rendered]
    catalog = upgrades.with_bundles(template, bundles)
    (tmp_path / "catalog.yaml").write_text(yaml.safe_dump_all(catalog), encoding="utf-8")
    shipped.run("opm", "validate", str(tmp_path))
    assert [document["schema"] for document in catalog] == ["olm.package", "olm.channel", "olm.bundle"]
