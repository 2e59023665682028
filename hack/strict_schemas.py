"""Strict JSON schemas, one a kind, from what an API server publishes in /openapi/v3.

As they are, those documents refuse nothing: a misspelt field is allowed by all of them. Converted, they serve every
JSON schema validator, and kubeconform with `-schema-location` FOLDER/LOCATION (see there).

    python hack/strict_schemas.py FOLDER        # from the current cluster, by kubectl
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

Schema = dict[str, Any]

LOCATION = "{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json"
"""The names of the files in kubeconform's words. The group of core/v1 is `v1` there, and so it is here."""

_DRAFT = "http://json-schema.org/draft-07/schema#"
_COMPONENTS = "#/components/schemas/"
_DEFINITIONS = "#/definitions/"
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_NULL = {"type": "null"}
_SUBSCHEMA = ("items", "additionalProperties", "not")
_SUBSCHEMAS = ("allOf", "anyOf", "oneOf")
_SAME = (
    *("type", "format", "enum", "required", "pattern", "minimum", "maximum", "multipleOf"),
    *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
)
"""What means the same in both. The rest (descriptions, defaults, x-kubernetes-*) restricts nothing in JSON schema."""


def schemas(document: Mapping[str, Any]) -> dict[str, Schema]:
    """File name (see LOCATION) -> schema, for each kind that the document of one group and version describes.

    Kinds that come in every document (DeleteOptions, WatchEvent) are left out: nobody writes them into a file.
    """
    components = document.get("components", {}).get("schemas", {})
    found = {}
    for name, component in components.items():
        kinds = component.get("x-kubernetes-group-version-kind", [])
        if len(kinds) == 1:
            definitions = {needed: converted(components[needed]) for needed in _reached(components, name)}
            root = {"$schema": _DRAFT, "$ref": _DEFINITIONS + name, "definitions": definitions}
            found[_file_name(**kinds[0])] = root
    return found


def converted(schema: Schema) -> Schema:
    """One OpenAPI schema as JSON schema. References stay references, so a schema that holds itself is no danger."""
    reference = _reference(schema)
    if reference:
        return {"$ref": _DEFINITIONS + reference}
    strict: Schema = {key: schema[key] for key in _SAME if key in schema}
    strict |= {key: converted(schema[key]) for key in _SUBSCHEMA if isinstance(schema.get(key), dict)}
    strict |= {key: [converted(branch) for branch in schema[key]] for key in _SUBSCHEMAS if key in schema}
    _convert_exclusive_bounds(schema, strict)
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        strict = {key: value for key, value in strict.items() if key not in ("type", "format", "anyOf")}
        strict["oneOf"] = _INT_OR_STRING
    if properties := schema.get("properties"):
        # The keys of this map are names of fields, whatever they look like: JSONSchemaProps has a field `allOf`.
        required = schema.get("required", [])
        strict["properties"] = {
            name: converted(inner) if name in required else _or_null(converted(inner))
            for name, inner in properties.items()
        }
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            strict["additionalProperties"] = False
    return _or_null(strict) if schema.get("nullable") else strict


def write(get: Callable[[str], str], folder: Path) -> int:
    """Write the schemas of a whole API server; returns how many. `get(path)` is the text that a GET answers."""
    count = 0
    for entry in json.loads(get("/openapi/v3"))["paths"].values():
        for name, schema in schemas(json.loads(get(entry["serverRelativeURL"]))).items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(schema), encoding="utf-8")
            count += 1
    return count


def _file_name(group: str, version: str, kind: str) -> str:
    return f"{group or version}/{kind.lower()}_{version}.json"


def _reference(schema: Schema) -> str:
    """The component that the schema stands for, or "". Beside `allOf` of one `$ref` are descriptions and defaults."""
    branches = schema.get("allOf", [])
    inner = branches[0] if len(branches) == 1 and "properties" not in schema else schema
    return str(inner.get("$ref", "")).removeprefix(_COMPONENTS)


def _or_null(schema: Schema) -> Schema:
    """The API server takes null for a field that may be absent, and generators write `creationTimestamp: null`."""
    if not schema:
        return schema
    if isinstance(schema.get("type"), str) and "enum" not in schema:
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, _NULL]}


def _convert_exclusive_bounds(schema: Schema, strict: Schema) -> None:
    """OpenAPI 3.0 has a boolean beside the bound, JSON schema since draft 6 a bound of its own."""
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if schema.get(exclusive) is True:
            strict[exclusive] = strict.pop(bound)


def _reached(components: Mapping[str, Schema], root: str) -> set[str]:
    """The names of the components that `root` is made of, itself included."""
    reached: set[str] = set()
    waiting = [root]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting.extend(_references(components[name]))
    return reached


def _references(schema: Schema) -> Iterator[str]:
    if reference := _reference(schema):
        yield reference
        return
    inner = [schema[key] for key in _SUBSCHEMA if isinstance(schema.get(key), dict)]
    inner += [branch for key in _SUBSCHEMAS for branch in schema.get(key, [])]
    for part in (*inner, *schema.get("properties", {}).values()):
        yield from _references(part)


def _from_current_cluster(path: str) -> str:
    kubectl = Path(__file__).parent / "kubectl"
    return subprocess.run([str(kubectl), "get", "--raw", path], stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python hack/strict_schemas.py FOLDER")
    print(f"{write(_from_current_cluster, Path(sys.argv[1]))} schemas in {sys.argv[1]}")
