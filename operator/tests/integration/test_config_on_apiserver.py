"""config/ as people use it: every folder builds, a real API server takes it without a warning, and it is enough."""

import functools
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane import ControlPlane, OperatorProcess, wait_until
from controlplane.api import object_path
from controlplane.credentials import write_kubeconfig
from controlplane.paths import REPOSITORY
from memcached_operator.kube.permissions import cluster_role_rules, leader_election_rules
from memcacheds import Memcacheds

Json = dict[str, Any]

CONFIG = REPOSITORY / "config"
SYSTEM = "memcached-operator-system"
ACCOUNT = "memcached-operator-controller-manager"
FOLDERS = sorted(path.parent for path in CONFIG.rglob("kustomization.yaml"))
# The kinds in these are of other projects: `make verify-packaging` has their CRDs.
FOREIGN = {"manifests", "prometheus", "scorecard"}
COMPONENTS = sorted(
    folder.name
    for folder in FOLDERS
    if "kind: Component" in (folder / "kustomization.yaml").read_text() and folder.name not in FOREIGN
)
OVERLAYS = ("config/default", "config/namespaced")


def environ(**variables: str) -> dict[str, str]:
    """Ours, without what a make around this test, or its caller, sets for itself."""
    dropped = ("IMG", "MEMCACHED_IMAGE", "KUSTOMIZE", "VERSION", "OVERLAY", "WITH")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name not in dropped}
    return {**kept, **variables}


def run(*command: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, cwd=REPOSITORY, env=environ(**variables), capture_output=True, text=True, check=False
    )


@functools.cache
def rendered(folder: str, *components: str, **variables: str) -> str:
    result = run("hack/render", folder, *components, **variables)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def objects(text: str) -> dict[tuple[str, str], Json]:
    """(kind, name) -> manifest."""
    return {(item["kind"], item["metadata"]["name"]): item for item in yaml.safe_load_all(text)}


def manager(text: str) -> Json:
    container: Json
    (container,) = objects(text)["Deployment", ACCOUNT]["spec"]["template"]["spec"]["containers"]
    return container


def variables_of(container: Json) -> dict[str, str]:
    """Name -> value as a pod has it. Fields of the pod: its name is `replica`."""
    fields = {"metadata.name": "replica", "metadata.namespace": SYSTEM}
    return {
        entry["name"]: fields[entry["valueFrom"]["fieldRef"]["fieldPath"]] if "valueFrom" in entry else entry["value"]
        for entry in container["env"]
    }


# --- what kustomize makes of it ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(CONFIG)))
def test_every_folder_builds(folder: Path) -> None:
    result = run("hack/kubectl", "kustomize", str(folder))
    assert (result.returncode, result.stderr) == (0, "")
    assert list(yaml.safe_load_all(result.stdout))


def test_images_are_set_without_a_change_to_the_tree() -> None:
    container = manager(rendered("config/default", IMG="registry.example.com:5000/a/b@sha256:0", MEMCACHED_IMAGE="m:2"))
    assert container["image"] == "registry.example.com:5000/a/b@sha256:0"
    assert variables_of(container)["RELATED_IMAGE_MEMCACHED"] == "m:2"
    untouched = manager(rendered("config/default"))
    assert {**container, "image": "", "env": []} == {**untouched, "image": "", "env": []}
    assert {**variables_of(container), "RELATED_IMAGE_MEMCACHED": ""} == {
        **variables_of(untouched),
        "RELATED_IMAGE_MEMCACHED": "",
    }
    assert not list((REPOSITORY / ".cache").glob("render.*"))


@pytest.mark.parametrize(
    ("arguments", "told"),
    ((("config/nothing",), "config/nothing"), (("config/default", "nothing"), "config/nothing")),
)
def test_what_is_not_there_is_named(arguments: tuple[str, ...], told: str) -> None:
    result = run("hack/render", *arguments)
    assert result.returncode == 1
    assert told in result.stderr
    assert result.stdout == ""


def test_a_kustomize_that_is_not_there_is_named() -> None:
    result = run("hack/render", "config/crd", KUSTOMIZE="/nowhere/kustomize")
    assert result.returncode != 0
    assert "/nowhere/kustomize" in result.stderr


