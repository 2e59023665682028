"""What tests and measurements do to Memcacheds on a real API server, and how they look at what became of them."""

import collections
import functools
from typing import Any, Protocol

from controlplane import Request, wait_until
from controlplane.api import Api, ApiError, object_path

CACHES = "cache.example.com/v1alpha1"
CHILDREN = (("apps/v1", "deployments"), ("v1", "services"), ("policy/v1", "poddisruptionbudgets"))


class Cluster(Protocol):
    """Whatever has an API server: a control plane without nodes, or a whole cluster."""

    @property
    def api(self) -> Api:
        """The administrator's connection."""
        ...


class Memcacheds:
    """The Memcacheds of one namespace, seen and changed by an administrator."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.api = cluster.api
        self.namespace = namespace

    def create(self, name: str, **spec: Any) -> dict[str, Any]:
        """Create one of size 1, unless the spec says otherwise."""
        body = {"apiVersion": CACHES, "kind": "Memcached", "metadata": {"name": name}, "spec": {"size": 1, **spec}}
        created: dict[str, Any] = self.api.create(object_path(CACHES, "memcacheds", self.namespace), body)
        return created

    def patch(self, name: str, **spec: Any) -> None:
        """Merge into the spec."""
        self.api.patch(object_path(CACHES, "memcacheds", self.namespace, name), {"spec": spec})

    def delete(self, name: str, propagation: str | None = None) -> None:
        """Delete it, with a propagation policy if given."""
        self.api.delete(object_path(CACHES, "memcacheds", self.namespace, name), propagation)

    def get(self, name: str) -> dict[str, Any] | None:
        """Return it, None when there is none."""
        found: dict[str, Any] | None = self.api.find(object_path(CACHES, "memcacheds", self.namespace, name))
        return found

    def child(self, plural: str, name: str) -> dict[str, Any] | None:
        """Return the child of this kind, None when there is none."""
        version = next(version for version, kind in CHILDREN if kind == plural)
        found: dict[str, Any] | None = self.api.find(object_path(version, plural, self.namespace, name))
        return found

    def children(self, plural: str) -> list[dict[str, Any]]:
        """Return all objects of this kind in the namespace."""
        version = next(version for version, kind in CHILDREN if kind == plural)
        items: list[dict[str, Any]] = self.api.get(object_path(version, plural, self.namespace))["items"]
        return items

    def look(self, name: str) -> dict[str, dict[str, Any]]:
        """Return what the children say but for what Kubernetes counts in them: kind -> metadata and spec."""
        looks = {}
        for _, plural in CHILDREN:
            body = self.child(plural, name)
            if body is not None:
                metadata = {key: body["metadata"].get(key) or {} for key in ("labels", "annotations")}
                metadata["annotations"].pop("deployment.kubernetes.io/revision", None)
                owners = body["metadata"].get("ownerReferences", [])
                looks[plural] = {**metadata, "ownerReferences": owners, "spec": body["spec"]}
        return looks

    def condition(self, name: str, kind: str) -> dict[str, Any]:
        """Return a condition of the resource as it stands, {} when there is none."""
        found = self.get(name) or {}
        conditions = found.get("status", {}).get("conditions", [])
        return next((condition for condition in conditions if condition["type"] == kind), {})

    def replicas(self, name: str) -> int | None:
        """Return what its Deployment asks for, None without a Deployment."""
        deployment = self.child("deployments", name)
        return int(deployment["spec"]["replicas"]) if deployment else None

    def ready(self, name: str) -> str:
        """Reason of the Ready condition when it is true and speaks of the present generation; else ""."""
        found = self.get(name)
        if found is None or found.get("status", {}).get("observedGeneration") != found["metadata"]["generation"]:
            return ""
        conditions = found["status"]["conditions"]
        return next((c["reason"] for c in conditions if c["type"] == "Ready" and c["status"] == "True"), "")

    def wait_ready(self, *names: str, timeout: float = 60) -> None:
        """Wait until all are Ready at their present generation."""
        for name in names:
            wait_until(functools.partial(self.ready, name), timeout, f"{self.namespace}/{name} to be Ready")

    def wait_replicas(self, name: str, replicas: int, timeout: float = 30) -> None:
        """Wait until the Deployment asks for so many replicas."""
        wait_until(
            lambda: self.replicas(name),
            timeout,
            f"{replicas} replicas of {name}",
            until=lambda n: n == replicas,
            tolerate=(OSError, ApiError),
        )

    def wait_gone(self, name: str, timeout: float = 60) -> None:
        """Until the resource and all its children are gone."""

        def left() -> list[str]:
            there = ["memcacheds"] if self.get(name) else []
            return there + [plural for _, plural in CHILDREN if self.child(plural, name)]

        wait_until(left, timeout, f"{name} and its children to be gone", until=lambda kinds: not kinds)


def writes(requests: list[Request]) -> dict[str, int]:
    """How often what was written, Leases apart; `patch memcacheds/status` -> 2."""
    counted: collections.Counter[str] = collections.Counter()
    for request in requests:
        if request.is_write and request.resource != "leases":
            target = "/".join(part for part in (request.resource, request.subresource) if part)
            counted[f"{request.verb} {target}"] += 1
    return dict(counted)
