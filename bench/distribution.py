"""Arithmetic of many figures: quantiles, medians of ratios, slopes. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some ratios, the least and the greatest of them, and how many there are."""

    median: float
    low: float
    high: float
    count: int


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of an ascending sequence lies, by nearest rank.

    Raises IndexError when it is empty.
    """
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def ratios(pairs: Sequence[tuple[float, float]]) -> Spread | None:
    """Of (ours, theirs): the spread of ours / theirs, None when no pair has a quotient.

    Zero against zero is a tie, 1; something against zero is no ratio.
    """
    found = [1.0 if ours == theirs else ours / theirs for ours, theirs in pairs if theirs or not ours]
    return Spread(statistics.median(found), min(found), max(found), len(found)) if found else None


def slope(points: Mapping[float, float]) -> float | None:
    """The exponent k of y = c * x^k that fits the points x -> y best (least squares of logarithms).

    None for fewer than two points, or when one is not positive.
    """
    if len(points) < 2 or any(x <= 0 or y <= 0 for x, y in points.items()):
        return None
    fit = statistics.linear_regression([math.log(x) for x in points], [math.log(y) for y in points.values()])
    return fit.slope
