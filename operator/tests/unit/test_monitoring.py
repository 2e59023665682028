"""Alerts, runbooks and dashboard: complete, and about metrics that exist. An integration test asks a real operator."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

import monitoring
from controlplane.paths import REPOSITORY
from memcached_operator.api.conditions import ConditionType, Reason
from memcached_operator.errors import OperatorError
from memcached_operator.telemetry.catalog import documented
from memcached_operator.telemetry.metrics import Metrics
from promql import Selector, grouping_labels

RUNBOOKS = REPOSITORY / "docs" / "runbooks"
ALERTS = {rule["alert"]: rule for rule in monitoring.alerts()}
SUFFIXES = {"counter": ("",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}


def exposed() -> dict[str, set[str]]:
    """Name -> labels of every series that a process may have."""
    ours = {
        name + suffix: {*metric.labels, *(["le"] if suffix == "_bucket" else [])}
        for name, kind, metric in documented()
        for suffix in SUFFIXES[kind]
    }
    page = Metrics("1.2.3").render().decode()
    every_process = {s.name: set(s.labels) for f in text_string_to_metric_families(page) for s in f.samples}
    return every_process | ours


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_what_it_must_have(name: str) -> None:
    rule = ALERTS[name]
    assert re.fullmatch(r"Memcached(Operator)?([A-Z][a-z]+)+", name)
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
    assert all(text.strip().endswith(".") for key, text in rule["annotations"].items() if key != "runbook_url")


@pytest.mark.parametrize("name", ALERTS)
def test_its_runbook_says_what_it_means_how_to_see_it_and_what_to_do(name: str) -> None:
    url = ALERTS[name]["annotations"]["runbook_url"]
    assert url == f"https://example.com/memcached-operator/docs/runbooks/{name}.md"
    page = (RUNBOOKS / f"{name}.md").read_text()
    assert page.startswith(f"# {name}\n")
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == ["What it means", "How to see it", "What to do"]


def test_no_runbook_is_left_over() -> None:
    assert {page.stem for page in RUNBOOKS.glob("*.md")} == ALERTS.keys()


def test_the_page_about_monitoring_names_every_alert() -> None:
    page = (REPOSITORY / "docs" / "monitoring.md").read_text()
    assert set(re.findall(r"\[(Memcached\w+)\]\(runbooks/", page)) == ALERTS.keys()


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_is_tested_both_ways(name: str) -> None:
    tests = yaml.safe_load((monitoring.FOLDER / "alerts_test.yaml").read_text())["tests"]
    cases = [case for test in tests for case in test["alert_rule_test"] if case["alertname"] == name]
    assert {bool(case["exp_alerts"]) for case in cases} == {True, False}


@pytest.mark.parametrize(("where", "asked"), monitoring.asked_for().items())
def test_only_metrics_that_exist_are_asked_for(where: str, asked: list[Selector]) -> None:
    known = exposed()
    assert asked, where
    for selector in asked:
        assert selector.metric in known, where
        assert selector.labels <= known[selector.metric] | monitoring.SCRAPE_LABELS, where
    labels = {label for selector in asked for label in known[selector.metric]} | monitoring.SCRAPE_LABELS
    if expression := monitoring.expressions().get(where):
        assert grouping_labels(expression) <= labels, where


@pytest.mark.parametrize(("where", "expression"), monitoring.expressions().items())
def test_label_values_come_from_the_closed_lists(where: str, expression: str) -> None:
    words: dict[str, set[str]] = {
        "condition": set(ConditionType),
        "reason": set(Reason),
        "status": {"True", "False", "Unknown"},
        "result": {"done", "requeue", "cancelled", *categories()},
    }
    for label, value in re.findall(r'(\w+)!?=~?"([^"]*)"', expression):
        if label in words:
            assert set(value.split("|")) <= words[label], where


def categories(root: type[OperatorError] = OperatorError) -> set[str]:
    return {root.category}.union(*(categories(kind) for kind in root.__subclasses__()))


def test_the_dashboard_is_one_that_grafana_can_import() -> None:
    dashboard = monitoring.dashboard()
    assert {"title", "uid", "schemaVersion", "panels", "templating"} <= dashboard.keys()
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))
    places = [
        {(x, y) for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])}
        for g in (panel["gridPos"] for panel in dashboard["panels"])
    ]
    assert sum(map(len, places)) == len(set().union(*places)), "panels overlap"
    for panel in monitoring.panels():
        assert panel["description"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}", panel["title"]


PAGES = [*RUNBOOKS.glob("*.md"), REPOSITORY / "docs" / "monitoring.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_name_what_exists(page: Path) -> None:
    text = page.read_text()
    known = exposed()
    base = {name.removesuffix(suffix) for name in known for suffix in ("", "_bucket")}
    metrics = set(re.findall(r"\b(?:memcached_operator|process)_[a-z_]+\b", text)) - {"memcached_operator"}
    assert metrics <= base | known.keys()
    for target in re.findall(r"\]\(([^)#]+)", text):
        assert "://" in target or (page.parent / target).exists(), target
    # `CamelCase` words in back-ticks are reasons, conditions or alerts, or words of Kubernetes.
    words = {*Reason, *ConditionType, *ALERTS, "Memcached", "OOMKilled"}
    assert set(re.findall(r"`([A-Z][a-z]+(?:[A-Z][A-Za-z]+)*)`", text)) <= words


def test_the_runbook_finds_the_condition_where_it_says() -> None:
    assert list(ConditionType).index(ConditionType.AVAILABLE) == 1
    assert "conditions[1]" in (RUNBOOKS / "MemcachedUnavailable.md").read_text()
