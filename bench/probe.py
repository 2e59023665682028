"""The operator, with a Unix socket beside it that tells how many bytes Python's objects hold.

Run as `python bench/probe.py run FLAGS...`, with the socket's path in PROBE_SOCKET. Each connection gets one JSON
object: source file -> bytes allocated there and still held, after a full garbage collection. `tracemalloc` does not see
what C libraries allocate past Python's allocators, nor what fragmentation wastes: this is what we keep, not RSS.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import threading
import tracemalloc


def held_bytes() -> dict[str, int]:
    """Bytes held, by the source file that allocated them; tracemalloc's own are left out."""
    gc.collect()
    statistics = tracemalloc.take_snapshot().statistics("filename")
    return {s.traceback[0].filename: s.size for s in statistics if s.traceback[0].filename != tracemalloc.__file__}


def _answer(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(json.dumps(held_bytes()).encode())


def main() -> None:
    """Run the operator with the command line as it is."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.environ.pop("PROBE_SOCKET"))
    listener.listen()
    threading.Thread(target=_answer, args=(listener,), daemon=True).start()
    tracemalloc.start()
    from memcached_operator.__main__ import main as operator  # noqa: PLC0415 - what it imports is to be traced

    operator()


if __name__ == "__main__":
    main()
