"""docs/security.md shows what the API server says that the operator may do; GOLDEN_UPDATE=1 writes it anew."""

from __future__ import annotations

import os
import re

import pytest
import yaml

from controlplane import ControlPlane, wait_until
from controlplane.paths import REPOSITORY

PAGE = REPOSITORY / "docs" / "security.md"
OWN = "memcached-operator-system"
ACCOUNT = f"system:serviceaccount:{OWN}:memcached-operator-controller-manager"
RIGHTS = {"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
DANGEROUS = ("secrets", "configmaps", "roles", "nodes", "customresourcedefinitions", "serviceaccounts", "pods/exec")


@pytest.fixture(scope="module")
def installed(control_plane: ControlPlane) -> ControlPlane:
    """Namespace, service account and rights of config/default."""
    rendered = yaml.safe_load_all(control_plane.kubectl("kustomize", str(REPOSITORY / "config" / "default")).stdout)
    wanted = yaml.safe_dump_all([manifest for manifest in rendered if manifest["kind"] in RIGHTS])
    control_plane.kubectl("apply", "--server-side", "-f", "-", input=wanted)
    return control_plane


def can_i(control_plane: ControlPlane, namespace: str) -> str:
    command = ("auth", "can-i", "--list", f"--as={ACCOUNT}", f"--namespace={namespace}")
    first, *rows = control_plane.kubectl(*command).stdout.splitlines()
    # The server's order is by chance.
    body = "\n".join(line.rstrip() for line in (first, *sorted(rows)))
    return f"```console\n$ kubectl {' '.join(command)}\n{body}\n```\n"


@pytest.mark.parametrize("namespace", ("default", OWN))
def test_the_page_shows_what_the_api_server_says(installed: ControlPlane, namespace: str) -> None:
    block = re.compile(rf"(<!-- can-i: {namespace} -->\n)```console\n.*?```\n", re.DOTALL)
    page = PAGE.read_text()
    assert block.search(page)
    if os.environ.get("GOLDEN_UPDATE"):
        page = block.sub(lambda found: found[1] + can_i(installed, namespace), page)
        PAGE.write_text(page)
    # RBAC is read through a cache. What differs for good is shown by
    # GOLDEN_UPDATE=1 make integration ARGS='-k security_page'; git diff docs/security.md
    wait_until(lambda: can_i(installed, namespace), 30, "what the page shows", until=lambda shown: shown in page)


@pytest.mark.parametrize("namespace", ("default", OWN))
def test_nothing_that_would_hand_over_the_cluster(installed: ControlPlane, namespace: str) -> None:
    shown = can_i(installed, namespace)
    resources = {line.split()[0].partition(".")[0] for line in shown.splitlines()[3:-1]}
    assert not resources & set(DANGEROUS)
    assert "*.*" not in shown
    verbs = {verb for found in re.findall(r"\[([^\[\]]*)\]$", shown, re.MULTILINE) for verb in found.split()}
    assert not verbs & {"*", "escalate", "bind", "impersonate", "deletecollection"}
