"""What kwokctl and kwok are told: pure functions that return the documents, written as JSON, which is valid YAML.

Sources: the configuration types of kwok 0.8 (KwokctlConfiguration, KwokConfiguration, Stage), the components' flags.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Document = dict[str, Any]

LOOPBACK = "127.0.0.1"
PORTS = (
    "etcdPort",
    "etcdPeerPort",
    "kubeApiserverPort",
    "kubeControllerManagerPort",
    "kubeSchedulerPort",
    "kwokControllerPort",
)
NOT_READY_ANNOTATION = "controlplane.example.com/pod"
UNPULLABLE = "does-not-exist"

_UNPULLABLE_IMAGES = f'.spec.containers[].image | select(contains("{UNPULLABLE}"))'
_NOT_READY = f'.metadata.annotations["{NOT_READY_ANNOTATION}"]'
_READY_STATUS = '.status.conditions[] | select(.type == "Ready") | .status'
_HEARTBEAT = 600  # seconds
_FAST = {"kube-api-qps": "2000", "kube-api-burst": "4000"}


def render(documents: Iterable[Document]) -> str:
    """Return the documents as one multi-document file."""
    return "\n---\n".join(json.dumps(document, indent=1) for document in documents) + "\n"


def kwokctl_configuration(
    binaries: Mapping[str, Path],
    ports: Mapping[str, int],
    *,
    audit_policy: Path | None,
    extra_apiserver_args: Mapping[str, str],
    kcm_fast: bool,
) -> Document:
    """Return the KwokctlConfiguration of a cluster that listens on 127.0.0.1 only, on the `ports` named in PORTS.

    kwokctl's own default binds everything, the unauthenticated etcd too, to every address. Leader election is off for
    the controller manager and the scheduler: there is one of each, so it could only delay a restart by a lease.
    """
    apiserver = {
        # What the Service `kubernetes` points to; it must not be loopback, and nothing here uses it (RFC 5737).
        "advertise-address": "192.0.2.1",
        # kwokctl leaves the default /24: 254 Services.
        "service-cluster-ip-range": "10.96.0.0/16",
        **({"audit-log-maxsize": str(1 << 20)} if audit_policy else {}),  # MiB: a log that rotates loses counts
        **extra_apiserver_args,
    }
    # Autoscalers look every 15 seconds otherwise.
    controller_manager = {"leader-elect": "false", "horizontal-pod-autoscaler-sync-period": "1s"}
    if kcm_fast:
        # Its defaults (20 requests a second, 5 workers) would be what a benchmark of an operator measures.
        controller_manager |= {**_FAST, "concurrent-deployment-syncs": "20", "concurrent-replicaset-syncs": "20"}
    patches = {
        # A crash of the machine may cost this cluster's data; the death of etcd does not, the kernel has the writes.
        "etcd": {"unsafe-no-fsync": "true"},
        "kube-apiserver": apiserver,
        "kube-controller-manager": controller_manager,
        # Binding is the scheduler's only write: at its default of 50 a second it, not the operator, would set the pace.
        "kube-scheduler": {"leader-elect": "false", **_FAST},
    }
    return {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokctlConfiguration",
        "options": {
            "bindAddress": LOOPBACK,
            "runtime": "binary",
            "etcdBinary": str(binaries["etcd"]),
            "kubeApiserverBinary": str(binaries["kube-apiserver"]),
            "kubeControllerManagerBinary": str(binaries["kube-controller-manager"]),
            "kubeSchedulerBinary": str(binaries["kube-scheduler"]),
            "kubectlBinary": str(binaries["kubectl"]),
            "kwokControllerBinary": str(binaries["kwok"]),
            **{option: ports[option] for option in PORTS},
            **({"kubeAuditPolicy": str(audit_policy)} if audit_policy else {}),
            # Nodes must outlive an API server that is down for minutes, and idle nodes must not write. They have a
            # heartbeat (see `stages`) instead of Leases: a kwok that is restarted would wait for those of the old one.
            "heartbeatFactor": 1,
            "kubeControllerManagerNodeMonitorGracePeriodMilliseconds": 3_600_000,
        },
        "componentsPatches": [
            {"name": component, "extraArgs": [{"key": key, "value": value} for key, value in arguments.items()]}
            for component, arguments in patches.items()
        ],
    }


def kwok_configuration() -> Document:
    """Return the KwokConfiguration: kwok's own defaults make about 20 pods a second Ready."""
    return {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": {
            "podPlayStageParallelism": 16,
            "podsOnNodeSyncParallelism": 4,
            # A document that is given gets no defaults, and kwok refuses to start with a zero.
            "nodePlayStageParallelism": 4,
            "nodeLeaseParallelism": 4,
            "enablePodsOnNodeSyncStreamWatch": True,
        },
    }


def audit_policy() -> Document:
    """Return a policy that logs the metadata of every request; nothing is left out.

    A watch is logged when it starts (ResponseStarted) and when it ends (ResponseComplete), others when they end.
    """
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata"}],
    }


