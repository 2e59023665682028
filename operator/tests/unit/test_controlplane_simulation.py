import json
from pathlib import Path
from typing import Any

import pytest

from controlplane import binaries, simulation

PROGRAMS = {name: Path("/bin") / name for name in binaries.NAMES}
PORTS = {name: 11_000 + index for index, name in enumerate(simulation.PORTS)}


def configuration(**changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"audit_policy": None, "extra_apiserver_args": {}, "kcm_fast": False, **changes}
    return simulation.kwokctl_configuration(PROGRAMS, PORTS, **given)


def arguments(component: str, **changes: Any) -> dict[str, str]:
    (patch,) = [patch for patch in configuration(**changes)["componentsPatches"] if patch["name"] == component]
    return {argument["key"]: argument["value"] for argument in patch["extraArgs"]}


def test_everything_binds_to_loopback() -> None:
    assert configuration()["options"]["bindAddress"] == "127.0.0.1"


def test_every_port_is_ours_so_that_two_folders_of_clusters_do_not_choose_the_same() -> None:
    options = configuration()["options"]
    assert {key: value for key, value in options.items() if key.endswith("Port")} == PORTS


def test_every_program_is_named_so_that_kwokctl_downloads_none() -> None:
    paths = {value for key, value in configuration()["options"].items() if key.endswith("Binary")}
    assert paths == {f"/bin/{name}" for name in binaries.NAMES if name != "kwokctl"}


def test_the_controller_manager_keeps_its_limits_unless_asked() -> None:
    assert arguments("kube-controller-manager") == {
        "leader-elect": "false",
        "horizontal-pod-autoscaler-sync-period": "1s",
    }


def test_kcm_fast_lifts_them() -> None:
    assert arguments("kube-controller-manager", kcm_fast=True) == {
        "leader-elect": "false",
        "horizontal-pod-autoscaler-sync-period": "1s",
        "kube-api-qps": "2000",
        "kube-api-burst": "4000",
        "concurrent-deployment-syncs": "20",
        "concurrent-replicaset-syncs": "20",
    }


def test_api_server_flags_of_the_caller_win() -> None:
    given = {
        "service-cluster-ip-range": "10.0.0.0/24",
        "enable-admission-plugins": "OwnerReferencesPermissionEnforcement",
    }
    assert arguments("kube-apiserver", extra_apiserver_args=given).items() >= given.items()


@pytest.mark.parametrize("policy", (None, Path("/policy.json")))
def test_the_audit_log_is_on_when_there_is_a_policy_and_never_rotates(policy: Path | None) -> None:
    options = configuration(audit_policy=policy)["options"]
    assert options.get("kubeAuditPolicy") == (str(policy) if policy else None)
    assert ("audit-log-maxsize" in arguments("kube-apiserver", audit_policy=policy)) == bool(policy)


def test_the_audit_policy_leaves_no_request_out() -> None:
    assert simulation.audit_policy()["rules"] == [{"level": "Metadata"}]


def test_nodes_have_addresses_of_their_own() -> None:
    nodes = simulation.nodes(100)
    assert len({node["metadata"]["name"] for node in nodes}) == 100
    assert len({node["spec"]["podCIDR"] for node in nodes}) == 100
    assert {node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in nodes} == {
        "zone-0",
        "zone-1",
        "zone-2",
    }


def test_documents_are_separated_as_yaml_wants_it() -> None:
    documents: list[dict[str, Any]] = [{"a": 1}, {"b": "x\ny"}]
    assert [json.loads(part) for part in simulation.render(documents).split("\n---\n")] == documents
