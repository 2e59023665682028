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
CONNECTIONS = "aiohttp/connector.py"
"""Where TLS buffers are made, 180 KiB a pooled connection: as many as the last burst needed, whatever the resources."""
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
            return Counter({name: size for name, size in json.loads(answer.read()).items() if CONNECTIONS not in name})


def held_at_rest(path: Path, timeout: float = 60) -> Counter[str]:
    """Return `held` when it does not change any more. Raises WaitTimeoutError."""
    return wait_unchanged(
        lambda: held(path),
        timeout,
        "the operator's memory to come to rest",
        interval=INTERVAL,
        same=lambda before, after: abs(after.total() - before.total()) < SETTLED,
    )


def growth(before: Mapping[str, int], after: Mapping[str, int]) -> list[tuple[str, int]]:
    """Source files by the bytes they hold more than before, the greatest first."""
    more = {name: size - before.get(name, 0) for name, size in after.items()}
    return sorted(((name, size) for name, size in more.items() if size > 0), key=lambda item: -item[1])
