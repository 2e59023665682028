"""Which files are generated, and what is in each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from memcached_operator import __version__
from memcached_operator.api import names
from memcached_operator.api.crd import custom_resource_definition
from memcached_operator.codegen import bad_inputs, rbac, reference
from memcached_operator.codegen.yamltext import to_yaml

BAD_INPUTS = "operator/tests/integration/bad_inputs.yaml"

_WATCHED = "config/namespaced/watched"
_RELEASED = {"name": "controller", "newName": "example.com/memcached-operator", "newTag": f"v{__version__}"}

_NOTICE = "Made by `make generate manifests`. Do not edit: change the models or tables in operator/memcached_operator."


def generated_files(root: Path) -> dict[str, str]:
    """Path, relative to the repository at `root`, -> text. The only input from `root` is the table of bad inputs."""
    crd = custom_resource_definition()
    crd_file = f"bases/{names.GROUP}_{names.PLURAL}.yaml"
    manifests: dict[str, object] = {
        f"config/crd/{crd_file}": crd,
        "config/crd/kustomization.yaml": _kustomization([crd_file]),
        **{f"config/rbac/{name}.yaml": manifest for name, manifest in rbac.manifests().items()},
        "config/rbac/kustomization.yaml": _kustomization([f"{name}.yaml" for name in rbac.manifests()]),
        **{f"{_WATCHED}/{name}.yaml": manifest for name, manifest in rbac.watched_namespace_manifests().items()},
        f"{_WATCHED}/kustomization.yaml": _kustomization([f"{name}.yaml" for name in rbac.watched_namespace_manifests()]),
        "config/manager/kustomization.yaml": {**_kustomization(["manager.yaml"]), "images": [_RELEASED]},
    }
    pages = {
        "docs/reference/memcached.md": reference.fields_page(crd),
        "docs/reference/conditions.md": reference.conditions_page(),
        "docs/reference/permissions.md": reference.permissions_page(),
    }
    table = root / BAD_INPUTS
    if table.is_file():
        pages["docs/bad-inputs.md"] = bad_inputs.page(table.read_text(encoding="utf-8"))
    return {
        **{path: f"# {_NOTICE}\n{to_yaml(manifest)}" for path, manifest in manifests.items()},
        **{path: f"<!-- {_NOTICE} -->\n{text}" for path, text in pages.items()},
    }


def _kustomization(resources: list[str]) -> Mapping[str, object]:
    return {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources}
