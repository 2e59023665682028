"""Kubernetes quantities ("64Mi", "1.5", "500m", 2) as exact numbers."""

from __future__ import annotations

import re
from fractions import Fraction
from math import ceil
from types import MappingProxyType

QUANTITY_PATTERN = r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$"
"""What the CRD accepts: resource.Quantity of apimachinery, no minus sign, at most two digits of exponent."""

MAX_QUANTITY_LENGTH = 32

_NANO = 10**9
_MAX = Fraction(2**63 - 1)
_QUANTITY = re.compile(r"\+?([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?[0-9]{1,2}))?")
_UNITS = MappingProxyType(
    {"n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000)}
    | {unit: Fraction(1000 ** (i + 1)) for i, unit in enumerate("kMGTPE")}
    | {f"{unit}i": Fraction(1024 ** (i + 1)) for i, unit in enumerate("KMGTPE")}
)


def parse_quantity(value: object) -> Fraction | None:
    """The number that `value` stands for, or None when it is no (non-negative) quantity.

    As in apimachinery: rounded up to a billionth, and capped at 2^63 - 1.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return min(Fraction(value), _MAX) if value >= 0 else None
    if not isinstance(value, str) or len(value) > MAX_QUANTITY_LENGTH:
        return None
    match = _QUANTITY.fullmatch(value)
    if match is None:
        return None
    digits, unit, exponent = match.groups()
    scale = Fraction(10) ** int(exponent) if exponent else _UNITS[unit] if unit else Fraction(1)
    number = Fraction(digits.removesuffix(".")) * scale
    return min(Fraction(ceil(number * _NANO), _NANO), _MAX)
