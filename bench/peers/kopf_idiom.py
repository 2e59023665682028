"""A peer: the same operator as kopf's tutorial would have it.

Handlers for creation and update, one for events of Deployments, and the official client, which blocks; so kopf runs all
of it in threads. It keeps an index of sizes to notice drift. Run by `kopf run`, with KUBECONFIG.
"""

from typing import Any

import kopf
import kubernetes

RESOURCE = ("cache.example.com", "v1alpha1", "memcacheds")
CONFLICT = 409
NOT_FOUND = 404

kubernetes.config.load_kube_config()
apps = kubernetes.client.AppsV1Api()
core = kubernetes.client.CoreV1Api()
custom = kubernetes.client.CustomObjectsApi()


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    """Events are for warnings: the other peers write none at all."""
    settings.posting.level = 30


@kopf.index(*RESOURCE)
def sizes(namespace: Any, name: str, spec: kopf.Spec, **_: Any) -> dict[tuple[str, str], int]:
    """What every resource asks for."""
    return {(namespace, name): spec.get("size", 1)}


def labels_of(name: str) -> dict[str, str]:
    """Which pods belong to a resource."""
    return {"app": "memcached", "memcached_cr": name}


def service(name: str) -> Any:
    """A headless Service."""
    spec = {"clusterIP": "None", "selector": labels_of(name), "ports": [{"name": "memcached", "port": 11211}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "labels": labels_of(name)}, "spec": spec}


def deployment(name: str, size: int) -> Any:
    """A Deployment of memcached."""
    container = {
        "name": "memcached",
        "image": "memcached:1.6-alpine",
        "command": ["memcached", "-m", "64", "-v"],
        "ports": [{"containerPort": 11211, "name": "memcached"}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels_of(name)},
        "spec": {
            "replicas": size,
            "selector": {"matchLabels": labels_of(name)},
            "template": {"metadata": {"labels": labels_of(name)}, "spec": {"containers": [container]}},
        },
    }


@kopf.on.resume(*RESOURCE)
@kopf.on.create(*RESOURCE)
def create(spec: kopf.Spec, name: str, namespace: Any, body: kopf.Body, **_: Any) -> None:
    """Make the children; after a restart, put the replicas right."""
    size = spec.get("size", 1)
    children = [service(name), deployment(name, size)]
    for child in children:
        kopf.append_owner_reference(child, owner=body)
    try:
        core.create_namespaced_service(namespace, children[0])
    except kubernetes.client.ApiException as error:
        if error.status != CONFLICT:
            raise
    try:
        apps.create_namespaced_deployment(namespace, children[1])
    except kubernetes.client.ApiException as error:
        if error.status != CONFLICT:
            raise
        apps.patch_namespaced_deployment(name, namespace, {"spec": {"replicas": size}})


@kopf.on.update(*RESOURCE, field="spec.size")
def update(spec: kopf.Spec, name: str, namespace: Any, **_: Any) -> None:
    """Scale."""
    apps.patch_namespaced_deployment(name, namespace, {"spec": {"replicas": spec.get("size", 1)}})


@kopf.on.event("apps", "v1", "deployments", labels={"app": "memcached"})
def on_deployment(
    type: Any,  # noqa: A002 - kopf's name for it
    meta: kopf.Meta,
    spec: kopf.Spec,
    namespace: Any,
    **indices: Any,
) -> None:
    """Put changed replicas back, and tell the names of the pods."""
    if type == "DELETED" or meta.get("deletionTimestamp"):
        return
    name = meta["labels"]["memcached_cr"]
    wanted = next(iter(indices["sizes"].get((namespace, name), [])), None)
    if wanted is not None and spec.get("replicas") != wanted:
        apps.patch_namespaced_deployment(name, namespace, {"spec": {"replicas": wanted}})
        return
    pods: Any = core.list_namespaced_pod(namespace, label_selector=f"memcached_cr={name}")
    status = {"status": {"nodes": sorted(pod.metadata.name for pod in pods.items)}}
    try:
        custom.patch_namespaced_custom_object_status(*RESOURCE[:2], namespace, RESOURCE[2], name, status)
    except kubernetes.client.ApiException as error:
        if error.status != NOT_FOUND:
            raise
