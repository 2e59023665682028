"""fill.py HOST CONNECTIONS BYTES: so many connections, and values of so many bytes; the cache's stats, in JSON."""

import asyncio
import json
import sys

PORT = 11211
ITEM = 64
"""Bytes of a value: small, so that as much memory as can be goes into items' headers and the hash table."""
BATCH = 1000


async def main() -> None:
    """Fill the cache over the first of the connections, while all of them are open."""
    host, connections, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    streams = [await asyncio.open_connection(host, PORT) for _ in range(connections)]
    reader, writer = streams[0]
    value = b"x" * ITEM
    items = size // ITEM
    for first in range(0, items, BATCH):
        for number in range(first, first + BATCH):
            writer.write(b"set key-%d 0 0 %d noreply\r\n%b\r\n" % (number, ITEM, value))
        await writer.drain()
    # Every connection has a buffer of its own as soon as it is used.
    for _, each in streams:
        each.write(b"version\r\n")
    for answers, _ in streams[1:]:
        if not await answers.readline():
            sys.exit("a connection was closed by the cache")
    writer.write(b"stats\r\n")
    found = {}
    while (line := (await reader.readline()).decode().strip()) != "END":
        if line.startswith("STAT "):
            _, name, text = line.split(" ", 2)
            found[name] = text
    print(
        json.dumps(
            {name: int(found[name]) for name in ("evictions", "curr_items", "curr_connections", "limit_maxbytes")}
        )
    )


asyncio.run(main())
