"""A real Kubernetes control plane on this machine, without containers: for the demo, the tests and the benchmark.

etcd, kube-apiserver, kube-controller-manager and kube-scheduler are the real programs, started by `kwokctl`; the nodes
are simulated by `kwok`, so pods become Ready but nothing runs in them. Everything listens on 127.0.0.1 only.
Nothing in this package imports the operator.
"""

from controlplane import binaries
from controlplane.api import Api, ApiError
from controlplane.audit import AuditLog, ReadAudit, Request
from controlplane.cluster import ControlPlane, ControlPlaneError
from controlplane.operator_process import OperatorProcess, OperatorProcessError, StartOperator
from controlplane.waiting import NotYet, WaitTimeoutError, wait_until

__all__ = [
    "Api",
    "ApiError",
    "AuditLog",
    "ControlPlane",
    "ControlPlaneError",
    "NotYet",
    "OperatorProcess",
    "OperatorProcessError",
    "ReadAudit",
    "Request",
    "StartOperator",
    "WaitTimeoutError",
    "binaries",
    "wait_until",
]
