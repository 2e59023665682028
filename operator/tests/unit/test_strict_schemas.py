"""hack/strict_schemas.py on small documents."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from strict_schemas import converted, schemas, write

Json = dict[str, Any]

GVK = "x-kubernetes-group-version-kind"
DOCUMENT: Json = {
    "components": {
        "schemas": {
            "example.v1.Pot": {
                "type": "object",
                "description": "A pot.",
                "properties": {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "lid": {"description": "Its lid.", "default": {}, "allOf": [{"$ref": "#/components/schemas/Lid"}]},
                    "inner": {"$ref": "#/components/schemas/example.v1.Pot"},
                    "size": {"$ref": "#/components/schemas/IntOrString"},
                },
                "required": ["lid"],
                GVK: [{"group": "example.com", "version": "v1", "kind": "Pot"}],
            },
            "Lid": {"type": "object", "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}}},
            "IntOrString": {"format": "int-or-string", "type": "string"},
            "Unrelated": {"type": "object"},
            "example.v1.DeleteOptions": {
                "type": "object",
                GVK: [{"group": group, "version": "v1", "kind": "DeleteOptions"} for group in ("", "apps")],
            },
            "example.v1.Binding": {"type": "object", GVK: [{"group": "", "version": "v1", "kind": "Binding"}]},
        }
    }
}


def problems(schema: Json, instance: object) -> list[str]:
    Draft7Validator.check_schema(schema)
    return [error.message for error in Draft7Validator(schema).iter_errors(instance)]


def pot(**fields: object) -> list[str]:
    return problems(schemas(DOCUMENT)["example.com/pot_v1.json"], {"apiVersion": "example.com/v1", "lid": {}, **fields})


def test_one_file_a_kind_named_as_kubeconform_asks_for_it() -> None:
    assert set(schemas(DOCUMENT)) == {"example.com/pot_v1.json", "v1/binding_v1.json"}


def test_a_file_holds_what_its_kind_needs_and_no_more() -> None:
    pots = schemas(DOCUMENT)["example.com/pot_v1.json"]
    assert set(pots["definitions"]) == {"example.v1.Pot", "Lid", "IntOrString"}


def test_what_is_right_passes() -> None:
    assert pot(lid={"colour": "red"}, size="25%", inner={"lid": {}, "size": 2}) == []


@pytest.mark.parametrize(
    ("fields", "word"),
    (
        ({"sise": 2}, "sise"),
        ({"lid": {"color": "red"}}, "color"),
        ({"inner": {"lid": {}, "inner": {"lid": {}, "sise": 2}}}, "sise"),
        ({"lid": {"colour": "green"}}, "green"),
        ({"inner": {}}, "lid"),
        ({"size": 1.5}, "1.5"),
        ({"lid": None}, "None"),
    ),
)
def test_what_is_wrong_is_refused_at_any_depth(fields: Json, word: str) -> None:
    schema = schemas(DOCUMENT)["example.com/pot_v1.json"]
    Draft7Validator.check_schema(schema)
    errors = list(Draft7Validator(schema).iter_errors({"lid": {}, **fields}))
    deepest = [cause.message for error in errors for cause in (error, *all_causes(error))]
    assert any(word in message for message in deepest), deepest


def all_causes(error: Any) -> list[Any]:
    return [each for cause in error.context or () for each in (cause, *all_causes(cause))]


def test_null_is_nothing_where_a_field_may_be_absent() -> None:
    assert pot(size=None, inner=None, kind=None) == []


def test_names_of_fields_are_no_keywords() -> None:
    # The CRD's own schema has fields of all these names.
    names = ("allOf", "$ref", "properties", "description", "default", "x-kubernetes-int-or-string", "format", "type")
    schema = converted({"type": "object", "properties": {name: {"type": "string"} for name in names}})
    assert set(schema["properties"]) == set(names)
    assert problems(schema, dict.fromkeys(names, "text")) == []
    assert problems(schema, {"allof": "text"}) != []


def test_an_object_without_properties_is_open_and_one_that_says_so() -> None:
    assert problems(converted({"type": "object"}), {"any": 1}) == []
    kept = {"type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-preserve-unknown-fields": True}
    assert problems(converted(kept), {"a": "text", "any": 1}) == []
    assert problems(converted(kept), {"a": 1}) != []


def test_maps_and_lists_are_converted_inside() -> None:
    inner = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert problems(converted({"type": "object", "additionalProperties": inner}), {"key": {"b": "text"}}) != []
    assert problems(converted({"type": "array", "items": inner}), [{"b": "text"}]) != []
    assert problems(converted({"type": "object", "additionalProperties": True}), {"any": 1}) == []


@pytest.mark.parametrize(
    "schema",
    (
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}], "maximum": 9},
        {"format": "int-or-string", "type": "string", "maximum": 9},
        {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}], "maximum": 9},
    ),
)
def test_a_number_or_a_text(schema: Json) -> None:
    assert [problems(converted(schema), right) for right in (1, "1", "10%")] == [[]] * 3
    wrong: tuple[object, ...] = (1.5, 10, True, [], None)
    assert all(problems(converted(schema), value) for value in wrong)


def test_a_bound_may_be_exclusive() -> None:
    schema = converted({"type": "number", "minimum": 1, "exclusiveMinimum": True, "maximum": 2})
    assert [bool(problems(schema, number)) for number in (1, 1.5, 2, 2.5)] == [True, False, False, True]


def test_nullable_is_null_too() -> None:
    assert problems(converted({"type": "string", "nullable": True}), None) == []
    assert problems(converted({"type": "string"}), None) != []


def test_all_documents_of_a_server_are_written(tmp_path: Path) -> None:
    answers = {"/openapi/v3": {"paths": {"a": {"serverRelativeURL": "/a?hash=1"}}}, "/a?hash=1": DOCUMENT}
    assert write(lambda path: json.dumps(answers[path]), tmp_path) == 2
    assert (tmp_path / "example.com" / "pot_v1.json").is_file()
