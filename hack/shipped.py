"""What people install, rendered: every kustomize folder, the chart with every set of values, the bundle.

Rendering is by the users' programs: see hack/tool for how each is found.
"""

import functools
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]

REPOSITORY = Path(__file__).resolve().parents[1]
CONFIG = REPOSITORY / "config"
CHART = REPOSITORY / "helm" / "memcached-operator"
BUNDLE = REPOSITORY / "bundle"
INSTALLABLE = ("config/default", "config/namespaced")
"""The folders to which the components of config/ may be added."""
CHART_NAMESPACE = "chart"
KUBERNETES = "1.35.4"


class ToolError(RuntimeError):
    """A program is missing or failed; the text is its own words, or the advice how to get it."""


def outputs() -> dict[str, Callable[[], str]]:
    """Name -> function that renders it as a stream of YAML documents."""
    kinds = {path.parent: _kind(path) for path in sorted(CONFIG.rglob("kustomization.yaml"))}
    folders = [folder for folder, kind in kinds.items() if kind == "Kustomization"]
    components = [folder.name for folder, kind in kinds.items() if kind == "Component"]
    with_components: list[tuple[str, ...]] = [("config/default", name) for name in components]
    with_components += [(folder, *components) for folder in INSTALLABLE]
    return {
        **{_relative(folder): functools.partial(kustomized, _relative(folder)) for folder in folders},
        **{" + ".join(names): functools.partial(kustomized, *names) for names in with_components},
        "chart": chart,
        **{
            f"chart {values.stem}": functools.partial(chart, "--values", str(values))
            for values in sorted((CHART / "ci").glob("*.yaml"))
        },
        "bundle": bundle,
    }


def kustomized(folder: str, *components: str) -> str:
    """A folder, such as config/default, with components of config/ added. Raises ToolError."""
    return run("kustomize", folder, *components, command="hack/render")


def chart(*flags: str) -> str:
    """`helm template` with these flags. Raises ToolError."""
    # The release's name is the prefix of config/default: its Lease and its roles have the same names. A helm that was
    # built by `go install` takes Kubernetes 1.20 for the newest, unless it is told.
    flags = ("--namespace", CHART_NAMESPACE, "--kube-version", KUBERNETES, *flags)
    return run("helm", "template", "memcached-operator", str(CHART), *flags)


def bundle() -> str:
    """The manifests of bundle/."""
    files = sorted((BUNDLE / "manifests").glob("*.yaml"))
    return "---\n".join(file.read_text(encoding="utf-8").rstrip() + "\n" for file in files)


def documents(stream: str) -> list[Json]:
    """The objects of a stream of YAML documents."""
    return [document for document in yaml.safe_load_all(stream) if document]


def tool(name: str) -> str:
    """The path of a program. Raises ToolError with the advice how to get it."""
    found = subprocess.run([str(REPOSITORY / "hack" / "tool"), name], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        raise ToolError(found.stderr.strip())
    return found.stdout.strip()


def run(name: str, *arguments: str, command: str = "", stdin: str | None = None, ok: tuple[int, ...] = (0,)) -> str:
    """Run a program from the repository's root and return what it prints.

    `command` is run instead where it is a script of ours that uses the program. Raises ToolError when the exit code is
    not among `ok`.
    """
    path = tool(name)
    done = subprocess.run(
        [command or path, *arguments], cwd=REPOSITORY, input=stdin, capture_output=True, text=True, check=False
    )
    if done.returncode not in ok:
        raise ToolError(
            f"{command or name} {' '.join(arguments)}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        )
    return done.stdout


def grants(objects: list[Json], account: str) -> Iterator[tuple[str, list[Json]]]:
    """What RBAC gives to the service account of this name: namespace ("" for the whole cluster) and rules."""
    rules = {
        (body["kind"], body["metadata"].get("namespace", ""), body["metadata"]["name"]): body.get("rules") or []
        for body in objects
        if body["kind"] in ("ClusterRole", "Role")
    }
    for body in objects:
        if body["kind"] not in ("ClusterRoleBinding", "RoleBinding"):
            continue
        if not any(subject["kind"] == "ServiceAccount" and subject["name"] == account for subject in body["subjects"]):
            continue
        namespace = body["metadata"].get("namespace", "")
        role = body["roleRef"]
        yield namespace, rules[role["kind"], namespace if role["kind"] == "Role" else "", role["name"]]


def allowed(rules: list[Json]) -> set[tuple[str, ...]]:
    """Rules as (verb, group, resource, name), whatever way they were put together; name is "" for all."""
    return {
        (verb, group, resource, name)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule.get("apiGroups", [""])
        for resource in (*rule.get("resources", ()), *rule.get("nonResourceURLs", ()))
        for name in rule.get("resourceNames") or [""]
    }


def _kind(kustomization: Path) -> str:
    content: Mapping[str, str] = yaml.safe_load(kustomization.read_text(encoding="utf-8"))
    return content.get("kind", "Kustomization")


def _relative(folder: Path) -> str:
    return str(folder.relative_to(REPOSITORY))
