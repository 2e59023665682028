"""Every manifest that we ship, judged by kubeconform with the API server's own schemas, and by the API server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import shipped
from controlplane import ControlPlane
from strict_schemas import LOCATION

# Of the kinds in config/scorecard and config/manifests, two are food for operator-sdk alone: a Configuration is no kind
# of Kubernetes', and that ClusterServiceVersion is half of one. What becomes of it is judged with the bundle.
OUTPUTS = {name: render for name, render in shipped.outputs().items() if name != "config/scorecard"}
FOR_OPERATOR_SDK = {"config/manifests": ("ClusterServiceVersion", "Configuration")}
RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn", "audit")}


@pytest.fixture(scope="session")
def rendered() -> dict[str, str]:
    """Each output is rendered once."""
    return {}


@pytest.fixture(params=OUTPUTS)
def name(request: pytest.FixtureRequest) -> str:
    """The name of an output."""
    return str(request.param)


@pytest.fixture
def manifests(name: str, rendered: dict[str, str]) -> list[shipped.Json]:
    """What is to be judged of an output."""
    if name not in rendered:
        rendered[name] = OUTPUTS[name]()
    left_out = FOR_OPERATOR_SDK.get(name, ())
    return [body for body in shipped.documents(rendered[name]) if body["kind"] not in left_out]


def kubeconform(schemas: Path, manifests: list[shipped.Json]) -> str:
    """What it finds, with the schemas of the folder; empty when all is well."""
    stream = yaml.safe_dump_all(manifests)
    words = shipped.run(
        "kubeconform", "-strict", "-schema-location", f"{schemas}/{LOCATION}", "-", stdin=stream, ok=(0, 1)
    )
    return words.strip()


def dry_run(control_plane: ControlPlane, manifests: list[shipped.Json]) -> str:
    """What `kubectl apply --dry-run=server` says beside its list of objects: errors and warnings.

    What others are checked against is there before: the service accounts, and the namespaces, with Pod Security
    `restricted` enforced in them.
    """
    namespaces = {body["metadata"].get("namespace", "default") for body in manifests}
    before: list[shipped.Json] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": RESTRICTED}}
        for namespace in sorted(namespaces)
    ]
    before += [body for body in manifests if body["kind"] == "ServiceAccount"]
    control_plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(before))
    answer = control_plane.kubectl(
        *("apply", "--dry-run=server", "--warnings-as-errors", "-f", "-"),
        input=yaml.safe_dump_all(manifests),
        check=False,
    )
    return answer.stderr.strip() or ("" if answer.returncode == 0 else answer.stdout)


def test_there_is_something_of_each_kind_to_judge() -> None:
    assert {name.split("/")[0].split(" ")[0] for name in OUTPUTS} == {"config", "chart", "bundle"}
    assert len([name for name in OUTPUTS if name.startswith("chart ")]) > 1


def test_every_manifest_conforms_to_the_schema_of_its_kind(schemas: Path, manifests: list[shipped.Json]) -> None:
    assert manifests
    assert kubeconform(schemas, manifests) == ""


def test_the_api_server_takes_every_manifest_without_a_warning(
    control_plane: ControlPlane, manifests: list[shipped.Json]
) -> None:
    assert dry_run(control_plane, manifests) == ""


# --- the judges can say no --------------------------------------------------------------------------------------------


def deployment(manifests: list[shipped.Json]) -> Any:
    (body,) = [body for body in manifests if body["kind"] == "Deployment"]
    return body


@pytest.mark.parametrize("name", ("config/default", "chart"), indirect=True)
def test_a_misspelt_field_is_refused(
    schemas: Path, control_plane: ControlPlane, name: str, manifests: list[shipped.Json]
) -> None:
    del name
    body = deployment(manifests)
    body["spec"]["template"]["spec"]["containers"][0]["securityContex"] = {}
    assert "securityContex" in kubeconform(schemas, [body])
    assert "securityContex" in dry_run(control_plane, [body])


@pytest.mark.parametrize("name", ("config/default",), indirect=True)
def test_a_pod_that_is_not_restricted_is_warned_of(
    control_plane: ControlPlane, name: str, manifests: list[shipped.Json]
) -> None:
    del name
    body = deployment(manifests)
    del body["spec"]["template"]["spec"]["containers"][0]["securityContext"]
    assert "would violate PodSecurity" in dry_run(control_plane, [body])
