"""The client over HTTP: what it sends, and what it makes of whatever comes back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web
from fake_api import FakeApi
from fake_server import FakeServer, Handler, scripted, status

from memcached_operator.errors import (
    ConflictError,
    FencedError,
    NotFoundError,
    OperatorError,
    TerminalError,
    TransientError,
)
from memcached_operator.gvr import DEPLOYMENTS, LEASES, MEMCACHEDS, SERVICES
from memcached_operator.kube.client import JSON_PATCH, KubeClient, open_session
from memcached_operator.kube.credentials import Credentials

KINDS = (MEMCACHEDS, DEPLOYMENTS, SERVICES, LEASES)


def kubeconfig(folder: Path, server: str, token: str = "secret-1") -> Path:  # noqa: S107 - made up
    path = folder / "config"
    cluster = {"name": "c", "cluster": {"server": server}}
    user = {"name": "u", "user": {"token": token}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    config = {"apiVersion": "v1", "kind": "Config", "current-context": "x"}
    path.write_text(yaml.safe_dump({**config, "clusters": [cluster], "users": [user], "contexts": [context]}))
    return path


class Wired:
    """A client, the server at the other end, and what was counted."""

    def __init__(self, server: FakeServer, client: KubeClient, counted: list[tuple[str, str, int]]) -> None:
        self.server = server
        self.client = client
        self.counted = counted


@contextlib.asynccontextmanager
async def wired(folder: Path, handler: Handler | None = None, **options: Any) -> AsyncGenerator[Wired]:
    async with FakeServer(FakeApi(), KINDS).serve() as server:
        server.handler = handler
        credentials = await asyncio.to_thread(Credentials, str(kubeconfig(folder, server.url)))
        counted: list[tuple[str, str, int]] = []
        async with await open_session(credentials, user_agent="memcached-operator/test") as session:
            client = KubeClient(
                session, credentials.server, on_request=lambda *request: counted.append(request), **options
            )
            yield Wired(server, client, counted)


def cache(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x", "namespace": "ns"}, "spec": {"size": 1, **spec}}


@pytest.mark.parametrize(
    "code", (0x09, 0x1F, 0x22, 0x5C, 0x7F, 0x85, 0x98, 0xA0, 0x2028, 0x2029, 0xFEFF, 0xFFFF, 0x10990D)
)
async def test_what_is_applied_is_the_same_to_a_reader_of_yaml(tmp_path: Path, code: int) -> None:
    # The API server reads an apply as YAML, which does not take every character of JSON as it is.
    body = {"metadata": {"name": "x", "annotations": {"a": f"b{chr(code)}c"}}}
    sent: list[bytes] = []

    async def keep(request: web.Request) -> web.Response:
        sent.append(await request.read())
        return web.json_response({})

    async with wired(tmp_path, keep) as w:
        await w.client.apply(DEPLOYMENTS, "ns", "x", body)
    assert yaml.safe_load(sent[0]) == json.loads(sent[0]) == body


async def test_every_verb_does_what_it_says(tmp_path: Path) -> None:
    async with wired(tmp_path) as w:
        w.server.api.add(MEMCACHEDS, cache())
        assert json.loads(await w.client.get(MEMCACHEDS, "ns", "x"))["spec"] == {"size": 1}
        page = json.loads(await w.client.list_page(MEMCACHEDS, labels="app=y", limit=7))
        assert page["items"] == []
        deployment = {"metadata": {"name": "x"}, "spec": {"replicas": 1}}
        made = json.loads(await w.client.create(DEPLOYMENTS, "ns", deployment))
        await w.client.patch(DEPLOYMENTS, "ns", "x", {"spec": {"replicas": 2}}, subresource="scale")
        applied = {"metadata": {"name": "x", "labels": {"a": "b"}}}
        assert json.loads(await w.client.apply(DEPLOYMENTS, "ns", "x", applied))["metadata"]["labels"] == {"a": "b"}
        operation = {"op": "add", "path": "/metadata/labels/c", "value": "d"}
        await w.client.patch(DEPLOYMENTS, "ns", "x", [operation], content_type=JSON_PATCH)
        await w.client.patch(MEMCACHEDS, "ns", "x", {"status": {"nodes": []}}, subresource="status")
        await w.client.create(LEASES, "ns", {"metadata": {"name": "l"}, "spec": {}})
        await w.client.replace(LEASES, "ns", "l", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}})
        await w.client.delete(DEPLOYMENTS, "ns", "x", uid=made["metadata"]["uid"])
        assert [request for request, *_ in w.counted] == [
            "get", "list", "create", "patch", "patch", "patch", "patch", "create", "update", "delete",
        ]  # fmt: skip
        assert {code for *_, code in w.counted} == {200, 201}
        assert [resource for _, resource, _ in w.counted][3:7] == [
            "deployments/scale", "deployments", "deployments", "memcacheds/status",
        ]  # fmt: skip


async def test_requests_say_who_and_what(tmp_path: Path) -> None:
    async with wired(tmp_path) as w:
        await w.client.apply(DEPLOYMENTS, "ns", "x", {"metadata": {"name": "x"}})
        made = json.loads(await w.client.create(SERVICES, "ns", {"metadata": {"name": "s"}}))
        await w.client.delete(SERVICES, "ns", "s", uid=made["metadata"]["uid"])
        apply, create, delete = w.server.requests
        assert apply.headers["Authorization"] == "Bearer secret-1"
        assert apply.headers["User-Agent"] == "memcached-operator/test"
        assert apply.content_type == "application/apply-patch+yaml"
        assert dict(apply.query) == {"fieldManager": "memcached-operator", "force": "true"}
        assert dict(create.query) == {"fieldManager": "memcached-operator"}
        assert delete.query_string == ""


async def test_a_delete_names_its_uid(tmp_path: Path) -> None:
    bodies: list[Any] = []

    async def handler(request: web.Request) -> web.Response:
        bodies.append(await request.json())
        return web.json_response({})

    async with wired(tmp_path, handler) as w:
        await w.client.delete(SERVICES, "ns", "s", uid="u1")
    assert bodies[0]["preconditions"] == {"uid": "u1"}
    assert bodies[0]["propagationPolicy"] == "Background"


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    (
        (400, "BadRequest", TerminalError),
        (401, "Unauthorized", TransientError),
        (403, "Forbidden", TransientError),
        (404, "NotFound", NotFoundError),
        (404, "", TransientError),
        (405, "MethodNotAllowed", TransientError),
        (409, "AlreadyExists", ConflictError),
        (410, "Expired", TransientError),
        (413, "RequestEntityTooLarge", TerminalError),
        (415, "UnsupportedMediaType", TerminalError),
        (422, "Invalid", TerminalError),
        (429, "TooManyRequests", TransientError),
        (500, "InternalError", TransientError),
        (503, "ServiceUnavailable", TransientError),
        (504, "Timeout", TransientError),
    ),
)
async def test_the_type_of_an_error_says_what_to_do(
    tmp_path: Path, code: int, reason: str, error: type[OperatorError]
) -> None:
    async with wired(tmp_path, scripted(lambda: status(code, "some words", reason))) as w:
        with pytest.raises(OperatorError) as caught:
            await w.client.get(MEMCACHEDS, "ns", "x")
        assert type(caught.value) is error
        assert (caught.value.status, caught.value.reason) == (code, reason)
        assert "some words" in caught.value.message
        assert w.counted == [("get", "memcacheds", code)]


async def test_too_many_requests_says_until_when(tmp_path: Path) -> None:
    async with wired(tmp_path, scripted(lambda: status(429, headers={"Retry-After": "7"}))) as w:
        with pytest.raises(TransientError) as caught:
            await w.client.get(MEMCACHEDS, "ns", "x")
        assert caught.value.retry_after == 7.0


async def test_a_kind_that_is_not_served_is_not_an_object_that_is_gone(tmp_path: Path) -> None:
    async with wired(tmp_path, scripted(lambda: web.Response(status=404, text="404 page not found\n"))) as w:
        with pytest.raises(TransientError, match="404 page not found") as caught:
            await w.client.delete(DEPLOYMENTS, "ns", "x", uid="u")
        assert not isinstance(caught.value, NotFoundError)
        assert caught.value.status == 404


async def html(_: web.Request) -> web.Response:
    return web.Response(text="<html>log in</html>", content_type="text/html")


async def redirect(request: web.Request) -> web.Response:
    if request.path == "/elsewhere":
        raise AssertionError("nobody else gets our token")
    raise web.HTTPFound("/elsewhere")


async def truncated(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "1000", "Content-Type": "application/json"})
    await response.prepare(request)
    await response.write(b'{"kind"')
    assert request.transport is not None
    request.transport.close()
    return response


async def slammed(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


async def stuck(_: web.Request) -> web.StreamResponse:
    await asyncio.sleep(60)
    return web.Response()


BROKEN = (html, redirect, truncated, slammed, stuck)


@pytest.mark.parametrize("handler", BROKEN)
@pytest.mark.parametrize("verb", ("get", "list", "patch", "update", "delete", "create"))
async def test_broken_answers_are_transient(tmp_path: Path, handler: Handler, verb: str) -> None:
    async with wired(tmp_path, handler, timeout_seconds=0.2) as w:
        calls: dict[str, Callable[[], Any]] = {
            "get": lambda: w.client.get(MEMCACHEDS, "ns", "x"),
            "list": lambda: w.client.list_page(MEMCACHEDS),
            "patch": lambda: w.client.patch(MEMCACHEDS, "ns", "x", {}),
            "update": lambda: w.client.replace(LEASES, "ns", "x", {}),
            "delete": lambda: w.client.delete(DEPLOYMENTS, "ns", "x", uid="u"),
            "create": lambda: w.client.create(DEPLOYMENTS, "ns", {}),
        }
        with pytest.raises(TransientError):
            await calls[verb]()
        assert len(w.counted) == 1


async def test_a_server_that_is_not_there_is_transient(tmp_path: Path) -> None:
    credentials = await asyncio.to_thread(Credentials, str(kubeconfig(tmp_path, "http://127.0.0.1:1")))
    counted: list[tuple[str, str, int]] = []
    async with await open_session(credentials, user_agent="t") as session:
        client = KubeClient(session, credentials.server, on_request=lambda *request: counted.append(request))
        with pytest.raises(TransientError):
            await client.get(MEMCACHEDS, "ns", "x")
        with pytest.raises(TransientError):
            await anext(client.watch(MEMCACHEDS, query={}, silence_seconds=1))
    assert counted == [("get", "memcacheds", 0), ("watch", "memcacheds", 0)]


# The fence


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux has the option")
@pytest.mark.parametrize(("seconds", "milliseconds"), ((5.0, 5000), (0.1, 1000), (None, 0)))
async def test_what_was_not_delivered_is_given_up(tmp_path: Path, seconds: float | None, milliseconds: int) -> None:
    async with FakeServer(FakeApi()).serve() as server:
        server.handler = scripted(lambda: web.Response(body=bytes(1 << 20)))  # holds its connection until it is read
        credentials = await asyncio.to_thread(Credentials, str(kubeconfig(tmp_path, server.url)))
        async with await open_session(credentials, user_agent="t", undelivered_seconds=seconds) as session:
            response = await session.get(server.url)
            assert response.connection is not None
            assert response.connection.transport is not None
            connected = response.connection.transport.get_extra_info("socket")
            assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == milliseconds
            response.close()


async def test_no_write_leaves_without_the_lease(tmp_path: Path) -> None:
    async with wired(tmp_path, fence=lambda: False) as w:
        for write in (
            w.client.create(DEPLOYMENTS, "ns", {}),
            w.client.apply(DEPLOYMENTS, "ns", "x", {}),
            w.client.patch(MEMCACHEDS, "ns", "x", {}, subresource="status"),
            w.client.replace(DEPLOYMENTS, "ns", "x", {}),
            w.client.delete(DEPLOYMENTS, "ns", "x", uid="u"),
        ):
            with pytest.raises(FencedError):
                await write
        assert w.server.requests == []
        assert w.counted == []
        await w.client.list_page(MEMCACHEDS)
        await w.client.create(LEASES, "ns", {"metadata": {"name": "l"}}, fenced=False)


async def test_the_fence_is_asked_again_when_the_connection_is_there(tmp_path: Path) -> None:
    # A TLS handshake, or a stopped process, lies between the first question and the first byte.
    for warm in (False, True):
        asked: list[bool] = []

        def fence(asked: list[bool] = asked) -> bool:
            asked.append(True)
            return len(asked) < 2

        async with wired(tmp_path, fence=fence) as w:
            if warm:
                await w.client.list_page(MEMCACHEDS)
            with pytest.raises(FencedError):
                await w.client.create(DEPLOYMENTS, "ns", {"metadata": {"name": "x"}})
            assert len(asked) == 2
            assert w.server.api.objects(DEPLOYMENTS) == []
            await w.client.list_page(MEMCACHEDS)


async def test_the_second_try_that_aiohttp_makes_by_itself_is_fenced_too(tmp_path: Path) -> None:
    tries: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        tries.append(request.method)
        return await slammed(request)

    async with wired(tmp_path, handler, fence=lambda: not tries) as w:
        with pytest.raises(FencedError):
            await w.client.delete(DEPLOYMENTS, "ns", "x", uid="u")
    assert tries == ["DELETE"]


# Watches


async def test_a_watch_yields_whole_lines_however_they_are_cut(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for piece in (b'{"a":', b"1}\n{", b'"b":2}\n', b'{"c":3}\n{"d":4}\n', b'{"half":'):
            await response.write(piece)
            await asyncio.sleep(0.01)
        return response

    async with wired(tmp_path, handler) as w:
        lines = [
            line async for batch in w.client.watch(MEMCACHEDS, query={"x": "y"}, silence_seconds=5) for line in batch
        ]
        assert lines == [b'{"a":1}', b'{"b":2}', b'{"c":3}', b'{"d":4}']
        assert dict(w.server.requests[0].query) == {"x": "y", "watch": "1"}
        assert w.counted == [("watch", "memcacheds", 200)]


async def test_a_long_line_is_one_line(tmp_path: Path) -> None:
    async with wired(tmp_path) as w:
        w.server.api.add(MEMCACHEDS, cache(note="x" * 3_000_000))
        stream = w.client.watch(MEMCACHEDS, query={"resourceVersion": "1"}, silence_seconds=5)
        async with contextlib.aclosing(stream):
            (line,) = await anext(stream)
        assert len(json.loads(line)["object"]["spec"]["note"]) == 3_000_000


@pytest.mark.parametrize("handler", (html, redirect, truncated, slammed, stuck, scripted(lambda: status(500))))
async def test_a_watch_that_breaks_is_transient(tmp_path: Path, handler: Handler) -> None:
    async with wired(tmp_path, handler) as w:
        with pytest.raises(TransientError):
            async for _ in w.client.watch(MEMCACHEDS, query={}, silence_seconds=0.2):
                pass


async def test_a_watch_that_is_silent_is_transient(tmp_path: Path) -> None:
    async with wired(tmp_path) as w:
        w.server.api.add(MEMCACHEDS, cache())
        stream = w.client.watch(MEMCACHEDS, query={"resourceVersion": "1"}, silence_seconds=0.2)
        assert len(await anext(stream)) == 1
        with pytest.raises(TransientError):
            await anext(stream)


async def test_a_watch_that_is_left_closes_its_connection(tmp_path: Path) -> None:
    async with wired(tmp_path) as w:
        w.server.api.add(MEMCACHEDS, cache())
        async with contextlib.aclosing(
            w.client.watch(MEMCACHEDS, query={"resourceVersion": "1"}, silence_seconds=5)
        ) as stream:
            await anext(stream)
            assert w.server.api.watches == ["memcacheds"]
        for _ in range(100):
            w.server.api.bookmark()  # the server finds out when it writes
            await asyncio.sleep(0.01)
            if not w.server.api.watches:
                break
        assert w.server.api.watches == []


# Credentials that change


async def test_a_token_that_is_refused_is_read_anew_and_the_request_goes_through(tmp_path: Path) -> None:
    valid = ["secret-1"]

    async def handler(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {valid[0]}":
            return status(401, "Unauthorized", "Unauthorized")
        return web.json_response({"method": request.method, "body": (await request.read()).decode()})

    async with wired(tmp_path, handler) as w:
        await w.client.get(MEMCACHEDS, "ns", "x")
        valid[0] = "secret-2"
        kubeconfig(tmp_path, w.server.url, "secret-2")
        answers = await asyncio.gather(
            *(w.client.patch(MEMCACHEDS, "ns", "x", {"n": number}) for number in range(20)),
            w.client.get(MEMCACHEDS, "ns", "x"),
        )
        assert json.loads(answers[3]) == {"method": "PATCH", "body": '{"n":3}'}
        assert {code for *_, code in w.counted} == {200}


async def test_a_token_that_stays_refused_is_an_error_and_no_storm(tmp_path: Path) -> None:
    async with wired(tmp_path, scripted(lambda: status(401, "Unauthorized", "Unauthorized"))) as w:
        for _ in range(10):
            with pytest.raises(TransientError) as caught:
                await w.client.get(MEMCACHEDS, "ns", "x")
            assert caught.value.status == 401
        assert len(w.server.requests) == 10


async def test_a_kubeconfig_that_is_half_written_is_no_end(tmp_path: Path) -> None:
    async with wired(tmp_path, scripted(lambda: status(401, "Unauthorized", "Unauthorized"))) as w:
        (tmp_path / "config").write_text("{")
        with pytest.raises(TransientError):
            await w.client.get(MEMCACHEDS, "ns", "x")


async def test_proxies_of_the_environment_are_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with wired(tmp_path) as w:
        await w.client.list_page(MEMCACHEDS)


async def test_servers_may_live_under_a_path(tmp_path: Path) -> None:
    async with FakeServer(FakeApi()).serve() as server:
        server.handler = scripted(lambda: web.json_response({}))
        credentials = await asyncio.to_thread(Credentials, str(kubeconfig(tmp_path, server.url + "/k8s/clusters/c1/")))
        async with await open_session(credentials, user_agent="t") as session:
            await KubeClient(session, credentials.server).get(MEMCACHEDS, "ns", "x")
        assert server.paths() == ["GET /k8s/clusters/c1/apis/cache.example.com/v1alpha1/namespaces/ns/memcacheds/x"]


def test_a_session_belongs_to_one_loop_and_credentials_to_all(tmp_path: Path) -> None:
    credentials = Credentials(str(kubeconfig(tmp_path, "http://127.0.0.1:1")))

    async def main() -> str | None:
        async with await open_session(credentials, user_agent="t") as session:
            assert isinstance(session, aiohttp.ClientSession)
            return await credentials.authorization()

    assert asyncio.run(main()) == asyncio.run(main()) == "Bearer secret-1"
