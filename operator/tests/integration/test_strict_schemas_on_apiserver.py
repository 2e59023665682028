"""Schemas converted from the real API server's documents: they take what is right and refuse a misspelt field."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator, ValidationError

from controlplane import ControlPlane, wait_until
from controlplane.paths import REPOSITORY
from memcached_operator.api.names import API_VERSION
from strict_schemas import write

Json = dict[str, Any]

DEPLOYMENT: Json = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "creationTimestamp": None},
    "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [
                    {
                        "name": "web",
                        "image": "web:1",
                        "ports": [{"containerPort": 80, "name": "http"}],
                        "resources": {"limits": {"cpu": 1, "memory": "64Mi"}},
                        "readinessProbe": {"httpGet": {"port": "http"}},
                    }
                ]
            },
        },
    },
}
CONTAINER = ("spec", "template", "spec", "containers", 0)


@pytest.fixture(scope="module")
def folder(control_plane: ControlPlane, crd: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    del crd
    schemas = tmp_path_factory.mktemp("schemas")

    def get(path: str) -> str:
        return control_plane.kubectl("get", "--raw", path).stdout

    # A kind is described a moment after it is served.
    wait_until(lambda: get("/openapi/v3"), 30, "our document", until=lambda index: f"apis/{API_VERSION}" in index)
    assert write(get, schemas) > 100
    return schemas


def problems(folder: Path, manifest: Json) -> list[str]:
    group, _, version = manifest["apiVersion"].rpartition("/")
    file = folder / (group or version) / f"{manifest['kind'].lower()}_{version}.json"
    validator = Draft7Validator(json.loads(file.read_text(encoding="utf-8")))
    return [message for error in validator.iter_errors(manifest) for message in leaves(error)]


def leaves(error: ValidationError) -> list[str]:
    """What is wrong in the end, without the branches (`this or null`) on the way there."""
    return [message for cause in error.context for message in leaves(cause)] if error.context else [error.message]


def misspelt(manifest: Json, *path: str | int) -> Json:
    """The manifest with a letter too much in the last key of the path."""
    changed = copy.deepcopy(manifest)
    part: Any = changed
    for key in path[:-1]:
        part = part[key]
    part[f"{path[-1]}x"] = part.pop(path[-1])
    return changed


def sample() -> Json:
    text = (REPOSITORY / "config/samples/cache_v1alpha1_memcached.yaml").read_text(encoding="utf-8")
    manifest: Json = yaml.safe_load(text)
    return manifest


def test_what_is_right_passes(folder: Path) -> None:
    assert problems(folder, DEPLOYMENT) == []
    assert problems(folder, sample()) == []


def test_every_schema_is_one(folder: Path) -> None:
    for file in folder.rglob("*.json"):
        Draft7Validator.check_schema(json.loads(file.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "path",
    (
        ("metadata", "name"),
        ("spec", "strategy"),
        ("spec", "strategy", "rollingUpdate", "maxSurge"),
        (*CONTAINER, "image"),
        (*CONTAINER, "ports", 0, "name"),
        (*CONTAINER, "resources", "limits"),
        (*CONTAINER, "readinessProbe", "httpGet", "port"),
    ),
    ids=lambda path: str(path[-1]),
)
def test_a_misspelt_field_of_a_deployment_is_refused(folder: Path, path: tuple[str | int, ...]) -> None:
    assert f"'{path[-1]}x'" in " ".join(problems(folder, misspelt(DEPLOYMENT, *path)))


def test_a_misspelt_field_of_a_memcached_is_refused(folder: Path) -> None:
    assert "'sizex'" in " ".join(problems(folder, misspelt(sample(), "spec", "size")))


def test_a_misspelt_field_of_the_crd_is_refused(folder: Path) -> None:
    # Its schema holds itself, and has fields named as JSON schema's keywords.
    crd = yaml.safe_load(
        (REPOSITORY / "config/crd/bases/cache.example.com_memcacheds.yaml").read_text(encoding="utf-8")
    )
    assert problems(folder, crd) == []
    openapi = ("spec", "versions", 0, "schema", "openAPIV3Schema")
    assert problems(folder, misspelt(crd, *openapi, "description")) != []
    assert problems(folder, misspelt(crd, *openapi, "properties", "spec", "x-kubernetes-validations")) != []
