"""The metrics page as Prometheus reads it."""

from __future__ import annotations

import shutil
import subprocess
import threading

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from memcached_operator.runtime import ports
from memcached_operator.telemetry.catalog import GAUGES, LABELS, documented
from memcached_operator.telemetry.metrics import Metrics


def samples(metrics: Metrics) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {}
    for family in text_string_to_metric_families(metrics.render().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    return found


def value(metrics: Metrics, name: str, **labels: str) -> float:
    """The one sample with these labels."""
    (sample,) = [s for s in samples(metrics)[f"memcached_operator_{name}"] if s.labels == labels]
    return sample.value


def every_metric() -> Metrics:
    metrics = Metrics("1.2.3")
    metrics.reconcile_finished("memcached", "done", 0.004)
    metrics.queue_waited(0.2)
    metrics.queue_retried()
    metrics.api_request("patch", "memcacheds/status", "200")
    metrics.relisted("pods", "expired")
    metrics.drift_repaired("Deployment")
    metrics.kopf_restarted()
    metrics.event_dropped()
    for name, (labels, _) in GAUGES.items():
        metrics.gauge(name, {labels: 1.0}.copy)
    return metrics


def test_the_machinery_can_use_it() -> None:
    port: ports.Metrics = Metrics("1.2.3")  # mypy is the judge here
    port.kopf_restarted()
    port.gauge("leader", lambda: {(): 1.0})


def test_counters_count_by_label() -> None:
    metrics = Metrics("1.2.3")
    metrics.api_request("get", "deployments", "200")
    metrics.api_request("get", "deployments", "200")
    metrics.api_request("get", "deployments", "error")
    assert value(metrics, "kube_api_requests_total", verb="get", resource="deployments", code="200") == 2
    assert value(metrics, "kube_api_requests_total", verb="get", resource="deployments", code="error") == 1


@pytest.mark.parametrize("name", ("kopf_restarts_total", "workqueue_retries_total", "events_dropped_total"))
def test_counters_without_labels_start_at_zero(name: str) -> None:
    # rate() over a series that begins with its first event does not see that event.
    assert value(Metrics("1.2.3"), name) == 0


def test_reconciles_are_timed_and_counted() -> None:
    metrics = Metrics("1.2.3")
    for seconds in (0.0005, 0.001, 0.004, 60.0):
        metrics.reconcile_finished("memcached", "done", seconds)
    metrics.reconcile_finished("memcached", "transient", 0.1)
    of = {"controller": "memcached", "result": "done"}
    name = "reconcile_duration_seconds"
    assert value(metrics, f"{name}_bucket", le="0.001", **of) == 2  # a bound belongs to its bucket
    assert value(metrics, f"{name}_bucket", le="0.005", **of) == 3
    assert value(metrics, f"{name}_bucket", le="30.0", **of) == 3
    assert value(metrics, f"{name}_bucket", le="+Inf", **of) == 4
    assert value(metrics, f"{name}_count", **of) == 4
    assert value(metrics, f"{name}_sum", **of) == pytest.approx(60.0055)
    assert value(metrics, "reconcile_total", **of) == 4
    assert value(metrics, "reconcile_total", controller="memcached", result="transient") == 1


def test_gauges_are_asked_at_each_scrape() -> None:
    metrics = Metrics("1.2.3")
    depth: dict[tuple[str, ...], float] = {("memcached",): 3.0}
    metrics.gauge("workqueue_depth", lambda: depth)
    assert value(metrics, "workqueue_depth", controller="memcached") == 3
    depth["memcached",] = 0.0
    assert value(metrics, "workqueue_depth", controller="memcached") == 0


def test_a_gauge_may_have_several_callbacks() -> None:
    metrics = Metrics("1.2.3")
    metrics.gauge("informer_objects", lambda: {("pods",): 4.0})
    metrics.gauge("informer_objects", lambda: {("services",): 2.0})
    assert value(metrics, "informer_objects", resource="pods") == 4
    assert value(metrics, "informer_objects", resource="services") == 2


def test_an_unknown_gauge_is_refused() -> None:
    with pytest.raises(ValueError, match="no gauge is called 'depth'"):
        Metrics("1.2.3").gauge("depth", dict)


def test_a_gauge_may_have_several_labels() -> None:
    metrics = Metrics("1.2.3")
    metrics.gauge("memcacheds", lambda: {("Ready", "False", "Unschedulable"): 2.0, ("Ready", "True", "AllReady"): 5.0})
    assert value(metrics, "memcacheds", condition="Ready", status="False", reason="Unschedulable") == 2
    assert value(metrics, "memcacheds", condition="Ready", status="True", reason="AllReady") == 5


def test_a_broken_gauge_does_not_take_the_page_with_it() -> None:
    metrics = Metrics("1.2.3")

    def broken() -> dict[tuple[str, ...], float]:
        raise RuntimeError("no such thing")

    metrics.gauge("leader", broken)
    metrics.kopf_restarted()
    assert value(metrics, "kopf_restarts_total") == 1


def test_build_info_and_the_process_are_there() -> None:
    found = samples(Metrics("1.2.3"))
    (info,) = found["memcached_operator_build_info"]
    assert info.labels["version"] == "1.2.3"
    assert found["process_resident_memory_bytes"][0].value > 0


def test_two_processes_worth_of_metrics_do_not_meet() -> None:
    first, second = Metrics("1.2.3"), Metrics("1.2.3")
    first.kopf_restarted()
    assert value(second, "kopf_restarts_total") == 0


def test_scraping_while_series_appear() -> None:
    metrics = Metrics("1.2.3")
    failures: list[BaseException] = []
    counted = threading.Event()

    def scrape() -> None:
        try:
            while not counted.is_set():
                metrics.render()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the main thread has to hear of it
            failures.append(error)

    scraper = threading.Thread(target=scrape)
    scraper.start()
    for number in range(1500):
        metrics.relisted("pods", f"why-{number}")
    counted.set()
    scraper.join()
    assert failures == []
    assert len(samples(metrics)["memcached_operator_informer_relists_total"]) == 1500


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
def test_promtool_finds_nothing_to_mend() -> None:
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=every_metric().render(), capture_output=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_every_name_follows_the_conventions() -> None:
    # What promtool looks for, for machines without it.
    for family in text_string_to_metric_families(every_metric().render().decode()):
        name = family.name
        assert name == name.lower()
        assert family.documentation.strip()
        assert not name.endswith(("_total", "_count", "_sum", "_bucket", "_milliseconds", "_ms"))
        assert (family.type == "counter") == all(s.name.endswith("_total") for s in family.samples)


def test_the_catalog_is_what_the_page_shows() -> None:
    found = {
        (family.name + ("_total" if family.type == "counter" else ""), family.type, family.documentation)
        for family in text_string_to_metric_families(every_metric().render().decode())
        if not family.name.startswith("process_")
    }
    assert found == {(name, kind, metric.meaning) for name, kind, metric in documented()}


def test_every_label_is_explained() -> None:
    assert {label for _, _, metric in documented() for label in metric.labels} == LABELS.keys()
