"""The base of the ClusterServiceVersion: what a catalog's users read and click, with a descriptor for every field.

`operator-sdk generate bundle` adds the rest: deployment, permissions, the CRD's name, examples, related images.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from memcached_operator.api import names
from memcached_operator.codegen.upgrades import Upgrade, release_name
from memcached_operator.gvr import (
    DEPLOYMENTS,
    EVENTS,
    HORIZONTALPODAUTOSCALERS,
    PODDISRUPTIONBUDGETS,
    PODS,
    SERVICES,
)

Manifest = dict[str, Any]
Schema = dict[str, Any]

PACKAGE = "memcached-operator"
NAMESPACE = "memcached-operator-system"
MIN_KUBERNETES = "1.30.0"
"""The oldest API server that takes the CRD: its messages use CEL's `format`, of the string library's version 1.

Kubernetes has that since 1.29, and lets a new CRD use what is new one minor version later. All else needs less:
`quantity` 1.29, `matchLabelKeys` and `unhealthyPodEvictionPolicy` 1.27.
"""

CAPABILITIES = "Seamless Upgrades"
"""Level II: an upgrade of the operator leaves the caches serving, and `spec.image` rolls them to another memcached.

Level III asks for backup and restore, which a cache has no use for; and levels are read as cumulative.
"""

INSTALL_MODES = ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")
"""All that OLM knows. The operator takes any list of namespaces, and its rights in them are namespaced ones."""

_URL = "https://example.com/memcached-operator"
_AUTHORS = "Memcached Operator Authors"
_SHORT = "Runs memcached on Kubernetes: pods, Service and disruption budget from one small resource."
_DESCRIPTION = """\
A `Memcached` resource becomes a set of equal memcached pods behind one headless Service, with a disruption budget. The
operator keeps them as the resource says, and tells in `status` how they are.

```yaml
apiVersion: cache.example.com/v1alpha1
kind: Memcached
metadata:
  name: sessions
spec:
  size: 3        # pods
  memory: 64     # MiB of cache in each; the container's memory is computed from it
```

Clients use the addresses behind the name `sessions.NAMESPACE.svc`, port 11211, and spread keys over them.

### What it does

* **Sizing that fits.** The container's memory request and limit follow from `memory` and `maxConnections`. A spec with
  which memcached would not start is refused by the API server, with words that say what to change.
* **Repair.** A child that was deleted or edited is put back at once.
* **Scaling** by `kubectl scale` or a HorizontalPodAutoscaler, both on the `Memcached` itself.
* **Gentle changes.** A new pod is ready before an old one stops; a node drain takes one pod at a time.
* **Deletion as you choose it:** delete all, leave the cache running, or send the clients away first.
* **Conditions** `Ready`, `Available`, `Progressing` and `Degraded`, with reasons from a closed list;
  `kubectl wait --for=condition=Ready memcached/sessions` works.
* **Restricted by default.** Operator and caches run under the Pod Security level `restricted`. The operator reads no
  Secrets.

### What it does not do

memcached keeps items in memory alone: a pod that is replaced starts empty, and there is nothing to back up. Pods do not
replicate to each other.

### Installing

