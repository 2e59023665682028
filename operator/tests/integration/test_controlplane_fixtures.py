from pathlib import Path

import pytest

from controlplane import Api, ControlPlane, StartOperator, wait_until
from controlplane.api import object_path
from memcached_operator.kube.permissions import WATCHED_NAMESPACES

OPERATOR_USER = "memcached-operator"


def test_the_operators_user_may_do_what_the_table_says_and_nothing_else(
    control_plane: ControlPlane,
    operator_kubeconfig: Path,  # noqa: ARG001 - asked for because of the rights that it gives
) -> None:
    # Not by its kubeconfig: the question would count as one of the operator's.
    listed = control_plane.kubectl("auth", "can-i", "--list", "--no-headers", f"--as={OPERATOR_USER}").stdout
    granted: dict[str, set[str]] = {}
    for line in listed.splitlines():
        resource, _, verbs = line.partition(" ")
        granted.setdefault(resource, set()).update(verbs.rpartition("[")[2].rstrip("]").split())
    # What every authenticated user may: read plain paths such as /version, and ask about itself.
    questions = {name for name in granted if not name or name.startswith("selfsubject")}
    table = {f"{row.resource}.{row.group}".rstrip("."): set(row.verbs) for row in WATCHED_NAMESPACES}
    spelt = {spell(name): verbs for name, verbs in table.items()}
    assert {name: verbs for name, verbs in granted.items() if name not in questions} == spelt


def spell(name: str) -> str:
    """kubectl puts the group before the subresource: deployments.apps/scale."""
    resource, _, group = name.partition(".")
    kind, _, subresource = resource.partition("/")
    return (f"{kind}.{group}" if group else kind) + (f"/{subresource}" if subresource else "")


@pytest.mark.usefixtures("operator_kubeconfig")
def test_the_lease_may_be_held_in_the_tests_namespace_alone(control_plane: ControlPlane, namespace: str) -> None:
    lease = {"metadata": {"name": "memcached-operator"}}
    with Api(control_plane.credentials(OPERATOR_USER)) as operator:
        leases = "coordination.k8s.io/v1", "leases"
        assert operator.request("POST", object_path(*leases, namespace), lease)[0] == 201
        assert operator.request("POST", object_path(*leases, "default"), lease)[0] == 403


@pytest.mark.usefixtures("crd")
def test_the_crd_is_served(control_plane: ControlPlane) -> None:
    served = control_plane.kubectl("api-resources", "--api-group=cache.example.com", "--no-headers").stdout.split()
    assert served[:3] == ["memcacheds", "mc", "cache.example.com/v1alpha1"]


def test_the_operator_runs_as_its_own_user(
    control_plane: ControlPlane, namespace: str, start_operator: StartOperator
) -> None:
    since = control_plane.audit_offset()
    operator = start_operator()
    resource = {
        "apiVersion": "cache.example.com/v1alpha1",
        "kind": "Memcached",
        "metadata": {"name": "a"},
        "spec": {"size": 1},
    }
    control_plane.api.create(object_path("cache.example.com/v1alpha1", "memcacheds", namespace), resource)
    deployment = object_path("apps/v1", "deployments", namespace, "a")
    wait_until(lambda: control_plane.api.find(deployment), 30, "the operator to make the Deployment")
    made = [request for request in control_plane.audit(since=since) if request.uri.startswith(deployment[: -len("/a")])]
    assert [request.user for request in made if request.verb == "create"] == [OPERATOR_USER]
    assert operator.terminate() == 0
