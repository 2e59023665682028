"""The fake API server over HTTP, on a free port of this machine: for what speaks HTTP itself, the client and kopf.

`answers` is a queue of scripted answers, each for the next request whose path ends so; the rest is served by the fake.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from aiohttp import web
from fake_api import FakeApi

from memcached_operator.errors import OperatorError
from memcached_operator.gvr import GVR, MEMCACHEDS, NAMESPACES

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

VERBS = ["get", "list", "watch", "create", "update", "patch", "delete"]


class FakeServer:
    """Serves `kinds` of `api`; `requests` is what came in, as `GET /apis/...?watch=true`."""

    def __init__(self, api: FakeApi, kinds: tuple[GVR, ...] = (MEMCACHEDS,)) -> None:
        self.api = api
        self.kinds = kinds
        self.requests: list[web.Request] = []
        self.answers: list[tuple[str, Handler]] = []
        self.handler: Handler | None = None  # takes every request, when set
        self.url = ""

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncGenerator[FakeServer]:
        """Listens while the context lasts."""
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._dispatch)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        try:
            yield self
        finally:
            self.api.cut_watches(clean=True)
            await runner.cleanup()

    def paths(self) -> list[str]:
        """Method and path of every request, with `watch` where it is one."""
        return [f"{'WATCH' if 'watch' in r.query else r.method} {r.path}" for r in self.requests]

    async def _dispatch(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        if self.handler is not None:
            return await self.handler(request)
        for number, (suffix, handler) in enumerate(self.answers):
            if request.path.endswith(suffix):
                del self.answers[number]
                return await handler(request)
        try:
            return await self._serve(request)
        except OperatorError as error:
            return status(error.status or 500, error.message, error.reason)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        parts = request.path.strip("/").split("/")
        if found := self._discover(parts):
            return web.json_response(found)
        gvr, namespace, rest = self._locate(parts)
        if gvr is None or gvr in self.api.missing:
            return web.Response(status=404, text="404 page not found\n")
        name, subresource = [*rest, "", ""][:2]
        if request.method == "GET" and not name:
            if request.query.get("watch"):
                return await self._watch(request, gvr, namespace)
            query = request.query
            raw = await self.api.list_page(
                gvr,
                namespace,
                labels=query.get("labelSelector", ""),
                limit=int(query.get("limit", "0")),
                continue_=query.get("continue", ""),
            )
            return web.Response(body=raw, content_type="application/json")
        return await self._object(request, gvr, namespace, name, subresource)

    async def _object(
        self, request: web.Request, gvr: GVR, namespace: str, name: str, subresource: str
    ) -> web.StreamResponse:
        body = json.loads(await request.read() or b"null")
        code = 200
        match request.method:
            case "GET":
                raw = await self.api.get(gvr, namespace, name)
            case "POST":
                raw, code = await self.api.create(gvr, namespace, body), 201
            case "PUT":
                raw = await self.api.replace(gvr, namespace, name, body)
            case "DELETE":
                raw = await self.api.delete(gvr, namespace, name, uid=body["preconditions"]["uid"])
            case _ if request.content_type == "application/apply-patch+yaml":
                raw = await self.api.apply(gvr, namespace, name, body)
            case _:
                kind = request.content_type
                raw = await self.api.patch(gvr, namespace, name, body, subresource=subresource, content_type=kind)
        return web.Response(body=raw, status=code, content_type="application/json")

    async def _watch(self, request: web.Request, gvr: GVR, namespace: str) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_type = "application/json"
        response.enable_chunked_encoding()
        stream = self.api.watch(gvr, namespace, query=dict(request.query), silence_seconds=600)
        async with contextlib.aclosing(stream) as batches:
            await response.prepare(request)
            with contextlib.suppress(OperatorError, ConnectionError):
                async for lines in batches:
                    await response.write(b"".join(line + b"\n" for line in lines))
        return response

    def _locate(self, parts: list[str]) -> tuple[GVR | None, str, list[str]]:
        if parts[0] == "api":
            group, version, rest = "", parts[1], parts[2:]
        elif len(parts) > 3:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            return None, "", []
        namespace = ""
        if len(rest) > 2 and rest[0] == "namespaces":
            namespace, rest = rest[1], rest[2:]
        kinds = (g for g in self.kinds if (g.group, g.version, g.plural) == (group, version, rest[0]))
        return next(kinds, None), namespace, rest[1:]

    def _discover(self, parts: list[str]) -> dict[str, Any] | None:
        kinds = [kind for kind in self.kinds if kind not in self.api.missing]
        groups = sorted({(kind.group, kind.version) for kind in kinds if kind.group})
        match parts:
            case ["version"]:
                return {"major": "1", "minor": "35", "gitVersion": "v1.35.4"}
            case ["api"]:
                return {"kind": "APIVersions", "versions": ["v1"]}
            case ["apis"]:
                versions = [{"groupVersion": f"{group}/{version}", "version": version} for group, version in groups]
                named = zip(groups, versions, strict=True)
                found = [{"name": g, "versions": [v], "preferredVersion": v} for (g, _), v in named]
                return {"kind": "APIGroupList", "groups": found}
            case ["api", version]:
                core = [kind for kind in kinds if (kind.group, kind.version) == ("", version)]
                return _resources([NAMESPACES, *core], version)
            case ["apis", group, version] if (group, version) in groups:
                of_group = [kind for kind in kinds if (kind.group, kind.version) == (group, version)]
                return _resources(of_group, f"{group}/{version}")
        return None


def _resources(kinds: list[GVR], version: str) -> dict[str, Any]:
    resources = [
        {
            "name": kind.plural,
            "singularName": kind.kind.lower(),
            "namespaced": kind != NAMESPACES,
            "kind": kind.kind,
            "verbs": VERBS,
        }
        for kind in kinds
    ]
    return {"kind": "APIResourceList", "groupVersion": version, "resources": resources}


def status(code: int, message: str = "", reason: str = "", headers: dict[str, str] | None = None) -> web.Response:
    """A Status as the API server answers it."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "message": message,
        "reason": reason,
    }
    return web.json_response(body, status=code, headers=headers)


def scripted(response: Callable[[], web.StreamResponse]) -> Handler:
    """A handler that answers with what `response` makes."""

    async def handler(_: web.Request) -> web.StreamResponse:
        return response()

    return handler
