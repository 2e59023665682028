from __future__ import annotations

from fractions import Fraction

import pytest

from memcached_operator.api.quantity import parse_quantity


@pytest.mark.parametrize(
    ("text", "number"),
    (
        (0, 0),
        (5, 5),
        ("5", 5),
        ("+5", 5),
        ("5.", 5),
        (".5", Fraction(1, 2)),
        ("1.5", Fraction(3, 2)),
        ("500m", Fraction(1, 2)),
        ("1k", 1000),
        ("1Ki", 1024),
        ("1.5Gi", 3 * 2**29),
        ("1E", 10**18),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1e-3", Fraction(1, 1000)),
        ("1n", Fraction(1, 10**9)),
    ),
)
def test_readable(text: str | int, number: Fraction | int) -> None:
    assert parse_quantity(text) == number


def test_rounded_up_to_a_billionth() -> None:
    assert parse_quantity("0.1n") == Fraction(1, 10**9)


def test_capped_like_the_api_server_does() -> None:
    assert parse_quantity("1e99") == 2**63 - 1
    assert parse_quantity("100E") == 2**63 - 1


@pytest.mark.parametrize(
    "text",
    (
        "",
        "x",
        "-1",
        -1,
        "1K",
        "1 Gi",
        "1.1.1",
        ".",
        "1e",
        "1e123",
        "1ei",
        True,
        None,
        1.5,
        [],
        "1" * 33,
        "1\n",
        "\u0661",
    ),
)
def test_unreadable(text: object) -> None:
    assert parse_quantity(text) is None
