"""What all tests share: how property tests choose, and the fixtures of those that have a real API server.

Property tests try the same examples every time, so that a change is blamed for what it did and for nothing else;
`--hypothesis-profile=explore` tries others each time.

A control plane is started once a session, a namespace is made for a test, operators are processes. `CONTROL_PLANE=NAME`
uses a cluster that is up already (`python -m controlplane up NAME`) and leaves it running.
"""

import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from controlplane import ControlPlane, OperatorProcess, ReadAudit, StartOperator, rbac, wait_until
from controlplane.api import object_path
from controlplane.paths import REPOSITORY
from faultrig.proxy import FaultProxy
from memcached_operator.kube.permissions import allows, cluster_role_rules, leader_election_rules

settings.register_profile("repeat", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("repeat")

OPERATOR_USER = "memcached-operator"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """One control plane for the session, with the plug-in that checks who may block an owner's deletion."""
    if running := os.environ.get("CONTROL_PLANE"):
        attached = ControlPlane.attach(running)
        attached.heal()
        yield attached
        attached.close()
        return
    with ControlPlane.start(
        f"integration-{os.getpid()}",
        kcm_fast=True,
        tmpfs=True,
        extra_apiserver_args={"enable-admission-plugins": "OwnerReferencesPermissionEnforcement"},
    ) as started:
        yield started


@pytest.fixture(scope="session")
def crd(control_plane: ControlPlane) -> None:
    """The CRD of config/crd, served and known to the garbage collector."""
    folder = REPOSITORY / "config" / "crd"
    if not folder.is_dir():
        pytest.fail("config/crd is missing: run `make manifests`")
    control_plane.install_crds(folder)


@pytest.fixture(scope="session")
def operator_kubeconfig(control_plane: ControlPlane) -> Iterator[Path]:
    """A kubeconfig of the operator's own user, which may do what the rendered ClusterRole says and nothing else.

    The right to a Lease is given namespace by namespace, by the fixture `namespace`. After the last test: whatever the
    operator asked for in all of them is in the table of permissions.
    """
    since = control_plane.audit_offset()
    rbac.bind(control_plane.api, OPERATOR_USER, cluster_role_rules())
    yield control_plane.user_kubeconfig(OPERATOR_USER)
    asked = {
        (request.verb, request.group, request.resource, request.subresource)
        for request in control_plane.audit(user=OPERATOR_USER, since=since)
        if request.resource
    }
    assert [request for request in sorted(asked) if not allows(*request)] == []


@pytest.fixture
def namespace(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """A fresh namespace, in which the operator may hold its Lease; deleted afterwards without waiting.

    Finalizers of Memcacheds go first: whoever would have taken them off was killed with the test.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:40].rstrip("-")
    name = f"{slug}-{os.getpid()}-{next(_numbers)}"
    api = control_plane.api
    api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    rbac.bind(api, OPERATOR_USER, leader_election_rules(), namespace=name, name="leader-election")
    # Until it is there, no pod can be made, and a ReplicaSet says so.
    account = object_path("v1", "serviceaccounts", name, "default")
    wait_until(lambda: api.find(account), 30, f"the service account of {name}", interval=0.01)
    yield name
    caches = object_path("cache.example.com/v1alpha1", "memcacheds", name)
    for cache in (api.find(caches) or {"items": []})["items"]:
        if cache["metadata"].get("finalizers"):
            api.patch(f"{caches}/{cache['metadata']['name']}", {"metadata": {"finalizers": None}})
    api.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def start_operator(
    crd: None,  # noqa: ARG001 - asked for because of what it does
    operator_kubeconfig: Path,
    namespace: str,
    tmp_path: Path,
) -> Iterator[StartOperator]:
    """A function that starts the real operator, watching the test's namespace and with its Lease there.

    Further flags win. It returns when the operator is ready (caches synced), or at once with `ready=False`. What still
    runs at the end of the test is killed.
    """
    started: list[OperatorProcess] = []

    def start(
        *args: str, kubeconfig: Path | None = None, env: dict[str, str] | None = None, ready: bool = True
    ) -> OperatorProcess:
        operator = OperatorProcess.start(
            kubeconfig or operator_kubeconfig,
            f"--watch-namespace={namespace}",
            f"--leader-election-namespace={namespace}",
            *args,
            env=env or {},
            log=tmp_path / f"operator-{len(started)}.log",
        )
        started.append(operator)
        return operator.wait_ready() if ready else operator

    yield start
    for operator in started:
        operator.kill()


@pytest.fixture
def fault_proxy(control_plane: ControlPlane, tmp_path: Path) -> Iterator[FaultProxy]:
    """A proxy that misbehaves on request; its `kubeconfig` is for `start_operator`."""
    with FaultProxy.to(control_plane, OPERATOR_USER, tmp_path) as proxy:
        yield proxy


@pytest.fixture
def audit(control_plane: ControlPlane) -> ReadAudit:
    """`audit(user=..., since=...)` -> the requests after an offset from `control_plane.audit_offset()`."""
    return control_plane.audit
