"""config/admission-policy: what the holder of the operator's token cannot make; the operator's own pods pass."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane import Api, ApiError, ControlPlane, rbac, wait_until
from controlplane.api import object_path
from controlplane.paths import REPOSITORY
from memcached_operator.api.v1alpha1 import Memcached
from memcached_operator.api.validation import parse
from memcached_operator.resources.desired import desired_resources

Json = dict[str, Any]

POLICY = REPOSITORY / "config" / "admission-policy"
ACCOUNT = "system:serviceaccount:memcached-operator-system:memcached-operator-controller-manager"
DRY_RUN = "?dryRun=All"
GOLDEN = sorted((Path(__file__).parent.parent / "golden").glob("*/memcached.yaml"))

# More than the operator may do: what RBAC refuses never reaches a policy.
RIGHTS = [
    {"apiGroups": [""], "resources": ["pods", "pods/ephemeralcontainers"], "verbs": ["create", "update", "patch"]},
    {
        "apiGroups": ["apps"],
        "resources": ["deployments", "replicasets", "statefulsets", "daemonsets"],
        "verbs": ["create", "update", "patch"],
    },
    {
        "apiGroups": ["cache.example.com"],
        "resources": ["memcacheds/finalizers"],
        "verbs": ["update"],
    },
]


def container(**fields: Any) -> Json:
    return {"name": "cache", "image": "memcached:1.6.45", **fields}


def pod(**fields: Any) -> Json:
    # Without it, admission adds a projected volume with a token to the pod, before any policy sees it.
    return {"automountServiceAccountToken": False, "containers": [container()], **fields}


def in_container(**fields: Any) -> Json:
    return pod(containers=[container(), container(**fields, name="other")])


def in_init_container(**fields: Any) -> Json:
    return pod(initContainers=[container(**fields, name="first")])


def volume(**source: Any) -> Json:
    # Beside one that is allowed.
    return pod(volumes=[{"name": "scratch", "emptyDir": {}}, {"name": "data", **source}])


HOST_PROCESS = {"windowsOptions": {"hostProcess": True, "runAsUserName": "NT AUTHORITY\\SYSTEM"}}

IN_A_CONTAINER: dict[str, tuple[Json, str]] = {
    "privileged": ({"securityContext": {"privileged": True}}, "may not be privileged"),
    "added capability": ({"securityContext": {"capabilities": {"add": ["NET_ADMIN"]}}}, "may not add capabilities"),
    "host port": ({"ports": [{"containerPort": 80, "hostPort": 80}]}, "may not take ports of the node"),
    "secret in a variable": (
        {"env": [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "other", "key": "key"}}}]},
        "may not read variables from Secrets",
    ),
    "secret in all variables": ({"envFrom": [{"secretRef": {"name": "other"}}]}, "may not read all variables"),
    "config map in all variables": ({"envFrom": [{"configMapRef": {"name": "other"}}]}, "may not read all variables"),
}

REFUSED: dict[str, tuple[Json, str]] = {
    **{name: (in_container(**fields), told) for name, (fields, told) in IN_A_CONTAINER.items()},
    **{f"{name}, init": (in_init_container(**fields), told) for name, (fields, told) in IN_A_CONTAINER.items()},
    "host network": (pod(hostNetwork=True), "may not use the network, process or IPC namespace"),
    "host processes": (pod(hostPID=True), "may not use the network, process or IPC namespace"),
    "host IPC": (pod(hostIPC=True), "may not use the network, process or IPC namespace"),
    # Kubernetes itself wants all containers of such a pod to be host processes, on the node's network.
    "host process": (pod(hostNetwork=True, securityContext=HOST_PROCESS), "may not be Windows host processes"),
    "host process, container": (
        pod(hostNetwork=True, containers=[container(securityContext=HOST_PROCESS)]),
        "may not be Windows host processes",
    ),
    "host path": (volume(hostPath={"path": "/"}), "may have no volumes but"),
    "secret volume": (volume(secret={"secretName": "other"}), "may have no volumes but"),
    "projected secret": (
        volume(projected={"sources": [{"secret": {"name": "other"}}]}),
        "may have no volumes but",
    ),
    "projected token": (
        volume(projected={"sources": [{"serviceAccountToken": {"path": "token"}}]}),
        "may have no volumes but",
    ),
    "storage driver": (
        volume(csi={"driver": "secrets.example.com", "nodePublishSecretRef": {"name": "other"}}),
        "may have no volumes but",
    ),
    "service account": (pod(serviceAccountName="other"), "may not use a service account"),
    "service account, old field": (pod(serviceAccount="other"), "may not use a service account"),
}

ADMITTED: dict[str, Json] = {
    "plain": pod(),
    "default service account": pod(serviceAccountName="default"),
    "volumes": pod(volumes=[{"name": "a", "emptyDir": {}}, {"name": "b", "configMap": {"name": "c"}}]),
    "variable": in_container(env=[{"name": "A", "value": "b"}]),
    "own field in a variable": in_container(
        env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    ),
    "port": in_container(ports=[{"containerPort": 11211}]),
    "restricted": in_container(
        securityContext={"privileged": False, "capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": False}
    ),
    "host's things by their names, but off": pod(hostNetwork=False, hostPID=False, hostIPC=False),
    "init container": in_init_container(),
}


def as_pod(spec: Json) -> tuple[str, Json]:
    return object_path("v1", "pods", "default"), {"metadata": {"name": "test"}, "spec": spec}


def as_workload(plural: str, **more: Any) -> Callable[[Json], tuple[str, Json]]:
    def made(spec: Json) -> tuple[str, Json]:
        labels = {"app": "test"}
        template = {"metadata": {"labels": labels}, "spec": spec}
        body = {"selector": {"matchLabels": labels}, "template": template, **more}
        return object_path("apps/v1", plural, "default"), {"metadata": {"name": "test"}, "spec": body}

    return made


KINDS: dict[str, Callable[[Json], tuple[str, Json]]] = {
    "Pod": as_pod,
    "Deployment": as_workload("deployments"),
    "ReplicaSet": as_workload("replicasets"),
    "StatefulSet": as_workload("statefulsets", serviceName="test"),
    "DaemonSet": as_workload("daemonsets"),
}
kinds = pytest.mark.parametrize("made", KINDS.values(), ids=KINDS)
refused = pytest.mark.parametrize(("spec", "told"), REFUSED.values(), ids=REFUSED)


@pytest.fixture(scope="module")
def operator(control_plane: ControlPlane) -> Iterator[Api]:
    """The operator's service account, with rights enough to try, and the policy in force."""
    api = control_plane.api
    wait_until(lambda: api.find(object_path("v1", "serviceaccounts", "default", "default")), 30, "a service account")
    accounts = object_path("v1", "serviceaccounts", "default")
    if not api.find(f"{accounts}/other"):
        api.create(accounts, {"metadata": {"name": "other"}})
    rbac.bind(api, ACCOUNT, RIGHTS, name="stolen-token")
    control_plane.kubectl("apply", "-k", str(POLICY))
    path, manifest = as_pod(pod(hostNetwork=True))
    with control_plane.api_as(ACCOUNT) as account:
        try:
            # A policy takes a moment to be known to the API server.
            wait_until(
                lambda: account.request("POST", path + DRY_RUN, manifest)[0] != 201, 30, "the policy", interval=0.1
            )
            yield account
        finally:
            control_plane.kubectl("delete", "-k", str(POLICY))
            rbac.unbind(api, "stolen-token")


