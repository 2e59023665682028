"""Two replicas on a real API server: hand-over, failover, and a leader that comes back from the dead."""

from controlplane import ControlPlane, ReadAudit, StartOperator, rbac, wait_until
from controlplane.api import object_path
from memcached_operator.kube.permissions import cluster_role_rules, leader_election_rules
from memcacheds import Memcacheds, writes

LEASE = ("--lease-seconds=6", "--renew-deadline-seconds=4", "--retry-seconds=1")


def _holder(control_plane: ControlPlane, namespace: str) -> str:
    path = object_path("coordination.k8s.io/v1", "leases", namespace, "memcached-operator")
    lease = control_plane.api.find(path)
    return str((lease or {}).get("spec", {}).get("holderIdentity") or "")


def _lead(control_plane: ControlPlane, namespace: str, other_than: str = "") -> str:
    return wait_until(
        lambda: _holder(control_plane, namespace), 30, "a leader", until=lambda holder: holder not in ("", other_than)
    )


def test_a_leader_that_is_told_to_stop_hands_over_and_the_next_acts(
    control_plane: ControlPlane, namespace: str, start_operator: StartOperator
) -> None:
    caches = Memcacheds(control_plane, namespace)
    first = start_operator(env={"POD_NAME": "first"})
    _lead(control_plane, namespace)
    start_operator(env={"POD_NAME": "second"})
    caches.create("handed-over", size=1)
    caches.wait_replicas("handed-over", 1)

    assert first.terminate(10) == 0
    caches.patch("handed-over", size=3)

    caches.wait_replicas("handed-over", 3)
    assert _holder(control_plane, namespace).startswith("second_")
    assert "released" in first.log_text()


def test_a_leader_that_is_killed_is_followed_when_its_lease_has_run_out(
    control_plane: ControlPlane, namespace: str, start_operator: StartOperator
) -> None:
    caches = Memcacheds(control_plane, namespace)
    first = start_operator(*LEASE, env={"POD_NAME": "first"})
    _lead(control_plane, namespace)
    start_operator(*LEASE, env={"POD_NAME": "second"})
    caches.create("failed-over", size=1)
    caches.wait_replicas("failed-over", 1)

    first.kill()
    caches.patch("failed-over", size=2)

    caches.wait_replicas("failed-over", 2)
    assert _holder(control_plane, namespace).startswith("second_")


def test_a_leader_that_was_stopped_past_its_lease_writes_nothing_and_exits_1(
    control_plane: ControlPlane, namespace: str, start_operator: StartOperator, audit: ReadAudit
) -> None:
    caches = Memcacheds(control_plane, namespace)
    first_user = control_plane.user_kubeconfig("deposed-leader")
    _let_operate(control_plane, "deposed-leader", namespace)
    first = start_operator(*LEASE, kubeconfig=first_user, env={"POD_NAME": "first"})
    leader = _lead(control_plane, namespace)
    start_operator(*LEASE, env={"POD_NAME": "second"})
    for number in range(5):
        caches.create(f"cache-{number}", size=1)
        caches.wait_replicas(f"cache-{number}", 1)

    first.pause()
    for number in range(5):
        caches.patch(f"cache-{number}", size=2)  # work for whoever believes to lead
    _lead(control_plane, namespace, other_than=leader)
    for number in range(5):
        caches.wait_replicas(f"cache-{number}", 2)
    since = control_plane.audit_offset()
    first.resume()

    assert first.wait(20) == 1
    assert writes(audit(user="deposed-leader", since=since)) == {}
    last_line = first.log_text().strip().splitlines()[-1]
    assert "lease memcached-operator was lost to second_" in last_line


def test_a_standby_is_ready_and_writes_nothing(
    control_plane: ControlPlane, namespace: str, start_operator: StartOperator, audit: ReadAudit
) -> None:
    caches = Memcacheds(control_plane, namespace)
    start_operator()
    _lead(control_plane, namespace)
    _let_operate(control_plane, "standby", namespace)
    since = control_plane.audit_offset()
    standby = start_operator(kubeconfig=control_plane.user_kubeconfig("standby"))
    for number in range(3):
        caches.create(f"led-{number}", size=1)
    caches.wait_ready("led-0", "led-1", "led-2")

    assert standby.ready()
    assert standby.live()
    assert [r for r in audit(user="standby", since=since) if r.is_write] == []
    assert "memcached_operator_leader 0.0" in standby.metrics()


def test_an_outage_longer_than_the_lease_leaves_the_only_replica_leading(
    control_plane: ControlPlane, namespace: str, start_operator: StartOperator
) -> None:
    caches = Memcacheds(control_plane, namespace)
    operator = start_operator(*LEASE)
    caches.create("before", size=1)
    caches.wait_ready("before")

    control_plane.pause("kube-apiserver")
    try:
        wait_until(lambda: "no write leaves this process" in operator.log_text(), 30, "the fence")
    finally:
        control_plane.resume("kube-apiserver")
    caches.patch("before", size=2)

    caches.wait_replicas("before", 2, timeout=60)
    assert operator.alive()
    assert "is ours again" in operator.log_text()


def _let_operate(control_plane: ControlPlane, user: str, namespace: str) -> None:
    for number, rules in enumerate((cluster_role_rules(), leader_election_rules())):
        rbac.bind(control_plane.api, user, rules, namespace=namespace, name=f"{user}-{number}")