def nodes(count: int) -> list[Document]:
    """Return `count` Nodes (at most 100), spread over three zones, each with 65,000 addresses for its pods."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": f"node-{index}",
                "labels": {
                    "kubernetes.io/hostname": f"node-{index}",
                    "kubernetes.io/os": "linux",
                    "kubernetes.io/arch": "amd64",
                    "topology.kubernetes.io/zone": f"zone-{index % 3}",
                    "type": "kwok",
                },
            },
            "spec": {"podCIDR": f"10.{100 + index}.0.0/16", "podCIDRs": [f"10.{100 + index}.0.0/16"]},
        }
        for index in range(count)
    ]


def stages() -> list[Document]:
    """Return the lives of nodes and pods.

    A pod becomes Ready at once and gets an address, with two exceptions that tests ask for: an image whose name holds
    `does-not-exist` is never pulled (ImagePullBackOff), and the pod annotation `controlplane.example.com/pod: NotReady`
    keeps a pod running without being ready, for as long as it is there. A deleted pod is gone at once.
    """
    alive = _without(".metadata.deletionTimestamp")
    unbroken = [alive, _without(_UNPULLABLE_IMAGES)]
    return [
        _stage("node-initialize", "Node", [_unlike(_READY_STATUS, "True")], _NODE_STATUS),
        _stage("node-heartbeat", "Node", [_like(_READY_STATUS, "True")], _NODE_STATUS, delay=_HEARTBEAT),
        _stage(
            "pod-ready",
            "Pod",
            [*unbroken, _unlike(_READY_STATUS, "True"), _unlike(_NOT_READY, "NotReady")],
            _pod_running(ready=True),
        ),
        _stage(
            "pod-not-ready",
            "Pod",
            [*unbroken, _unlike(_READY_STATUS, "False"), _like(_NOT_READY, "NotReady")],
            _pod_running(ready=False),
        ),
        _stage(
            "pod-image-pull",
            "Pod",
            [alive, _with(_UNPULLABLE_IMAGES), _without(".status.containerStatuses[].state.waiting.reason")],
            _IMAGE_PULL_STATUS,
        ),
        _stage("pod-delete", "Pod", [_with(".metadata.deletionTimestamp")], None),
    ]


_NODE_STATUS = """
{{ $now := Now }}
conditions:
{{ range NodeConditions }}
- type: {{ .type | Quote }}
  status: {{ .status | Quote }}
  reason: {{ .reason | Quote }}
  message: {{ .message | Quote }}
  lastHeartbeatTime: {{ $now | Quote }}
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
addresses:
- {type: InternalIP, address: 192.0.2.10}
- {type: Hostname, address: {{ .metadata.name | Quote }}}
allocatable: {cpu: 1k, memory: 1Ti, pods: 100k}
capacity: {cpu: 1k, memory: 1Ti, pods: 100k}
nodeInfo:
  architecture: amd64
  operatingSystem: linux
  kubeletVersion: {{ printf "kwok-%s" Version | Quote }}
  containerRuntimeVersion: simulated
  kernelVersion: simulated
  osImage: simulated
  kubeProxyVersion: ""
  bootID: ""
  machineID: ""
  systemUUID: ""
"""

_IMAGE_PULL_STATUS = """
{{ $now := Now }}
phase: Pending
startTime: {{ $now | Quote }}
conditions:
- {type: Initialized, status: "True", lastTransitionTime: {{ $now | Quote }}}
- {type: Ready, status: "False", reason: ContainersNotReady, lastTransitionTime: {{ $now | Quote }}}
- {type: ContainersReady, status: "False", reason: ContainersNotReady, lastTransitionTime: {{ $now | Quote }}}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: false
  started: false
  restartCount: 0
  state:
    waiting:
      reason: ImagePullBackOff
      message: {{ printf "Back-off pulling image \\"%s\\": not found" .image | Quote }}
{{ end }}
"""


def _pod_running(*, ready: bool) -> str:
    status = "True" if ready else "False"
    reason = "" if ready else "reason: ContainersNotReady, "
    return f"""
{{{{ $now := Now }}}}
phase: Running
startTime: {{{{ $now | Quote }}}}
conditions:
- {{type: Initialized, status: "True", lastTransitionTime: {{{{ $now | Quote }}}}}}
- {{type: Ready, status: "{status}", {reason}lastTransitionTime: {{{{ $now | Quote }}}}}}
- {{type: ContainersReady, status: "{status}", {reason}lastTransitionTime: {{{{ $now | Quote }}}}}}
containerStatuses:
{{{{ range .spec.containers }}}}
- name: {{{{ .name | Quote }}}}
  image: {{{{ .image | Quote }}}}
  imageID: ""
  ready: {str(ready).lower()}
  started: true
  restartCount: 0
  state:
    running: {{startedAt: {{{{ $now | Quote }}}}}}
{{{{ end }}}}
hostIP: 192.0.2.10
{{{{ if not .status.podIP }}}}
{{{{ with PodIPsWith .spec.nodeName false (or .metadata.uid "") (or .metadata.name "") (or .metadata.namespace "") }}}}
podIP: {{{{ index . 0 | Quote }}}}
podIPs:
{{{{ range . }}}}
- ip: {{{{ . | Quote }}}}
{{{{ end }}}}
{{{{ end }}}}
{{{{ end }}}}
"""


def _stage(name: str, kind: str, selector: list[Document], status: str | None, delay: int = 0) -> Document:
    """Return a Stage that after `delay` seconds patches the status, or deletes the object if no status is given."""
    step: Document = {"delete": True}
    if status is not None:
        step = {"patches": [{"subresource": "status", "root": "status", "template": status}]}
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": selector},
            "delay": {"durationMilliseconds": delay * 1000},
            "next": step,
        },
    }


def _with(query: str) -> Document:
    return {"key": query, "operator": "Exists"}


def _without(query: str) -> Document:
    return {"key": query, "operator": "DoesNotExist"}


def _like(query: str, value: str) -> Document:
    return {"key": query, "operator": "In", "values": [value]}


def _unlike(query: str, value: str) -> Document:
    return {"key": query, "operator": "NotIn", "values": [value]}
