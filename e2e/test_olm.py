"""The operator under the Operator Lifecycle Manager: bundle, upgrade, install modes, catalog, scorecard, cleanup.

OLM pulls what it installs, so all of it goes into the registry E2E_REGISTRY first. Tags are contents: nothing that a
node or OLM keeps of an earlier run is taken for this tree.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from real_cluster import (
    OPERATOR_NAMESPACE,
    READY,
    RESTRICTED,
    Cluster,
    lives,
    make,
    to_json,
    wait_serving,
)

from controlplane import wait_until
from controlplane.api import ApiError, object_path
from controlplane.paths import REPOSITORY
from memcached_operator import __version__
from memcached_operator.memcached.client import Client
from memcacheds import Memcacheds

OPERATORS = "operators.coreos.com/v1alpha1"
GROUPS = "operators.coreos.com/v1"
ACCOUNT = f"system:serviceaccount:{OPERATOR_NAMESPACE}:memcached-operator-controller-manager"
# Kept between runs, so that the bundle's time of creation, and with it the image, changes only when the bundle does.
BUILT = REPOSITORY / ".cache" / "e2e" / "olm"
PATIENCE = 300
# What OLM leaves: it deletes no ClusterRole that comes as a manifest of a bundle.
ROLES = (
    *(f"memcached-operator-memcached-{who}-role" for who in ("admin", "editor", "viewer")),
    "memcached-operator-metrics-reader",
)
# What it keeps for itself, and the operator's Lease, which goes with its namespace.
LEFT = ("Operator /memcached-operator.", "ClusterRole /olm.og.", f"Lease {OPERATOR_NAMESPACE}/memcached-operator")


@dataclass(frozen=True)
class Release:
    """One version, in the registry."""

    version: str
    bundle: str  # image
    files: Path  # what is in it

    @property
    def csv(self) -> str:
        return f"memcached-operator.v{self.version}"


@dataclass(frozen=True)
class Olm:
    """OLM, and operator-sdk at work in the operator's namespace."""

    cluster: Cluster
    sdk: str
    before: frozenset[str]

    def run(self, *words: str, flags: str = "") -> str:
        """Run operator-sdk; return what it prints. `flags` names a variable with more of them."""
        return operator_sdk(self.cluster, self.sdk, *words, "--namespace", OPERATOR_NAMESPACE, flags=flags)

    def run_bundle(self, bundle: str, mode: str) -> None:
        security = ("--security-context-config", "restricted", "--timeout", f"{PATIENCE}s")
        self.run("run", "bundle", bundle, "--install-mode", mode, *security, flags="E2E_RUN_BUNDLE_FLAGS")

    def phases(self) -> dict[str, str]:
        """CSV -> phase."""
        found = self.cluster.api.get(object_path(OPERATORS, "clusterserviceversions", OPERATOR_NAMESPACE))["items"]
        return {item["metadata"]["name"]: item.get("status", {}).get("phase", "") for item in found}

    def wait_installed(self, release: Release) -> None:
        """Until this version is there, and no other."""
        wait_until(self.phases, PATIENCE, f"{release.csv} alone", until={release.csv: "Succeeded"}.__eq__)

    def clean_up(self) -> None:
        """`operator-sdk cleanup`, which has to leave nothing."""
        self.run("cleanup", "memcached-operator", "--timeout", f"{PATIENCE}s")
        self.wait_nothing_left()

    def wait_nothing_left(self) -> None:
        """Until the cluster has nothing that it had not before, but for LEFT; the roles go as docs/olm.md says."""
        self.cluster.kubectl("delete", "clusterrole", *ROLES)

        def left() -> list[str]:
            return sorted(name for name in objects(self.cluster) - self.before if not name.startswith(LEFT))

        wait_until(left, READY, "nothing left", until=lambda names: not names, interval=1, tolerate=(ApiError,))


def operator_sdk(cluster: Cluster, sdk: str, *words: str, flags: str = "", ok: tuple[int, ...] = (0,)) -> str:
    command = [sdk, *words, *shlex.split(os.environ.get(flags, ""))]
    done = subprocess.run(command, env=cluster.environment(), capture_output=True, text=True, check=False)
    assert done.returncode in ok, f"{shlex.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def objects(cluster: Cluster) -> frozenset[str]:
    """All that can be deleted in the cluster, but for events and what each namespace has of its own."""
    groups = cluster.api.get("/apis")["groups"]
    paths = [f"/apis/{version['groupVersion']}" for group in groups for version in group["versions"]]
    found: set[str] = set()
    for path in ("/api/v1", *paths):
        for resource in (cluster.api.find(path) or {"resources": []})["resources"]:
            kind = resource["kind"]
            if kind not in ("Event", "Namespace") and {"list", "delete"} <= set(resource["verbs"]):
                listed = (cluster.api.find(f"{path}/{resource['name']}") or {"items": []})["items"]
                names = (item["metadata"] for item in listed)
                found.update(f"{kind} {name.get('namespace', '')}/{name['name']}" for name in names)
    return frozenset(name for name in found if not name.endswith(("/default", "/kube-root-ca.crt")))


