"""Which kinds may own others: the admission plug-in OwnerReferencesPermissionEnforcement learns of new ones late."""

import functools
from typing import Any

from controlplane import rbac
from controlplane.api import Api, object_path
from controlplane.waiting import wait_until

OWNER_PROBE = "owner-probe"
"""The user who asks: an administrator is never refused."""

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def wait_known_owners(api: Api, probe: Api, timeout: float) -> None:
    """Wait until the plug-in, where it is on, knows the kind of each CRD. `probe` is a connection of OWNER_PROBE.

    Raises ApiError, and WaitTimeoutError after `timeout` seconds.
    """
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}
    rbac.bind(api, OWNER_PROBE, [rule], namespace="default")
    for crd in api.get(_CRDS)["items"]:
        refused = functools.partial(_unknown, probe, _owned_by(crd))
        wait_until(refused, timeout, f"{crd['metadata']['name']} to be known as owners", until=lambda said: not said)


def _unknown(probe: Api, owned: dict[str, Any]) -> bool:
    """Whether the plug-in refuses for want of knowledge, not of rights."""
    _, answer = probe.request("POST", object_path("v1", "configmaps", "default") + "?dryRun=All", owned)
    return "RESTMapping" in str(answer)


def _owned_by(crd: dict[str, Any]) -> dict[str, Any]:
    """A ConfigMap that blocks the deletion of an owner of the CRD's kind."""
    spec = crd["spec"]
    version = next(version["name"] for version in spec["versions"] if version["storage"])
    owner = {"apiVersion": f"{spec['group']}/{version}", "kind": spec["names"]["kind"], "name": "any", "uid": "any"}
    return {"metadata": {"name": "owned", "ownerReferences": [{**owner, "blockOwnerDeletion": True}]}}
