"""The headless Service that gives clients the addresses of the cache pods."""

from __future__ import annotations

from memcached_operator.api.names import SERVING_LABEL, selector_labels
from memcached_operator.api.v1alpha1 import Memcached
from memcached_operator.gvr import SERVICES
from memcached_operator.memcached.args import PORT
from memcached_operator.resources.container import PORT_NAME
from memcached_operator.resources.manifest import Manifest
from memcached_operator.resources.ownership import child

_NO_POD = "none"
"""A value that no pod has: no pod carries the label at all."""


def service(memcached: Memcached, *, serving: bool) -> Manifest:
    """Service of the Memcached's own name, without a virtual IP: a memcached client spreads keys over pods itself.

    With `serving` false it selects no pod, so that clients leave while the pods still answer: the first step of a
    drain.
    """
    selector = dict(selector_labels(memcached.name))
    if not serving:
        selector[SERVING_LABEL] = _NO_POD
    return child(
        SERVICES,
        memcached,
        {
            "type": "ClusterIP",
            "clusterIP": "None",
            "selector": selector,
            "ports": [{"name": PORT_NAME, "port": PORT, "protocol": "TCP", "targetPort": PORT_NAME}],
            # A client that finds a pod before it listens takes it for dead and moves its keys.
            "publishNotReadyAddresses": False,
        },
    )
