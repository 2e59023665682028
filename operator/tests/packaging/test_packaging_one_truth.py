"""CRD and rights are the same in config/, in the chart and in the bundle, and the same as in the code."""

from __future__ import annotations

import difflib
import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

import shipped
from memcached_operator.api.crd import custom_resource_definition
from memcached_operator.kube.permissions import cluster_role_rules, leader_election_rules
from shipped import CHART_NAMESPACE, Json, allowed, grants

SOURCES = ("config", "chart", "bundle")
Rights = set[tuple[str, ...]]


@functools.cache
def objects(source: str) -> list[Json]:
    if source == "config":
        return shipped.documents(shipped.kustomized("config/default"))
    return shipped.documents(shipped.chart() if source == "chart" else shipped.bundle())


def of_kind(source: str, kind: str) -> list[Json]:
    return [body for body in objects(source) if body["kind"] == kind]


def rights(manifests: list[Json]) -> dict[str, Rights]:
    """Namespace ("" for the whole cluster) -> what the operator may do there."""
    (deployment,) = [body for body in manifests if body["kind"] == "Deployment"]
    found: dict[str, Rights] = {}
    for namespace, rules in grants(manifests, deployment["spec"]["template"]["spec"]["serviceAccountName"]):
        found[namespace] = found.get(namespace, set()) | allowed(rules)
    return found


@pytest.mark.parametrize("source", SOURCES)
def test_the_crd_is_that_of_the_models(source: str) -> None:
    (crd,) = of_kind(source, "CustomResourceDefinition")
    assert crd["spec"] == yaml.safe_load(yaml.safe_dump(custom_resource_definition()))["spec"]
    assert crd["metadata"]["name"] == "memcacheds.cache.example.com"


@pytest.mark.parametrize(("source", "namespace"), (("config", "memcached-operator-system"), ("chart", CHART_NAMESPACE)))
def test_the_rights_are_those_of_the_table(source: str, namespace: str) -> None:
    assert rights(objects(source)) == {"": allowed(cluster_role_rules()), namespace: allowed(leader_election_rules())}


def test_olm_is_asked_for_the_rights_of_the_table_in_the_namespaces_of_the_operator_group() -> None:
    (csv,) = of_kind("bundle", "ClusterServiceVersion")
    strategy = csv["spec"]["install"]["spec"]
    (entry,) = strategy["permissions"]
    (deployment,) = strategy["deployments"]
    assert entry["serviceAccountName"] == deployment["spec"]["template"]["spec"]["serviceAccountName"]
    assert allowed(entry["rules"]) == allowed([*cluster_role_rules(), *leader_election_rules()])
    # As clusterPermissions they would hold in the whole cluster in every install mode.
    assert "clusterPermissions" not in strategy


def test_with_watched_namespaces_the_chart_has_the_same_rights_there_and_none_in_the_cluster() -> None:
    watched = shipped.documents(shipped.chart("--set", "watchNamespaces={one,two}"))
    table = allowed(cluster_role_rules())
    assert rights(watched) == {"one": table, "two": table, CHART_NAMESPACE: allowed(leader_election_rules())}
    assert [body["metadata"]["name"] for body in watched if body["kind"].startswith("ClusterRole")] == []


def test_the_namespaced_overlay_has_the_same_rights_in_its_namespace_alone() -> None:
    manifests = shipped.documents(shipped.kustomized("config/namespaced"))
    table = allowed([*cluster_role_rules(), *leader_election_rules()])
    assert rights(manifests) == {"memcached-operator-system": table}


@pytest.mark.parametrize("source", SOURCES)
def test_what_people_may_do_is_the_same(source: str) -> None:
    def of_people(where: str) -> list[tuple[list[str], list[tuple[str, ...]]]]:
        """Which of Kubernetes' own roles they are added to, and what they allow."""
        found = []
        for role in of_kind(where, "ClusterRole"):
            labels = role["metadata"].get("labels", {})
            into = [label for label in labels if label.startswith("rbac.authorization.k8s.io/aggregate-to-")]
            if into:
                found.append((sorted(into), sorted(allowed(role["rules"]))))
        return sorted(found)

    assert of_people(source) == of_people("config") != []


# --- drift ------------------------------------------------------------------------------------------------------------


def test_making_everything_anew_changes_nothing_but_the_time(tmp_path: Path) -> None:
    """`make generate manifests bundle` in a copy of the repository, as it is and not only as it is committed."""
    shipped.tool("operator-sdk")
    copy = tmp_path / "copy"
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=shipped.REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    files = [name for name in names if name and (shipped.REPOSITORY / name).is_file()]
    for name in files:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(shipped.REPOSITORY / name, copy / name)
    (copy / ".venv").symlink_to(shipped.REPOSITORY / ".venv")
    # A make around this one would hand its flags down.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    made = subprocess.run(
        # The environment is this repository's: it must not be set up anew for the copy.
        ["make", "--old-file=.venv/.ready", "generate", "manifests", "bundle"],
        cwd=copy,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    after = {str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file() and not _ours(path, copy)}
    assert after - set(files) == set()
    changes = [line for name in files for line in _changes(shipped.REPOSITORY / name, copy / name)]
    assert [line for line in changes if not re.match(r"[+-]\s+createdAt: ", line)] == []


def _ours(path: Path, copy: Path) -> bool:
    """Whether git would not look at it."""
    return path.relative_to(copy).parts[0] in (".venv", ".cache", "bin", "dist") or "__pycache__" in path.parts


def _changes(before: Path, after: Path) -> list[str]:
    if not after.is_file():
        return [f"- {before.name} is gone"]
    old, new = (path.read_text(encoding="utf-8", errors="replace").splitlines() for path in (before, after))
    lines = difflib.unified_diff(old, new, str(before), str(after), lineterm="", n=0)
    return [line for line in lines if not line.startswith(("@@", "---", "+++"))]
