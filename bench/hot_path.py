"""What `instructions.py` has valgrind count: the operations that a busy operator repeats.

It brings one Memcached to rest over the tests' API server in memory, then forks one child an operation, which repeats
it. What all of them counted before the fork, imports above all, a child that does nothing counts too: the difference
is the operation. Standard output gets {"repeats": N, "pids": {operation: pid of its child}}.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable

from world import KEY, World

from memcached_operator.api.v1alpha1 import Memcached
from memcached_operator.api.validation import parse
from memcached_operator.gvr import DEPLOYMENTS, GVR, MEMCACHEDS, PODS
from memcached_operator.resources.desired import desired_resources

REPEATS = 50
WARM_UP = 5
"""Python specialises a function's byte code in its first calls."""


def operations() -> dict[str, Callable[[], object]]:
    """What is counted, over the state of one Memcached of three pods at rest."""
    world = asyncio.run(World.with_cache(size=3))
    spec = world.object(MEMCACHEDS)["spec"]
    memcached = parse("cache", "shop", "uid", 1, spec)
    if not isinstance(memcached, Memcached):
        raise TypeError(f"{memcached} is not what the world was made with")
    return {
        "decode a Memcached": _decode(world, MEMCACHEDS),
        "decode a Deployment": _decode(world, DEPLOYMENTS),
        "decode a Pod": _decode(world, PODS),
        "parse a spec": lambda: parse("cache", "shop", "uid", 1, spec),
        "build all children": lambda: desired_resources(memcached, default_image="cache:1", replicas=3),
        "a pass that changes nothing": lambda: _pass_without_change(world),
    }


def _decode(world: World, gvr: GVR) -> Callable[[], object]:
    watch = world.stores[gvr].watch
    raw = json.dumps(world.api.objects(gvr)[0]).encode()
    return lambda: watch.decode(raw)


def _pass_without_change(world: World) -> None:
    """A reconcile by hand: without a loop, because there is nothing to wait for."""
    running = world.reconciler.reconcile(KEY)
    try:
        running.send(None)
    except StopIteration:
        return
    raise RuntimeError("a pass that has nothing to do waited for something")


def main() -> None:
    """Fork a child an operation, and tell which pid did which."""
    todo: dict[str, Callable[[], object]] = {"nothing": lambda: None, **operations()}
    for operation in todo.values():
        for _ in range(WARM_UP):
            operation()
    pids = {}
    for name, operation in todo.items():
        pid = os.fork()
        if pid == 0:
            for _ in range(REPEATS):
                operation()
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if status != 0:
            raise RuntimeError(f"{name}: the child ended with {status}")
        pids[name] = pid
    json.dump({"repeats": REPEATS, "pids": pids}, sys.stdout)


if __name__ == "__main__":
    main()
