"""Every optional field, set and taken away again: the children follow, and nothing of it stays behind."""

from functools import partial
from typing import Any

from controlplane import ControlPlane, ReadAudit, StartOperator, wait_until
from memcached_operator.api.v1alpha1 import MemcachedSpec
from memcacheds import Memcacheds, writes

AFFINITY = {
    "podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}}
        ]
    }
}
SPREAD = {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}
TOLERATION = {"key": "dedicated", "operator": "Equal", "value": "cache", "effect": "NoSchedule"}
REQUESTS = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "256Mi"}}

# Field -> its value, where the Deployment shows it, and what is found there while it is set.
FIELDS: dict[str, tuple[Any, str, Any]] = {
    "image": ("memcached:1.6.40", "pod.container.image", "memcached:1.6.40"),
    "memory": (128, "pod.container.args", ["-m", "128"]),
    "maxConnections": (2048, "pod.container.args", ["-c", "2048"]),
    "threads": (2, "pod.container.args", ["-t", "2"]),
    "maxItemSize": (2048, "pod.container.args", ["-I", "2048k"]),
    "verbosity": (2, "pod.container.args", ["-vv"]),
    "resources": (REQUESTS, "pod.container.resources", REQUESTS),
    "podAnnotations": ({"example.com/a": "b"}, "template.metadata.annotations", {"example.com/a": "b"}),
    "podLabels": ({"team": "shop"}, "template.metadata.labels", {"team": "shop"}),
    "nodeSelector": ({"kubernetes.io/os": "linux"}, "pod.nodeSelector", {"kubernetes.io/os": "linux"}),
    "tolerations": ([TOLERATION], "pod.tolerations", [TOLERATION]),
    "affinity": (AFFINITY, "pod.affinity", AFFINITY),
    "topologySpreadConstraints": ([SPREAD], "pod.topologySpreadConstraints", [SPREAD]),
    "priorityClassName": ("system-cluster-critical", "pod.priorityClassName", "system-cluster-critical"),
    "imagePullSecrets": ([{"name": "registry"}], "pod.imagePullSecrets", [{"name": "registry"}]),
    "rollout": ({"maxSurge": 0, "maxUnavailable": 1}, "spec.strategy.rollingUpdate", {"maxSurge": 0}),
    "deletionPolicy": ("Drain", "metadata.ownerReferences", None),
}
ELSEWHERE = {
    "size": "required",
    "drainSeconds": "changes no child; see the tests of deletion",
    "paused": "stops writes; see test_paused below",
}


def seen(caches: Memcacheds, name: str, where: str) -> Any:
    """What a Deployment has at a path; `pod` and `container` are short for the long way to them."""
    where = where.replace("pod.", "spec.template.spec.").replace("container.", "containers.0.")
    node: Any = caches.child("deployments", name)
    for step in where.replace("template.metadata", "spec.template.metadata").split("."):
        if node is None:
            return None
        node = node[int(step)] if step.isdigit() else node.get(step)
    return node


def holds(wanted: Any, found: Any) -> bool:
    """Whether all of `wanted` is there: in a map, in a list of arguments (in this order), or as it is."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return all(holds(value, found.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(found, list) and wanted and isinstance(wanted[0], str):
        return any(found[at : at + len(wanted)] == wanted for at in range(len(found)))
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(map(holds, wanted, found))
    return bool(found == wanted)


def test_no_field_is_forgotten_here() -> None:
    assert {field.alias for field in MemcachedSpec.model_fields.values()} == {*FIELDS, *ELSEWHERE}


def test_each_optional_field_is_set_and_taken_away(
    control_plane: ControlPlane, namespace: str, start_operator: StartOperator, audit: ReadAudit
) -> None:
    caches = Memcacheds(control_plane, namespace)
    operator = start_operator()
    names = {field: field.lower() for field in FIELDS}
    for name in names.values():
        caches.create(name, size=1)
    caches.wait_ready(*names.values())
    before = {name: caches.look(name) for name in names.values()}

    for field, name in names.items():
        caches.patch(name, **{field: FIELDS[field][0]})
    for field, (_, where, wanted) in FIELDS.items():
        observe = partial(seen, caches, names[field], where)
        wait_until(observe, 30, f"{field} to be seen at {where}", until=partial(holds, wanted))
    caches.wait_ready(*names.values())

    for field, name in names.items():
        caches.patch(name, **{field: None})
    for name in names.values():
        wait_until(partial(caches.look, name), 30, f"{name} as it was", until=before[name].__eq__)
    caches.wait_ready(*names.values())

    operator.kill()
    since = control_plane.audit_offset()
    caches.create("witness", size=0)
    start_operator("--no-leader-elect")
    caches.wait_ready("witness")
    assert writes([r for r in audit(user="memcached-operator", since=since) if not r.name.startswith("witness")]) == {}


def test_paused_stops_writes_to_children_and_goes_on_where_it_stopped(
    control_plane: ControlPlane, namespace: str, start_operator: StartOperator
) -> None:
    caches = Memcacheds(control_plane, namespace)
    start_operator()
    caches.create("cache", size=1)
    caches.wait_ready("cache")
    caches.patch("cache", paused=True, size=3)
    wait_until(lambda: caches.condition("cache", "Ready"), 30, "Paused", until=lambda c: c.get("reason") == "Paused")
    assert caches.replicas("cache") == 1
    caches.patch("cache", paused=None)
    caches.wait_replicas("cache", 3)
    caches.wait_ready("cache")
