"""A proxy between an operator and its API server that can be told to refuse everything."""

import asyncio
import ssl
import threading
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import web

from controlplane.credentials import Credentials, write_kubeconfig

_HOP_BY_HOP = frozenset({"host", "connection", "transfer-encoding", "content-length", "content-encoding"})


class RefusingProxy:
    """Forwards to the API server as the user of `credentials`, or answers every request with one status.

    It speaks plain HTTP on 127.0.0.1, so only `kubeconfig` (written to `folder`) leads through it. Streams that are
    open when `refuse` is called are cut. Used in `with`.
    """

    def __init__(self, credentials: Credentials, folder: Path) -> None:
        self._credentials = credentials
        self._status = 0
        self._streams: set[asyncio.Task[object]] = set()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._listens: Future[int] = Future()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.refused = 0
        self.kubeconfig = folder / "proxy.kubeconfig"

    def refuse(self, status: int) -> None:
        """From now on every request is answered with `status`, and what streams is cut."""
        self._status = status
        self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in self._streams])

    def forward(self) -> None:
        """From now on every request is forwarded."""
        self._status = 0

    def __enter__(self) -> Self:
        self._thread.start()
        server = f"http://127.0.0.1:{self._listens.result(timeout=10)}"
        parts = {"clusters": "cluster", "users": "user", "contexts": "context"}
        contents = {"cluster": {"server": server}, "user": {}, "context": {"cluster": "proxy", "user": "proxy"}}
        kubeconfig = {list_: [{"name": "proxy", kind: contents[kind]}] for list_, kind in parts.items()}
        write_kubeconfig(
            self.kubeconfig, {"apiVersion": "v1", "kind": "Config", "current-context": "proxy", **kubeconfig}
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout=10)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        context = ssl.create_default_context(cafile=str(self._credentials.authority))
        context.load_cert_chain(self._credentials.certificate, self._credentials.key)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=0)) as session:

            async def handle(request: web.Request) -> web.StreamResponse:
                return await self._handle(session, request)

            app = web.Application()
            app.router.add_route("*", "/{path:.*}", handle)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self._listens.set_result(int(runner.addresses[0][1]))
            await self._stop.wait()
            await runner.cleanup()
        await asyncio.sleep(
            0.25
        )  # TLS connections say goodbye after the session is closed (aiohttp, graceful shutdown)

    async def _handle(self, session: aiohttp.ClientSession, request: web.Request) -> web.StreamResponse:
        if self._status:
            self.refused += 1
            return web.json_response({"kind": "Status", "message": "refused on purpose"}, status=self._status)
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a handler runs in a task, for the type checker
        self._streams.add(task)
        try:
            return await self._forward(session, request)
        finally:
            self._streams.discard(task)

    async def _forward(self, session: aiohttp.ClientSession, request: web.Request) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        url = self._credentials.server + request.path_qs
        timeout = aiohttp.ClientTimeout(total=None)
        body = await request.read()
        async with session.request(request.method, url, headers=headers, data=body or None, timeout=timeout) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response
