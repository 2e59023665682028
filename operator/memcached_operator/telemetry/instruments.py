"""Counters and histograms for the hot path: plain numbers, turned into opentelemetry's data only when somebody scrapes.

Measured: an opentelemetry counter costs 4.7 us a call and a histogram 5.1 us; these cost 0.15 us and 0.35 us.

Adding to a number is not atomic, so a series that two threads count at the same moment may lose one. Every series
here has one writing thread; reading from another thread (a scrape) is always safe.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator


class Counter:
    """A number that only grows, one for each combination of label values.

    Without labels it is 0 from the start: a rate() needs the sample before the first event. `name` is the name on
    /metrics without `_total`, which the exposition adds.
    """

    __slots__ = ("description", "labels", "name", "series")

    def __init__(self, name: str, description: str, labels: tuple[str, ...] = ()) -> None:
        self.name = name
        self.description = description
        self.labels = labels
        self.series: dict[tuple[str, ...], int] = {} if labels else {(): 0}

    def add(self, *values: str) -> None:
        """Count one event. `values` are the label values, in the order of `labels`."""
        self.series[values] = self.series.get(values, 0) + 1

    def read(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """The label values and the number of each series."""
        # A copy: the dict grows in another thread while it is read here.
        return iter(self.series.copy().items())


class Distribution:
    """What one series of a histogram has seen.

    `counts` has one cell for each bound, then one for what lies above them all. `total`, `low`, `high` are seconds.
    """

    __slots__ = ("counts", "high", "low", "total")

    def __init__(self, cells: int) -> None:
        self.counts = [0] * cells
        self.total = 0.0
        self.low = float("inf")
        self.high = float("-inf")


class Histogram:
    """A distribution of seconds, one for each combination of label values.

    A value equal to a bound counts in the cell below it, as Prometheus' `le` says. `name` is without the unit.
    """

    __slots__ = ("bounds", "description", "labels", "name", "series")

    def __init__(self, name: str, description: str, bounds: tuple[float, ...], labels: tuple[str, ...] = ()) -> None:
        self.name = name
        self.description = description
        self.bounds = bounds
        self.labels = labels
        self.series: dict[tuple[str, ...], Distribution] = {}

    def record(self, seconds: float, *values: str) -> None:
        """Add one observation. `values` are the label values, in the order of `labels`."""
        seen = self.series.get(values)
        if seen is None:
            seen = self.series[values] = Distribution(len(self.bounds) + 1)
        seen.counts[bisect_left(self.bounds, seconds)] += 1
        seen.total += seconds
        seen.low = min(seen.low, seconds)
        seen.high = max(seen.high, seconds)

    def read(self) -> Iterator[tuple[tuple[str, ...], Distribution]]:
        """The label values and the distribution of each series."""
        return iter(self.series.copy().items())
