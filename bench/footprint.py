"""What the operator's Python objects hold, asked of an operator that runs under `probe.py`."""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from bench.rest import wait_unchanged

PROBE = (str(Path(__file__).resolve().with_name("probe.py")), "run")
SOCKET = "PROBE_SOCKET"
CONNECTIONS = ("/aiohttp/", "/yarl/", "/ssl.py")
"""Where connections are made, 190 KiB each: as many as the last burst needed, until they have idled for a minute."""
SETTLED = 2048
"""Two looks that differ by less (bytes) show an operator at rest."""
INTERVAL = 2.0
"""Seconds between two looks: more than any status or event is held back."""


def held(path: Path) -> Counter[str]:
    """Source file -> bytes that were allocated there and are held now, connections apart.

    Raises OSError when the operator is gone.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        with connection.makefile("rb") as answer:
            found = json.loads(answer.read())
    return Counter({name: size for name, size in found.items() if not any(part in name for part in CONNECTIONS)})


def held_at_rest(path: Path, timeout: float = 60) -> Counter[str]:
    """Return `held` when it does not change any more. Raises WaitTimeoutError."""
    return wait_unchanged(
        lambda: held(path),
        timeout,
        "the operator's memory to come to rest",
        interval=INTERVAL,
        same=lambda before, after: abs(after.total() - before.total()) < SETTLED,
    )


def growth(before: Mapping[str, int], after: Mapping[str, int], causes: int) -> list[tuple[str, float]]:
    """Source file -> bytes held more than before by each of so many causes (or less), most first."""
    more = {name: (after.get(name, 0) - before.get(name, 0)) / causes for name in {*before, *after}}
    return sorted(((name, size) for name, size in more.items() if size), key=lambda item: -abs(item[1]))
