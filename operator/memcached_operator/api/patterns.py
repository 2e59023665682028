"""Regular expressions for names, keys and values, in a dialect that RE2 and Python read alike, and CEL around them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from memcached_operator.api.defaults import MAX_LABEL_KEY_LENGTH

KEY_WORDS = "a name of up to 63 letters, digits, '-', '_' or '.', with an optional DNS prefix and '/'"
"""What a label or annotation key has to be, for messages."""

VALUE_WORDS = "empty, or letters, digits, '-', '_' and '.', with a letter or digit at both ends"
"""What a label value has to be."""

LABEL_VALUE = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
QUALIFIED_NAME = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$"
)
DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_1035_LABEL = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"

_LABEL = r"[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?"
_HOST = rf"({_LABEL}(\.{_LABEL})*|\[[0-9a-fA-F:]+\])(:[0-9]{{1,5}})?"
_PATH = r"[a-z0-9]+((\.|_{1,2}|-+)[a-z0-9]+)*"
IMAGE = rf"^({_HOST}/)?{_PATH}(/{_PATH})*(:[A-Za-z0-9_][-A-Za-z0-9_.]{{0,127}})?(@sha256:[0-9a-f]{{64}})?$"
"""An image reference (the grammar of distribution/reference), with sha256 as the only digest."""


def matches(pattern: str, text: str) -> bool:
    """Whether all of `text` matches. `re.match` alone would let a final newline pass for `$`."""
    return re.fullmatch(pattern, text) is not None


def in_cel(pattern: str) -> str:
    """The pattern as a CEL string literal. Raw, so that backslashes stay."""
    return f"r'{pattern}'"


def matches_cel(text: str, pattern: str) -> str:
    """CEL: whether all of `text` matches."""
    return f"{text}.matches({in_cel(pattern)})"


def is_key(text: str) -> bool:
    """Whether `text` can be the key of a label or an annotation."""
    return len(text) <= MAX_LABEL_KEY_LENGTH and matches(QUALIFIED_NAME, text)


def is_key_cel(text: str) -> str:
    """`is_key` in CEL."""
    return f"size({text}) <= {MAX_LABEL_KEY_LENGTH} && {matches_cel(text, QUALIFIED_NAME)}"


def one_of_cel(text: str, words: Iterable[str]) -> str:
    """CEL: whether `text` is one of `words`."""
    listed = ", ".join(f"'{word}'" for word in words)
    return f"{text} in [{listed}]"