It can watch its own namespace, one, several, or all: the OperatorGroup says which, and outside `AllNamespaces` it gets
rights in those namespaces and its own only.
"""

_ARCHITECTURES = ("amd64",)
# What it makes, and what it looks at. Rules name events and autoscalers without a version, and operator-sdk warns of
# versions that Kubernetes 1.25 removed; but not of what is named here, with its version.
_RESOURCES = (DEPLOYMENTS, SERVICES, PODDISRUPTIONBUDGETS, PODS, EVENTS, HORIZONTALPODAUTOSCALERS)
_UNSUPPORTED = (
    *("cnf", "cni", "csi", "fips-compliant", "proxy-aware", "tls-profiles"),
    *("token-auth-aws", "token-auth-azure", "token-auth-gcp"),
)


def cluster_service_version(
    crd: Manifest, *, version: str, upgrade: Upgrade, image: str, icon: str, pinned: bool = False
) -> Manifest:
    """The base.

    Args:
        crd: the CustomResourceDefinition, as a manifest.
        version: of the operator, without a `v`.
        upgrade: what it replaces.
        image: of the operator.
        icon: text of an SVG.
        pinned: whether the bundle will name its images by digest; only then can it be mirrored for a network without
            access to registries.
    """
    replaces = {"replaces": upgrade.replaces} if upgrade.replaces else {}
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": release_name(PACKAGE, version),
            "namespace": "placeholder",
            "labels": {
                **{f"operatorframework.io/arch.{arch}": "supported" for arch in _ARCHITECTURES},
                "operatorframework.io/os.linux": "supported",
            },
            "annotations": _annotations(upgrade, image, pinned=pinned),
        },
        "spec": {
            "displayName": "Memcached",
            "description": _DESCRIPTION,
            "version": version,
            **replaces,
            "maturity": "alpha",
            "minKubeVersion": MIN_KUBERNETES,
            "provider": {"name": _AUTHORS, "url": _URL},
            "maintainers": [{"name": _AUTHORS, "email": "memcached-operator@example.com"}],
            "keywords": ["memcached", "cache", "caching", "key-value", "database"],
            "links": [
                {"name": "Memcached operator", "url": _URL},
                {"name": "memcached documentation", "url": "https://docs.memcached.org"},
            ],
            "icon": [{"base64data": base64.b64encode(icon.encode()).decode(), "mediatype": "image/svg+xml"}],
            "installModes": [{"type": mode, "supported": True} for mode in INSTALL_MODES],
            "install": {"strategy": "deployment", "spec": {"deployments": []}},
            "customresourcedefinitions": {"owned": [_owned(crd)]},
        },
    }


def _annotations(upgrade: Upgrade, image: str, *, pinned: bool) -> dict[str, str]:
    template = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    }
    skip_range = {"olm.skipRange": upgrade.skip_range} if upgrade.skip_range else {}
    return {
        "alm-examples": "[]",
        "capabilities": CAPABILITIES,
        "categories": "Database",
        "certified": "false",
        "containerImage": image,
        "description": _SHORT,
        "features.operators.openshift.io/disconnected": "true" if pinned else "false",
        **{f"features.operators.openshift.io/{feature}": "false" for feature in _UNSUPPORTED},
        **skip_range,
        "operatorframework.io/suggested-namespace": NAMESPACE,
        "operatorframework.io/suggested-namespace-template": json.dumps(template),
        "repository": _URL,
        "support": _AUTHORS,
    }


def _owned(crd: Manifest) -> Manifest:
    version = crd["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    return {
        "name": crd["metadata"]["name"],
        "version": version["name"],
        "kind": crd["spec"]["names"]["kind"],
        "displayName": names.KIND,
        "description": schema["description"],
        "resources": [{"kind": kind.kind, "name": "", "version": kind.version} for kind in _RESOURCES],
        "specDescriptors": list(_descriptors(schema["properties"]["spec"], _spec_widgets)),
        "statusDescriptors": list(_descriptors(schema["properties"]["status"], _status_widgets)),
    }


def _descriptors(schema: Schema, widgets: Callable[[str, Schema], list[str]], prefix: str = "") -> Iterator[Manifest]:
    """One for each field, and for the fields of an object where a form can show them one by one."""
    for name, node in schema["properties"].items():
        path = f"{prefix}{name}"
        yield {
            "path": path,
            "displayName": _title(name),
            "description": node["description"],
            "x-descriptors": widgets(path, node),
        }
        if path in _OPENED:
            yield from _descriptors(node, widgets, f"{path}.")


def _title(name: str) -> str:
    """`maxItemSize` -> `Max Item Size`."""
    words = re.sub(r"(?<!^)(?=[A-Z])", " ", name)
    return words[0].upper() + words[1:]


_OPENED = ("rollout", "affinity")
_FIRST = ("size", "image", "memory", "maxConnections", "resources", "deletionPolicy", "drainSeconds", "paused")
"""Fields that a form shows at once; the others are behind `advanced`."""

_UI = "urn:alm:descriptor:com.tectonic.ui"
_SPEC_WIDGETS = {
    "size": [f"{_UI}:podCount"],
    "resources": [f"{_UI}:resourceRequirements"],
    "affinity.nodeAffinity": [f"{_UI}:nodeAffinity"],
    "affinity.podAffinity": [f"{_UI}:podAffinity"],
    "affinity.podAntiAffinity": [f"{_UI}:podAntiAffinity"],
    "priorityClassName": ["urn:alm:descriptor:io.kubernetes:PriorityClass"],
    "drainSeconds": [f"{_UI}:number", f"{_UI}:fieldDependency:deletionPolicy:Drain"],
}
_WIDGET_OF_TYPE = {"integer": "number", "boolean": "booleanSwitch", "string": "text"}


def _spec_widgets(path: str, node: Schema) -> list[str]:
    if path in _SPEC_WIDGETS:
        widgets = _SPEC_WIDGETS[path]
    elif "enum" in node:
        widgets = [f"{_UI}:select:{word}" for word in node["enum"]]
    elif node.get("x-kubernetes-int-or-string"):
        widgets = [f"{_UI}:text"]
    else:
        widgets = [f"{_UI}:{_WIDGET_OF_TYPE[node['type']]}"] if node["type"] in _WIDGET_OF_TYPE else []
    return [*widgets, *([] if path in _FIRST else [f"{_UI}:advanced"])]


def _status_widgets(path: str, node: Schema) -> list[str]:
    del node
    return ["urn:alm:descriptor:io.kubernetes.conditions" if path == "conditions" else "urn:alm:descriptor:text"]
