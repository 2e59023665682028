"""Our manifests on a real API server: it stores what we write, and `covers` agrees with it on what a field is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane import Api, ApiError, ControlPlane
from controlplane.api import object_path
from memcached_operator.api.v1alpha1 import DeletionPolicy, Memcached
from memcached_operator.api.validation import parse
from memcached_operator.resources.comparison import covers
from memcached_operator.resources.desired import desired_resources
from memcached_operator.resources.manifest import Manifest
from memcached_operator.resources.quantity import canonical_quantity

PLURALS = {"Service": "services", "Deployment": "deployments", "PodDisruptionBudget": "poddisruptionbudgets"}
APPLY = "?fieldManager=memcached-operator&force=true"

CASES = sorted((Path(__file__).parent.parent / "golden").glob("*/memcached.yaml"))
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.parent.name)


def created(api: Api, namespace: str, case: Path) -> Memcached:
    """A golden case's Memcached as the API server stored it."""
    body = yaml.safe_load(case.read_text())
    body["metadata"] = {"name": body["metadata"]["name"]}
    stored = api.create(object_path("cache.example.com/v1alpha1", "memcacheds", namespace), body)
    memcached = parse(stored["metadata"]["name"], namespace, stored["metadata"]["uid"], 1, stored["spec"])
    assert isinstance(memcached, Memcached), memcached
    return memcached


def children(memcached: Memcached) -> tuple[Manifest, ...]:
    return desired_resources(
        memcached, default_image="docker.io/library/memcached:1.6.45", replicas=memcached.spec.size
    )


def sample(namespace: str, **fields: Any) -> Memcached:
    """A cache that no Memcached stands for: it has no owner reference that the garbage collector could follow."""
    memcached = parse("cache", namespace, "uid-1", 1, {"size": 2, "deletionPolicy": "Orphan", **fields})
    assert isinstance(memcached, Memcached), memcached
    return memcached


def collection(child: Manifest) -> str:
    return object_path(child["apiVersion"], PLURALS[child["kind"]], child["metadata"]["namespace"])


def path(child: Manifest) -> str:
    return f"{collection(child)}/{child['metadata']['name']}"


def post_all(api: Api, manifests: tuple[Manifest, ...]) -> None:
    for child in manifests:
        api.create(collection(child), child)


@every_case
@pytest.mark.usefixtures("crd")
def test_what_was_created_is_covered(control_plane: ControlPlane, namespace: str, case: Path) -> None:
    memcached = created(control_plane.api, namespace, case)
    for child in children(memcached):
        answer = control_plane.api.create(collection(child), child)
        assert covers(child, answer) is None
        assert covers(child, control_plane.api.get(path(child))) is None


@every_case
@pytest.mark.usefixtures("crd")
def test_applying_what_is_there_changes_nothing(control_plane: ControlPlane, namespace: str, case: Path) -> None:
    memcached = created(control_plane.api, namespace, case)
    for child in children(memcached):
        first = control_plane.api.patch(path(child) + APPLY, child, "apply")
        second = control_plane.api.patch(path(child) + APPLY, child, "apply")
        assert covers(child, second) is None
        # A write that changes nothing is not stored. Where controllers write too, ask the generation.
        unchanged = "generation" if "generation" in first["metadata"] else "resourceVersion"
        assert second["metadata"][unchanged] == first["metadata"][unchanged]


@every_case
def test_pod_security_restricted_admits_the_pods(control_plane: ControlPlane, namespace: str, case: Path) -> None:
    restrict(control_plane.api, namespace)
    body = yaml.safe_load(case.read_text())
    memcached = parse("cache", namespace, "uid-1", 1, body["spec"])
    assert isinstance(memcached, Memcached)
    assert dry_run_pod(control_plane.api, children(memcached)[1])["kind"] == "Pod"


def test_pod_security_restricted_is_really_asked(control_plane: ControlPlane, namespace: str) -> None:
    restrict(control_plane.api, namespace)
    deployment = children(sample(namespace))[1]
    del deployment["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"]
    with pytest.raises(ApiError, match="runAsNonRoot != true"):
        dry_run_pod(control_plane.api, deployment)


def restrict(api: Api, namespace: str) -> None:
    labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn", "audit")}
    api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}})


def dry_run_pod(api: Api, deployment: Manifest) -> Any:
    template = deployment["spec"]["template"]
    namespace = deployment["metadata"]["namespace"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {**template["metadata"], "name": "pod"}}
    return api.create(object_path("v1", "pods", namespace) + "?dryRun=All", pod)


Edit = Callable[[dict[str, Any]], object]

ANNOTATION = {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}
SIDE_CAR = {"name": "proxy", "image": "proxy:1"}

QUANTITIES: tuple[str | int, ...] = (
    *(0, 1, 1000, 100_000_000, "+1", "1000m", ".5", "2.", "1.500", "007", "1024Mi", "1.5Gi", "0.1Mi", "1500Ki", "100u"),
    *("1n", "1e3", "1E3", "1e2", "15e2", "1e4", "1e-4", "8Ei", "1000P", "12E"),
)

