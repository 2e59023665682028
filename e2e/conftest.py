"""Fixtures of the end-to-end tests: a kind cluster (reused when it exists), the operator's image, the operator in it.

`make e2e` gives pytest-kind its flags. What a failed test leaves to look at is in e2e/artifacts/, by the test's name.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from client_pod import ClientPod, start_client_pod
from pytest_kind import KindCluster
from real_cluster import IMAGE, OPERATOR_NAMESPACE, RESTRICTED, Cluster, credentials, make, operator_repository

from controlplane.api import Api, ApiError, object_path
from memcacheds import CACHES, Memcacheds

ARTIFACTS = Path(__file__).parent / "artifacts"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def memcached_image() -> str:
    """The operand's image: MEMCACHED_IMAGE, else the project's default."""
    return os.environ.get("MEMCACHED_IMAGE") or "docker.io/library/memcached:1.6.45"


@pytest.fixture(scope="session")
def cluster(kind_cluster: KindCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    kubeconfig = Path(kind_cluster.kubeconfig_path).absolute()
    with Api(credentials(kubeconfig, tmp_path_factory.mktemp("credentials"))) as api:
        yield Cluster(kubeconfig, str(kind_cluster.kubectl_path), api)


@pytest.fixture(scope="session")
def image(kind_cluster: KindCluster, cluster: Cluster) -> str:
    """The operator's image, built from this tree, loaded into the cluster, and in E2E_REGISTRY where that is set.

    Its tag is its content's. E2E_IMAGE names another one, which is there already.
    """
    if given := os.environ.get("E2E_IMAGE"):
        kind_cluster.load_docker_image(given)
        return given
    tool = os.environ.get("CONTAINER_TOOL", "docker")
    make(cluster, "docker-build", f"IMG={IMAGE}:e2e")
    inspect = [tool, "image", "inspect", "--format", "{{.Id}}", f"{IMAGE}:e2e"]
    found = subprocess.run(inspect, check=True, capture_output=True, text=True).stdout.strip()
    tagged = f"{operator_repository()}:e2e-{found.rpartition(':')[2][:12]}"
    subprocess.run([tool, "tag", f"{IMAGE}:e2e", tagged], check=True)
    kind_cluster.load_docker_image(tagged)
    if operator_repository() != IMAGE:
        make(cluster, "docker-push", f"IMG={tagged}")
    return tagged


@pytest.fixture(scope="session")
def other_memcached_image(kind_cluster: KindCluster, memcached_image: str) -> str:
    """The operand's image under a second name, loaded into the cluster: to roll out."""
    tool = os.environ.get("CONTAINER_TOOL", "docker")
    other = "example.com/memcached:other"
    if subprocess.run([tool, "image", "inspect", memcached_image], check=False, capture_output=True).returncode:
        subprocess.run([tool, "pull", memcached_image], check=True)
    subprocess.run([tool, "tag", memcached_image, other], check=True)
    kind_cluster.load_docker_image(other)
    return other


@pytest.fixture(scope="session")
def workers(cluster: Cluster) -> list[str]:
    """The nodes that pods may go to, at least two."""
    nodes = cluster.api.get(object_path("v1", "nodes"))["items"]
    found = [node["metadata"]["name"] for node in nodes if not _is_control_plane(node)]
    if len(found) < 2:
        pytest.skip(f"two workers are needed, the cluster has {len(found)}: e2e/kind.yaml makes one that does")
    return found


def _is_control_plane(node: dict[str, Any]) -> bool:
    return "node-role.kubernetes.io/control-plane" in node["metadata"]["labels"]


@pytest.fixture(scope="module")
def components() -> str:
    """The optional components of config/ that `deployed` is to have; a suite may have a fixture of its own."""
    return ""


@pytest.fixture(scope="module")
def deployed(cluster: Cluster, image: str, memcached_image: str, components: str) -> Iterator[str]:
    """The operator, by `make deploy`, in a namespace that enforces Pod Security `restricted`; its namespace.

    Each suite installs the operator its own way, and takes it away: two would not share a cluster.
    """
    deployment = "deployment/memcached-operator-controller-manager"
    try:
        said = make(cluster, "deploy", f"IMG={image}", f"MEMCACHED_IMAGE={memcached_image}", f"WITH={components}")
        assert "Warning" not in said, said
        cluster.kubectl("rollout", "status", deployment, "--namespace", OPERATOR_NAMESPACE, "--timeout=120s")
        yield OPERATOR_NAMESPACE
    finally:
        make(cluster, "undeploy", "ignore-not-found=true", f"WITH={components}")


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A fresh namespace that enforces Pod Security `restricted`; deleted afterwards without waiting.

    Finalizers of Memcacheds go first: the operator that a test found wanting may never take them off.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:40].rstrip("-")
    name = f"{slug}-{os.getpid()}-{next(_numbers)}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": RESTRICTED}}
    cluster.api.create("/api/v1/namespaces", body)
    yield name
    caches = object_path(CACHES, "memcacheds", name)
    for cache in (cluster.api.find(caches) or {"items": []})["items"]:
        if cache["metadata"].get("finalizers"):
            with contextlib.suppress(ApiError):  # it may be gone by now
                cluster.api.patch(f"{caches}/{cache['metadata']['name']}", {"metadata": {"finalizers": None}})
    cluster.api.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def caches(cluster: Cluster, namespace: str, deployed: str) -> Memcacheds:  # noqa: ARG001 - the operator has to run
    return Memcacheds(cluster, namespace)


@pytest.fixture
def client(cluster: Cluster, namespace: str, image: str) -> ClientPod:
    return start_client_pod(cluster, namespace, image)


def pytest_configure() -> None:
    """SIGTERM ends a run as Ctrl-C does, with the ends of its fixtures: they take away operators, and mend nodes."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """When a test fails, keep what a person needs, before its fixtures take it away."""
    report = yield
    funcargs = getattr(item, "funcargs", {})
    if report.failed and "cluster" in funcargs:
        _keep(funcargs["cluster"], funcargs.get("namespace"), ARTIFACTS / re.sub(r"[^\w.-]+", "_", item.name))
    return report


def _keep(cluster: Cluster, namespace: str | None, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    system = ("--namespace", OPERATOR_NAMESPACE)
    pages = {
        "operator.log": ("logs", *system, "--selector=control-plane=controller-manager", "--prefix", "--tail=-1"),
        "operator-pods.yaml": ("get", "pods", *system, "--output=yaml"),
        "events.txt": ("get", "events", "--all-namespaces", "--sort-by=.lastTimestamp"),
    }
    if namespace:
        kinds = "memcacheds,deployments,replicasets,services,endpointslices,poddisruptionbudgets,pods"
        pages["objects.yaml"] = ("get", kinds, "--namespace", namespace, "--output=yaml")
    if cluster.api.find("/apis/operators.coreos.com/v1alpha1"):
        kinds = "csv,subscriptions,installplans,catalogsources,operatorgroups"
        pages["olm.yaml"] = ("get", kinds, *system, "--output=yaml")
    for name, arguments in pages.items():
        (folder / name).write_text(cluster.kubectl(*arguments, check=False))
    pods = cluster.kubectl("get", "pods", *system, "--output=jsonpath={.items[*].metadata.name}", check=False).split()
    for pod in pods:
        raw = f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/pods/{pod}:8080/proxy/metrics"
        (folder / f"metrics-{pod}.txt").write_text(cluster.kubectl("get", "--raw", raw, check=False))
