"""Kubernetes quantities in the one form that the API server stores as it is given.

A quantity in another form comes back rewritten, differs from what was sent, and would be written for ever. (Not every
other form is rewritten: `+1` and `1.500` are kept. Comparison is therefore of numbers as well.)
Rules: `Quantity.CanonicalizeBytes` in k8s.io/apimachinery/pkg/api/resource; in resource lists the API server also
rounds up to thousandths (`SetDefaults_ResourceList` in k8s.io/kubernetes/pkg/apis/core/v1/defaults.go).
"""

from __future__ import annotations

from fractions import Fraction

from memcached_operator.api.quantity import parse_quantity

_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = ("m", "", "k", "M", "G", "T", "P", "E")
_MILLI = 1000


def canonical_quantity(value: str | int) -> str:
    """`value` in canonical form, rounded up to thousandths: `1Gi` for `1024Mi`, `2k` for 2000.

    Raises ValueError when it is no quantity of zero or more.
    """
    milli = _milli(value)
    suffix = str(value).lstrip("+0123456789.")
    # Binary only where it says the number exactly, as the API server has it: `0.5Gi` is `512Mi`, but `0.5Ki` is `512`.
    if suffix in _BINARY[1:] and milli >= 1024 * _MILLI and milli % _MILLI == 0:
        number, power = _factored(milli // _MILLI, 1024)
        return f"{number}{_BINARY[power]}"
    number, power = _factored(milli, 1000)
    if suffix[:1] in ("e", "E") and suffix[1:] not in ("", "i") and power != 1:
        return f"{number}e{3 * (power - 1)}" if number else "0"
    return f"{number}{_DECIMAL[power]}" if number else "0"


def equal_quantities(one: object, other: object) -> bool:
    """Whether two quantities are the same number. What is no quantity equals nothing."""
    a, b = parse_quantity(one), parse_quantity(other)
    return a is not None and a == b


def mebibytes(count: int) -> str:
    """The canonical quantity of `count` MiB, more than none."""
    number, power = _factored(count, 1024)
    return f"{number}{_BINARY[power + 2]}"


def _milli(value: str | int) -> int:
    number = parse_quantity(value)
    if number is None:
        raise ValueError(f"not a quantity: {value!r}")
    return -(-number // Fraction(1, _MILLI))


def _factored(number: int, base: int) -> tuple[int, int]:
    """(n, power) so that n * base**power is `number`, with the power as large as it can be."""
    power = 0
    while number and number % base == 0:
        number //= base
        power += 1
    return number, power
