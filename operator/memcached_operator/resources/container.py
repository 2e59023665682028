"""The container that runs memcached."""

from __future__ import annotations

from typing import Any

from memcached_operator.api.sizing import memory_need_mib
from memcached_operator.api.v1alpha1 import MemcachedSpec
from memcached_operator.memcached.args import PORT, PROGRAM, memcached_args
from memcached_operator.resources.quantity import canonical_quantity, mebibytes

NAME = "memcached"
PORT_NAME = "memcached"
"""Name of the port in the container and in the Service: it makes the SRV record `_memcached._tcp.NAME.NAMESPACE`."""


def memcached_container(spec: MemcachedSpec, *, image: str) -> dict[str, Any]:
    """The one container of a cache pod.

    `imagePullPolicy` is left to the API server: it takes Always for `:latest` and IfNotPresent for any other tag.
    """
    return {
        "name": NAME,
        "image": image,
        "command": [PROGRAM],
        "args": memcached_args(spec),
        "ports": [{"name": PORT_NAME, "containerPort": PORT, "protocol": "TCP"}],
        "resources": container_resources(spec),
        # Readiness alone, and of the TCP port, which also holds for a cache that wants a login first. No liveness: a
        # restart empties the cache, and a cache too busy to answer in time is the last one to throw away.
        "readinessProbe": {"tcpSocket": {"port": PORT_NAME}, "periodSeconds": 5},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }


def container_resources(spec: MemcachedSpec) -> dict[str, Any]:
    """`spec.resources` in canonical form, with the memory request and limit that memcached needs where it gives none.

    Each is filled on its own: `{"limits": {"cpu": 1}}` keeps the computed memory. They fit together because a valid
    spec has no limit below the need, and no request above it without a limit.
    """
    given = spec.resources or {}
    need = {"memory": mebibytes(memory_need_mib(spec.memory, spec.max_connections))}
    return {side: need | _canonical(given.get(side)) for side in ("limits", "requests")}


def _canonical(quantities: dict[str, str | int] | None) -> dict[str, str]:
    return {name: canonical_quantity(quantity) for name, quantity in (quantities or {}).items()}