def test_the_rights_are_those_of_the_table() -> None:
    found = objects(rendered("config/default"))
    assert found["ClusterRole", "memcached-operator-manager-role"]["rules"] == cluster_role_rules()
    assert found["Role", "memcached-operator-leader-election-role"]["rules"] == leader_election_rules()
    bound = [item for (kind, _), item in found.items() if kind.endswith("RoleBinding")]
    assert {binding["roleRef"]["name"] for binding in bound} == {
        "memcached-operator-manager-role",
        "memcached-operator-leader-election-role",
    }


def test_namespaced_has_the_same_rights_in_namespaces_only() -> None:
    found = objects(rendered("config/namespaced"))
    assert not [name for kind, name in found if kind == "ClusterRoleBinding"]
    assert ("ClusterRole", "memcached-operator-manager-role") not in found
    assert found["Role", "memcached-operator-manager-role"]["rules"] == cluster_role_rules()
    assert variables_of(manager(rendered("config/namespaced")))["WATCH_NAMESPACE"] == SYSTEM
    (subject,) = found["RoleBinding", "memcached-operator-manager-rolebinding"]["subjects"]
    assert subject == {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": SYSTEM}
    assert ("ServiceAccount", ACCOUNT) in found


def test_the_admission_policy_means_our_service_account() -> None:
    found = objects(rendered("config/default", "admission-policy"))
    (condition,) = found["ValidatingAdmissionPolicy", "memcached-operator-workloads"]["spec"]["matchConditions"]
    account = found["ServiceAccount", ACCOUNT]["metadata"]
    assert f"'system:serviceaccount:{account['namespace']}:{account['name']}'" in condition["expression"]


def test_two_replicas_are_spread_and_one_may_go() -> None:
    found = objects(rendered("config/default", "high-availability"))
    deployment = found["Deployment", ACCOUNT]["spec"]
    assert deployment["replicas"] == 2
    labels = deployment["selector"]["matchLabels"]
    assert labels.items() <= deployment["template"]["metadata"]["labels"].items()
    (spread,) = deployment["template"]["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == labels
    assert found["PodDisruptionBudget", ACCOUNT]["spec"]["selector"]["matchLabels"] == labels


@pytest.mark.parametrize("component", ("network-policy", "prometheus"))
def test_what_looks_for_the_operators_pods_finds_them(component: str) -> None:
    found = objects(rendered("config/default", component))
    template = found["Deployment", ACCOUNT]["spec"]["template"]
    (other,) = (item for (kind, _), item in found.items() if kind in ("NetworkPolicy", "PodMonitor"))
    selector = other["spec"].get("podSelector") or other["spec"]["selector"]
    assert selector["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert other["metadata"]["namespace"] == SYSTEM
    ports = {port["name"] for port in manager(rendered("config/default"))["ports"]}
    endpoints = other["spec"].get("podMetricsEndpoints") or other["spec"]["ingress"][0]["ports"]
    assert {endpoint["port"] for endpoint in endpoints} <= ports


# --- what the API server says to it -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def system_namespace(crd: None, control_plane: ControlPlane) -> None:
    """The operator's namespace, whose labels decide about its pods: a dry run alone does not make it."""
    del crd
    namespace = objects(rendered("config/default"))["Namespace", SYSTEM]
    control_plane.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(namespace))


@pytest.mark.parametrize(
    "arguments",
    (
        ("config/crd",),
        ("config/samples",),
        ("config/namespaced/watched",),
        *((overlay,) for overlay in OVERLAYS),
        *((overlay, *COMPONENTS) for overlay in OVERLAYS),
    ),
    ids=" ".join,
)
@pytest.mark.usefixtures("system_namespace")
def test_the_api_server_takes_it_without_a_warning(
    control_plane: ControlPlane, namespace: str, arguments: tuple[str, ...]
) -> None:
    labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    control_plane.api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}})
    inside = ("-n", namespace) if arguments[0] in ("config/samples", "config/namespaced/watched") else ()
    result = control_plane.kubectl(
        *("apply", "--dry-run=server", *inside, "-f", "-"), input=rendered(*arguments), check=False
    )
    # kubectl itself, not the API server, says so of what the fixtures applied in the other way.
    said = [line for line in result.stderr.splitlines() if "last-applied-configuration" not in line]
    assert (result.returncode, said) == (0, [])


