"""The table of permissions is what the operator needs: nothing beyond it is asked for, nothing in it is idle."""

import os
from functools import partial
from pathlib import Path

from controlplane import ControlPlane, OperatorProcess, ReadAudit, StartOperator, rbac, wait_until
from controlplane.api import object_path
from controlplane.paths import REPOSITORY
from memcached_operator.kube.permissions import (
    OWN_NAMESPACE,
    WATCHED_NAMESPACES,
    allows,
    cluster_role_rules,
    leader_election_rules,
)
from memcacheds import CHILDREN, Memcacheds

USER = "memcached-operator"
COUNTED = ("patch", "events.k8s.io", "events")
ADMISSION_ASKS = ("update", "cache.example.com", "memcacheds/finalizers")
"""No request has this verb: admission looks for the right while a child is written; see the last test."""

FALLBACK = {
    ("list", "apps", "deployments"),
    ("list", "", "services"),
    ("list", "policy", "poddisruptionbudgets"),
    ("list", "", "pods"),
}
"""What a watch begins with where the API server streams no lists: before Kubernetes 1.34, or by its feature gate."""


def app_label(caches: Memcacheds, plural: str) -> str:
    return str(caches.look("one")[plural]["labels"]["app"])


def test_every_request_is_in_the_table_and_every_row_of_it_is_used(
    control_plane: ControlPlane, namespace: str, start_operator: StartOperator, audit: ReadAudit
) -> None:
    since = control_plane.audit_offset()
    caches = Memcacheds(control_plane, namespace)
    api = control_plane.api
    first = start_operator()

    # The same drift again and again is told in one Event, which counts; first now, last at the end.
    caches.create("left", size=1, deletionPolicy="Orphan")
    caches.wait_ready("left")

    def scale_behind_its_back() -> None:
        api.patch(object_path("apps/v1", "deployments", namespace, "left"), {"spec": {"replicas": 0}})
        caches.wait_replicas("left", 1)

    scale_behind_its_back()

    # A life with everything: drift of each child, an autoscaler of the Deployment, a drain.
    caches.create("one", size=2, deletionPolicy="Drain", drainSeconds=0)
    caches.wait_ready("one")
    for version, plural in CHILDREN:
        path = object_path(version, plural, namespace, "one")
        api.patch(path, {"metadata": {"labels": {"app": "drifted"}}})
        wait_until(partial(app_label, caches, plural), 30, f"{plural} to be repaired", until="memcached".__eq__)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "one"}
    autoscalers = object_path("autoscaling/v2", "horizontalpodautoscalers", namespace)
    spec = {"scaleTargetRef": target, "minReplicas": 3, "maxReplicas": 3}
    api.create(autoscalers, {"metadata": {"name": "auto"}, "spec": spec})
    wait_until(lambda: caches.condition("one", "Degraded").get("status") == "True", 40, "the autoscaler to be noticed")
    api.delete(f"{autoscalers}/auto")
    caches.wait_replicas("one", 2, timeout=60 + 15)  # no watch shows that it is gone: it is looked at once a minute
    caches.delete("one")
    caches.wait_gone("one")

    # An orphan that is made again while it is deleted, and a hand-over between two replicas.
    api.delete(object_path("apps/v1", "deployments", namespace, "left"))
    caches.wait_ready("left")
    second = start_operator()
    assert first.terminate() == 0
    scale_behind_its_back()
    assert second.alive()

    def used() -> set[tuple[str, str, str]]:
        scale_behind_its_back()
        asked = set()
        for request in audit(user=USER, since=since):
            if request.resource:
                target = "/".join(part for part in (request.resource, request.subresource) if part)
                asked.add((request.verb, request.group, target))
        return asked

    table = {(verb, row.group, row.resource) for row in (*WATCHED_NAMESPACES, *OWN_NAMESPACE) for verb in row.verbs}
    wait_until(used, 90, "a repeated event to be counted", until=lambda asked: COUNTED in asked, interval=1)
    assert [request for request in used() if not allows(request[0], request[1], *request[2].split("/"))] == []
    assert table - used() == {ADMISSION_ASKS, *FALLBACK}


def test_an_api_server_without_streamed_lists_is_listed(tmp_path: Path) -> None:
    old = {"feature-gates": "WatchList=false"}
    with ControlPlane.start(f"listed-{os.getpid()}", tmpfs=True, extra_apiserver_args=old) as control_plane:
        control_plane.install_crds(REPOSITORY / "config" / "crd")
        rbac.bind(control_plane.api, USER, cluster_role_rules())
        log = tmp_path / "operator.log"
        operator = OperatorProcess.start(control_plane.user_kubeconfig(USER), "--no-leader-elect", log=log)
        try:
            caches = Memcacheds(control_plane, "default")
            caches.create("cache", size=1)
            caches.wait_ready("cache")
        finally:
            operator.kill()
        asked = {(request.verb, request.group, request.resource) for request in control_plane.audit(user=USER)}
    assert asked >= FALLBACK


def test_without_the_right_to_finalizers_no_child_can_be_made(
    control_plane: ControlPlane, namespace: str, start_operator: StartOperator
) -> None:
    user = f"no-finalizers-{namespace}"[:60]
    rules = cluster_role_rules()
    fewer = [rule for rule in rules if rule["resources"] != ["memcacheds/finalizers"]]
    assert len(fewer) == len(rules) - 1
    rbac.bind(control_plane.api, user, fewer, namespace=namespace)
    rbac.bind(control_plane.api, user, leader_election_rules(), namespace=namespace, name=f"{user}-lease")
    caches = Memcacheds(control_plane, namespace)
    operator = start_operator(kubeconfig=control_plane.user_kubeconfig(user, namespace))
    caches.create("cache", size=1)
    told = wait_until(
        lambda: caches.condition("cache", "Degraded"), 30, "the refusal", until=lambda c: c.get("reason") == "Forbidden"
    )
    assert "cannot set blockOwnerDeletion" in told["message"]

    rbac.bind(control_plane.api, user, rules, namespace=namespace)
    caches.wait_ready("cache")
    assert operator.alive()
