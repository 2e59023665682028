"""Every mistake of the table is refused by the real API server, in these words; docs/bad-inputs.md is made from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane import ApiError, ControlPlane
from controlplane.api import object_path
from memcached_operator.api.names import API_VERSION, KIND, PLURAL
from memcached_operator.api.validation import Invalid, parse

TABLE: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("bad_inputs.yaml").read_text(encoding="utf-8"))

# The API server knows these by fields that the operator ignores.
ONLY_THE_API_SERVER = {"a field is unknown", "memcached's own options are given"}


def manifest(name: str, spec: object) -> dict[str, Any]:
    body: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}}
    return body if spec is None else {**body, "spec": spec}


def test_the_table_is_as_long_as_promised() -> None:
    assert len({entry["id"] for entry in TABLE}) == len(TABLE) >= 45


@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: entry["id"].replace(" ", "-"))
@pytest.mark.usefixtures("crd")
def test_what_kubectl_says(control_plane: ControlPlane, entry: dict[str, Any]) -> None:
    body = manifest(entry.get("name", "bad"), entry.get("spec"))
    result = control_plane.kubectl("create", "-n", "default", "-f", "-", input=json.dumps(body), check=False)
    assert result.returncode != 0
    assert result.stderr.rstrip("\n").split("\n") == entry["message"]


@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: entry["id"].replace(" ", "-"))
def test_the_operator_would_refuse_it_too(entry: dict[str, Any]) -> None:
    answer = parse(entry.get("name", "bad"), "default", "uid-1", 1, entry.get("spec"))
    assert isinstance(answer, Invalid) or entry["id"] in ONLY_THE_API_SERVER


OVERSIZED: dict[str, dict[str, Any]] = {
    "ten-thousand-labels": {"podLabels": {f"key-{i}": "x" for i in range(10_000)}},
    "a-megabyte-of-annotation": {"podAnnotations": {"a": "x" * 1_000_000}},
    "annotations-that-are-too-long-together": {"podAnnotations": {f"k{i}": "y" * 4096 for i in range(16)}},
    "a-thousand-tolerations": {"tolerations": [{"operator": "Exists"}] * 1000},
    "a-label-key-of-a-thousand-characters": {"podLabels": {"k" * 1000: "x"}},
}


@pytest.mark.parametrize("fields", OVERSIZED.values(), ids=OVERSIZED.keys())
@pytest.mark.usefixtures("crd")
def test_what_is_far_too_large_is_refused(control_plane: ControlPlane, fields: dict[str, Any]) -> None:
    spec = {"size": 1, **fields}
    with pytest.raises(ApiError) as refused:
        control_plane.api.create(object_path(API_VERSION, PLURAL, "default"), manifest("bad", spec))
    assert refused.value.code == 422
    assert isinstance(parse("bad", "default", "uid-1", 1, spec), Invalid)


@pytest.mark.usefixtures("crd")
def test_none_was_stored(control_plane: ControlPlane) -> None:
    stored = control_plane.api.get(object_path(API_VERSION, PLURAL, "default"))["items"]
    assert [item["metadata"]["name"] for item in stored if item["metadata"]["name"].startswith("bad")] == []
