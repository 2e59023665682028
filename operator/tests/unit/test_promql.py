"""What is found in expressions of Prometheus."""

from __future__ import annotations

import pytest

from promql import Selector, grouping_labels, selectors


@pytest.mark.parametrize(
    ("expression", "found"),
    (
        ("up", [("up", set())]),
        ('up{job="a",pod!~"b{}.*"} == 0', [("up", {"job", "pod"})]),
        ("sum by (namespace, le) (rate(a_bucket[5m]))", [("a_bucket", set())]),
        ("sum(rate(a_total[$__rate_interval])) by (x)", [("a_total", set())]),
        ("max(a) > 0 and on (namespace) group_left (pod) b == 1", [("a", set()), ("b", set())]),
        ('histogram_quantile(0.99, a{b="c"}) * 1e3', [("a", {"b"})]),
        ("increase(a[1h]) or a unless a offset 30m", [("a", set())] * 3),
        ("absent(a) or vector(0)", [("a", set())]),
        ("time() - process_start_time_seconds", [("process_start_time_seconds", set())]),
    ),
)
def test_metrics_and_the_labels_that_choose_among_them(expression: str, found: list[tuple[str, set[str]]]) -> None:
    assert selectors(expression) == [Selector(name, frozenset(labels)) for name, labels in found]


def test_labels_that_are_grouped_by() -> None:
    assert grouping_labels("sum by (a, b) (x) / on (c) group_left y") == {"a", "b", "c"}
