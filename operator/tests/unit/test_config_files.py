"""The hand-written files of config/ agree with the code, and with what kustomize will still read tomorrow."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from pydantic.alias_generators import to_camel

from memcached_operator import settings
from memcached_operator.api import defaults
from memcached_operator.api.v1alpha1 import MemcachedSpec
from memcached_operator.runtime.health import HttpServer

ROOT = Path(__file__).parents[3]
CONFIG = ROOT / "config"
KUSTOMIZATIONS = sorted(CONFIG.rglob("kustomization.yaml"))
DEPRECATED = {"bases", "commonLabels", "imageTags", "patchesJson6902", "patchesStrategicMerge", "vars"}

# What cannot be shown by an example that becomes ready on any cluster: it has to exist before it is named.
ONLY_IN_A_COMMENT = {"priorityClassName"}


def manager() -> dict[str, Any]:
    _, deployment = yaml.safe_load_all((CONFIG / "manager" / "manager.yaml").read_text())
    container: dict[str, Any]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return container


@pytest.mark.parametrize("path", KUSTOMIZATIONS, ids=lambda path: str(path.parent.relative_to(CONFIG)))
def test_no_deprecated_field_of_kustomize(path: Path) -> None:
    kustomization = yaml.safe_load(path.read_text())
    assert not DEPRECATED & kustomization.keys()
    assert kustomization["kind"] in ("Kustomization", "Component")


def test_every_manifest_is_part_of_something() -> None:
    named = set()
    for path in KUSTOMIZATIONS:
        kustomization = yaml.safe_load(path.read_text())
        files = [
            *kustomization.get("resources", []),
            *(patch.get("path") for patch in kustomization.get("patches", [])),
        ]
        named |= {(path.parent / file).resolve() for file in files if file}
    texts = {path: path.read_text() for path in CONFIG.rglob("*.yaml") if path not in KUSTOMIZATIONS}
    # Without a kind it is for another program than kubectl.
    manifests = {path for path, text in texts.items() if re.search(r"^kind: ", text, re.MULTILINE)}
    assert manifests - named == set()


def test_the_operands_image_is_the_default_one() -> None:
    variables = {entry["name"]: entry.get("value") for entry in manager()["env"]}
    assert variables["RELATED_IMAGE_MEMCACHED"] == settings.DEFAULT_IMAGE == defaults.DEFAULT_IMAGE
    makefile = (ROOT / "Makefile").read_text()
    assert re.findall(r"^MEMCACHED_IMAGE \?= (.+)$", makefile, re.MULTILINE) == [settings.DEFAULT_IMAGE]


def test_every_variable_of_the_pod_is_read() -> None:
    read = (ROOT / "operator" / "memcached_operator" / "settings.py").read_text()
    assert [entry["name"] for entry in manager()["env"] if f'"{entry["name"]}"' not in read] == []


def test_the_ports_are_those_that_the_operator_listens_on() -> None:
    found = settings.parse(["run", "--no-leader-elect"], {})
    assert found.metrics_address
    assert found.health_address
    listened = {"metrics": found.metrics_address.port, "probes": found.health_address.port}
    assert {port["name"]: port["containerPort"] for port in manager()["ports"]} == listened


async def test_the_probes_ask_for_what_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    answered: set[str] = set()
    add_routes = web.Application.add_routes

    def noted(app: web.Application, routes: list[web.RouteDef]) -> object:
        answered.update(route.path for route in routes)
        return add_routes(app, routes)

    monkeypatch.setattr(web.Application, "add_routes", noted)
    server = HttpServer(live=[], ready=[], render_metrics=bytes)
    await server.start(settings.Address("127.0.0.1", 0), None)
    await server.stop()
    asked = {probe: manager()[f"{probe}Probe"]["httpGet"] for probe in ("startup", "liveness", "readiness")}
    assert {probe["path"] for probe in asked.values()} <= answered
    assert {probe["port"] for probe in asked.values()} == {"probes"}


def test_the_samples_show_every_field() -> None:
    samples = [yaml.safe_load(path.read_text()) for path in (CONFIG / "samples").glob("cache_*.yaml")]
    shown = {field for sample in samples for field in sample["spec"]}
    assert {to_camel(field) for field in MemcachedSpec.model_fields} - shown == ONLY_IN_A_COMMENT


def test_the_scorecard_runs_all_six_tests() -> None:
    files = sorted((CONFIG / "scorecard" / "patches").iterdir())
    tests = [patch["value"] for file in files for patch in yaml.safe_load(file.read_text())]
    assert {test["labels"]["test"] for test in tests} == {f"{test['entrypoint'][1]}-test" for test in tests}
    assert len(tests) == 6
