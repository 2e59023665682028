"""What a cluster with OLM is given to install the operator from our catalog: config/olm."""

from __future__ import annotations

from typing import Any

from memcached_operator.codegen.csv import NAMESPACE, PACKAGE

Manifest = dict[str, Any]

_CATALOG = f"{PACKAGE}-catalog"
_LEVELS = ("enforce", "warn", "audit")


def manifests(catalog_image: str, channel: str) -> dict[str, Manifest]:
    """File name without suffix -> manifest. `channel` is the one to follow."""
    return {
        "namespace": {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": NAMESPACE,
                "labels": {f"pod-security.kubernetes.io/{level}": "restricted" for level in _LEVELS},
            },
        },
        "catalog_source": {
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "CatalogSource",
            "metadata": {"name": _CATALOG, "namespace": NAMESPACE},
            "spec": {
                "sourceType": "grpc",
                "image": catalog_image,
                "displayName": "Memcached operator",
                "publisher": "Memcached Operator Authors",
                # OLM's default is `legacy`, which a namespace with Pod Security level `restricted` refuses.
                "grpcPodConfig": {"securityContextConfig": "restricted"},
                "updateStrategy": {"registryPoll": {"interval": "30m"}},
            },
        },
        # Without targetNamespaces it watches all namespaces; with a list, those and no others.
        "operator_group": {
            "apiVersion": "operators.coreos.com/v1",
            "kind": "OperatorGroup",
            "metadata": {"name": PACKAGE, "namespace": NAMESPACE},
            "spec": {"upgradeStrategy": "Default"},
        },
        "subscription": {
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "Subscription",
            "metadata": {"name": PACKAGE, "namespace": NAMESPACE},
            "spec": {
                "source": _CATALOG,
                "sourceNamespace": NAMESPACE,
                "name": PACKAGE,
                "channel": channel,
                "installPlanApproval": "Automatic",
            },
        },
    }
