"""How many requests of which kind, from the API server's audit log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from controlplane import Request


def requests_by_kind(requests: Iterable[Request]) -> dict[str, int]:
    """How often what was asked for: `patch memcacheds/status` -> 2. Reads, watches and Leases count like all others."""
    return dict(Counter(kind_of(request) for request in requests))


def kind_of(request: Request) -> str:
    """`create deployments`, `patch deployments/scale`; a request for no resource goes by its path: `get /version`."""
    target = "/".join(part for part in (request.resource, request.subresource) if part)
    return f"{request.verb} {target or request.uri.partition('?')[0]}"
