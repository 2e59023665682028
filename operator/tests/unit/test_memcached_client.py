from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from memcached_operator.memcached.client import Client, ProtocolError

Call = Callable[[Client], Awaitable[object]]


@asynccontextmanager
async def answering(answer: bytes, *, keep_open: bool = False) -> AsyncIterator[tuple[Client, list[bytes]]]:
    """A client of a server that reads one command, gives `answer`, and hangs up unless `keep_open`."""
    asked: list[bytes] = []
    done = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.read(1000))
        writer.write(answer)
        await writer.drain()
        if keep_open:
            await done.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    client = await Client.connect(f"{host}:{port}", patience=0.2 if keep_open else 5)
    try:
        async with client:
            yield client, asked
    finally:
        done.set()
        server.close()
        await server.wait_closed()


async def version(client: Client) -> str:
    return await client.version()


async def store(client: Client) -> None:
    await client.set("k", b"v")


async def get(client: Client) -> bytes | None:
    return await client.get("k")


async def stats(client: Client) -> dict[str, str]:
    return await client.stats()


@pytest.mark.parametrize(
    ("call", "command", "answer", "result"),
    (
        (version, b"version\r\n", b"VERSION 1.6.45\r\n", "1.6.45"),
        (store, b"set k 0 0 1\r\nv\r\n", b"STORED\r\n", None),
        (get, b"get k\r\n", b"VALUE k 0 2\r\nhi\r\nEND\r\n", b"hi"),
        (get, b"get k\r\n", b"VALUE k 0 5\r\nEND\r\n\r\nEND\r\n", b"END\r\n"),
        (get, b"get k\r\n", b"END\r\n", None),
        (stats, b"stats\r\n", b"STAT pid 1\r\nSTAT libevent 2.1 x\r\nEND\r\n", {"pid": "1", "libevent": "2.1 x"}),
        (stats, b"stats\r\n", b"END\r\n", {}),
    ),
)
async def test_a_command_and_its_answer(call: Call, command: bytes, answer: bytes, result: object) -> None:
    async with answering(answer) as (client, asked):
        assert await call(client) == result
    assert asked == [command]


async def test_flags_expiry_and_a_group_of_statistics_are_sent() -> None:
    async with answering(b"STORED\r\n") as (client, asked):
        await client.set("k", b"v", flags=7, expire=60)
    assert asked == [b"set k 7 60 1\r\nv\r\n"]
    async with answering(b"END\r\n") as (client, asked):
        await client.stats("settings")
    assert asked == [b"stats settings\r\n"]


@pytest.mark.parametrize(
    ("call", "answer", "words"),
    (
        (version, b"CLIENT_ERROR unauthenticated\r\n", "CLIENT_ERROR unauthenticated"),
        (version, b"VERSION 1.6", "closed the connection after b'VERSION 1.6'"),
        (version, b"x" * 100_000, "without an end"),
        (store, b"SERVER_ERROR object too large for cache\r\n", "object too large"),
        (store, b"STORED twice\r\n", "STORED twice"),
        (get, b"VALUE k 0 5\r\nhi", "into a value"),
        (get, b"VALUE k 0\r\n", "announced a value"),
        (get, b"VALUE k 0 -1\r\n", "announced a value"),
        (get, b"VALUE k 0 1\r\nhi\r\nEND\r\n", "'i'"),
        (stats, b"STAT pid 1\r\nERROR\r\n", "ERROR"),
        (stats, b"", "closed the connection"),
    ),
)
async def test_a_wrong_answer_is_an_error_that_quotes_it(call: Call, answer: bytes, words: str) -> None:
    async with answering(answer) as (client, _):
        with pytest.raises(ProtocolError, match=words):
            await call(client)


async def test_silence_ends_in_a_time_out() -> None:
    async with answering(b"", keep_open=True) as (client, _):
        with pytest.raises(TimeoutError):
            await client.version()


@pytest.mark.parametrize("key", ("", "two words", "a\r\nflush_all", "tab\there", "del\x7f", "k" * 251, "ü" * 126))
async def test_what_is_no_key_is_never_sent(key: str) -> None:
    async with answering(b"STORED\r\n") as (client, asked):
        with pytest.raises(ValueError, match="not a key"):
            await client.set(key, b"v")
        with pytest.raises(ValueError, match="not a key"):
            await client.get(key)
        assert asked == []
        await client.set("k" * 250, b"v")


async def test_ipv6_addresses_stand_in_brackets() -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"VERSION 6\r\n")
        writer.close()

    try:
        server = await asyncio.start_server(serve, "::1", 0)
    except OSError:
        pytest.skip("this machine has no IPv6")
    port = server.sockets[0].getsockname()[1]
    async with server, await Client.connect(f"[::1]:{port}") as client:
        assert await client.version() == "6"


async def test_nobody_listening_is_an_os_error() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    with pytest.raises(OSError, match=str(port)):
        await Client.connect(f"127.0.0.1:{port}")
