"""What helm makes of the chart. Schemas and API server judge the same in test_packaging_schemas.py."""

from __future__ import annotations

import copy
import functools
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import shipped
from shipped import Json

CI = {path.stem.removesuffix("-values"): path for path in sorted((shipped.CHART / "ci").glob("*.yaml"))}
SELECTOR = {
    "app.kubernetes.io/name": "memcached-operator",
    "app.kubernetes.io/instance": "memcached-operator",
    "control-plane": "controller-manager",
}
"""Of every version that was and will be: a Deployment's selector cannot be changed."""
CLUSTER_SCOPED = {
    *("ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"),
    *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
}

PASSED_ON = {
    *("affinity", "podSecurityContext", "resources", "securityContext"),
    *("startupProbe", "livenessProbe", "readinessProbe"),
}
"""Values whose fields are Kubernetes' own."""

Path_ = tuple[str, ...]


@functools.cache
def text(*flags: str) -> str:
    return shipped.chart(*flags)


@functools.cache
def rendered(*flags: str) -> tuple[Json, ...]:
    return tuple(shipped.documents(text(*flags)))


def of(name: str) -> tuple[Json, ...]:
    return rendered("--values", str(CI[name]))


def sets(*settings: str) -> tuple[str, ...]:
    return tuple(part for setting in settings for part in ("--set", setting))


def kinds(objects: tuple[Json, ...]) -> set[str]:
    return {body["kind"] for body in objects}


def one(objects: tuple[Json, ...], kind: str) -> Json:
    (found,) = (body for body in objects if body["kind"] == kind)
    return found


def pod(objects: tuple[Json, ...]) -> Json:
    spec: Json = one(objects, "Deployment")["spec"]["template"]["spec"]
    return spec


def container(objects: tuple[Json, ...]) -> Json:
    (found,) = pod(objects)["containers"]
    assert isinstance(found, dict)
    return found


def load(path: Path) -> Json:
    values: Json = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    return values


# --- in general -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", ((), *(("--values", str(path)) for path in CI.values())), ids=["", *CI])
def test_lint_finds_nothing(flags: tuple[str, ...]) -> None:
    said = shipped.run("helm", "lint", "--strict", str(shipped.CHART), *flags)
    assert not {"[ERROR]", "[WARNING]", "[INFO]"} & set(said.split()), said


@pytest.mark.parametrize("name", CI)
def test_the_same_values_give_the_same_text(name: str) -> None:
    assert shipped.chart("--values", str(CI[name])) == text("--values", str(CI[name]))


@pytest.mark.parametrize("name", CI)
def test_every_object_has_a_namespace_and_the_recommended_labels(name: str) -> None:
    labels = {f"app.kubernetes.io/{word}" for word in ("name", "instance", "version", "part-of", "managed-by")}
    for body in of(name):
        what = f"{body['kind']} {body['metadata']['name']}"
        if what.endswith(("-object", "-text")):
            continue  # extraObjects are the user's
        assert ("namespace" in body["metadata"]) is (body["kind"] not in CLUSTER_SCOPED), what
        assert {*labels, "helm.sh/chart"} <= set(body["metadata"]["labels"]), what


def test_the_namespace_is_the_releases_unless_another_is_asked_for() -> None:
    assert {body["metadata"].get("namespace") for body in rendered()} == {None, shipped.CHART_NAMESPACE}
    elsewhere = rendered(*sets("namespaceOverride=elsewhere"))
    assert {body["metadata"].get("namespace") for body in elsewhere} == {None, "elsewhere"}
    (subject,) = one(elsewhere, "ClusterRoleBinding")["subjects"]
    assert subject["namespace"] == "elsewhere"


@pytest.mark.parametrize("version", ("1.30.0", "1.34.2-gke.100", "1.99.0"))
def test_every_kubernetes_that_takes_the_crd_gets_the_same(version: str) -> None:
    assert text("--kube-version", version) == text()


def test_an_older_kubernetes_is_refused() -> None:
    with pytest.raises(shipped.ToolError, match=r"requires kubeVersion: >=1\.30\.0-0"):
        shipped.chart("--kube-version", "1.29.9")


def test_the_longest_names_fit() -> None:
    # helm allows 53 characters.
    stream = shipped.run(
        *("helm", "template", "r" * 53, str(shipped.CHART), "--kube-version", shipped.KUBERNETES),
        *("--values", str(CI["monitoring"]), "--set", "admissionPolicy.enabled=true,replicas=2"),
    )
    roles = {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}  # they may have 253
    names = [body["metadata"]["name"] for body in shipped.documents(stream) if body["kind"] not in roles]
    assert [name for name in names if len(name) > 63] == []


