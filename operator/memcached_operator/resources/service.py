"""The headless Service that gives clients the addresses of the cache pods."""

from __future__ import annotations

from memcached_operator.api.names import selector_labels
from memcached_operator.api.v1alpha1 import Memcached
from memcached_operator.gvr import SERVICES
from memcached_operator.memcached.args import PORT
from memcached_operator.resources.container import PORT_NAME
from memcached_operator.resources.manifest import Manifest
from memcached_operator.resources.ownership import child


def service(memcached: Memcached) -> Manifest:
    """Service of the Memcached's own name, without a virtual IP: a memcached client spreads keys over pods itself."""
    return child(
        SERVICES,
        memcached,
        {
            "type": "ClusterIP",
            "clusterIP": "None",
            "selector": dict(selector_labels(memcached.name)),
            "ports": [{"name": PORT_NAME, "port": PORT, "protocol": "TCP", "targetPort": PORT_NAME}],
            # A client that finds a pod before it listens takes it for dead and moves its keys.
            "publishNotReadyAddresses": False,
        },
    )
