"""The shape that every builder returns."""

from __future__ import annotations

from typing import Any

Manifest = dict[str, Any]
"""A Kubernetes object as plain JSON values.

It holds only what we mean to own, in the form in which the API server stores it: nothing is null, and quantities are
canonical.
"""