# --- values -----------------------------------------------------------------------------------------------------------


def leaves(values: Json, path: Path_ = ()) -> Iterator[Path_]:
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key)


def without(values: Json, path: Path_) -> Json:
    result = copy.deepcopy(values)
    inner = result
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return result


CHANGES = [(name, path) for name, file in CI.items() for path in leaves(load(file))]


@pytest.mark.parametrize(("name", "path"), CHANGES, ids=lambda part: part if isinstance(part, str) else ".".join(part))
def test_no_value_is_without_effect(name: str, path: Path_, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(without(load(CI[name]), path)), encoding="utf-8")
    assert shipped.chart("--values", str(values)) != text("--values", str(CI[name]))


def test_every_value_is_set_by_an_example() -> None:
    shown = {path for _, path in CHANGES}
    begun = {path[:length] for path in shown for length in range(1, len(path) + 1)}
    defaults = set(leaves(load(shipped.CHART / "values.yaml")))
    passed_on = {path for path in defaults if path[0] in PASSED_ON and path[:1] in begun}
    # A map has keys of the user's own: giving one of them is enough.
    maps = {path for path in defaults if path[-2:-1] == ("labels",) and path[:-1] in begun}
    assert defaults - begun - passed_on - maps == set()


@pytest.mark.parametrize(
    ("setting", "words"),
    (
        ("replica=2", "additional properties 'replica' not allowed"),
        ("metrics.podMonitor.intervall=30s", "additional properties 'intervall' not allowed"),
        ("replicas=two", "got string, want integer"),
        ("watchNamespaces=team-a", "got string, want array"),
        ("leaderElection.enabled=false,replicas=2", "leaderElection.enabled: false needs replicas: 1"),
        ("leaderElection.enabled=false,updateStrategy.type=RollingUpdate", "needs updateStrategy.type: Recreate"),
        ("metrics.enabled=false,metrics.podMonitor.enabled=true", "podMonitor.enabled: true needs metrics.enabled"),
        ("metrics.service.enabled=false,metrics.serviceMonitor.enabled=true", "needs metrics.service.enabled: true"),
    ),
)
def test_a_mistake_is_refused_with_words(setting: str, words: str) -> None:
    with pytest.raises(shipped.ToolError) as refused:
        shipped.chart("--set", setting)
    assert words in str(refused.value)


def test_the_readme_is_that_of_the_values() -> None:
    made = shipped.run(
        *("helm-docs", "--chart-search-root", str(shipped.CHART), "--sort-values-order", "file"),
        *("--log-level", "warning", "--dry-run"),
    )
    assert made.strip() == (shipped.CHART / "README.md").read_text(encoding="utf-8").strip(), "run `make helm-docs`"


# --- the operator's pod -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CI)
def test_no_value_changes_a_selector(name: str) -> None:
    objects = of(name)
    spec = one(objects, "Deployment")["spec"]
    assert spec["selector"] == {"matchLabels": SELECTOR}
    assert SELECTOR.items() <= spec["template"]["metadata"]["labels"].items()
    for body in objects:
        match body["kind"]:
            case "Service":
                assert body["spec"]["selector"] == SELECTOR
            case "PodDisruptionBudget" | "PodMonitor" | "ServiceMonitor":
                assert body["spec"]["selector"] == {"matchLabels": SELECTOR}
            case "NetworkPolicy":
                assert body["spec"]["podSelector"] == {"matchLabels": SELECTOR}
            case "Pod":  # of the test: nobody takes it for the operator's
                assert not SELECTOR.items() <= body["metadata"]["labels"].items()


def test_users_labels_do_not_change_a_selector() -> None:
    escaped = [label.replace(".", r"\.") for label in SELECTOR]
    labels = [f"{where}.{label}=x" for where in ("podLabels", "commonLabels") for label in escaped]
    template = one(rendered(*sets(*labels)), "Deployment")["spec"]["template"]
    assert SELECTOR.items() <= template["metadata"]["labels"].items()


def test_the_pod_is_that_of_config() -> None:
    """One operator, whichever way it is installed; the chart only says more of its settings as flags."""

    def comparable(spec: Json) -> Json:
        spec = copy.deepcopy(spec)
        (manager,) = spec["containers"]
        manager.pop("args")
        return {key: value for key, value in spec.items() if key != "automountServiceAccountToken"}

    config = tuple(shipped.documents(shipped.kustomized("config/default")))
    with_policy = {"imagePullPolicy": "IfNotPresent"}  # what Kubernetes makes of an image with a tag
    ours, theirs = comparable(pod(rendered())), comparable(pod(config))
    theirs["containers"][0] = {**with_policy, **theirs["containers"][0]}
    assert ours == theirs
    assert one(rendered(), "Deployment")["metadata"]["name"] == one(config, "Deployment")["metadata"]["name"]


