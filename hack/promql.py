"""What a PromQL expression asks for: the metrics and, of each, the labels that it selects by. No full parser."""

from __future__ import annotations

import re
from typing import NamedTuple

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_LABEL_LISTS = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^()]*)\)")
_RANGES = re.compile(r"\[[^\]]*\]")
_OFFSETS = re.compile(r"\b(?:offset|@)\s+\S+")
_SELECTOR = re.compile(r"(?<![\w:$.])([a-zA-Z_:][\w:]*)\s*(\{[^{}]*\})?(?!\w|\s*\()")
_LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_KEYWORDS = frozenset({"and", "or", "unless", "bool", "by", "without", "on", "ignoring", "group_left", "group_right"})


class Selector(NamedTuple):
    """One metric in an expression, and the labels that it is chosen by."""

    metric: str
    labels: frozenset[str]


def selectors(expression: str) -> list[Selector]:
    """Every metric that `expression` names, with the labels of its matchers."""
    text = _STRING.sub('""', expression)
    for pattern in (_LABEL_LISTS, _RANGES, _OFFSETS):
        text = pattern.sub(" ", text)
    return [
        Selector(name, frozenset(_LABEL.findall(matchers or "")))
        for name, matchers in _SELECTOR.findall(text)
        if name not in _KEYWORDS
    ]


def grouping_labels(expression: str) -> set[str]:
    """The labels in its `by`, `on` and similar lists."""
    lists = _LABEL_LISTS.findall(_STRING.sub('""', expression))
    return {label.strip() for each in lists for label in each.split(",") if label.strip()}
