"""Classes E and F: others who work on the same objects, deletion, and the garbage collector."""

from __future__ import annotations

import threading

from cases_api import WRITES, all_well
from cases_life import LEASE, wait_leader
from registry import case
from rig import Rig
from stories import IMAGE

from controlplane import wait_until
from controlplane.api import object_path
from faultrig.rules import Answer, Match, Rule
from memcacheds import CACHES, CHILDREN


def ready(rig: Rig, name: str = "cache", **spec: object) -> None:
    """Start an operator, create a cache, and wait until it is at rest."""
    rig.start()
    rig.caches.create(name, **spec)
    rig.settle(lambda rig: rig.caches.ready(name), quiet=0)


@case("E04")
def another_manager_forces_our_field(rig: Rig) -> None:
    ready(rig, size=1)
    since = rig.journal.mark()
    path = object_path("apps/v1", "deployments", rig.namespace, "cache")
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "cache"}}
    strategy = {"spec": {"strategy": {"rollingUpdate": {"maxSurge": 7}}}}
    for _ in range(20):
        rig.api.patch(f"{path}?fieldManager=rival&force=true", {**body, **strategy}, "apply")
        wait_until(
            lambda: rig.api.get(path)["spec"]["strategy"]["rollingUpdate"]["maxSurge"] != 7, 20, "it to be put back"
        )
    all_well(rig, "cache", since=since)
    applied = [e for e in rig.journal.entries(since) if e.took_effect and e.call.resource == "deployments"]
    assert len(applied) <= 2 * 20 + 2


@case("E05")
def a_rollout_restart_of_the_child(rig: Rig) -> None:
    ready(rig, size=2)
    since = rig.journal.mark()
    when = {"kubectl.kubernetes.io/restartedAt": "2025-01-01T00:00:00Z"}
    path = object_path("apps/v1", "deployments", rig.namespace, "cache")
    pods = object_path("v1", "pods", rig.namespace)
    before = {pod["metadata"]["uid"] for pod in rig.api.get(pods)["items"]}
    rig.api.patch(path, {"spec": {"template": {"metadata": {"annotations": when}}}})
    wait_until(
        lambda: not before & {pod["metadata"]["uid"] for pod in rig.api.get(pods)["items"]}, 60, "the old pods to go"
    )
    all_well(rig, "cache", since=since)
    assert rig.api.get(path)["spec"]["template"]["metadata"]["annotations"] == when
    assert [e.call for e in rig.journal.entries(since) if e.took_effect and e.call.resource == "deployments"] == []


@case("E07")
def quantities_in_other_words(rig: Rig) -> None:
    cpu, memory = {"cpu": "1000m", "memory": "1024Mi"}, {"memory": "0.5Gi", "cpu": "0.50"}
    ready(
        rig, size=1, resources={"limits": cpu, "requests": memory}, tolerations=[{"operator": "Exists", "effect": ""}]
    )
    since = rig.journal.mark()
    rig.caches.create("witness", size=0)
    all_well(rig, "cache", "witness")
    assert [e.call for e in rig.journal.entries(since) if e.took_effect and e.call.name.startswith("cache")] == []


@case("E08")
def every_write_is_refused_twice(rig: Rig) -> None:
    rig.start()
    since = rig.journal.mark()
    kinds = ("deployments", "services", "poddisruptionbudgets", "memcacheds")
    refuse = Answer(403, b'{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"on purpose"}')
    matches = [
        Match(verbs=(verb,), resources=(kind,), writes=True) for kind in kinds for verb in ("create", "patch", "delete")
    ]
    rig.proxy().inject(*(Rule(f"{m.verbs} {m.resources}", refuse, m, times=2) for m in matches), cut=False)
    rig.caches.create("cache", size=2, deletionPolicy="Drain", drainSeconds=0)
    all_well(rig, "cache", since=since)
    rig.caches.patch("cache", size=3, memory=100)
    all_well(rig, "cache", since=since)
    rig.caches.delete("cache")
    rig.caches.wait_gone("cache")


@case("E11")
def another_client_writes_the_status(rig: Rig) -> None:
    ready(rig, size=1)
    since = rig.journal.mark()
    path = object_path(CACHES, "memcacheds", rig.namespace, "cache")
    for number in range(50):
        rig.api.patch(f"{path}/status", {"status": {"replicas": number, "nodes": [f"liar-{number}"]}})
    all_well(rig, "cache", since=since)
    status = rig.api.get(path)["status"]
    assert status["replicas"] == 1
    assert "liar" not in str(status["nodes"])
    children = ("deployments", "services", "poddisruptionbudgets")
    assert [e.call for e in rig.journal.entries(since) if e.took_effect and e.call.resource in children] == []


