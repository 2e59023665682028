"""The chart: installed, upgraded, rolled back and removed by helm, with caches that must not notice."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pytest_kind import KindCluster
from real_cluster import (
    OPERATOR_NAMESPACE,
    READY,
    RESTRICTED,
    Cluster,
    lives,
    make,
    operator_repository,
    wait_serving,
)

from controlplane import wait_until
from controlplane.api import ApiError, object_path
from controlplane.paths import REPOSITORY
from memcached_operator import __version__
from memcached_operator.memcached.client import Client
from memcacheds import Memcacheds

RELEASE = "memcached-operator"
MONITORING = "monitoring.coreos.com/v1"
CRD = "memcacheds.cache.example.com"
SPOKEN = r"get smoke: b'one\r\ntwo'"
VALUES = sorted((REPOSITORY / "helm" / "memcached-operator" / "ci").glob("*-values.yaml"))


@dataclass(frozen=True)
class Helm:
    """helm at work in the operator's namespace."""

    cluster: Cluster
    program: str

    def __call__(self, *words: str, check: bool = True) -> str:
        """What it prints, errors too. Raises AssertionError with all of it when it fails."""
        done = subprocess.run(
            [self.program, *words, "--namespace", OPERATOR_NAMESPACE],
            env=self.cluster.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert not check or done.returncode == 0, f"helm {' '.join(words)}: {done.returncode}\n{done.stdout}"
        return done.stdout

    def install(self, chart: Path, *flags: str) -> None:
        said = self("install", RELEASE, str(chart), "--wait", f"--timeout={READY}s", *flags)
        assert "STATUS: deployed" in said
        assert "would violate PodSecurity" not in said

    def test(self) -> None:
        """The chart's own test: a Memcached that a pod in the cluster speaks to."""
        self("test", RELEASE, f"--timeout={READY}s")
        # --logs looks in the release's namespace, which is not the pod's with namespaceOverride.
        (pod,) = self.cluster.api.get("/api/v1/pods?labelSelector=app.kubernetes.io/component=test")["items"]
        log = self.cluster.kubectl("logs", pod["metadata"]["name"], "--namespace", pod["metadata"]["namespace"])
        assert SPOKEN in log

    def clean(self) -> None:
        """Whatever a test left, also one that failed half way."""
        delete = partial(self.cluster.kubectl, "delete", "--ignore-not-found", f"--timeout={READY}s")
        if self.cluster.kubectl("get", "crd", CRD, "--ignore-not-found"):
            delete("memcacheds", "--all", "--all-namespaces", check=False)  # first, while an operator may drain them
            for found in self.cluster.api.get(object_path("cache.example.com/v1alpha1", "memcacheds"))["items"]:
                where = ("--namespace", found["metadata"]["namespace"], "memcacheds", found["metadata"]["name"])
                self.cluster.kubectl("patch", *where, "--type=merge", '--patch={"metadata":{"finalizers":null}}')
        self("uninstall", RELEASE, "--ignore-not-found", "--wait", f"--timeout={READY}s")
        delete("crd", CRD)
        delete("namespace", OPERATOR_NAMESPACE)


@pytest.fixture
def helm(cluster: Cluster) -> Iterator[Helm]:
    """helm, and an empty namespace for the operator that enforces Pod Security `restricted`."""
    found = subprocess.run([REPOSITORY / "hack" / "tool", "helm"], check=False, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    helm = Helm(cluster, found.stdout.strip())
    cluster.api.create("/api/v1/namespaces", {"metadata": {"name": OPERATOR_NAMESPACE, "labels": RESTRICTED}})
    yield helm
    helm.clean()


@pytest.fixture(scope="module")
def images(image: str, memcached_image: str) -> tuple[str, str]:
    """For make: which images the chart has as its defaults."""
    return f"IMG={image}", f"MEMCACHED_IMAGE={memcached_image}"


@pytest.fixture(scope="module")
def chart(cluster: Cluster, images: tuple[str, str]) -> Path:
    """This tree's chart."""
    make(cluster, "helm-package", *images)
    return REPOSITORY / "dist" / f"memcached-operator-{__version__}.tgz"


@pytest.fixture(scope="module")
def previous_chart(cluster: Cluster, kind_cluster: KindCluster, memcached_image: str) -> Path:
    """The chart of the release before this one; its image is in the cluster."""
    base = operator_repository()
    said = make(cluster, "previous-release", f"IMAGE_TAG_BASE={base}", f"MEMCACHED_IMAGE={memcached_image}")
    image, built = re.search(r"image (\S+), bundle", said), re.search(r"^\S+\.tgz$", said, re.MULTILINE)
    assert image, said
    assert built, said
    kind_cluster.load_docker_image(image[1])
    return Path(built[0])


@pytest.fixture
def caches(cluster: Cluster, namespace: str) -> Memcacheds:
    return Memcacheds(cluster, namespace)


def operator_images(cluster: Cluster) -> set[str]:
    """Of all operator pods that are there."""
    pods = cluster.api.get(object_path("v1", "pods", OPERATOR_NAMESPACE) + "?labelSelector=control-plane")["items"]
    return {pod["spec"]["containers"][0]["image"] for pod in pods}


class Served:
    """A Memcached with a key in each of its pods, and whether all of them lived on."""

    def __init__(self, cluster: Cluster, caches: Memcacheds, name: str, **spec: Any) -> None:
        self.cluster, self.caches, self.name = cluster, caches, name
        self.size: int = caches.create(name, **spec)["spec"]["size"]
        self.pods = wait_serving(cluster, caches, name, self.size)
        for pod in self.pods:
            cluster.speak(caches.namespace, pod, partial(Client.set, key="kept", value=pod.encode()))
        self.lives = lives(caches, name)

    def assert_untouched(self) -> None:
        assert lives(self.caches, self.name).items() >= self.lives.items()
        for pod in self.pods:
            value = self.cluster.speak(self.caches.namespace, pod, partial(Client.get, key="kept"))
            assert value == pod.encode()

    def assert_looked_after(self) -> None:
        """Larger by one: whoever acts on that has looked at all of it, and must not have touched the other pods."""
        self.size += 1
        self.caches.patch(self.name, size=self.size)
        wait_serving(self.cluster, self.caches, self.name, self.size)
        self.assert_untouched()


# What the files of ci/ take for granted.
CONFIG, PREPARED = REPOSITORY / "config", Path(__file__).parent / "prepared"
PREPARATIONS = {
    "bare": (PREPARED / "bare.yaml", CONFIG / "crd" / "bases", CONFIG / "rbac" / "role.yaml"),
    "everything": (PREPARED / "everything.yaml",),
    "monitoring": (PREPARED / "monitoring.yaml",),
    "service-monitor": (PREPARED / "monitoring.yaml",),
    "watch-namespaces": (PREPARED / "watch-namespaces.yaml",),
}


@pytest.fixture
def values(request: pytest.FixtureRequest, cluster: Cluster, helm: Helm) -> Iterator[Path]:
    """A file of ci/, and a cluster that has what it takes for granted."""
    file: Path = request.param
    files = [f"--filename={path}" for path in PREPARATIONS.get(file.name.removesuffix("-values.yaml"), ())]
    try:
        if files:
            cluster.kubectl("apply", *files)
        if "monitor" in file.name:
            cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", f"--timeout={READY}s")
        yield file
    finally:
        helm.clean()  # before it loses what it needs to run
        if files:
            cluster.kubectl("delete", "--ignore-not-found", *files)


def listed(cluster: Cluster, version: str, plural: str, labels: dict[str, str]) -> list[dict[str, Any]]:
    """Objects with these labels in the operator's namespace; none of a kind that the cluster does not know."""
    selector = ",".join(f"{name}={value}" for name, value in labels.items())
    find = partial(cluster.api.find, object_path(version, plural, OPERATOR_NAMESPACE) + f"?labelSelector={selector}")
    # The API server asks for patience (429) when it has just begun to serve a kind.
    found = wait_until(find, READY, f"a list of {plural}", until=lambda _: True, tolerate=(ApiError,))
    return found["items"] if found else []


def scraped(cluster: Cluster) -> list[str]:
    """What Prometheus would get: from each monitor to its pod or Service, and there to the port that it names."""
    answers = []
    for monitors, endpoints, targets in (
        ("podmonitors", "podMetricsEndpoints", "pods"),
        ("servicemonitors", "endpoints", "services"),
    ):
        for monitor in listed(cluster, MONITORING, monitors, {}):
            (endpoint,) = monitor["spec"][endpoints]
            (target,) = listed(cluster, "v1", targets, monitor["spec"]["selector"]["matchLabels"])
            ports = target["spec"].get("ports") or target["spec"]["containers"][0]["ports"]
            (port,) = (p.get("port") or p["containerPort"] for p in ports if p["name"] == endpoint["port"])
            path = object_path("v1", targets, OPERATOR_NAMESPACE, f"{target['metadata']['name']}:{port}")
            answers.append(cluster.kubectl("get", "--raw", f"{path}/proxy{endpoint['path']}"))
    return answers


@pytest.mark.parametrize("values", VALUES, indirect=True, ids=lambda file: file.name.removesuffix("-values.yaml"))
def test_every_file_of_values_gives_an_operator_that_works(
    cluster: Cluster, helm: Helm, chart: Path, values: Path, image: str, memcached_image: str
) -> None:
    repository, _, tag = image.rpartition(":")
    pulled = {  # in place of images that are nowhere
        "image.repository": repository,
        "image.tag": tag,
        "image.digest": "",
        "image.pullPolicy": "IfNotPresent",
        "memcachedImage": memcached_image,
        "tests.memcachedImage": "",
    }
    helm.install(chart, f"--values={values}", *(f"--set-string={key}={value}" for key, value in pulled.items()))
    helm.test()
    metrics = scraped(cluster)
    assert len(metrics) == ("monitor" in values.name)
    assert all("memcached_operator_build_info" in page for page in metrics)


def test_upgrade_and_rollback_leave_the_caches_alone(
    cluster: Cluster, helm: Helm, previous_chart: Path, chart: Path, caches: Memcacheds, image: str
) -> None:
    helm.install(previous_chart)
    (old_image,) = operator_images(cluster)
    assert old_image != image
    served = [
        Served(cluster, caches, "plain", size=2),
        Served(cluster, caches, "tuned", size=1, memory=96, threads=2, deletionPolicy="Drain", drainSeconds=5),
    ]
    helm("upgrade", RELEASE, str(chart), "--reset-then-reuse-values", "--wait", f"--timeout={READY}s")
    wait_until(partial(operator_images, cluster), READY, "the new operator alone", until={image}.__eq__)
    for memcached in served:
        memcached.assert_looked_after()
    helm("rollback", RELEASE, "--wait", f"--timeout={READY}s")
    wait_until(partial(operator_images, cluster), READY, "the old operator alone", until={old_image}.__eq__)
    for memcached in served:
        memcached.assert_looked_after()


def test_what_make_deploy_installed_is_taken_over(
    cluster: Cluster, helm: Helm, chart: Path, images: tuple[str, str], caches: Memcacheds
) -> None:
    make(cluster, "deploy", *images)
    try:
        served = Served(cluster, caches, "cache", size=1)
        # As the chart's README says it.
        system = ("--namespace", OPERATOR_NAMESPACE)
        cluster.kubectl("delete", "deployment", "memcached-operator-controller-manager", *system)
        helm.install(chart, "--take-ownership")
        cluster.kubectl("delete", "clusterrole", "memcached-operator-metrics-reader")
        served.assert_looked_after()
        helm.clean()
        left = ("get", "clusterroles,clusterrolebindings", "--selector=app.kubernetes.io/name=memcached-operator")
        assert "No resources found" in cluster.kubectl(*left)
    finally:
        make(cluster, "undeploy", "ignore-not-found=true")


def test_uninstall_keeps_the_caches_and_the_next_install_finds_them(
    cluster: Cluster, helm: Helm, images: tuple[str, str], caches: Memcacheds
) -> None:
    # By make, as in the recipes; ARGS would be those of `make e2e`.
    make(cluster, "helm-install", *images, "ARGS=")
    plain, orphan = Served(cluster, caches, "plain", size=2), Served(cluster, caches, "orphan", deletionPolicy="Orphan")
    make(cluster, "helm-uninstall", "ARGS=")
    assert CRD in cluster.kubectl("get", "crd", "--output=name")
    wait_until(partial(operator_images, cluster), READY, "no operator", until=lambda found: not found)
    caches.patch("plain", size=3)
    for memcached in (plain, orphan):
        memcached.assert_untouched()
    assert caches.replicas("plain") == 2, "nobody looks after it"
    make(cluster, "helm-install", *images, "ARGS=")
    wait_serving(cluster, caches, "plain", 3)
    for memcached in (plain, orphan):
        memcached.assert_untouched()
    orphan.assert_looked_after()
    assert SPOKEN in helm("test", RELEASE, "--logs")


@contextmanager
def crd_again(cluster: Cluster) -> Iterator[None]:
    folder = str(REPOSITORY / "config" / "crd")
    cluster.kubectl("apply", "--server-side", "-k", folder)
    try:
        yield
    finally:
        cluster.kubectl("delete", "-k", folder)


def test_uninstall_without_crds_keep_removes_every_memcached(
    cluster: Cluster, helm: Helm, chart: Path, caches: Memcacheds
) -> None:
    helm.install(chart, "--set=crds.keep=false")
    Served(cluster, caches, "plain", size=2)
    orphan = Served(cluster, caches, "orphan", size=1, deletionPolicy="Orphan")
    helm("uninstall", RELEASE, "--wait", f"--timeout={READY}s")
    assert CRD not in cluster.kubectl("get", "crd", "--output=name")
    # The garbage collector looks for kinds twice a minute. When it does so while a kind goes, it may not know any more
    # whose the children were ("unable to get REST mapping"), until the kind is back: see the chart's README.
    with crd_again(cluster):
        wait_until(partial(lives, caches, "plain"), READY, "its pods to be gone", until=lambda found: not found)
    orphan.assert_untouched()


def test_watched_namespaces_are_all_that_is_touched(
    cluster: Cluster, helm: Helm, chart: Path, caches: Memcacheds
) -> None:
    others = Memcacheds(cluster, OPERATOR_NAMESPACE)  # where the operator runs is no exception
    helm.install(chart, f"--set=watchNamespaces={{{caches.namespace}}}")
    others.create("other", size=1)
    cache = Served(cluster, caches, "cache", size=1)
    cache.assert_looked_after()
    assert "status" not in (others.get("other") or {})
    assert others.look("other") == {}
    cluster_wide = ("get", "clusterroles,clusterrolebindings", f"--selector=app.kubernetes.io/instance={RELEASE}")
    assert "No resources found" in cluster.kubectl(*cluster_wide)

    # All that kept the other one waiting was the value.
    helm("upgrade", RELEASE, str(chart), "--set-json=watchNamespaces=[]", "--wait", f"--timeout={READY}s")
    assert "clusterrole" in cluster.kubectl(*cluster_wide, "--output=name")
    wait_serving(cluster, others, "other", 1)
    cache.assert_looked_after()
