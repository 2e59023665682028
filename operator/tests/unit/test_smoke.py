"""The test that `helm test` runs: against a fake API server, and a server that speaks memcached's protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from fake_api import FakeApi

from memcached_operator import smoke
from memcached_operator.errors import NotFoundError, OperatorError, TransientError
from memcached_operator.gvr import GVR, MEMCACHEDS
from memcached_operator.memcached.client import ProtocolError
from memcached_operator.smoke import Smoke, SmokeError

JSONObject = dict[str, Any]

NAMESPACE, NAME = "apps", "smoke"
LINE, DATA = b"set smoke 0 0 8\r\n", b"one\r\ntwo\r\n"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smoke, "_POLL_SECONDS", 0.005)


@asynccontextmanager
async def memcached(*, value: bytes = b"one\r\ntwo") -> AsyncIterator[str]:
    """The address of a server that knows three commands; `get` answers `value`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            while command := await reader.readuntil(b"\r\n"):
                if command == LINE:
                    assert await reader.readexactly(len(DATA)) == DATA
                answers = {
                    b"version\r\n": b"VERSION 1.6.45\r\n",
                    LINE: b"STORED\r\n",
                    b"get smoke\r\n": b"VALUE smoke 0 %d\r\n%s\r\nEND\r\n" % (len(value), value),
                }
                writer.write(answers.get(command, b"ERROR\r\n"))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"{host}:{port}"
    finally:
        server.close()
        await server.wait_closed()


def condition(status: str) -> dict[str, str]:
    return {"type": "Ready", "status": status, "reason": "WaitingForPods", "message": "0 of 1 pods are ready"}


class User:
    """What a user has of the API server. An operator gives `status` to every Memcached before it is read."""

    def __init__(self, status: JSONObject | None = None) -> None:
        self.server = FakeApi()  # its own client's side has the operator's rights, not ours
        self.status = status
        self.failures: list[OperatorError] = []  # of the next reads
        self.specs: list[JSONObject] = []

    async def get(self, gvr: GVR, namespace: str, name: str) -> bytes:
        if self.failures:
            raise self.failures.pop()
        if self.status is not None and self.server.object(gvr, namespace, name):
            self.server.edit(gvr, namespace, name, {"status": self.status}, subresource="status")
        found = self.server.object(gvr, namespace, name)
        if found is None:
            raise NotFoundError(f"{name} is not there", status=404)
        return json.dumps(found).encode()

    async def create(self, gvr: GVR, namespace: str, manifest: JSONObject) -> bytes:
        self.specs.append(manifest["spec"])
        manifest["metadata"]["namespace"] = namespace
        return json.dumps(self.server.add(gvr, manifest)).encode()

    async def delete(self, gvr: GVR, namespace: str, name: str, *, uid: str) -> bytes:
        found = self.server.object(gvr, namespace, name)
        assert found is not None
        assert found["metadata"]["uid"] == uid
        self.server.remove(gvr, namespace, name)
        return b"{}"

    @property
    def left(self) -> list[JSONObject]:
        return self.server.objects(MEMCACHEDS)


async def run(user: User, *, image: str = "", seconds: float = 2) -> list[str]:
    """What it tells, in the order of the lines."""
    told: list[str] = []
    await Smoke(user, NAMESPACE, NAME, tell=told.append).run(image=image, seconds=seconds)
    return told


def ready(*addresses: str) -> JSONObject:
    return {"conditions": [condition("True")], "serverList": list(addresses)}


async def test_every_pod_is_spoken_to_and_nothing_is_left() -> None:
    async with memcached() as one, memcached() as two:
        user = User(ready(one, two))
        told = await run(user)
    assert told == [
        "Memcached apps/smoke created",
        f"Memcached apps/smoke is Ready: {one}, {two}",
        *(
            line
            for address in (one, two)
            for line in (
                f"{address} version: 1.6.45",
                f"{address} set smoke: b'one\\r\\ntwo'",
                f"{address} get smoke: b'one\\r\\ntwo'",
            )
        ),
        "Memcached apps/smoke deleted",
    ]
    assert user.left == []


@pytest.mark.parametrize(
    ("image", "spec"),
    (
        ("", {"size": 1, "memory": 16, "maxConnections": 64}),
        ("registry/memcached:1", {"size": 1, "memory": 16, "maxConnections": 64, "image": "registry/memcached:1"}),
    ),
)
async def test_the_image_is_the_operators_unless_one_is_given(image: str, spec: dict[str, Any]) -> None:
    async with memcached() as address:
        user = User(ready(address))
        await run(user, image=image)
    assert user.specs == [spec]


async def test_what_a_killed_run_left_is_removed_first() -> None:
    async with memcached() as address:
        user = User(ready(address))
        user.server.add(MEMCACHEDS, {"metadata": {"namespace": NAMESPACE, "name": NAME}, "spec": {"size": 3}})
        told = await run(user)
    assert told[:2] == ["Memcached apps/smoke was left by an earlier run: deleted", "Memcached apps/smoke created"]


async def test_a_failure_tells_the_conditions_and_still_removes_the_memcached() -> None:
    user = User({"conditions": [condition("False")]})
    with pytest.raises(SmokeError) as failed:
        await run(user, seconds=0.05)
    assert str(failed.value) == (
        "Memcached apps/smoke is not Ready after 0.05 s. Ready False (WaitingForPods): 0 of 1 pods are ready"
    )
    assert user.left == []


async def test_without_an_operator_it_asks_for_one() -> None:
    with pytest.raises(SmokeError, match="does an operator run, and does it watch this namespace"):
        await run(User(), seconds=0.05)


async def test_a_cache_that_forgets_is_a_failure() -> None:
    async with memcached(value=b"two") as address:
        with pytest.raises(SmokeError, match=r"get smoke: b'two' instead of b'one\\r\\ntwo'"):
            await run(User(ready(address)))


async def test_a_port_where_nobody_listens_is_a_failure() -> None:
    async with memcached() as address:
        pass
    with pytest.raises(SmokeError, match="no conversation with memcached"):
        await run(User(ready(address)))


async def test_another_protocol_is_a_failure() -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    with pytest.raises(ProtocolError):
        await run(User(ready(f"{host}:{port}")))
    server.close()
    await server.wait_closed()


async def test_a_deletion_that_hangs_is_a_failure() -> None:
    async with memcached() as address:
        user = User(ready(address))
        user.server.mutate[MEMCACHEDS] = lambda body: body["metadata"].update(finalizers=["example.com/stay"])
        with pytest.raises(SmokeError, match=r"still there 0\.1 s after it was deleted"):
            await run(user, seconds=0.1)


async def test_a_short_outage_is_waited_for() -> None:
    async with memcached() as address:
        user = User(ready(address))
        user.failures = [TransientError("the API server is away", status=503)] * 3
        told = await run(user)
    assert told[-1] == "Memcached apps/smoke deleted"


async def test_a_missing_right_is_told_at_once() -> None:
    user = User()
    user.failures = [TransientError("memcacheds is forbidden", status=403)]
    with pytest.raises(OperatorError, match="forbidden"):
        await run(user)


def test_a_failure_is_one_line_and_exit_code_1(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    missing = tmp_path / "kubeconfig"
    assert smoke.main(["--kubeconfig", str(missing)]) == 1
    told = capsys.readouterr().err
    assert told.startswith("FAILED: no usable cluster credentials")
    assert told.count("\n") == 1
