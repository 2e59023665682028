"""The control plane fails under a running operator: same process, no lost change, healed when the components are.

The times are short here; `OUTAGE_FACTOR=18` makes the API server's outage three minutes, etcd's one.
"""

import os
import threading

import pytest

from controlplane import ControlPlane, OperatorProcess, ReadAudit, StartOperator, wait_until
from faultrig.proxy import FaultProxy
from faultrig.rules import Answer, Rule
from memcacheds import Memcacheds, writes

FACTOR = float(os.environ.get("OUTAGE_FACTOR", "1"))
HEAL_SECONDS = 60
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def _away(control_plane: ControlPlane, component: str, seconds: float) -> None:
    """SIGKILL, a while of nothing, then everything that died of it is started again."""
    control_plane.kill(component)
    threading.Event().wait(seconds)  # the outage itself: there is nothing to wait for
    control_plane.heal()


@pytest.fixture
def caches(control_plane: ControlPlane, namespace: str) -> Memcacheds:
    return Memcacheds(control_plane, namespace)


@pytest.fixture
def operator(start_operator: StartOperator, caches: Memcacheds) -> OperatorProcess:
    running = start_operator()
    for name in ("kept", "drifted", "deleted"):
        caches.create(name, size=1)
    caches.wait_ready("kept", "drifted", "deleted")
    return running


@pytest.mark.parametrize(("component", "seconds"), (("kube-apiserver", 10.0), ("etcd", 3.4)))
def test_an_outage_is_survived_by_the_same_process_and_nothing_is_lost(
    control_plane: ControlPlane, caches: Memcacheds, operator: OperatorProcess, component: str, seconds: float
) -> None:
    _away(control_plane, component, seconds * FACTOR)
    caches.patch("kept", size=2)
    caches.delete("deleted")
    caches.create("new", size=1)

    caches.wait_replicas("kept", 2, timeout=HEAL_SECONDS)
    caches.wait_ready("kept", "new", timeout=HEAL_SECONDS)
    caches.wait_gone("deleted", timeout=2 * HEAL_SECONDS)  # the garbage collector has its own back-off
    assert operator.alive()
    assert operator.live()


def test_a_change_made_while_only_the_operator_is_cut_off_is_acted_on(
    caches: Memcacheds, operator: OperatorProcess
) -> None:
    operator.pause()
    caches.patch("kept", size=3)
    caches.api.delete(f"/apis/apps/v1/namespaces/{caches.namespace}/deployments/drifted")
    operator.resume()

    caches.wait_replicas("kept", 3)
    caches.wait_replicas("drifted", 1)


def test_the_crd_may_be_deleted_and_made_again(
    control_plane: ControlPlane, caches: Memcacheds, operator: OperatorProcess
) -> None:
    path = f"{CRDS}/memcacheds.cache.example.com"
    crd = control_plane.api.get(path)
    control_plane.api.delete(path)
    wait_until(lambda: control_plane.api.find(path) is None, 60, "the CRD to be gone")
    body = {key: crd[key] for key in ("apiVersion", "kind", "spec")} | {"metadata": {"name": crd["metadata"]["name"]}}
    control_plane.api.create(CRDS, body)

    def served() -> bool:
        conditions = control_plane.api.get(path).get("status", {}).get("conditions") or []
        return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

    wait_until(served, 30, "the CRD to be served")
    wait_until(lambda: caches.child("deployments", "kept") is None, 60, "the old children to be collected")
    caches.create("kept", size=2)

    caches.wait_ready("kept", timeout=HEAL_SECONDS)
    assert operator.alive()
    assert operator.live()


def test_nothing_is_written_after_an_outage_that_changed_nothing(
    control_plane: ControlPlane, caches: Memcacheds, operator: OperatorProcess, audit: ReadAudit
) -> None:
    since = control_plane.audit_offset()
    control_plane.kill("kube-apiserver")
    control_plane.heal()
    caches.create("witness", size=0)  # is seen only when the watches are back
    caches.wait_ready("witness", timeout=HEAL_SECONDS)

    others = [r for r in audit(user="memcached-operator", since=since) if not r.name.startswith("witness")]
    assert writes(others) == {}
    assert operator.alive()


def test_refused_for_longer_than_any_back_off_it_goes_on_when_it_is_heard_again(
    caches: Memcacheds, start_operator: StartOperator, fault_proxy: FaultProxy
) -> None:
    operator = start_operator(kubeconfig=fault_proxy.kubeconfig)
    caches.create("kept", size=1)
    caches.wait_ready("kept")

    fault_proxy.inject(Rule("503", Answer(503)))
    threading.Event().wait(7 * FACTOR)
    caches.patch("kept", size=2)
    fault_proxy.heal()

    caches.wait_replicas("kept", 2, timeout=HEAL_SECONDS)
    assert fault_proxy.journal.faults() > 0
    assert operator.alive()
    assert operator.live()
