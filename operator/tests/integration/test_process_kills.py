"""kill -9 at any moment of a life: the end state is right, nothing is made twice, nothing is left behind.

`KILLS=100` runs the whole loop; a few rounds run by default.
"""

import functools
import os
import random
import threading
from collections.abc import Callable

from controlplane import ControlPlane, StartOperator, wait_until
from memcacheds import CHILDREN, Memcacheds

KILLS = int(os.environ.get("KILLS", "6"))


def test_killed_at_any_moment_of_create_scale_and_delete(
    control_plane: ControlPlane, namespace: str, start_operator: StartOperator
) -> None:
    caches = Memcacheds(control_plane, namespace)
    moments = random.Random(11211)  # noqa: S311 - the same moments in every run
    uids: dict[str, str] = {}
    for number in range(KILLS):
        name = f"cache-{number}"
        policy = ("Delete", "Drain", "Orphan")[number % 3]
        operator = start_operator("--no-leader-elect", ready=False)
        kept = f"cache-{number - 3}" if number >= 3 else None
        changes: list[Callable[[], object]] = [
            functools.partial(caches.create, name, size=1, deletionPolicy=policy, drainSeconds=0),
            functools.partial(caches.patch, name, size=3),
            *([functools.partial(caches.delete, kept)] if kept else []),
        ]
        if number % 2:
            operator.wait_ready()  # every other time the kill falls into the start
        for change in changes:
            change()
            threading.Event().wait(moments.random() * 0.08)  # the moment of the kill is what is varied
        threading.Event().wait(moments.random() * 0.3)
        operator.kill()
        uids[name] = (caches.get(name) or {}).get("metadata", {}).get("uid", "")
    alive = [f"cache-{number}" for number in range(max(0, KILLS - 3), KILLS)]
    orphans = {f"cache-{number}" for number in range(KILLS - 3) if number % 3 == 2}

    start_operator("--no-leader-elect")
    caches.wait_ready(*alive, timeout=120)
    wait_until(
        lambda: {d["metadata"]["name"] for d in caches.children("deployments")},
        120,
        "the Deployments of the living and of the orphaned",
        until=lambda names: names == {*alive, *orphans},
    )
    for name in alive:
        assert caches.replicas(name) == 3
        for _, plural in CHILDREN:
            child = caches.child(plural, name)
            assert child is not None, (plural, name)
            assert child["metadata"]["annotations"]["cache.example.com/owner-uid"] == uids[name]
    names = {d["metadata"]["name"] for _, plural in CHILDREN for d in caches.children(plural)}
    assert names == {*alive, *orphans}
