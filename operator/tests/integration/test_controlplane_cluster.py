import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane import Api, ApiError, ControlPlane, ControlPlaneError, ReadAudit, processes, rbac, wait_until
from controlplane.api import object_path
from controlplane.cluster import COMPONENTS, sweep
from controlplane.paths import REPOSITORY

DEPLOYMENTS = "deployments"
SERVERS = ("etcd", "kube-apiserver")
CLIENTS = tuple(name for name in COMPONENTS if name not in SERVERS)
PYTHONPATH = {"PYTHONPATH": str(REPOSITORY / "hack")}


@pytest.fixture(scope="module")
def victim() -> Iterator[ControlPlane]:
    """A cluster of this module's own beside the session's, to be hurt."""
    with ControlPlane.start(f"victim-{os.getpid()}", nodes=1, kcm_fast=True, tmpfs=True) as started:
        yield started


def deployment(name: str, replicas: int, *, image: str = "memcached:1", **annotations: str) -> dict[str, Any]:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": annotations},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
        },
    }


def create(control_plane: ControlPlane, namespace: str, body: dict[str, Any]) -> None:
    control_plane.api.create(object_path("apps/v1", DEPLOYMENTS, namespace), body)


def pods(control_plane: ControlPlane, namespace: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = control_plane.api.get(object_path("v1", "pods", namespace))["items"]
    return items


def ready_pods(control_plane: ControlPlane, namespace: str) -> list[dict[str, Any]]:
    def is_ready(pod: dict[str, Any]) -> bool:
        return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))

    return [pod for pod in pods(control_plane, namespace) if is_ready(pod)]


def new_namespace(control_plane: ControlPlane, name: str) -> str:
    control_plane.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    wait_until(lambda: control_plane.api.find(object_path("v1", "serviceaccounts", name, "default")), 30, "its account")
    return name


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_every_socket_of_every_component_is_on_loopback(control_plane: ControlPlane) -> None:
    living = control_plane.pids()
    assert tuple(living) == COMPONENTS
    listening = {component: processes.listening_addresses(pid) for component, pid in living.items()}
    assert all(listening.values()), listening
    assert {address for addresses in listening.values() for address, _ in addresses} == {"127.0.0.1"}
    # etcd has no authentication at all, so let the whole machine's table say it as well.
    ports = {port for addresses in listening.values() for _, port in addresses}
    tables = [Path(f"/proc/net/{table}").read_text() for table in ("tcp", "tcp6")]
    everybody = {line.split()[1] for table in tables for line in table.splitlines() if " 0A " in line}
    ours = {socket for socket in everybody if int(socket.rpartition(":")[2], 16) in ports}
    assert {socket.rpartition(":")[0] for socket in ours} == {"0100007F"}


def test_nodes_are_ready_and_spread_over_zones(control_plane: ControlPlane) -> None:
    shown = control_plane.kubectl(
        "get", "nodes", "--no-headers", "-L", "topology.kubernetes.io/zone"
    ).stdout.splitlines()
    assert [(line.split()[0], line.split()[1], line.split()[-1]) for line in shown] == [
        ("node-0", "Ready", "zone-0"),
        ("node-1", "Ready", "zone-1"),
    ]


def test_pods_become_ready_with_addresses_of_their_own(control_plane: ControlPlane, namespace: str) -> None:
    create(control_plane, namespace, deployment("web", 10))
    ready = wait_until(lambda: ready_pods(control_plane, namespace), 30, "ten pods", until=lambda seen: len(seen) == 10)
    assert len({pod["status"]["podIP"] for pod in ready}) == 10
    assert {pod["spec"]["nodeName"] for pod in ready} == {"node-0", "node-1"}


def test_an_image_that_does_not_exist_is_not_pulled(control_plane: ControlPlane, namespace: str) -> None:
    create(control_plane, namespace, deployment("web", 1, image="registry.example.com/does-not-exist:1"))

    def waiting() -> list[dict[str, Any]]:
        statuses = [pod["status"].get("containerStatuses") for pod in pods(control_plane, namespace)]
        return [status[0]["state"]["waiting"] for status in statuses if status]

    (why,) = wait_until(waiting, 30, "the container to wait")
    assert why["reason"] == "ImagePullBackOff"
    assert why["message"] == 'Back-off pulling image "registry.example.com/does-not-exist:1": not found'
    assert ready_pods(control_plane, namespace) == []


def test_a_pod_is_not_ready_for_as_long_as_its_annotation_says_so(control_plane: ControlPlane, namespace: str) -> None:
    create(control_plane, namespace, deployment("web", 1, **{"controlplane.example.com/pod": "NotReady"}))
    (pod,) = wait_until(
        lambda: [pod for pod in pods(control_plane, namespace) if pod["status"]["phase"] == "Running"],
        30,
        "a running pod",
    )
    assert ready_pods(control_plane, namespace) == []
    path = object_path("v1", "pods", namespace, pod["metadata"]["name"])
    control_plane.api.patch(path, {"metadata": {"annotations": {"controlplane.example.com/pod": None}}})
    wait_until(lambda: ready_pods(control_plane, namespace), 30, "the pod to be Ready")