THEIRS: dict[str, tuple[str, Edit]] = {
    "an annotation": ("Service", lambda o: o["metadata"]["annotations"].update(ANNOTATION)),
    "a label": ("Deployment", lambda o: o["metadata"]["labels"].update({"x": "y"})),
    "kubectl rollout restart": (
        "Deployment",
        lambda o: o["spec"]["template"]["metadata"].setdefault("annotations", {}).update(ANNOTATION),
    ),
    "a side-car": ("Deployment", lambda o: o["spec"]["template"]["spec"]["containers"].insert(0, SIDE_CAR)),
    "a variable": ("Deployment", lambda o: container(o).update(env=[{"name": "A", "value": "B"}])),
    "a field we leave alone": ("Deployment", lambda o: o["spec"].update(minReadySeconds=5)),
    "another number of replicas": ("Deployment", lambda o: o["spec"].update(replicas=0)),
    "a port": ("Service", lambda o: o["spec"]["ports"].append({"name": "metrics", "port": 9150, "protocol": "TCP"})),
    "another limit": ("Deployment", lambda o: container(o)["resources"]["limits"].update(cpu="1")),
    "the same amount in other words": (
        "Deployment",
        lambda o: container(o)["resources"]["limits"].update(memory=str(135 * 1024 * 1024)),
    ),
}

DRIFT: dict[str, tuple[str, Edit, str]] = {
    "an image": ("Deployment", lambda o: container(o).update(image="other:1"), ".image"),
    "an argument more": ("Deployment", lambda o: container(o)["args"].append("-A"), ".args"),
    "a token": (
        "Deployment",
        lambda o: o["spec"]["template"]["spec"].pop("automountServiceAccountToken"),
        ".automountServiceAccountToken",
    ),
    "root": (
        "Deployment",
        lambda o: o["spec"]["template"]["spec"]["securityContext"].pop("runAsNonRoot"),
        ".runAsNonRoot",
    ),
    "no probe": ("Deployment", lambda o: container(o).pop("readinessProbe"), ".readinessProbe"),
    "a limit": ("Deployment", lambda o: container(o)["resources"]["limits"].update(memory="1Gi"), ".memory"),
    "Recreate": ("Deployment", lambda o: o["spec"].update(strategy={"type": "Recreate"}), "spec.strategy"),
    "no spread": (
        "Deployment",
        lambda o: o["spec"]["template"]["spec"].pop("topologySpreadConstraints"),
        "Constraints",
    ),
    "a selector that finds no pod": ("Service", lambda o: o["spec"]["selector"].update(x="y"), "spec.selector.x"),
    "pods that are not ready": ("Service", lambda o: o["spec"].update(publishNotReadyAddresses=True), "NotReady"),
    "another port": (
        "Service",
        lambda o: o["spec"]["ports"][0].update(targetPort=1),
        "spec.ports[11211,TCP].targetPort",
    ),
    "a looser budget": ("PodDisruptionBudget", lambda o: o["spec"].update(maxUnavailable=2), "spec.maxUnavailable"),
    "a lost label": (
        "PodDisruptionBudget",
        lambda o: o["metadata"]["labels"].pop("app.kubernetes.io/managed-by"),
        "metadata.labels",
    ),
    "a lost owner": (
        "Service",
        lambda o: o["metadata"]["annotations"].pop("cache.example.com/owner-uid"),
        "metadata.annotations",
    ),
}


def container(deployment: dict[str, Any]) -> Any:
    containers = deployment["spec"]["template"]["spec"]["containers"]
    return next(item for item in containers if item["name"] == "memcached")


def edited(api: Api, child: Manifest, edit: Edit) -> Any:
    """The child after somebody else's edit, as the API server stored it."""
    while True:
        found = api.get(path(child))
        edit(found)
        try:
            return api.replace(path(child), found)
        except ApiError as error:
            if error.reason != "Conflict":  # the Deployment's own controller writes too
                raise


@pytest.mark.parametrize("case", THEIRS)
def test_what_others_add_is_theirs(control_plane: ControlPlane, namespace: str, case: str) -> None:
    kind, edit = THEIRS[case]
    manifests = children(sample(namespace))
    post_all(control_plane.api, manifests)
    child = next(child for child in manifests if child["kind"] == kind)
    assert covers(child, edited(control_plane.api, child, edit)) is None


@pytest.mark.parametrize("case", DRIFT)
def test_drift_is_seen_and_one_apply_repairs_it(control_plane: ControlPlane, namespace: str, case: str) -> None:
    kind, edit, where = DRIFT[case]
    manifests = children(sample(namespace))
    post_all(control_plane.api, manifests)
    child = next(child for child in manifests if child["kind"] == kind)
    difference = covers(child, edited(control_plane.api, child, edit))
    assert difference is not None
    assert where in difference
    assert covers(child, control_plane.api.patch(path(child) + APPLY, child, "apply")) is None


def test_a_field_that_leaves_the_spec_shows_in_the_hash(control_plane: ControlPlane, namespace: str) -> None:
    before = sample(namespace, nodeSelector={"disk": "ssd"})
    post_all(control_plane.api, children(before))
    after = replace(before, spec=before.spec.model_copy(update={"node_selector": {}}))
    service, deployment, _ = children(after)
    assert covers(service, control_plane.api.get(path(service))) is None
    difference = covers(deployment, control_plane.api.get(path(deployment)))
    assert difference is not None
    assert "desired-hash" in difference


def test_a_change_of_the_policy_shows_on_every_child(control_plane: ControlPlane, namespace: str) -> None:
    before = sample(namespace)
    post_all(control_plane.api, children(before))
    after = replace(before, spec=before.spec.model_copy(update={"deletion_policy": DeletionPolicy.DELETE}))
    for child in children(after):
        assert covers(child, control_plane.api.get(path(child))) is not None


def test_canonical_quantities_are_stored_as_they_are(control_plane: ControlPlane, namespace: str) -> None:
    deployment = children(sample(namespace))[1]
    for given in QUANTITIES:
        limits = {"cpu": canonical_quantity(given), "memory": "135Mi"}
        container(deployment)["resources"]["limits"] = limits
        stored = control_plane.api.create(collection(deployment) + "?dryRun=All", deployment)
        assert container(stored)["resources"]["limits"] == limits, given
