"""A rule that a schema cannot say: its CEL text for the API server and the same in Python, side by side.

The API server refuses new objects that break a rule; the reconciler checks again, because objects that were stored
before the rule existed stay. Both show the same words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

T = TypeVar("T")

Why = Literal["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"]


@dataclass(frozen=True, slots=True)
class Rule(Generic[T]):
    """One rule on a value of type `T`.

    `cel` is true when `self` keeps the rule, and so is `holds`. `message` says what to do. Where it needs a number or
    a name, `message_cel` (a CEL expression) and `explain` (the same in Python) make it, and `message` is what remains
    when that CEL fails. `field` points from `self` to the field to correct, as in `.limits.memory`. `why` is the API
    server's machine-readable reason.
    """

    cel: str
    message: str
    holds: Callable[[T], bool]
    message_cel: str = ""
    explain: Callable[[T], str] | None = None
    field: str = ""
    why: Why = "FieldValueInvalid"

    def words(self, value: T) -> str:
        """The message for `value`, which breaks the rule."""
        return self.explain(value) if self.explain else self.message
