"""A small client of memcached's text protocol: enough to prove that a cache answers, stores and counts.

Used by the demo and by the tests that talk to a running cache, not by the reconciler: a reconcile never waits for a
cache. Protocol: `doc/protocol.txt` in memcached's sources.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from memcached_operator.errors import TransientError

_END = b"\r\n"
_LONGEST_KEY = 250
"""Bytes, by the protocol."""


class ProtocolError(TransientError):
    """The server answered `ERROR`, `CLIENT_ERROR`, `SERVER_ERROR`, half an answer, or what the protocol has not."""

    category = "memcached"


class Client:
    """One connection; one command at a time.

    `async with await Client.connect("10.0.0.7:11211") as cache: ...`

    Every method raises `ProtocolError` on a wrong answer, `OSError` when the connection breaks and `TimeoutError` after
    `patience` seconds of silence. After any of them the connection is of no more use.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, patience: float) -> None:
        self._reader = reader
        self._writer = writer
        self._patience = patience

    @classmethod
    async def connect(cls, address: str, *, patience: float = 5.0) -> Self:
        """Connect to `host:port`, IPv6 in brackets: the form of `status.serverList`. `patience` is in seconds."""
        host, _, port = address.rpartition(":")
        async with asyncio.timeout(patience):
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        return cls(reader, writer, patience=patience)

    async def version(self) -> str:
        """The server's version, such as `1.6.45`."""
        return _expect(await self._ask(b"version"), "VERSION ")

    async def set(self, key: str, value: bytes, *, flags: int = 0, expire: int = 0) -> None:
        """Store `value` for `expire` seconds (0: until evicted)."""
        _check(key)
        command = f"set {key} {flags} {expire} {len(value)}".encode()
        _expect(await self._ask(command + _END + value), "STORED")

    async def get(self, key: str) -> bytes | None:
        """The value of `key`, or None on a miss."""
        _check(key)
        header = await self._ask(b"get " + key.encode())
        if header == "END":
            return None
        value = await self._read(_length(_expect(header, "VALUE ")))
        _expect(await self._line(), "")
        _expect(await self._line(), "END")
        return value

    async def stats(self, group: str = "") -> dict[str, str]:
        """General statistics by name, or those of a group such as `settings`, `items` or `slabs`."""
        found: dict[str, str] = {}
        line = await self._ask(f"stats {group}".strip().encode())
        while line != "END":
            name, _, value = _expect(line, "STAT ").partition(" ")
            found[name] = value
            line = await self._line()
        return found

    async def close(self) -> None:
        """Close the connection; never raises."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            return  # the server closed it first

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _ask(self, command: bytes) -> str:
        async with asyncio.timeout(self._patience):
            self._writer.write(command + _END)
            await self._writer.drain()
        return await self._line()

    async def _line(self) -> str:
        async with asyncio.timeout(self._patience):
            try:
                line = await self._reader.readuntil(_END)
            except asyncio.IncompleteReadError as error:
                raise ProtocolError(f"the server closed the connection after {error.partial!r}") from error
            except asyncio.LimitOverrunError as error:
                raise ProtocolError("memcached answered a line without an end") from error
        return line.removesuffix(_END).decode(errors="replace")

    async def _read(self, length: int) -> bytes:
        async with asyncio.timeout(self._patience):
            try:
                return await self._reader.readexactly(length)
            except asyncio.IncompleteReadError as error:
                raise ProtocolError(f"the server closed the connection {error.partial!r} into a value") from error


def _expect(line: str, prefix: str) -> str:
    """The rest of `line` after `prefix`; all of the line must match when there can be no rest."""
    complete = not prefix.endswith(" ")
    if not line.startswith(prefix) or (complete and line != prefix):
        raise ProtocolError(f"memcached answered {line!r} where {prefix!r} was expected")
    return line.removeprefix(prefix)


def _length(header: str) -> int:
    """Bytes of the value that follows `<key> <flags> <bytes>`."""
    match header.split(" "):
        case [_, _, length, *_] if length.isascii() and length.isdigit():
            return int(length)
    raise ProtocolError(f"memcached announced a value by {header!r}")


def _check(key: str) -> None:
    """A space or a line end in a key would be read as a further argument, or as a further command."""
    if not 0 < len(key.encode()) <= _LONGEST_KEY or any(character <= " " or character == "\x7f" for character in key):
        raise ValueError(f"not a key: {key!r}")