@pytest.mark.parametrize("name", CI)
def test_pods_are_restricted_and_read_only(name: str) -> None:
    for spec in (pod(of(name)), one(of(name), "Pod")["spec"]):
        wanted = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        assert wanted.items() <= spec["securityContext"].items()
        for each in spec["containers"]:
            closed = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True}
            assert {**closed, "capabilities": {"drop": ["ALL"]}}.items() <= each["securityContext"].items()


def test_flags_and_variables() -> None:
    assert container(rendered())["args"] == [
        "run",
        "--leader-elect",
        "--leader-election-id=memcached-operator",
        "--lease-seconds=15",
        "--renew-deadline-seconds=10",
        "--retry-seconds=2",
        "--metrics-bind-address=:8080",
        "--health-probe-bind-address=:8081",
        "--log-level=info",
        "--log-format=json",
        "--workers=10",
        "--resync-seconds=600",
    ]
    assert container(of("bare"))["args"][:3] == ["run", "--no-leader-elect", "--metrics-bind-address=0"]
    assert container(of("everything"))["args"][-1] == "--workers=30"
    variables = {each["name"]: each.get("value") for each in container(of("watch-namespaces"))["env"]}
    assert variables["WATCH_NAMESPACE"] == "team-a,team-b"


def test_the_image_is_by_tag_or_by_digest() -> None:
    version = load(shipped.CHART / "Chart.yaml")["version"]
    assert container(rendered())["image"] == f"example.com/memcached-operator:v{version}"
    assert container(of("locked-down"))["image"].startswith("registry.example.com/caches/memcached-operator@sha256:")
    assert one(of("locked-down"), "Pod")["spec"]["containers"][0]["image"] == container(of("locked-down"))["image"]


def test_without_a_lease_there_are_never_two() -> None:
    assert one(of("bare"), "Deployment")["spec"]["strategy"] == {"type": "Recreate"}


@pytest.mark.parametrize(("replicas", "made"), ((1, False), (2, True)))
def test_a_budget_needs_two_pods(replicas: int, *, made: bool) -> None:
    assert ("PodDisruptionBudget" in kinds(rendered("--set", f"replicas={replicas}"))) is made


# --- who gets what ----------------------------------------------------------------------------------------------------


def test_a_few_namespaces_need_nothing_of_the_cluster_but_the_crd() -> None:
    assert kinds(of("watch-namespaces")) & CLUSTER_SCOPED == {"CustomResourceDefinition"}
    without_crd = rendered("--values", str(CI["watch-namespaces"]), "--set", "crds.enabled=false")
    assert kinds(without_crd) & CLUSTER_SCOPED == set()


def test_a_few_namespaces_have_roles_for_people_too() -> None:
    roles = {
        (body["metadata"]["namespace"], body["metadata"]["name"].removeprefix("memcached-operator-memcached-"))
        for body in of("watch-namespaces")
        if body["kind"] == "Role" and "-memcached-" in body["metadata"]["name"]
    }
    assert roles == {(where, f"{who}-role") for where in ("team-a", "team-b") for who in ("admin", "editor", "viewer")}


def test_releases_in_one_namespace_have_leases_of_their_own() -> None:
    objects = rendered(*sets("fullnameOverride=second"))
    (role,) = (body for body in objects if body["kind"] == "Role" and "leader-election" in body["metadata"]["name"])
    assert [rule.get("resourceNames") for rule in role["rules"]] == [None, ["second"]]
    assert "--leader-election-id=second" in container(objects)["args"]


def test_aggregation_can_be_off() -> None:
    roles = [body for body in of("everything") if body["kind"] == "ClusterRole"]
    assert len(roles) == 4
    assert not [label for role in roles for label in role["metadata"]["labels"] if "aggregate" in label]


def test_what_is_off_is_not_there() -> None:
    # What is left is the Deployment, and the test with its own account.
    assert kinds(of("bare")) == {"Deployment", "Pod", "Role", "RoleBinding", "ServiceAccount"}
    installed = [body for body in of("bare") if "helm.sh/hook" not in body["metadata"].get("annotations", {})]
    assert kinds(tuple(installed)) == {"Deployment"}


