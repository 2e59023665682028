"""The Deployment that runs the cache pods."""

from __future__ import annotations

from memcached_operator.api.names import selector_labels
from memcached_operator.api.v1alpha1 import Memcached
from memcached_operator.gvr import DEPLOYMENTS
from memcached_operator.resources.manifest import Manifest
from memcached_operator.resources.ownership import child
from memcached_operator.resources.pod import pod_template

_REVISIONS = 3
"""Old ReplicaSets to keep: enough to roll back by hand, few enough for a large namespace (Kubernetes keeps 10)."""


def deployment(memcached: Memcached, *, default_image: str, replicas: int) -> Manifest:
    """Deployment of the Memcached's own name. `default_image` is used where `spec.image` is not given."""
    rollout = memcached.spec.rollout
    return child(
        DEPLOYMENTS,
        memcached,
        {
            "replicas": replicas,
            "revisionHistoryLimit": _REVISIONS,
            "selector": {"matchLabels": dict(selector_labels(memcached.name))},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": rollout.max_surge, "maxUnavailable": rollout.max_unavailable},
            },
            "template": pod_template(memcached, image=memcached.spec.image or default_image),
        },
    )
