"""What the validators of operator-sdk and opm do not see in bundle/, catalog/ and PROJECT. No tool is needed."""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
import subprocess
import tarfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from memcached_operator import __version__
from memcached_operator.api.crd import custom_resource_definition
from memcached_operator.codegen import csv, files, upgrades
from memcached_operator.kube.permissions import cluster_role_rules, leader_election_rules
from memcached_operator.settings import DEFAULT_IMAGE

ROOT = Path(__file__).parents[3]
BUNDLE = ROOT / "bundle"
Json = dict[str, Any]

ALLOWED_KINDS = {
    *("ClusterServiceVersion", "CustomResourceDefinition"),
    *("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    *("Service", "ServiceAccount", "Secret", "ConfigMap", "PodDisruptionBudget", "PriorityClass"),
}
"""Of the kinds of registry+v1, those that every cluster has and every catalog accepts: a NetworkPolicy is refused
by community catalogs; a ServiceMonitor or PrometheusRule fails the whole installation where its CRD is missing."""
CAPABILITIES = ("Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot")
PREFLIGHT = (
    *("disconnected", "fips-compliant", "proxy-aware", "tls-profiles"),
    *("token-auth-aws", "token-auth-azure", "token-auth-gcp"),
)
IMAGE = re.compile(r"^[a-z0-9.:-]+(/[a-z0-9._-]+)+(:[\w.-]+|@sha256:[0-9a-f]{64})$")


def load(path: Path) -> Json:
    content: Json = yaml.safe_load(path.read_text())
    return content


MANIFESTS = {path.name: load(path) for path in sorted((BUNDLE / "manifests").glob("*"))}
(CSV,) = (manifest for manifest in MANIFESTS.values() if manifest["kind"] == "ClusterServiceVersion")
(DEPLOYMENT,) = CSV["spec"]["install"]["spec"]["deployments"]
POD = DEPLOYMENT["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
(OWNED,) = CSV["spec"]["customresourcedefinitions"]["owned"]
ANNOTATIONS = CSV["metadata"]["annotations"]
EXAMPLES = json.loads(ANNOTATIONS["alm-examples"])
SCHEMA = custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]


def fields(schema: Json, prefix: str = "") -> Iterator[str]:
    for name, node in schema.get("properties", {}).items():
        yield f"{prefix}{name}"
        yield from fields(node, f"{prefix}{name}.")


# --- the format of the bundle -----------------------------------------------------------------------------------------


def test_the_image_has_the_labels_of_the_annotations() -> None:
    annotations = load(BUNDLE / "metadata" / "annotations.yaml")["annotations"]
    labels = dict(re.findall(r"^LABEL (\S+?)=(.*)$", (ROOT / "bundle.Dockerfile").read_text(), re.MULTILINE))
    assert labels == {key: value or "" for key, value in annotations.items()}
    prefix = "operators.operatorframework.io.bundle"
    assert labels[f"{prefix}.mediatype.v1"] == "registry+v1"
    assert labels[f"{prefix}.package.v1"] == csv.PACKAGE
    assert labels[f"{prefix}.channel.default.v1"] in labels[f"{prefix}.channels.v1"].split(",")


def test_the_image_holds_what_the_labels_name() -> None:
    dockerfile = (ROOT / "bundle.Dockerfile").read_text()
    copied = re.findall(r"^COPY (\S+) (\S+)$", dockerfile, re.MULTILINE)
    assert copied == [
        ("bundle/manifests", "/manifests/"),
        ("bundle/metadata", "/metadata/"),
        ("bundle/tests/scorecard", "/tests/scorecard/"),
    ]
    assert all((ROOT / source).is_dir() for source, _ in copied)
    assert re.findall(r"^FROM (.+)$", dockerfile, re.MULTILINE) == ["scratch"]


def test_every_manifest_is_of_a_kind_that_every_catalog_takes() -> None:
    assert {manifest["kind"] for manifest in MANIFESTS.values()} <= ALLOWED_KINDS


def test_no_role_of_the_operator_is_a_manifest_of_its_own() -> None:
    # The generator takes those that are bound to the operator's account into the CSV. One that it leaves beside it was
    # bound in a way that it does not understand, and would be missing.
    roles = [manifest for manifest in MANIFESTS.values() if manifest["kind"].startswith(("Role", "ClusterRole"))]
    assert {role["kind"] for role in roles} == {"ClusterRole"}
    assert [role["metadata"]["name"] for role in roles if re.search("manager|leader", role["metadata"]["name"])] == []


def test_no_object_has_the_name_of_the_operators_account() -> None:
    assert [m for m in MANIFESTS.values() if m["kind"] == "ServiceAccount"] == []


def test_no_object_has_a_namespace() -> None:
    others = [manifest for manifest in MANIFESTS.values() if manifest is not CSV]
    assert [manifest["metadata"]["name"] for manifest in others if "namespace" in manifest["metadata"]] == []


def test_it_is_small_enough_for_the_clusters_store() -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(BUNDLE, arcname="bundle")
    assert len(gzip.compress(packed.getvalue())) < 0.85 * 1024 * 1024


# --- the ClusterServiceVersion ----------------------------------------------------------------------------------------


def test_its_name_is_package_v_version() -> None:
    name = CSV["metadata"]["name"]
    assert name == f"{csv.PACKAGE}.v{__version__}"
    assert name.count(".v") == 1
    assert len(name) <= 63
    assert CSV["spec"]["version"] == __version__


def test_what_is_written_by_hand_came_through_unchanged() -> None:
    base = load(ROOT / files.CSV)
    kept = (
        *("displayName", "description", "icon", "keywords", "links", "maintainers", "maturity", "provider", "replaces"),
        *("minKubeVersion", "installModes", "customresourcedefinitions"),
    )
    assert {key: CSV["spec"].get(key) for key in kept} == {key: base["spec"].get(key) for key in kept}
    assert CSV["metadata"]["labels"] == base["metadata"]["labels"]
    made = {"alm-examples", "createdAt"}
    wanted = {key: text for key, text in base["metadata"]["annotations"].items() if key not in made}
    assert {key: ANNOTATIONS.get(key) for key in wanted} == wanted


def test_its_annotations_say_what_catalogs_ask() -> None:
    assert ANNOTATIONS["capabilities"] in CAPABILITIES
    assert ANNOTATIONS["categories"] == "Database"
    assert len(ANNOTATIONS["description"]) <= 135
    assert ANNOTATIONS["containerImage"] == CONTAINER["image"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", ANNOTATIONS["createdAt"])
    assert (
        json.loads(ANNOTATIONS["operatorframework.io/suggested-namespace-template"])["metadata"]["name"]
        == (ANNOTATIONS["operatorframework.io/suggested-namespace"])
    )
    claims = {name: ANNOTATIONS[f"features.operators.openshift.io/{name}"] for name in PREFLIGHT}
    assert set(claims.values()) <= {"true", "false"}
    # It could be mirrored only if every image were named by its digest.
    assert claims["disconnected"] == "false" or all("@" in image["image"] for image in CSV["spec"]["relatedImages"])


def test_the_required_fields_are_there() -> None:
    spec = CSV["spec"]
    assert 3 <= len(spec["displayName"]) <= 50
    assert len(spec["description"]) >= 20
    assert spec["maturity"] in ("alpha", "beta", "stable")
    assert re.fullmatch(r"\d+\.\d+\.\d+", spec["minKubeVersion"])
    assert spec["provider"]["name"]
    assert all(maintainer["name"] and "@" in maintainer["email"] for maintainer in spec["maintainers"])
    assert all(link["name"] and link["url"].startswith("https://") for link in spec["links"])
    assert "olm.properties" not in ANNOTATIONS


def test_the_icon_is_the_svg_of_the_repository() -> None:
    (icon,) = CSV["spec"]["icon"]
    assert icon["mediatype"] == "image/svg+xml"
    text = base64.b64decode(icon["base64data"], validate=True)
    assert text == (ROOT / files.ICON).read_bytes()
    assert ET.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"  # noqa: S314  it is our own file


def test_the_crd_needs_the_kubernetes_that_it_says() -> None:
    # `format` is why it is 1.30 (see MIN_KUBERNETES). Without it, or with a library that came later, that is wrong.
    text = json.dumps(custom_resource_definition())
    assert ".format([" in text
    newer = r"\b(isIP|ip|isCIDR|cidr|semver|isSemver|transformList|transformMap|flatten|format\.named)\("
    assert re.findall(newer, text) == []
    assert CSV["spec"]["minKubeVersion"] == csv.MIN_KUBERNETES == "1.30.0"


def test_the_related_images_are_all_images_there_are() -> None:
    strings = [CONTAINER["image"], *(e["value"] for e in CONTAINER["env"] if e["name"].startswith("RELATED_IMAGE_"))]
    related = CSV["spec"]["relatedImages"]
    assert sorted(image["image"] for image in related) == sorted(set(strings))
    assert len({image["name"] for image in related}) == len(related)
    assert all(IMAGE.match(image["image"]) for image in related)
    assert DEFAULT_IMAGE in strings
    assert {example["spec"]["image"] for example in EXAMPLES if "image" in example["spec"]} <= set(strings)


def test_the_operator_reads_its_namespaces_from_olm() -> None:
    (watched,) = (entry for entry in CONTAINER["env"] if entry["name"] == "WATCH_NAMESPACE")
    assert watched["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.annotations['olm.targetNamespaces']"


def test_all_four_install_modes_are_supported_with_rights_in_namespaces_only() -> None:
    modes = {mode["type"]: mode["supported"] for mode in CSV["spec"]["installModes"]}
    assert modes == dict.fromkeys(csv.INSTALL_MODES, True)
    strategy = CSV["spec"]["install"]["spec"]
    assert "clusterPermissions" not in strategy
    (granted,) = strategy["permissions"]
    assert granted["serviceAccountName"] == POD["serviceAccountName"]
    wanted = [*cluster_role_rules(), *leader_election_rules()]
    assert sorted(map(json.dumps, map(sorted_rule, granted["rules"]))) == sorted(
        map(json.dumps, map(sorted_rule, wanted))
    )


def sorted_rule(rule: Json) -> Json:
    return {key: sorted(words) for key, words in sorted(rule.items())}


def test_the_pod_is_restricted() -> None:
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert POD["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    context = CONTAINER["securityContext"]
    assert (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]) == (False, True)
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert {"cpu", "memory"} <= CONTAINER["resources"]["requests"].keys()


# --- descriptors and examples -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("side", "key"), (("spec", "specDescriptors"), ("status", "statusDescriptors")))
def test_each_field_has_a_descriptor_and_each_descriptor_a_field(side: str, key: str) -> None:
    paths = [descriptor["path"] for descriptor in OWNED[key]]
    assert len(paths) == len(set(paths))
    assert set(paths) <= set(fields(SCHEMA[side]))
    assert set(SCHEMA[side]["properties"]) <= set(paths)


def test_descriptors_are_complete() -> None:
    for descriptor in (*OWNED["specDescriptors"], *OWNED["statusDescriptors"]):
        assert descriptor["displayName"]
        assert descriptor["description"].endswith("."), descriptor
        for widget in descriptor["x-descriptors"]:
            assert widget.startswith("urn:alm:descriptor:"), widget
            assert "fieldGroup" not in widget
            if "fieldDependency" in widget:
                assert widget.split(":")[-2] in SCHEMA["spec"]["properties"]
    assert {"Deployment", "Service", "PodDisruptionBudget", "Pod"} <= {kind["kind"] for kind in OWNED["resources"]}


def test_the_conditions_are_shown_as_conditions() -> None:
    (conditions,) = (d for d in OWNED["statusDescriptors"] if d["path"] == "conditions")
    assert conditions["x-descriptors"] == ["urn:alm:descriptor:io.kubernetes.conditions"]


def test_every_sample_is_an_example_in_the_bundle() -> None:
    listed = load(ROOT / "config" / "samples" / "kustomization.yaml")["resources"]
    samples = [body for name in listed for body in yaml.safe_load_all((ROOT / "config" / "samples" / name).read_text())]
    wanted = [body for body in samples if body and body["kind"] == OWNED["kind"]]
    by_name = {example["metadata"]["name"]: example["spec"] for example in EXAMPLES}
    assert by_name == {body["metadata"]["name"]: body["spec"] for body in wanted}
    assert len(EXAMPLES) == len(wanted) > 0


# --- OLM v1 -----------------------------------------------------------------------------------------------------------


def test_olm_v1_can_install_it() -> None:
    spec = CSV["spec"]
    assert {"type": "AllNamespaces", "supported": True} in spec["installModes"]
    assert not spec.get("webhookdefinitions")
    assert not spec.get("apiservicedefinitions")
    assert "required" not in spec["customresourcedefinitions"]
    assert sorted(path.name for path in (BUNDLE / "metadata").iterdir()) == ["annotations.yaml"]
    (crd,) = (manifest for manifest in MANIFESTS.values() if manifest["kind"] == "CustomResourceDefinition")
    assert (OWNED["name"], OWNED["version"], OWNED["kind"]) == (
        crd["metadata"]["name"],
        crd["spec"]["versions"][0]["name"],
        crd["spec"]["names"]["kind"],
    )
    assert crd["spec"] == custom_resource_definition()["spec"]


# --- the scorecard, the project, the catalog --------------------------------------------------------------------------


def test_the_scorecard_has_all_tests_that_the_sdk_knows() -> None:
    config = load(BUNDLE / "tests" / "scorecard" / "config.yaml")
    tests = {test["labels"]["test"] for stage in config["stages"] for test in stage["tests"]}
    assert tests == {
        "basic-check-spec-test",
        "olm-bundle-validation-test",
        "olm-crds-have-resources-test",
        "olm-crds-have-validation-test",
        "olm-spec-descriptors-test",
        "olm-status-descriptors-test",
    }


def test_the_project_has_no_layout_that_the_sdk_would_look_for() -> None:
    project = load(ROOT / "PROJECT")
    assert "layout" not in project
    assert project["projectName"] == csv.PACKAGE


def test_the_upgrade_graph_leads_to_this_version_from_all_others() -> None:
    documents = list(yaml.safe_load_all((ROOT / files.CATALOG).read_text()))
    names = [entry["name"] for entry in upgrades.entries(documents)]
    replaced = {entry.get("replaces") for entry in upgrades.entries(documents)}
    assert set(names) - replaced == {upgrades.release_name(csv.PACKAGE, __version__)}
    assert replaced - {None} <= set(names)
    way = upgrades.upgrade(documents, csv.PACKAGE, __version__)
    assert (CSV["spec"].get("replaces"), ANNOTATIONS.get("olm.skipRange")) == way


def test_it_replaces_the_release_that_upgrades_are_tried_from() -> None:
    shown = subprocess.run(
        ["hack/previous-release.sh", "version"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert CSV["spec"]["replaces"] == upgrades.release_name(csv.PACKAGE, shown.stdout.strip())


def test_the_channel_of_the_bundle_is_that_of_the_catalog() -> None:
    package, channel = yaml.safe_load_all((ROOT / files.CATALOG).read_text())
    annotations = load(BUNDLE / "metadata" / "annotations.yaml")["annotations"]
    default = annotations["operators.operatorframework.io.bundle.channel.default.v1"]
    assert package["defaultChannel"] == channel["name"] == default
    assert package["name"] == channel["package"] == csv.PACKAGE
