"""Every metric of the operator by name, labels and meaning. docs/reference/metrics.md is made from here.

Label values are few by design: never a resource's name, a namespace or an error's text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

PREFIX = "memcached_operator_"


class Metric(NamedTuple):
    """What is measured; `meaning` is the HELP text on the page."""

    labels: tuple[str, ...]
    meaning: str


COUNTERS = {
    "drift_repaired": Metric(("kind",), "Children put back after somebody else changed or deleted them."),
    "events_dropped": Metric((), "Kubernetes events not sent because of the rate limit."),
    "informer_relists": Metric(("resource", "why"), "Full lists after the first one."),
    "kopf_restarts": Metric((), "Times that kopf ended and was started again."),
    "kube_api_requests": Metric(
        ("verb", "resource", "code"),
        "Requests to the API server. code is the HTTP status, or `error` when there was no answer.",
    ),
    "reconcile": Metric(("controller", "result"), "Reconciles by result."),
    "workqueue_retries": Metric((), "Keys added again after an error, with back-off."),
}
"""Name without `_total`, which the page adds."""

HISTOGRAMS = {
    "reconcile_duration": Metric(
        ("controller", "result"), "Time of one reconcile, from taking the key to the last write."
    ),
    "workqueue_wait": Metric((), "Time a key waited until a worker took it."),
}
"""Name without `_seconds`, which the page adds."""

GAUGES = {
    "event_loop_lag_seconds": Metric(("loop",), "How late the event loop ran its last timer."),
    "informer_last_event_age_seconds": Metric(("resource",), "Time since the watch of this resource was last heard."),
    "informer_objects": Metric(("resource",), "Objects known from the watch of this resource."),
    "leader": Metric((), "1 when this process holds the lease and may write, else 0."),
    "memcacheds": Metric(
        ("condition", "status", "reason"),
        "Memcacheds by condition, its status and its reason; those that are being deleted are not counted.",
    ),
    "memcacheds_unobserved": Metric((), "Memcacheds whose status does not speak of their present spec yet."),
    "workqueue_depth": Metric(("controller",), "Keys that wait for a worker."),
}

BUILD_INFO = Metric(("version", "python_version"), "Always 1; the labels say what runs.")

LABELS = {
    "code": "the HTTP status, or `error` when there was no answer",
    "condition": "type of a condition: `Ready`, `Available`, `Progressing`, `Degraded`",
    "controller": "`memcached`",
    "kind": "`Deployment`, `Service`, `PodDisruptionBudget`",
    "loop": "`main`",
    "python_version": "for example `3.13.5`",
    "reason": "a reason of docs/reference/conditions.md; empty before the first status",
    "resource": "plural of the resource, for requests with its subresource: `memcacheds/status`",
    "result": "`done`; `requeue`: done, and looked at again later; `cancelled`: this process stopped leading; "
    "or the category of an error, below",
    "status": "`True`, `False`, `Unknown`",
    "verb": "as in RBAC",
    "version": "of the operator",
    "why": "`expired`: the version to go on from is too old; `gone`: HTTP 404 or 410; `silent`: nothing heard "
    "for 75 s; `unreadable`: a line that is no event",
}
"""What the values of a label are."""


def documented() -> Iterator[tuple[str, str, Metric]]:
    """Name as on the page, type and description of each metric, by name. Without those that every process has."""
    found = [
        *((f"{name}_total", "counter", metric) for name, metric in COUNTERS.items()),
        *((f"{name}_seconds", "histogram", metric) for name, metric in HISTOGRAMS.items()),
        *((name, "gauge", metric) for name, metric in GAUGES.items()),
        ("build_info", "gauge", BUILD_INFO),
    ]
    return ((f"{PREFIX}{name}", kind, metric) for name, kind, metric in sorted(found))
