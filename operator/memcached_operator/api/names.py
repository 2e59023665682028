"""Names fixed by the API: group, labels, annotations, the finalizer, and how long a resource's name may be."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

GROUP = "cache.example.com"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "Memcached"
PLURAL = "memcacheds"
SINGULAR = "memcached"
SHORT_NAMES = ("mc",)
CATEGORIES = ("all",)

FIELD_MANAGER = "memcached-operator"
MANAGED_BY = "memcached-operator"

LABEL_APP = "app"
LABEL_INSTANCE = "memcached_cr"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
SERVING_LABEL = f"{GROUP}/serving"

OWNER_UID_ANNOTATION = f"{GROUP}/owner-uid"
DESIRED_HASH_ANNOTATION = f"{GROUP}/desired-hash"
DRAIN_FINALIZER = f"{GROUP}/drain"

RESERVED_PREFIX = f"{GROUP}/"
"""Label and annotation keys under this prefix are the operator's own."""

RESERVED_LABEL_KEYS = (
    LABEL_APP,
    LABEL_INSTANCE,
    "app.kubernetes.io/name",
    "app.kubernetes.io/instance",
    LABEL_MANAGED_BY,
    "app.kubernetes.io/component",
    "pod-template-hash",
)
"""Label keys that `spec.podLabels` may not set: those that the operator sets, and the one that the Deployment
controller sets. `app.kubernetes.io/version` and `app.kubernetes.io/part-of` are the user's: nothing selects on them."""

MAX_NAME_LENGTH = 46
"""Longest name of a Memcached, in characters. Its pods are called NAME-HASH-XXXXX: a ReplicaSet's hash has up to 10
characters, a pod's suffix 5, and a pod's name longer than 63 is cut in its host name (Kubernetes, SafeEncodeString and
names.SimpleNameGenerator). The Service adds the DNS-1035 rule: a letter first."""


def selector_labels(name: str) -> Mapping[str, str]:
    """Labels that the Deployment, the Service and the budget select on. Selectors are immutable."""
    return MappingProxyType({LABEL_APP: "memcached", LABEL_INSTANCE: name})


def selector_text(name: str) -> str:
    """The same as text, as in `status.selector` and `kubectl get pods -l`."""
    return f"{LABEL_APP}=memcached,{LABEL_INSTANCE}={name}"


def child_labels(name: str) -> dict[str, str]:
    """Labels on everything that the operator makes for the Memcached called `name`."""
    return {
        LABEL_APP: "memcached",
        LABEL_INSTANCE: name,
        "app.kubernetes.io/name": "memcached",
        "app.kubernetes.io/instance": name,
        LABEL_MANAGED_BY: MANAGED_BY,
        "app.kubernetes.io/component": "cache",
    }
