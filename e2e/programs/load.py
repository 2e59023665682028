"""load.py SERVICE KEYS: read and write KEYS keys of a cache until standard input ends; then say how it went, in JSON.

As client libraries do: a key has a server by its hash, so that only the keys of a server that goes have to move; the
servers are the addresses of the headless Service, asked once a second and after every failure; a request that fails is
tried on the key's next server.
"""

import asyncio
import collections
import hashlib
import json
import socket
import sys
import time

from memcached_operator.errors import TransientError
from memcached_operator.memcached.client import Client

PORT = 11211
PATIENCE = 2.0
"""Seconds after which a server counts as dead."""


def resolve(service: str) -> list[str]:
    """Addresses of the Service, in order."""
    found = socket.getaddrinfo(service, PORT, family=socket.AF_INET, type=socket.SOCK_STREAM)
    return sorted({f"{address[0]!s}:{PORT}" for *_, address in found})


def servers_of(key: str, servers: list[str]) -> list[str]:
    """The servers in the order in which this key wants them (rendezvous hashing)."""
    return sorted(servers, key=lambda server: hashlib.blake2b(f"{key} {server}".encode()).digest())


class Load:
    """The client: its connections, what it stored, and how its requests went."""

    def __init__(self, service: str) -> None:
        self.service = service
        self.servers: list[str] = []
        self.resolved = 0.0
        self.connections: dict[str, Client] = {}
        self.stored: set[str] = set()
        self.count: collections.Counter[str] = collections.Counter()
        self.lost: collections.Counter[str] = collections.Counter()

    async def ask(self, key: str) -> None:
        """Get the key; set it when it is not there."""
        if time.monotonic() - self.resolved > 1:
            self.look_up()
        self.count["requests"] += 1
        for server in servers_of(key, self.servers):
            try:
                await self.ask_server(key, server)
            except (OSError, TimeoutError, TransientError):
                self.count["retried"] += 1
                self.connections.pop(server, None)
                self.look_up()
            else:
                return
        self.count["failed"] += 1

    async def ask_server(self, key: str, server: str) -> None:
        cache = self.connections.get(server)
        if cache is None:
            cache = self.connections[server] = await Client.connect(server, patience=PATIENCE)
        if await cache.get(key) is None:
            if key in self.stored:
                self.lost[server] += 1
            await cache.set(key, key.encode())
            self.stored.add(key)

    def look_up(self) -> None:
        """Ask the Service for its servers; the old ones stay when nobody answers."""
        self.resolved = time.monotonic()
        try:
            self.servers = resolve(self.service)
        except OSError:
            self.count["unresolved"] += 1


async def main() -> None:
    """Ask for one key after the other."""
    service, keys = sys.argv[1], int(sys.argv[2])
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    load = Load(service)
    number = 0
    while not ended.done():
        await load.ask(f"key-{number % keys}")
        number += 1
    counted = {name: load.count[name] for name in ("requests", "retried", "failed", "unresolved")}
    print(json.dumps({**counted, "lost": dict(load.lost)}))


asyncio.run(main())
