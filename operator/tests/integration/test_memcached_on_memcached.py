"""The command line and the client against memcached itself, where it is on PATH. It needs no control plane."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from memcached_operator.api.v1alpha1 import MemcachedSpec
from memcached_operator.memcached.args import PROGRAM, memcached_args
from memcached_operator.memcached.client import Client

pytestmark = pytest.mark.skipif(shutil.which(PROGRAM) is None, reason="memcached is not on PATH")


@asynccontextmanager
async def memcached(**spec: int) -> AsyncIterator[Client]:
    """A client of a memcached that runs with the arguments of this spec, on a free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    args = [*memcached_args(MemcachedSpec.model_validate({"size": 1, **spec})), "-l", "127.0.0.1", "-p", str(port)]
    # memcached refuses to run as root without a user to become. Pods never run it as root.
    as_user = ["-u", "nobody"] if os.geteuid() == 0 else []
    process = await asyncio.create_subprocess_exec(PROGRAM, *args, *as_user, stderr=asyncio.subprocess.DEVNULL)
    try:
        async with asyncio.timeout(10), await connected(process, f"127.0.0.1:{port}") as client:
            yield client
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def connected(process: asyncio.subprocess.Process, address: str) -> Client:
    while process.returncode is None:
        try:
            return await Client.connect(address)
        except OSError:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.02):
                    await process.wait()
    raise AssertionError(f"memcached exited with {process.returncode}")


@pytest.mark.parametrize(
    ("spec", "settings"),
    (
        (
            {},
            {
                "maxbytes": str(64 * 1024 * 1024),
                "maxconns": "1024",
                "num_threads": "4",
                "item_size_max": str(1024 * 1024),
                "udpport": "0",
                "verbosity": "1",
            },
        ),
        ({"memory": 100, "maxItemSize": 2048}, {"maxbytes": "104857600", "item_size_max": "2097152"}),
        ({"memory": 1, "maxItemSize": 512}, {"maxbytes": "1048576", "item_size_max": "524288"}),
        ({"maxConnections": 32, "threads": 1}, {"maxconns": "32", "num_threads": "1"}),
        ({"verbosity": 0}, {"verbosity": "0"}),
        ({"verbosity": 3}, {"verbosity": "3"}),
    ),
)
async def test_memcached_takes_what_the_spec_says(spec: dict[str, int], settings: dict[str, str]) -> None:
    async with memcached(**spec) as client:
        assert (await client.stats("settings")).items() >= settings.items()


async def test_what_is_set_can_be_read() -> None:
    async with memcached() as client:
        assert (await client.version())[0].isdigit()
        for value in (b"", b"hello", b"a\r\nEND\r\nb", bytes(range(256)) * 1000):
            await client.set("key", value)
            assert await client.get("key") == value
        assert await client.get("other") is None
        await client.set("brief", b"x", expire=-1)
        assert await client.get("brief") is None
        stats = await client.stats()
        assert (stats["cmd_set"], stats["get_misses"]) == ("5", "2")