def test_a_user_has_the_rights_it_was_bound_to_and_the_audit_log_names_it(
    control_plane: ControlPlane, namespace: str, audit: ReadAudit
) -> None:
    user = f"reader-{namespace}"
    kubeconfig = control_plane.user_kubeconfig(user, namespace)
    since = control_plane.audit_offset()
    refused = control_plane.kubectl(
        "get", "--raw", object_path("v1", "pods", namespace), kubeconfig=kubeconfig, check=False
    )
    assert f'User "{user}" cannot list resource "pods"' in refused.stderr
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    rbac.bind(control_plane.api, user, rules, namespace=namespace)
    control_plane.kubectl("get", "--raw", object_path("v1", "pods", namespace), kubeconfig=kubeconfig)
    seen = audit(user=user, since=since)
    assert [(request.verb, request.resource, request.namespace, request.code) for request in seen] == [
        ("list", "pods", namespace, 403),
        ("list", "pods", namespace, 200),
    ]
    assert not any(request.is_write for request in seen)
    whoami = control_plane.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo}", kubeconfig=kubeconfig).stdout
    assert f'"username":"{user}"' in whoami
    assert '"groups":["system:authenticated"]' in whoami


def test_a_write_is_in_the_audit_log_when_it_was_answered_before_the_call(
    control_plane: ControlPlane, namespace: str, audit: ReadAudit
) -> None:
    since = control_plane.audit_offset()
    for index in range(20):
        body = {"metadata": {"name": f"c{index}"}}
        control_plane.api.create(object_path("v1", "configmaps", namespace), body)
    writes = [request for request in audit(since=since) if request.is_write and request.namespace == namespace]
    made = [request for request in writes if request.name != "kube-root-ca.crt"]
    assert [(request.verb, request.name, request.code) for request in made] == [
        ("create", f"c{i}", 201) for i in range(20)
    ]


def test_blocking_an_owners_deletion_needs_the_right_to_its_finalizers(
    control_plane: ControlPlane, namespace: str
) -> None:
    api = control_plane.api
    owner = api.create(object_path("apps/v1", DEPLOYMENTS, namespace), deployment("owner", 0))
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "owner", "uid": owner["metadata"]["uid"]}
    child = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "child", "ownerReferences": [{**reference, "blockOwnerDeletion": True}]},
    }
    user = f"writer-{namespace}"
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]
    rbac.bind(api, user, rules, namespace=namespace)
    with Api(control_plane.credentials(user)) as writer, pytest.raises(ApiError, match="cannot set blockOwnerDeletion"):
        writer.create(object_path("v1", "configmaps", namespace), child)


def test_two_clusters_stand_side_by_side(control_plane: ControlPlane, victim: ControlPlane) -> None:
    assert control_plane.server != victim.server
    assert not set(control_plane.pids().values()) & set(victim.pids().values())
    assert control_plane.unready() == ""
    assert victim.unready() == ""


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_killed_component_is_missed_and_healed(victim: ControlPlane, component: str) -> None:
    namespace = new_namespace(victim, f"kill-{component}")
    before = victim.pids()
    assert victim.kill(component) == before[component]
    assert not processes.is_alive(before[component])
    assert victim.unready() == f"not running: {component}"
    victim.heal()
    after = victim.pids()
    replaced = {name for name in COMPONENTS if after[name] != before[name]}
    assert replaced == {component, *(CLIENTS if component in SERVERS else ())}
    create(victim, namespace, deployment("web", 2))
    wait_until(lambda: ready_pods(victim, namespace), 60, "two pods", until=lambda seen: len(seen) == 2)


def test_what_was_stored_survives_the_death_of_etcd_and_api_server(victim: ControlPlane) -> None:
    namespace = new_namespace(victim, "stored")
    create(victim, namespace, deployment("web", 0))
    victim.kill("kube-apiserver")
    victim.kill("etcd")
    victim.heal()
    assert victim.api.get(object_path("apps/v1", DEPLOYMENTS, namespace, "web"))["metadata"]["name"] == "web"


def test_a_paused_api_server_answers_nothing_until_it_is_healed(victim: ControlPlane) -> None:
    before = victim.pids()
    victim.pause("kube-apiserver")
    shown = victim.kubectl("get", "--raw", "/version", "--request-timeout=1s", check=False)
    assert shown.returncode != 0
    victim.heal()
    assert victim.kubectl("get", "--raw", "/version").returncode == 0
    assert {name: victim.pids()[name] for name in SERVERS} == {name: before[name] for name in SERVERS}


