from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, Field

from memcached_operator.api.conditions import ConditionType, Reason
from memcached_operator.api.crd import (
    KEYWORDS,
    UnsupportedSchemaError,
    custom_resource_definition,
    root_schema,
    spec_schema,
    structural,
)
from memcached_operator.api.v1alpha1 import Condition, Memcached
from memcached_operator.api.validation import parse
from memcached_operator.codegen.files import generated_files

ROOT = Path(__file__).parents[3]
Schema = dict[str, Any]


def nodes(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from nodes(schema[key], f"{path}[]")


NODES = dict(nodes(root_schema()))
BELOW_SPEC_AND_STATUS = {path: node for path, node in NODES.items() if path.startswith((".spec", ".status"))}


def test_only_keywords_that_a_crd_knows() -> None:
    assert {key for node in NODES.values() for key in node} <= KEYWORDS


def test_every_property_is_described() -> None:
    properties = {path: node for path, node in BELOW_SPEC_AND_STATUS.items() if not path.endswith("[]")}
    assert [path for path, node in properties.items() if not node.get("description")] == []


def test_every_string_list_and_map_is_bounded() -> None:
    bound = {"string": "maxLength", "array": "maxItems"}
    unbounded = [
        path
        for path, node in BELOW_SPEC_AND_STATUS.items()
        if (node.get("type") in bound and bound[node["type"]] not in node and "enum" not in node)
        or ("additionalProperties" in node and "maxProperties" not in node)
    ]
    assert unbounded == []


def test_every_list_says_how_it_merges() -> None:
    lists = {path: node for path, node in BELOW_SPEC_AND_STATUS.items() if node.get("type") == "array"}
    assert [path for path, node in lists.items() if "x-kubernetes-list-type" not in node] == []
    for path, node in lists.items():
        keys = node.get("x-kubernetes-list-map-keys", [])
        assert set(keys) <= set(node["items"].get("required", [])), path


def test_every_pattern_is_one_that_go_can_read() -> None:
    rules = [rule["rule"] for node in NODES.values() for rule in node.get("x-kubernetes-validations", ())]
    patterns = [node["pattern"] for node in NODES.values() if "pattern" in node] + rules
    assert [pattern for pattern in patterns if re.search(r"\(\?[=!<]|\\[1-9]", pattern)] == []


def test_defaults_of_the_crd_are_those_of_the_models() -> None:
    schema = spec_schema()
    defaults = {name: node["default"] for name, node in schema["properties"].items() if "default" in node}
    with_defaults = parse("cache", "shop", "uid-1", 1, {"size": 1, **defaults})
    assert isinstance(with_defaults, Memcached), "the defaults break a rule"
    without = parse("cache", "shop", "uid-1", 1, {"size": 1})
    assert isinstance(without, Memcached)
    assert with_defaults.spec == without.spec
    assert sorted(defaults) == [
        "deletionPolicy",
        "drainSeconds",
        "maxConnections",
        "maxItemSize",
        "memory",
        "paused",
        "rollout",
        "threads",
        "verbosity",
    ]


def test_only_our_own_fields_have_defaults() -> None:
    paths = [path for path, node in NODES.items() if "default" in node]
    assert [path for path in paths if path.count(".") > 2 and not path.startswith(".spec.rollout.")] == []
    assert [path for path in paths if path.startswith(".status")] == []


def test_scale_and_status_are_subresources() -> None:
    version = custom_resource_definition()["spec"]["versions"][0]
    assert version["subresources"] == {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.size",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    }


def test_columns() -> None:
    columns = custom_resource_definition()["spec"]["versions"][0]["additionalPrinterColumns"]
    assert [(c["name"], c.get("priority", 0)) for c in columns] == [
        ("Size", 0),
        ("Ready", 0),
        ("Available", 0),
        ("Reason", 0),
        ("Image", 1),
        ("Age", 0),
    ]


def test_client_side_apply_still_fits() -> None:
    # kubectl apply keeps the whole object in one annotation, of which the API server takes 256 KiB.
    assert len(json.dumps(custom_resource_definition())) < 200 * 1024


class _Union(BaseModel):
    either: int | list[str] = 0


class _Pair(BaseModel):
    pair: tuple[int, str] = Field((1, ""))


@pytest.mark.parametrize("model", (_Union, _Pair))
def test_what_a_crd_cannot_say_is_an_error(model: type[BaseModel]) -> None:
    with pytest.raises(UnsupportedSchemaError):
        structural(model)


@pytest.mark.parametrize("reason", list(Reason))
@pytest.mark.parametrize("kind", list(ConditionType))
def test_conditions_fit_their_model(kind: ConditionType, reason: Reason) -> None:
    Condition(type=kind.value, status="True", reason=reason.value, last_transition_time="2025-01-01T00:00:00Z")
    assert reason.description.endswith(".")


@pytest.mark.parametrize("path", sorted(generated_files(ROOT)))
def test_generated_files_are_up_to_date(path: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == generated_files(ROOT)[path], "run `make generate`"


def test_generated_yaml_says_what_the_generator_meant() -> None:
    text = generated_files(ROOT)["config/crd/bases/cache.example.com_memcacheds.yaml"]
    assert yaml.safe_load(text) == json.loads(json.dumps(custom_resource_definition()))


@pytest.mark.parametrize("sample", sorted((ROOT / "config" / "samples").glob("cache_*.yaml")), ids=lambda p: p.stem)
def test_samples_are_valid(sample: Path) -> None:
    body = yaml.safe_load(sample.read_text(encoding="utf-8"))
    answer = parse(body["metadata"]["name"], "default", "uid-1", 1, body["spec"])
    assert isinstance(answer, Memcached), answer