def test_the_api_server_warns_of_pods_that_are_not_restricted(
    control_plane: ControlPlane, system_namespace: None
) -> None:
    del system_namespace
    deployment = objects(rendered("config/default"))["Deployment", ACCOUNT]
    deployment["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"] = False
    result = control_plane.kubectl(
        "apply", "--dry-run=server", "--server-side", "-f", "-", input=json.dumps(deployment)
    )
    assert "would violate PodSecurity" in result.stderr


# --- from make deploy to make undeploy --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def empty_cluster() -> Iterator[ControlPlane]:
    """A control plane of its own: undeploy takes the CRD away."""
    with ControlPlane.start(f"deploy-{os.getpid()}", kcm_fast=True, tmpfs=True) as started:
        yield started


@pytest.fixture
def make(empty_cluster: ControlPlane) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    def call(*words: str) -> "subprocess.CompletedProcess[str]":
        return run("make", *words, KUBECONFIG=str(empty_cluster.kubeconfig))

    return call


def kubeconfig_of_the_account(cluster: ControlPlane, path: Path) -> Path:
    """A kubeconfig with a token as the operator's pod has it: all rights come from what was deployed."""
    account = object_path("v1", "serviceaccounts", SYSTEM, ACCOUNT)
    token = cluster.api.create(f"{account}/token", {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    config = cluster.credentials("nobody").kubeconfig(cluster.name, "nobody")
    config["users"][0]["user"] = {"token": token}
    return write_kubeconfig(path, config)


def files_of_config() -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in CONFIG.rglob("*") if path.is_file()}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_deployed_it_serves_and_undeployed_it_is_gone(
    empty_cluster: ControlPlane,
    make: Callable[..., "subprocess.CompletedProcess[str]"],
    overlay: str,
    tmp_path: Path,
) -> None:
    api = empty_cluster.api
    images = {"IMG": "registry.example.com/operator:test", "MEMCACHED_IMAGE": "memcached:of-the-cluster"}
    words = (f"OVERLAY={overlay}", "WITH=high-availability admission-policy", *(f"{k}={v}" for k, v in images.items()))
    before = files_of_config()
    for _ in range(2):
        deployed = make("deploy", *words)
        assert (deployed.returncode, deployed.stderr) == (0, ""), deployed.stdout
    assert files_of_config() == before
    stored = api.get(object_path("apps/v1", "deployments", SYSTEM, ACCOUNT))
    (container,) = stored["spec"]["template"]["spec"]["containers"]
    assert container["image"] == images["IMG"]

    shop = f"shop-{overlay.partition('/')[2]}"
    api.create("/api/v1/namespaces", {"metadata": {"name": shop}})
    env = variables_of(manager(rendered(overlay, **images)))
    if overlay == "config/namespaced":
        empty_cluster.kubectl("apply", "-n", shop, "-k", str(CONFIG / "namespaced" / "watched"))
        env["WATCH_NAMESPACE"] += f",{shop}"
    served = [Memcacheds(empty_cluster, name) for name in (shop, SYSTEM)]
    operator = OperatorProcess.start(
        kubeconfig_of_the_account(empty_cluster, tmp_path / "kubeconfig"),
        *container["args"][1:],
        env=env,
        log=tmp_path / "operator.log",
    )
    with operator.wait_ready():
        for caches in served:
            caches.create("cache", size=1, deletionPolicy="Drain", drainSeconds=0)
        for caches in served:
            caches.wait_ready("cache")
            deployment = caches.child("deployments", "cache")
            assert deployment
            assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == images["MEMCACHED_IMAGE"]
        assert "forbidden" not in operator.log_text().lower()

        # The operator drains them while the CRD goes, and is taken away afterwards.
        removed = make("undeploy", *words)
        assert (removed.returncode, removed.stderr) == (0, ""), removed.stdout
        assert served[0].children("deployments") == []
    namespace = f"/api/v1/namespaces/{SYSTEM}"
    wait_until(lambda: api.find(namespace) is None, 30, "the namespace to go")
    for kind in ("clusterroles", "clusterrolebindings"):
        left = api.get(object_path("rbac.authorization.k8s.io/v1", kind))["items"]
        assert [item["metadata"]["name"] for item in left if "memcached" in item["metadata"]["name"]] == []
    assert make("undeploy", *words).returncode != 0
    assert make("undeploy", *words, "ignore-not-found=true").returncode == 0
