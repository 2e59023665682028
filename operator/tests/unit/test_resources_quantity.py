from __future__ import annotations

import pytest

from memcached_operator.resources.quantity import canonical_quantity, equal_quantities, mebibytes


# integration/test_resources_on_apiserver.py asks a real API server to store each of these as it is.
@pytest.mark.parametrize(
    ("given", "canonical"),
    (
        (0, "0"),
        ("0", "0"),
        ("0Mi", "0"),
        ("0e3", "0"),
        (1, "1"),
        ("1", "1"),
        ("+1", "1"),
        ("1.0", "1"),
        ("1000m", "1"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("1.5", "1500m"),
        ("2.", "2"),
        ("100", "100"),
        (1000, "1k"),
        (1500, "1500"),
        (1048576, "1048576"),
        (100000000, "100M"),
        ("1000k", "1M"),
        ("1.5Gi", "1536Mi"),
        ("1024Mi", "1Gi"),
        ("1024Ki", "1Mi"),
        ("100Mi", "100Mi"),
        ("0.5Gi", "512Mi"),
        ("0.5Ki", "512"),
        ("0.9765625Ki", "1k"),
        ("0.1Mi", "104857600m"),
        ("1.1Ki", "1126400m"),
        ("1500Ki", "1500Ki"),
        ("100u", "1m"),
        ("1n", "1m"),
        ("1000001u", "1001m"),
        ("0.0005", "1m"),
        ("1e3", "1e3"),
        ("1E3", "1e3"),
        ("1e2", "100"),
        ("15e2", "1500"),
        ("1e4", "10e3"),
        ("1e-3", "1e-3"),
        ("1e-4", "1e-3"),
        ("1.500", "1500m"),
        ("007", "7"),
        ("1E", "1E"),
        ("1Ei", "1Ei"),
        ("8Ei", "9223372036854775807"),
        ("1000P", "1E"),
    ),
)
def test_the_canonical_form(given: str | int, canonical: str) -> None:
    assert canonical_quantity(given) == canonical
    assert canonical_quantity(canonical) == canonical


@pytest.mark.parametrize("given", ("", "-1", "1mi", "one", "1 Gi", "1e", True, None))
def test_what_is_no_quantity(given: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        canonical_quantity(given)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    (
        ("1Gi", "1024Mi", True),
        ("1Gi", "1073741824", True),
        ("1", 1, True),
        ("1Gi", "1G", False),
        ("1", "nonsense", False),
        ("nonsense", "nonsense", False),
        ("1", None, False),
    ),
)
def test_equality_is_of_numbers(one: object, other: object, *, equal: bool) -> None:
    assert equal_quantities(one, other) is equal


@pytest.mark.parametrize(
    ("count", "text"), ((1, "1Mi"), (135, "135Mi"), (1024, "1Gi"), (1536, "1536Mi"), (1048576, "1Ti"))
)
def test_mebibytes_are_canonical(count: int, text: str) -> None:
    assert mebibytes(count) == text == canonical_quantity(f"{count}Mi")
