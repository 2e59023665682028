"""The pod template of a cache."""

from __future__ import annotations

from typing import Any

from memcached_operator.api.names import child_labels, selector_labels
from memcached_operator.api.v1alpha1 import Memcached, MemcachedSpec
from memcached_operator.resources.container import memcached_container

_USER = 11211
"""uid and gid of `memcache` in the official image. As a number: the kubelet cannot see that a name is not root."""

_GRACE_SECONDS = 10
"""memcached ends within a second of SIGTERM and saves nothing: longer than this it hangs."""

_SPREAD_OVER = ("kubernetes.io/hostname", "topology.kubernetes.io/zone")


def pod_template(memcached: Memcached, *, image: str) -> dict[str, Any]:
    """Template of the Deployment. A difference in it restarts every cache pod: it never holds what only concerns us."""
    spec = memcached.spec
    metadata: dict[str, Any] = {"labels": {**spec.pod_labels, **child_labels(memcached.name)}}
    if spec.pod_annotations:
        metadata["annotations"] = dict(spec.pod_annotations)
    return {"metadata": metadata, "spec": {**_pod_spec(memcached, image=image), **_given(spec)}}


def _pod_spec(memcached: Memcached, *, image: str) -> dict[str, Any]:
    pod: dict[str, Any] = {
        "containers": [memcached_container(memcached.spec, image=image)],
        # A cache talks to nobody: it needs neither the API server's token nor the addresses of every Service in its
        # environment.
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # With the container's own context this is what Pod Security calls `restricted`. No fsGroup: there is no volume.
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
    }
    spread = memcached.spec.topology_spread_constraints
    if spread is None:
        pod["topologySpreadConstraints"] = [_soft_spread(memcached.name, key) for key in _SPREAD_OVER]
    elif spread:
        pod["topologySpreadConstraints"] = _without_null(spread)
    return pod


def _soft_spread(name: str, topology_key: str) -> dict[str, Any]:
    """A wish, not a demand: a cluster of one node or one zone still runs every pod.

    `matchLabelKeys` (on by default since Kubernetes 1.27) counts the pods of one revision alone: otherwise the old pods
    of a rolling update push the new ones to the wrong nodes, and they stay there.
    """
    return {
        "maxSkew": 1,
        "topologyKey": topology_key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": dict(selector_labels(name))},
        "matchLabelKeys": ["pod-template-hash"],
    }


def _given(spec: MemcachedSpec) -> dict[str, Any]:
    """The fields that the user gave and we pass through; what is empty was not given."""
    fields = {
        "nodeSelector": spec.node_selector,
        "tolerations": spec.tolerations,
        "affinity": spec.affinity,
        "priorityClassName": spec.priority_class_name,
        "imagePullSecrets": spec.image_pull_secrets,
    }
    return {name: _without_null(value) for name, value in fields.items() if value}


def _without_null(value: Any) -> Any:
    """A copy of `value` without null fields, which the API server drops. Empty maps stay: some mean "all"."""
    if isinstance(value, dict):
        return {key: _without_null(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_null(item) for item in value]
    return value