def test_the_test_may_do_what_it_does_and_no_more() -> None:
    hooks = tuple(body for body in rendered() if "helm.sh/hook" in body["metadata"].get("annotations", {}))
    ((_, rules),) = shipped.grants(list(hooks), one(hooks, "ServiceAccount")["metadata"]["name"])
    memcacheds = ("cache.example.com", "memcacheds")
    assert shipped.allowed(rules) == {
        ("create", *memcacheds, ""),  # RBAC cannot tell the name of what is only being made
        ("get", *memcacheds, "memcached-operator-test"),
        ("delete", *memcacheds, "memcached-operator-test"),
    }


@pytest.mark.parametrize(("keep", "policy"), (("true", "keep"), ("false", None)))
def test_the_crd_stays_when_asked(keep: str, policy: str | None) -> None:
    crd = one(rendered("--set", f"crds.keep={keep}"), "CustomResourceDefinition")
    assert crd["metadata"].get("annotations", {}).get("helm.sh/resource-policy") == policy


def test_the_admission_policy_is_that_of_config_for_our_account() -> None:
    folder = shipped.CONFIG / "admission-policy"
    objects = of("locked-down")
    policy, binding = one(objects, "ValidatingAdmissionPolicy"), one(objects, "ValidatingAdmissionPolicyBinding")
    spec, account = copy.deepcopy(load(folder / "policy.yaml")["spec"]), pod(objects)["serviceAccountName"]
    spec["matchConditions"][0]["expression"] = (
        f"request.userInfo.username == 'system:serviceaccount:{shipped.CHART_NAMESPACE}:{account}'"
    )
    assert policy["spec"] == spec
    theirs = load(folder / "policy_binding.yaml")["spec"]
    assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}
    assert load(shipped.CHART / "values.yaml")["admissionPolicy"]["validationActions"] == theirs["validationActions"]


# --- monitoring -------------------------------------------------------------------------------------------------------


def test_alerts_and_dashboard_are_those_of_config() -> None:
    objects = of("monitoring")
    folder = shipped.CONFIG / "prometheus"
    assert one(objects, "PrometheusRule")["spec"] == load(folder / "alerts.yaml")
    (dashboard,) = one(objects, "ConfigMap")["data"].values()
    assert dashboard.strip() == (folder / "dashboard.json").read_text(encoding="utf-8").strip()


@pytest.mark.parametrize(
    ("name", "kind", "endpoints"),
    (
        ("monitoring", "PodMonitor", "podMetricsEndpoints"),
        ("service-monitor", "ServiceMonitor", "endpoints"),
    ),
)
def test_a_monitor_finds_the_port(name: str, kind: str, endpoints: str) -> None:
    objects = of(name)
    (endpoint,) = one(objects, kind)["spec"][endpoints]
    assert (endpoint["port"], endpoint["path"]) == ("metrics", "/metrics")
    assert "metrics" in [port["name"] for port in container(objects)["ports"]]
    assert "metrics" in [port["name"] for port in one(objects, "Service")["spec"]["ports"]]
    labels: dict[str, Any] = one(objects, "Service")["metadata"]["labels"]
    assert SELECTOR.items() <= labels.items()  # by which a ServiceMonitor finds the Service


# --- the package ------------------------------------------------------------------------------------------------------


def test_a_package_has_the_images_of_its_making(tmp_path: Path) -> None:
    digest = f"sha256:{'0' * 64}"
    shipped.run(
        *("helm", "9.8.7-rc.1", f"registry:5000/team/operator@{digest}", "registry:5000/memcached:2", str(tmp_path)),
        command="hack/package-chart",
    )
    (package,) = tmp_path.iterdir()
    assert package.name == "memcached-operator-9.8.7-rc.1.tgz"
    with tarfile.open(package) as archive:
        names = {name.removeprefix("memcached-operator/") for name in archive.getnames()}
        archive.extractall(tmp_path / "out", filter="data")
    assert {"Chart.yaml", "README.md", "values.schema.json", "files/alerts.yaml", "files/dashboard.json"} <= names
    assert not {name for name in names if name.startswith("ci/") or name.endswith(".gotmpl")}
    chart = tmp_path / "out" / "memcached-operator"
    assert load(chart / "Chart.yaml")["appVersion"] == "9.8.7-rc.1"
    objects = shipped.documents(shipped.run("helm", "template", "x", str(chart), "--kube-version", shipped.KUBERNETES))
    manager = container(tuple(objects))
    assert manager["image"] == f"registry:5000/team/operator@{digest}"
    assert {"name": "RELATED_IMAGE_MEMCACHED", "value": "registry:5000/memcached:2"} in manager["env"]
