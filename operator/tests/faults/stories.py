"""The stories that are disturbed: what is there before, what happens, and when it is over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rig import Done, Rig

from controlplane import wait_until
from controlplane.api import object_path

IMAGE = "docker.io/library/memcached:1.6.40"
NAME = "cache"


@dataclass(frozen=True)
class Story:
    """`arrange` makes the beginning and waits for it; `act` is one change; `done` tells whether it has had its effect.

    `left_behind`: the children outlive their owner. Without `writes` there is nothing to kill at: the garbage collector
    does it all.
    """

    name: str
    arrange: Callable[[Rig], None]
    act: Callable[[Rig], None]
    done: Done
    left_behind: bool = False
    writes: bool = True


def _nothing(_: Rig) -> None:
    return None


def _with_cache(size: int = 1, policy: str = "Delete") -> Callable[[Rig], None]:
    def arrange(rig: Rig) -> None:
        rig.caches.create(NAME, size=size, deletionPolicy=policy, drainSeconds=0)
        rig.settle(_ready, quiet=0)

    return arrange


def _ready(rig: Rig) -> bool:
    return bool(rig.caches.ready(NAME)) and _pods_run(rig)


def _pods_run(rig: Rig) -> bool:
    """Whether no pod of an older template is left: they take a moment to go, and are counted."""
    pods = rig.api.get(object_path("v1", "pods", rig.namespace))["items"]
    found = rig.caches.get(NAME) or {}
    return len([pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]) == int(found["spec"]["size"])


def _patch(**spec: object) -> Callable[[Rig], None]:
    return lambda rig: rig.caches.patch(NAME, **spec)


def _drift(rig: Rig) -> None:
    deployment = object_path("apps/v1", "deployments", rig.namespace, NAME)
    rig.api.patch(deployment, {"spec": {"strategy": {"rollingUpdate": {"maxSurge": 3}}, "revisionHistoryLimit": 7}})
    rig.api.delete(object_path("v1", "services", rig.namespace, NAME))


def _repaired(rig: Rig) -> bool:
    deployment = rig.caches.child("deployments", NAME)
    return (
        deployment is not None
        and deployment["spec"]["revisionHistoryLimit"] == 3
        and rig.caches.child("services", NAME) is not None
        and _ready(rig)
    )


def _delete(rig: Rig) -> None:
    rig.caches.delete(NAME)


def _gone(rig: Rig) -> bool:
    pods = rig.api.get(object_path("v1", "pods", rig.namespace))["items"]
    return not rig.caches.get(NAME) and not any(rig.caches.look(NAME).values()) and not pods


def _left(rig: Rig) -> bool:
    return not rig.caches.get(NAME) and rig.caches.replicas(NAME) == 2


def _orphans(rig: Rig) -> None:
    _with_cache(2, "Orphan")(rig)
    _delete(rig)
    wait_until(lambda: rig.caches.get(NAME) is None, 30, "the Memcached to be gone")


def _adopted(rig: Rig) -> bool:
    found = rig.caches.get(NAME)
    uid = (found or {}).get("metadata", {}).get("uid")
    children = [rig.caches.child(plural, NAME) for plural in ("deployments", "services")]
    adopted = all(c and c["metadata"]["annotations"]["cache.example.com/owner-uid"] == uid for c in children)
    return adopted and _ready(rig)


def _foreign_service(rig: Rig) -> None:
    spec = {"ports": [{"port": 80}], "selector": {"somebody": "else"}}
    rig.api.create(object_path("v1", "services", rig.namespace), {"metadata": {"name": NAME}, "spec": spec})


def _refused(rig: Rig) -> bool:
    found = rig.caches.get(NAME) or {}
    status = found.get("status", {})
    deployment = (rig.caches.child("deployments", NAME) or {}).get("status", {})
    return (
        "NameConflict" in str(status.get("conditions"))
        and status.get("readyReplicas") == deployment.get("readyReplicas") == found["spec"]["size"]
        and rig.caches.condition(NAME, "Available").get("reason") == "AllReady"
    )


def _create(rig: Rig) -> None:
    rig.caches.create(NAME, size=2)


STORIES = (
    Story("create", _nothing, _create, _ready),
    Story("scale up", _with_cache(1), _patch(size=3), _ready),
    Story("scale down", _with_cache(3), _patch(size=1), _ready),
    Story("image change", _with_cache(2), _patch(image=IMAGE), _ready),
    Story("drift", _with_cache(1), _drift, _repaired),
    Story("delete, policy Delete", _with_cache(2), _delete, _gone, writes=False),
    Story("delete, policy Orphan", _with_cache(2, "Orphan"), _delete, _left, left_behind=True, writes=False),
    Story("delete, policy Drain", _with_cache(2, "Drain"), _delete, _gone),
    Story("adoption", _orphans, _create, _adopted),
    Story("adoption refused", _foreign_service, _create, _refused),
)
"""The tenth of the matrix, the hand-over, has two operators and a test of its own."""
