"""GroupVersionResource: which API a request goes to. The one vocabulary that `kube/` and `runtime/` share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GVR:
    """A Kubernetes resource type. `group` is empty for core/v1."""

    group: str
    version: str
    plural: str
    kind: str

    @property
    def api_version(self) -> str:
        """`apps/v1`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        """URL prefix of the group and version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """URL path of a collection (no name), an object, or a subresource; an empty namespace means all of them."""
        path = f"{self.root}/namespaces/{namespace}/{self.plural}" if namespace else f"{self.root}/{self.plural}"
        if name:
            path = f"{path}/{name}"
        return f"{path}/{subresource}" if subresource else path


MEMCACHEDS = GVR("cache.example.com", "v1alpha1", "memcacheds", "Memcached")
DEPLOYMENTS = GVR("apps", "v1", "deployments", "Deployment")
SERVICES = GVR("", "v1", "services", "Service")
PODS = GVR("", "v1", "pods", "Pod")
PODDISRUPTIONBUDGETS = GVR("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
HORIZONTALPODAUTOSCALERS = GVR("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
NAMESPACES = GVR("", "v1", "namespaces", "Namespace")
LEASES = GVR("coordination.k8s.io", "v1", "leases", "Lease")
EVENTS = GVR("events.k8s.io", "v1", "events", "Event")