@pytest.fixture(scope="module")
def sdk(cluster: Cluster) -> Iterator[str]:
    """operator-sdk, with OLM in the cluster: put there, and taken away again, unless it is there already."""
    found = subprocess.run(
        [REPOSITORY / "hack" / "tool", "operator-sdk", "opm"], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    path = found.stdout.split()[0]
    if cluster.api.find(f"/apis/{OPERATORS}"):
        yield path
        return
    operator_sdk(cluster, path, "olm", "install", "--timeout", f"{PATIENCE}s")
    yield path
    operator_sdk(cluster, path, "olm", "uninstall", "--timeout", f"{PATIENCE}s")


@pytest.fixture(scope="module")
def registry() -> str:
    """Where this machine pushes to and the cluster pulls from."""
    found = os.environ.get("E2E_REGISTRY")
    assert found, (
        "E2E_REGISTRY is not set. OLM pulls bundles, catalogs and the operator, so they have to be in a registry that "
        "this machine pushes to and the cluster pulls from: make e2e E2E=olm E2E_REGISTRY=HOST:PORT/PATH "
        "(kind.sigs.k8s.io/docs/user/local-registry says how to have one)."
    )
    return found.rstrip("/")


@pytest.fixture(scope="module")
def current(cluster: Cluster, registry: str, image: str, memcached_image: str) -> Release:
    """This tree: image and bundle in the registry. The committed bundle stays as it is."""
    make(cluster, "bundle", f"BUNDLE_ROOT={BUILT}", f"IMG={image}", f"MEMCACHED_IMAGE={memcached_image}")
    bundle = f"{registry}/memcached-operator-bundle:v{__version__}-{digest(BUILT)}"
    make(cluster, "bundle-build", "bundle-push", f"BUNDLE_ROOT={BUILT}", f"BUNDLE_IMG={bundle}")
    return Release(__version__, bundle, BUILT / "bundle")


def digest(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:12]


@pytest.fixture(scope="module")
def previous(cluster: Cluster, registry: str, memcached_image: str) -> Release:
    """The release before this one, in the registry."""
    base = f"{registry}/memcached-operator"
    make(cluster, "previous-release", "PUSH=true", f"IMAGE_TAG_BASE={base}", f"MEMCACHED_IMAGE={memcached_image}")
    command = [str(REPOSITORY / "hack" / "previous-release.sh"), "version"]
    version = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    files = REPOSITORY / ".cache" / "previous-release" / version / "bundle"
    return Release(version, f"{base}-bundle:v{version}", files)


@pytest.fixture
def olm(cluster: Cluster, sdk: str) -> Iterator[Olm]:
    """OLM, and an empty namespace for the operator.

    It enforces no Pod Security: the pod in which `run bundle` serves its catalog is not `restricted`. A catalog by
    CatalogSource is, and the operator: the namespace of config/olm enforces it.
    """
    cluster.api.create("/api/v1/namespaces", {"metadata": {"name": OPERATOR_NAMESPACE}})
    before = objects(cluster)
    yield Olm(cluster, sdk, before)
    cluster.kubectl("delete", "crd", "memcacheds.cache.example.com", "--ignore-not-found")
    cluster.kubectl("delete", "namespace", OPERATOR_NAMESPACE)
    for kind, name in (left.split(" /") for left in objects(cluster) - before if " /" in left):
        if kind in ("ClusterRole", "ClusterRoleBinding", "Operator"):
            cluster.kubectl("delete", kind, name, "--ignore-not-found")


@pytest.fixture
def caches(cluster: Cluster, namespace: str) -> Memcacheds:
    return Memcacheds(cluster, namespace)


@pytest.fixture
def elsewhere(cluster: Cluster, namespace: str) -> Iterator[Memcacheds]:
    """Another namespace than that of `caches`."""
    name = f"{namespace}-elsewhere"
    cluster.api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": RESTRICTED}})
    yield Memcacheds(cluster, name)
    cluster.api.delete(f"/api/v1/namespaces/{name}")


def may_list_pods(cluster: Cluster, namespace: str) -> bool:
    review = {"user": ACCOUNT, "resourceAttributes": {"verb": "list", "resource": "pods", "namespace": namespace}}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    return bool(cluster.api.create(path, {"spec": review})["status"]["allowed"])


def targets(cluster: Cluster) -> list[str]:
    """Of each operator pod, also of one that is about to go: where OLM tells it to work."""
    pods = cluster.api.get(object_path("v1", "pods", OPERATOR_NAMESPACE) + "?labelSelector=control-plane")["items"]
    return [pod["metadata"]["annotations"]["olm.targetNamespaces"] for pod in pods]


def seen(caches: Memcacheds) -> bool:
    """Whether the operator has looked at the Memcached as it is now."""
    found = caches.get("cache") or {}
    return bool(found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"])


def test_install_modes(cluster: Cluster, olm: Olm, current: Release, caches: Memcacheds, elsewhere: Memcacheds) -> None:
    own = Memcacheds(cluster, OPERATOR_NAMESPACE)
    places = (own, caches, elsewhere)
    olm.run_bundle(current.bundle, "OwnNamespace")
    olm.wait_installed(current)
    for place in places:
        place.create("cache")

    # Own, Single and MultiNamespace. All of them: test_an_upgrade_leaves_the_caches_alone.
    for size, watched in ((1, [own]), (2, [caches]), (1, [caches, elsewhere])):
        names = sorted(place.namespace for place in watched)
        group = object_path(GROUPS, "operatorgroups", OPERATOR_NAMESPACE, "operator-sdk-og")
        cluster.api.patch(group, {"spec": {"targetNamespaces": names}})
        wait_until(partial(targets, cluster), READY, f"an operator for {names}", until=[",".join(names)].__eq__)
        others = [place for place in places if place not in watched]
        for place in (*others, *watched):  # the others first: there was time for them too
            place.patch("cache", size=size)
        for place in watched:
            wait_serving(cluster, place, "cache", size)
        assert not any(map(seen, others))
        if elsewhere in others:  # it was never watched, so it has none of the Roles that OLM copies
            assert not may_list_pods(cluster, elsewhere.namespace)
    olm.clean_up()


def test_an_upgrade_leaves_the_caches_alone(
    cluster: Cluster, olm: Olm, previous: Release, current: Release, caches: Memcacheds
) -> None:
    olm.run_bundle(previous.bundle, "AllNamespaces")
    olm.wait_installed(previous)
    caches.create("cache", size=2)
    pods = wait_serving(cluster, caches, "cache", 2)
    for pod in pods:
        cluster.speak(caches.namespace, pod, partial(Client.set, key="kept", value=pod.encode()))
    before = lives(caches, "cache")

    security = ("--security-context-config", "restricted", "--timeout", f"{PATIENCE}s")
    olm.run("run", "bundle-upgrade", current.bundle, *security)
    olm.wait_installed(current)
    caches.patch("cache", size=3)  # a change that the new version has to act on, and so to look at all that it finds
    assert set(wait_serving(cluster, caches, "cache", 3)) > set(pods)
    assert lives(caches, "cache").items() > before.items()
    for pod in pods:
        assert cluster.speak(caches.namespace, pod, partial(Client.get, key="kept")) == pod.encode()
    olm.clean_up()


@pytest.fixture(scope="module")
def catalog(cluster: Cluster, registry: str, previous: Release, current: Release) -> str:
    """A catalog's image that offers both releases."""
    image = f"{registry}/memcached-operator-catalog:{current.bundle.rpartition(':')[2]}"
    bundles = f"{previous.bundle} {current.bundle}"
    make(cluster, "catalog-build", "catalog-push", f"CATALOG_IMG={image}", f"BUNDLE_IMGS={bundles}")
    return image


def test_a_catalog_installs_and_upgrades(
    cluster: Cluster, olm: Olm, catalog: str, previous: Release, current: Release, caches: Memcacheds
) -> None:
    documents: list[dict[str, Any]] = list(
        yaml.safe_load_all(cluster.kubectl("kustomize", str(REPOSITORY / "config" / "olm")))
    )
    spec = {document["kind"]: document.setdefault("spec", {}) for document in documents}
    spec["CatalogSource"]["image"] = catalog
    spec["Subscription"]["startingCSV"] = previous.csv
    cluster.kubectl("apply", "--server-side", "--filename=-", given=to_json(*documents))
    olm.wait_installed(current)
    plans = cluster.api.get(object_path(OPERATORS, "installplans", OPERATOR_NAMESPACE))["items"]
    assert sorted(plan["spec"]["clusterServiceVersionNames"] for plan in plans) == [[previous.csv], [current.csv]]
    caches.create("cache")
    wait_serving(cluster, caches, "cache", 1)

    # What docs/olm.md says about removing it.
    cluster.kubectl("delete", "memcached", "--all", "--all-namespaces")
    cluster.kubectl("delete", "subscription,csv", "--all", "--namespace", OPERATOR_NAMESPACE)
    cluster.kubectl("delete", "crd", "memcacheds.cache.example.com")
    cluster.kubectl("delete", "catalogsource,operatorgroup", "--all", "--namespace", OPERATOR_NAMESPACE)
    olm.wait_nothing_left()


SCORECARD = {
    "basic-check-spec",
    "olm-bundle-validation",
    "olm-crds-have-validation",
    "olm-crds-have-resources",
    "olm-spec-descriptors",
    "olm-status-descriptors",
}


def test_scorecard(cluster: Cluster, sdk: str, current: Release, namespace: str) -> None:
    words = ("scorecard", str(current.files), "--namespace", namespace, "--pod-security=restricted", "--output=json")
    said = operator_sdk(cluster, sdk, *words, "--wait-time", f"{READY}s", flags="E2E_SCORECARD_FLAGS", ok=(0, 1))
    results = [result for item in json.loads(said)["items"] for result in item["status"]["results"]]
    assert {result["name"]: result["state"] for result in results} == dict.fromkeys(SCORECARD, "pass"), said
