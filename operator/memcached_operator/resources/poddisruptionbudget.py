"""The PodDisruptionBudget that lets node drains take one cache pod at a time."""

from __future__ import annotations

from memcached_operator.api.names import selector_labels
from memcached_operator.api.v1alpha1 import Memcached
from memcached_operator.gvr import PODDISRUPTIONBUDGETS
from memcached_operator.resources.manifest import Manifest
from memcached_operator.resources.ownership import child


def poddisruptionbudget(memcached: Memcached, *, replicas: int) -> Manifest | None:
    """Budget of the Memcached's own name, or None for one pod or none: there is nothing to take turns with."""
    if replicas <= 1:
        return None
    return child(
        PODDISRUPTIONBUDGETS,
        memcached,
        {
            "maxUnavailable": 1,
            "selector": {"matchLabels": dict(selector_labels(memcached.name))},
            # A pod that is not ready holds no cache worth a wait; without this a cache that cannot start blocks every
            # drain.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    )
