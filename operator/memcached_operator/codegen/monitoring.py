"""Alerts and dashboard in the shapes that config/ and the chart need, and the reference of the metrics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from memcached_operator import errors
from memcached_operator.codegen.reference import table
from memcached_operator.telemetry.catalog import LABELS, Metric, documented

_SOURCE = "config/prometheus"
_CHART = "helm/memcached-operator/files"


def copies(root: Path) -> dict[str, str]:
    """Path -> text of the files that the chart needs inside its own folder. Raises OSError without the sources."""
    names = ("alerts.yaml", "dashboard.json")
    return {f"{_CHART}/{name}": (root / _SOURCE / name).read_text(encoding="utf-8") for name in names}


def prometheus_rule(root: Path) -> dict[str, Any]:
    """config/prometheus/alerts.yaml as the Prometheus operator takes it. Raises OSError, yaml.YAMLError."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": "memcached-operator-controller-manager",
            "namespace": "memcached-operator-system",
            "labels": {"app.kubernetes.io/name": "memcached-operator", "app.kubernetes.io/managed-by": "kustomize"},
        },
        "spec": yaml.safe_load((root / _SOURCE / "alerts.yaml").read_text(encoding="utf-8")),
    }


def metrics_page() -> str:
    """Every metric and every label."""
    metrics = [_row(*each) for each in documented()]
    labels = [(f"`{label}`", values) for label, values in LABELS.items()]
    categories = [(f"`{kind.category}`", (kind.__doc__ or "").split("\n")[0]) for kind in _error_types()]
    return f"""# Metrics

On `/metrics` of port 8080, in the Prometheus text format; how to scrape them: [monitoring](../monitoring.md).
Histograms have the usual `_bucket`, `_sum` and `_count`. Beside these there are the `process_*` metrics of every
Prometheus client (`process_cpu_seconds_total`, `process_resident_memory_bytes`, `process_open_fds`, ...).

A series with labels begins with its first event.

{table(("Metric", "Type", "Labels", "Meaning"), metrics)}
## Labels

All values come from closed lists: no name of a resource, no namespace and no error text becomes a label.

{table(("Label", "Values"), labels)}
## Categories of errors

{table(("Category", "Meaning"), categories)}"""


def _row(name: str, kind: str, metric: Metric) -> tuple[str, ...]:
    return f"`{name}`", kind, ", ".join(f"`{label}`" for label in metric.labels), metric.meaning


def _error_types(root: type[errors.OperatorError] = errors.OperatorError) -> Iterator[type[errors.OperatorError]]:
    """The tree of errors.py alone: leaves elsewhere are known only to whoever has imported them."""
    for kind in root.__subclasses__():
        if kind.__module__ == errors.__name__:
            yield kind
            yield from _error_types(kind)