def test_a_new_kind_is_garbage_collected_as_soon_as_it_is_installed(victim: ControlPlane, tmp_path: Path) -> None:
    names = {"plural": "owners", "singular": "owner", "kind": "Owner", "listKind": "OwnerList"}
    schema = {"openAPIV3Schema": {"type": "object"}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "owners.test.example.com"},
        "spec": {
            "group": "test.example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    (tmp_path / "crd.json").write_text(json.dumps(crd))
    victim.install_crds(tmp_path / "crd.json")
    namespace = new_namespace(victim, "collected")
    owners = object_path("test.example.com/v1", "owners", namespace)
    owner = victim.api.create(owners, {"apiVersion": "test.example.com/v1", "kind": "Owner", "metadata": {"name": "o"}})
    reference = {"apiVersion": owner["apiVersion"], "kind": "Owner", "name": "o", "uid": owner["metadata"]["uid"]}
    child = {"metadata": {"name": "child", "ownerReferences": [reference]}}
    victim.api.create(object_path("v1", "configmaps", namespace), child)
    victim.api.delete(f"{owners}/o", "Background")
    path = object_path("v1", "configmaps", namespace, "child")
    # The collector looks for new kinds every 30 seconds: without the restart this takes longer than we wait.
    wait_until(lambda: victim.api.find(path) is None, 15, "the child to be collected")


def test_a_name_that_is_taken_is_refused_and_the_cluster_lives_on(victim: ControlPlane) -> None:
    before = victim.pids()
    with pytest.raises(ControlPlaneError, match="is running already"):
        ControlPlane.start(victim.name)
    assert victim.pids() == before
    assert victim.unready() == ""


def test_a_refused_flag_is_reported_in_the_api_servers_words() -> None:
    with pytest.raises(ControlPlaneError, match="kube-apiserver ended while it was started") as caught:
        ControlPlane.start(f"refused-{os.getpid()}", extra_apiserver_args={"no-such-flag": "1"})
    assert "unknown flag: --no-such-flag" in str(caught.value) + "".join(getattr(caught.value, "__notes__", []))


STARTER = """
import os, sys
from controlplane import ControlPlane
started = ControlPlane.start(sys.argv[1], nodes=0, tmpfs=True)
print(started.folder, *started.pids().values(), flush=True)
sys.stdin.read()
"""


def test_a_cluster_whose_owner_was_killed_is_swept_and_nothing_is_left() -> None:
    name = f"orphan-{os.getpid()}"
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, name],
        env={**os.environ, **PYTHONPATH},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        folder, *pids = owner.stdout.readline().split()
        assert len(pids) == len(COMPONENTS)
        assert sweep() == []
        owner.send_signal(signal.SIGKILL)
    assert name in sweep()
    assert [pid for pid in pids if processes.is_alive(int(pid))] == []
    assert not Path(folder).exists()
    assert list(Path("/dev/shm").glob(f"controlplane-{name}-*")) == []  # noqa: S108 - that it left nothing there


def test_stop_leaves_no_process_and_no_file() -> None:
    started = ControlPlane.start(f"short-{os.getpid()}", nodes=0, audit=False)
    pids = started.pids()
    started.stop()
    assert len(pids) == len(COMPONENTS)
    assert [component for component, pid in pids.items() if processes.is_alive(pid)] == []
    assert not started.folder.exists()
    assert not started.kubeconfig.parent.exists()
    started.stop()


def test_the_command_line_brings_a_cluster_up_and_down() -> None:
    name = f"cli-{os.getpid()}"

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "controlplane", *arguments, name],
            env={**os.environ, **PYTHONPATH},
            capture_output=True,
            text=True,
            check=False,
        )

    up = run("up", "--nodes=1", "--tmpfs")
    try:
        assert up.returncode == 0, up.stderr
        kubeconfig = re.search(r'export KUBECONFIG="(.*)"', up.stdout)
        assert kubeconfig is not None
        assert ControlPlane.attach(name).kubectl("get", "nodes", "-o", "name").stdout == "node/node-0\n"
        assert Path(kubeconfig[1]).is_file()
        assert run("env").stdout == up.stdout
        assert run("status").stdout.startswith(f"{name}: ready\n")
        ControlPlane.attach(name).kill("kube-scheduler")
        status = run("status")
        assert (status.returncode, status.stdout.splitlines()[0]) == (1, f"{name}: not running: kube-scheduler")
        assert run("up").returncode == 0
        assert run("status").returncode == 0
    finally:
        down = run("down")
    assert down.returncode == 0
    assert run("down").returncode == 1


def test_files_with_keys_are_for_their_owner_alone(control_plane: ControlPlane) -> None:
    assert control_plane.kubeconfig.stat().st_mode & 0o077 == 0
    assert control_plane.kubeconfig.parent.stat().st_mode & 0o077 == 0
