"""The page that Prometheus scrapes, of the real operator at work: alerts and dashboard ask for what is on it."""

from __future__ import annotations

from functools import partial

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

import monitoring
from controlplane import ControlPlane, OperatorProcess, StartOperator, wait_until
from controlplane.api import object_path
from faultrig.proxy import FaultProxy
from faultrig.rules import Answer, Rule
from memcached_operator.telemetry.catalog import documented
from memcacheds import Memcacheds
from promql import grouping_labels

UNITS = ("_seconds", "_bytes", "_total", "_info")
COUNTS = {"informer_objects", "leader", "memcacheds", "memcacheds_unobserved", "workqueue_depth"}
"""Gauges of numbers: they have no unit."""


def families(operator: OperatorProcess) -> list[Metric]:
    return list(text_string_to_metric_families(operator.metrics()))


def number(operator: OperatorProcess, name: str, **labels: str) -> float:
    """The sum of the series of this metric that have these labels."""
    found = [sample for family in families(operator) for sample in family.samples]
    return sum(s.value for s in found if s.name == f"memcached_operator_{name}" and labels.items() <= s.labels.items())


@pytest.fixture
def operator_at_work(
    control_plane: ControlPlane, namespace: str, start_operator: StartOperator, fault_proxy: FaultProxy
) -> OperatorProcess:
    """It has created, repaired, failed, and lost and found its watches."""
    caches = Memcacheds(control_plane, namespace)
    operator = start_operator(kubeconfig=fault_proxy.kubeconfig)
    caches.create("well", size=1)
    caches.create("asleep", size=0)
    caches.wait_ready("well", "asleep")
    control_plane.api.delete(object_path("v1", "services", namespace, "well"))
    wait_until(partial(caches.child, "services", "well"), 30, "the Service to be made again")

    # Its name is taken: it waits for somebody to act, and says so.
    body = {"metadata": {"name": "taken"}, "spec": {"ports": [{"port": 80}]}}
    control_plane.api.create(object_path("v1", "services", namespace), body)
    caches.create("taken", size=1)
    wait_until(lambda: caches.condition("taken", "Degraded").get("status") == "True", 30, "the conflict")

    fault_proxy.inject(Rule("410", Answer(410)))
    wait_until(lambda: number(operator, "informer_relists_total") >= 1, 30, "a watch to be lost")
    fault_proxy.heal()
    caches.patch("well", size=2)
    caches.wait_ready("well", timeout=60)
    counted = partial(number, operator, "memcacheds", condition="Ready")
    wait_until(counted, 30, "three Memcacheds on the page", until=lambda n: n == 3)
    return operator


def test_alerts_and_dashboard_ask_for_what_the_running_operator_exposes(operator_at_work: OperatorProcess) -> None:
    page = families(operator_at_work)

    # Names and labels, as they were served.
    series: dict[str, set[str]] = {}
    for sample in (sample for family in page for sample in family.samples):
        series.setdefault(sample.name, set()).update(sample.labels)
    for where, asked in monitoring.asked_for().items():
        for selector in asked:
            assert selector.metric in series, f"{where}: {selector.metric} is not on the page"
            missing = selector.labels - series[selector.metric] - monitoring.SCRAPE_LABELS
            assert not missing, f"{where}: {selector.metric} has no label {missing}"
    for where, expression in monitoring.expressions().items():
        known = {label for asked in monitoring.asked_for()[where] for label in series[asked.metric]}
        assert grouping_labels(expression) <= known | monitoring.SCRAPE_LABELS, where

    # Nothing is on the page that the reference does not tell of, and all that it tells of is there.
    ours = {family.name: family for family in page if not family.name.startswith("process_")}
    assert {name.removesuffix("_total") for name, _, _ in documented()} == ours.keys()
    for name, kind, metric in documented():
        family = ours[name.removesuffix("_total")]
        assert (family.type, family.documentation) == (kind, metric.meaning)

    # Names keep to the conventions of Prometheus.
    for name, kind, metric in documented():
        bare = name.removeprefix("memcached_operator_")
        assert bare.endswith(UNITS) or bare in COUNTS
        assert (kind == "counter") == bare.endswith("_total")
        assert metric.meaning.endswith(".")

    # And the numbers are true.
    count = partial(number, operator_at_work, "memcacheds")
    assert count(condition="Ready", status="True", reason="AllReady") == 1
    assert count(condition="Ready", status="True", reason="ScaledToZero") == 1
    assert count(condition="Degraded", status="True", reason="NameConflict") == 1
    assert number(operator_at_work, "memcacheds_unobserved") == 0
    assert number(operator_at_work, "leader") == 1
    assert number(operator_at_work, "drift_repaired_total", kind="Service") == 1
    assert number(operator_at_work, "kube_api_requests_total", code="410") > 0
    assert number(operator_at_work, "reconcile_total") == number(operator_at_work, "reconcile_duration_seconds_count")


def test_a_standby_counts_too_and_a_change_that_nobody_acts_on_is_unobserved(
    control_plane: ControlPlane, namespace: str, start_operator: StartOperator
) -> None:
    caches = Memcacheds(control_plane, namespace)
    leader = start_operator()
    caches.create("one", size=1)
    caches.wait_ready("one")
    standby = start_operator()
    leader.pause()
    caches.patch("one", size=2)
    wait_until(lambda: number(standby, "memcacheds_unobserved"), 10, "the standby to see it", until=lambda n: n == 1)
    assert number(standby, "memcacheds", condition="Ready") == 1
    leader.resume()
    caches.wait_ready("one")
    wait_until(lambda: number(standby, "memcacheds_unobserved"), 10, "it to be acted on", until=lambda n: n == 0)
