"""Whoever runs the previous release may take this CRD; and each rule that says so can fail."""

from __future__ import annotations

import copy
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from crd_compatibility import breaches
from memcached_operator.api.crd import custom_resource_definition

ROOT = Path(__file__).parents[3]
Schema = dict[str, Any]
CRD = yaml.safe_load(yaml.safe_dump(custom_resource_definition()))


def previous() -> Schema:
    shown = subprocess.run(["hack/previous-release.sh", "crd"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    crd: Schema = yaml.safe_load(shown.stdout)
    return crd


def spec(crd: Schema) -> Schema:
    properties: Schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    return properties


def parent(crd: Schema) -> Schema:
    schema: Schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return schema


def test_the_previous_release_can_be_upgraded_to_this_crd() -> None:
    assert breaches(previous(), CRD) == []


def scope(crd: Schema) -> None:
    crd["spec"]["scope"] = "Cluster"


def stored_version(crd: Schema) -> None:
    crd["spec"]["versions"][0]["name"] = "v1"


def not_served(crd: Schema) -> None:
    crd["spec"]["versions"][0]["served"] = False


def subresource(crd: Schema) -> None:
    del crd["spec"]["versions"][0]["subresources"]["scale"]


def required(crd: Schema) -> None:
    parent(crd)["required"].append("image")


def new_and_required(crd: Schema) -> None:
    spec(crd)["password"] = {"type": "string"}
    parent(crd)["required"].append("password")


def removed(crd: Schema) -> None:
    del spec(crd)["verbosity"]


def removed_deep_down(crd: Schema) -> None:
    del spec(crd)["tolerations"]["items"]["properties"]["effect"]


def type_change(crd: Schema) -> None:
    spec(crd)["size"]["type"] = "string"


def type_of_map_values(crd: Schema) -> None:
    spec(crd)["podLabels"]["additionalProperties"]["type"] = "integer"


def default_added(crd: Schema) -> None:
    spec(crd)["size"]["default"] = 1


def default_changed(crd: Schema) -> None:
    spec(crd)["memory"]["default"] = 128


def default_removed(crd: Schema) -> None:
    del spec(crd)["memory"]["default"]


def enum_added(crd: Schema) -> None:
    spec(crd)["image"]["enum"] = ["memcached"]


def enum_value_added(crd: Schema) -> None:
    spec(crd)["deletionPolicy"]["enum"].append("Snapshot")


def enum_value_removed(crd: Schema) -> None:
    spec(crd)["deletionPolicy"]["enum"].remove("Drain")


def lower_maximum(crd: Schema) -> None:
    spec(crd)["size"]["maximum"] -= 1


def higher_minimum(crd: Schema) -> None:
    spec(crd)["threads"]["minimum"] += 1


def new_minimum(crd: Schema) -> None:
    spec(crd)["image"]["minLength"] = 1


def fewer_items(crd: Schema) -> None:
    spec(crd)["tolerations"]["maxItems"] -= 1


def new_pattern(crd: Schema) -> None:
    spec(crd)["image"]["pattern"] = "^a"


def other_list_type(crd: Schema) -> None:
    spec(crd)["tolerations"]["x-kubernetes-list-type"] = "set"


@pytest.mark.parametrize(
    ("change", "where"),
    (
        (scope, "scope"),
        (stored_version, "v1alpha1"),
        (not_served, "v1alpha1"),
        (subresource, "v1alpha1"),
        (required, "v1alpha1.spec.image"),
        (new_and_required, "v1alpha1.spec.password"),
        (removed, "v1alpha1.spec.verbosity"),
        (removed_deep_down, "v1alpha1.spec.tolerations[].effect"),
        (type_change, "v1alpha1.spec.size"),
        (type_of_map_values, "v1alpha1.spec.podLabels[]"),
        (default_added, "v1alpha1.spec.size"),
        (default_changed, "v1alpha1.spec.memory"),
        (default_removed, "v1alpha1.spec.memory"),
        (enum_added, "v1alpha1.spec.image"),
        (enum_value_added, "v1alpha1.spec.deletionPolicy"),
        (enum_value_removed, "v1alpha1.spec.deletionPolicy"),
        (lower_maximum, "v1alpha1.spec.size"),
        (higher_minimum, "v1alpha1.spec.threads"),
        (new_minimum, "v1alpha1.spec.image"),
        (fewer_items, "v1alpha1.spec.tolerations"),
        (new_pattern, "v1alpha1.spec.image"),
        (other_list_type, "v1alpha1.spec.tolerations"),
    ),
)
def test_a_change_that_breaks_users_is_found(change: Callable[[Schema], None], where: str) -> None:
    new = copy.deepcopy(CRD)
    change(new)
    (found,) = breaches(CRD, new)
    assert found.startswith(f"{where}: "), found


def test_a_version_that_objects_were_stored_in_once_may_not_go() -> None:
    old = copy.deepcopy(CRD)
    old["spec"]["versions"].append({**CRD["spec"]["versions"][0], "name": "v1", "served": False, "storage": False})
    assert breaches(old, CRD) == []
    old["status"] = {"storedVersions": ["v1", "v1alpha1"]}
    assert breaches(old, CRD) == ["v1: objects are stored in this version, and it is gone"]


def looser(crd: Schema) -> None:
    properties = spec(crd)
    properties["size"]["maximum"] += 1
    properties["threads"]["minimum"] -= 1
    del properties["image"]["maxLength"]
    properties["logins"] = {"type": "object", "required": ["user"], "properties": {"user": {"type": "string"}}}
    properties["colour"] = {"type": "string", "default": "blue"}
    parent(crd)["required"].remove("size")


def words(crd: Schema) -> None:
    spec(crd)["size"]["description"] = "Another."
    crd["spec"]["names"]["shortNames"] = ["mcd"]


def another_version(crd: Schema) -> None:
    crd["spec"]["versions"].append({**crd["spec"]["versions"][0], "name": "v1", "storage": False})


@pytest.mark.parametrize("change", (looser, words, another_version))
def test_a_change_that_breaks_nobody_is_let_through(change: Callable[[Schema], None]) -> None:
    new = copy.deepcopy(CRD)
    change(new)
    assert breaches(CRD, new) == []