@case("E13")
def there_and_back(rig: Rig) -> None:
    ready(rig, size=2)
    since = rig.journal.mark()
    before = rig.caches.look("cache")
    for _ in range(5):
        rig.caches.patch("cache", image=IMAGE, size=3)
        rig.caches.patch("cache", image=None, size=2)
    all_well(rig, "cache", since=since)
    assert rig.caches.look("cache") == before


@case("F03")
def the_operators_own_namespace_goes(rig: Rig) -> None:
    rig.start(*LEASE, elects=True)
    wait_leader(rig)
    rig.caches.create("cache", size=1, deletionPolicy="Drain", drainSeconds=5)
    rig.caches.wait_ready("cache")
    with rig.sibling() as other:  # its namespace is deleted while this one's operator lives: a second way to go
        other.caches.create("left", size=0)
    rig.api.delete(f"/api/v1/namespaces/{rig.namespace}")
    wait_until(lambda: rig.caches.get("cache") is None, 60, "the Memcached to be gone")


@case("F04")
def the_operator_goes_first(rig: Rig) -> None:
    ready(rig, size=1)
    _, operator, _ = rig.operators[0]
    assert operator.terminate() == 0
    rig.expect_end(operator, 0)
    rig.caches.delete("cache")
    rig.caches.wait_gone("cache")


@case("F06")
def deleted_while_writes_fail(rig: Rig) -> None:
    ready(rig, size=2, deletionPolicy="Drain", drainSeconds=0)
    since = rig.journal.mark()
    rig.proxy().inject(Rule("500", Answer(500), WRITES), cut=False)
    rig.caches.delete("cache")
    wait_until(lambda: rig.journal.faults(since) > 4, 30, "writes to fail")
    rig.proxy().heal()
    rig.caches.wait_gone("cache")
    all_well(rig, since=since)


@case("F07")
def made_again_at_once(rig: Rig) -> None:
    rig.start()
    since = rig.journal.mark()
    for number in range(20):
        rig.caches.create("cache", size=number % 3)
        threading.Event().wait(0.02 * (number % 7))  # another moment of its life each time
        rig.caches.delete("cache")
    rig.caches.create("cache", size=2)
    all_well(rig, "cache", since=since)


@case("F10")
def owners_are_of_the_same_namespace(rig: Rig) -> None:
    ready(rig, size=2)
    found = rig.caches.get("cache")
    assert found is not None
    for _, plural in CHILDREN:
        child = rig.caches.child(plural, "cache")
        assert child is not None
        assert [owner["uid"] for owner in child["metadata"]["ownerReferences"]] == [found["metadata"]["uid"]]
    events = rig.api.get(object_path("v1", "events", rig.namespace))["items"]
    assert [event for event in events if event["reason"] == "OwnerRefInvalidNamespace"] == []


@case("F11")
def the_users_secrets_stay(rig: Rig) -> None:
    secrets = object_path("v1", "secrets", rig.namespace)
    rig.api.create(secrets, {"metadata": {"name": "registry"}, "stringData": {"a": "b"}})
    ready(rig, size=1, imagePullSecrets=[{"name": "registry"}])
    rig.caches.delete("cache")
    rig.caches.wait_gone("cache")
    kept = rig.api.get(f"{secrets}/registry")
    assert "ownerReferences" not in kept["metadata"]
    assert "secrets" not in {entry.call.resource for entry in rig.journal.entries()}


@case("F12")
def a_child_is_no_longer_wanted_and_the_operator_dies(rig: Rig) -> None:
    ready(rig, size=2)
    _, operator, _ = rig.operators[0]
    since = rig.journal.mark()
    rig.expect_end(operator, -9)
    operator.kill()
    rig.caches.patch("cache", size=1)
    rig.start()
    wait_until(lambda: rig.caches.child("poddisruptionbudgets", "cache") is None, 60, "the budget to go")
    all_well(rig, "cache", since=since)


@case("F13")
def many_are_deleted_at_once(rig: Rig) -> None:
    rig.start()
    names = [f"cache-{number}" for number in range(60)]
    for number, name in enumerate(names):
        rig.caches.create(name, size=1, deletionPolicy=("Delete", "Drain")[number % 2], drainSeconds=0)
    rig.caches.wait_ready(*names, timeout=240)
    since = rig.journal.mark()
    rig.api.delete(object_path(CACHES, "memcacheds", rig.namespace))
    for name in names:
        rig.caches.wait_gone(name, timeout=240)
    all_well(rig, since=since)
