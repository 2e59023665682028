"""What validation reports: where, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

SHOWN = 5
"""Problems in a summary; a spec with more is better read from its first ones."""

_MAX_VALUE = 60


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to correct. `path` is written as the API server writes it: `spec.tolerations[0].key`."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclass(frozen=True, slots=True)
class Invalid:
    """A resource that breaks at least one rule, in place of a `Memcached`."""

    problems: tuple[Problem, ...]

    def summary(self) -> str:
        """All problems in one line, for a condition's message; the first few when there are many."""
        shown = "; ".join(map(str, self.problems[:SHOWN]))
        more = len(self.problems) - SHOWN
        return f"{shown}; and {more} more" if more > 0 else shown


def shown(value: object) -> str:
    """`value` as a reader of a message wants to see it: quoted when text, short, on one line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        # Python refuses to print an integer of more than 4300 digits.
        return (
            str(value) if isinstance(value, float) or abs(value) < 10**_MAX_VALUE else "a number that is far too long"
        )
    if isinstance(value, str):
        text = ascii(value)[1:-1]
        return f'"{text if len(text) <= _MAX_VALUE else text[: _MAX_VALUE - 3] + "..."}"'
    return (
        "a list" if isinstance(value, list) else "an object" if isinstance(value, dict) else f"a {type(value).__name__}"
    )
