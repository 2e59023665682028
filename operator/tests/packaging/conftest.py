"""Fixtures for the checks of what is shipped: `make verify-packaging`. A missing program is a failure, never a skip.

`CONTROL_PLANE=NAME` uses a cluster that is up already (`python -m controlplane up NAME`) and leaves it running.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import shipped
import strict_schemas
from controlplane import ControlPlane, wait_until
from controlplane.paths import TOOLS

FOREIGN_CRDS = {
    "github.com/operator-framework/api": (
        "crds/operators.coreos.com_catalogsources.yaml",
        "crds/operators.coreos.com_clusterserviceversions.yaml",
        "crds/operators.coreos.com_operatorgroups.yaml",
        "crds/operators.coreos.com_subscriptions.yaml",
    ),
    "github.com/prometheus-operator/prometheus-operator": (
        "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
        "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
        "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
    ),
}
"""Go module -> the CRDs in it of kinds that we ship objects of."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.packaging)


@pytest.fixture(scope="session")
def foreign_crds() -> list[Path]:
    """The CRDs of OLM and of the Prometheus operator, from the Go modules pinned in hack/tools/crds."""
    files = []
    for module, names in FOREIGN_CRDS.items():
        got = subprocess.run(
            [shipped.tool("go"), "mod", "download", "-json", module],
            cwd=TOOLS / "crds",
            capture_output=True,
            text=True,
            check=False,
        )
        if got.returncode != 0:
            pytest.fail(f"go mod download {module}: {got.stdout}{got.stderr}")
        files += [Path(json.loads(got.stdout)["Dir"]) / name for name in names]
    return files


@pytest.fixture(scope="session")
def control_plane(foreign_crds: list[Path]) -> Iterator[ControlPlane]:
    """A control plane that knows every kind that we ship."""
    running = os.environ.get("CONTROL_PLANE")
    started = ControlPlane.attach(running) if running else ControlPlane.start(f"packaging-{os.getpid()}", tmpfs=True)
    try:
        for file in foreign_crds:
            started.kubectl("apply", "--server-side", "-f", str(file))
        # As users do it: without --server-side, which leaves another mark on the object.
        started.kubectl("apply", "-f", "-", input=shipped.kustomized("config/crd"))
        started.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        yield started
    finally:
        if running:
            started.close()
        else:
            started.stop()


@pytest.fixture(scope="session")
def schemas(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a strict JSON schema of every kind that the control plane serves."""
    folder = tmp_path_factory.mktemp("schemas")

    def get(path: str) -> str:
        return control_plane.kubectl("get", "--raw", path).stdout

    def described(index: str) -> bool:
        wanted = ("cache.example.com/v1alpha1", "monitoring.coreos.com/v1", "operators.coreos.com/v1alpha1")
        return all(f'"apis/{group}"' in index for group in wanted)

    # A kind is described a moment after it is served.
    wait_until(lambda: get("/openapi/v3"), 30, "the CRDs to be described", until=described)
    strict_schemas.write(get, folder)
    return folder
