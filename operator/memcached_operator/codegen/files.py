"""Which files are generated, and what is in each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from memcached_operator import __version__
from memcached_operator.api import names
from memcached_operator.api.crd import custom_resource_definition
from memcached_operator.codegen import bad_inputs, chart, csv, monitoring, olm, rbac, reference, upgrades
from memcached_operator.codegen.yamltext import to_yaml

BAD_INPUTS = "operator/tests/integration/bad_inputs.yaml"
ICON = "docs/icon.svg"
CATALOG = "catalog/template.yaml"
SAMPLE = "config/samples/cache_v1alpha1_memcached.yaml"
ADMISSION_POLICY = "config/admission-policy/policy.yaml"
CHART = "helm/memcached-operator"
CRD = f"config/crd/bases/{names.GROUP}_{names.PLURAL}.yaml"
CSV = f"config/manifests/bases/{csv.PACKAGE}.clusterserviceversion.yaml"

_WATCHED = "config/namespaced/watched"
_IMAGE = "example.com/memcached-operator"
_RELEASED = {"name": "controller", "newName": _IMAGE, "newTag": f"v{__version__}"}

_NOTICE = "Made by `make generate manifests`. Do not edit: change the models or tables in operator/memcached_operator."


def generated_files(root: Path) -> dict[str, str]:
    """Path, relative to the repository at `root`, -> text. Read from `root`: what is written by hand."""
    crd = custom_resource_definition()
    manifests: dict[str, object] = {
        CRD: crd,
        "config/crd/kustomization.yaml": _kustomization([CRD.removeprefix("config/crd/")]),
        **{f"config/rbac/{name}.yaml": manifest for name, manifest in rbac.manifests().items()},
        "config/rbac/kustomization.yaml": _kustomization([f"{name}.yaml" for name in rbac.manifests()]),
        **{f"{_WATCHED}/{name}.yaml": manifest for name, manifest in rbac.watched_namespace_manifests().items()},
        f"{_WATCHED}/kustomization.yaml": _kustomization(
            [f"{name}.yaml" for name in rbac.watched_namespace_manifests()]
        ),
        "config/manager/kustomization.yaml": {**_kustomization(["manager.yaml"]), "images": [_RELEASED]},
        "config/prometheus/prometheus_rule.yaml": monitoring.prometheus_rule(root),
        CSV: (base := cluster_service_version(root, crd, __version__, f"{_IMAGE}:v{__version__}")),
        **{f"config/olm/{name}.yaml": manifest for name, manifest in _olm(root).items()},
        "config/olm/kustomization.yaml": _kustomization([f"{name}.yaml" for name in _olm(root)]),
        f"{CHART}/Chart.yaml": chart.metadata(base, crd, sample=_load(root / SAMPLE)),
    }
    pages = {
        "docs/reference/memcached.md": reference.fields_page(crd),
        "docs/reference/conditions.md": reference.conditions_page(),
        "docs/reference/metrics.md": monitoring.metrics_page(),
        "docs/reference/permissions.md": reference.permissions_page(),
    }
    table = root / BAD_INPUTS
    if table.is_file():
        pages["docs/bad-inputs.md"] = bad_inputs.page(table.read_text(encoding="utf-8"))
    return {
        **{path: f"# {_NOTICE}\n{to_yaml(manifest)}" for path, manifest in manifests.items()},
        **{path: f"<!-- {_NOTICE} -->\n{text}" for path, text in pages.items()},
        **{
            f"{CHART}/templates/{name}": text
            for name, text in chart.templates(crd, _load(root / ADMISSION_POLICY), notice=_NOTICE).items()
        },
        **monitoring.copies(root),
    }


def cluster_service_version(
    root: Path, crd: csv.Manifest, version: str, image: str, *, pinned: bool = False
) -> csv.Manifest:
    """The base of the CSV, with icon and upgrade graph of the repository; `image` is the operator's. See `csv`."""
    return csv.cluster_service_version(
        crd,
        version=version,
        upgrade=upgrades.upgrade(_catalog(root), csv.PACKAGE, version),
        image=image,
        icon=(root / ICON).read_text(encoding="utf-8"),
        pinned=pinned,
    )


def _olm(root: Path) -> dict[str, olm.Manifest]:
    (package,) = (document for document in _catalog(root) if document["schema"] == "olm.package")
    return olm.manifests(f"{_IMAGE}-catalog:v{__version__}", package["defaultChannel"])


def _catalog(root: Path) -> list[upgrades.Document]:
    return list(yaml.safe_load_all((root / CATALOG).read_text(encoding="utf-8")))


def _load(path: Path) -> chart.Manifest:
    manifest: chart.Manifest = yaml.safe_load(path.read_text(encoding="utf-8"))
    return manifest


def _kustomization(resources: list[str]) -> Mapping[str, object]:
    return {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources}