@refused
@kinds
def test_it_is_refused(operator: Api, made: Callable[[Json], tuple[str, Json]], spec: Json, told: str) -> None:
    path, manifest = made(spec)
    with pytest.raises(ApiError, match=re.escape("memcached-operator-workloads")) as refusal:
        operator.create(path + DRY_RUN, manifest)
    assert told in refusal.value.message
    assert refusal.value.code == 403


@pytest.mark.parametrize("spec", ADMITTED.values(), ids=ADMITTED)
@kinds
def test_it_is_admitted(operator: Api, made: Callable[[Json], tuple[str, Json]], spec: Json) -> None:
    path, manifest = made(spec)
    operator.create(path + DRY_RUN, manifest)


@pytest.fixture(scope="module")
def deployment(control_plane: ControlPlane) -> Iterator[str]:
    """The path of a Deployment with nothing wrong, and of no pods."""
    collection, manifest = as_workload("deployments", replicas=0)(pod())
    control_plane.api.create(collection, {**manifest, "metadata": {"name": "there"}})
    yield f"{collection}/there"
    control_plane.api.delete(f"{collection}/there")


@refused
def test_a_deployment_cannot_become_it(operator: Api, deployment: str, spec: Json, told: str) -> None:
    _, manifest = as_workload("deployments")(spec)
    changed = {"apiVersion": "apps/v1", "kind": "Deployment", **manifest, "metadata": {"name": "there"}}
    with pytest.raises(ApiError, match=re.escape(told)):
        operator.replace(deployment + DRY_RUN, changed)
    with pytest.raises(ApiError, match=re.escape(told)):
        operator.patch(f"{deployment}{DRY_RUN}&fieldManager=thief&force=true", changed, "apply")


def test_a_running_pod_gets_no_privileged_companion(operator: Api, control_plane: ControlPlane, namespace: str) -> None:
    path = object_path("v1", "pods", namespace)
    control_plane.api.create(path, {"metadata": {"name": "test"}, "spec": pod()})
    companion = container(name="debug", securityContext={"privileged": True})
    with pytest.raises(ApiError, match="may not be privileged"):
        operator.patch(
            f"{path}/test/ephemeralcontainers{DRY_RUN}", {"spec": {"ephemeralContainers": [companion]}}, "strategic"
        )


@refused
def test_nobody_else_is_judged(operator: Api, control_plane: ControlPlane, spec: Json, told: str) -> None:
    del operator, told
    path, manifest = as_workload("deployments")(spec)
    control_plane.api.create(path + DRY_RUN, manifest)


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case.parent.name)
def test_what_the_operator_makes_is_admitted(operator: Api, namespace: str, case: Path) -> None:
    spec = {**yaml.safe_load(case.read_text())["spec"], "deletionPolicy": "Orphan"}
    memcached = parse("cache", namespace, "uid-1", 1, spec)
    assert isinstance(memcached, Memcached), memcached
    children = desired_resources(memcached, default_image="memcached:1.6.45", replicas=memcached.spec.size)
    deployment = next(child for child in children if child["kind"] == "Deployment")
    path = object_path("apps/v1", "deployments", namespace)
    operator.create(path + DRY_RUN, deployment)
    pods = {"metadata": {"name": "cache"}, "spec": deployment["spec"]["template"]["spec"]}
    operator.create(object_path("v1", "pods", namespace) + DRY_RUN, pods)


def test_the_api_server_finds_no_fault_in_the_policy(operator: Api, control_plane: ControlPlane) -> None:
    del operator
    path = object_path(
        "admissionregistration.k8s.io/v1", "validatingadmissionpolicies", None, "memcached-operator-workloads"
    )
    status = wait_until(
        lambda: control_plane.api.get(path).get("status", {}),
        60,
        "the types to be checked",
        until=lambda status: "typeChecking" in status,
    )
    assert "expressionWarnings" not in status["typeChecking"]
