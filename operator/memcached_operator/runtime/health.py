"""Probes and metrics over HTTP. Liveness measures progress.

A process whose parts stand still is not alive, however well it answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from aiohttp import web

Check = Callable[[], str | None]
"""None when all is well, else what is wrong, for people."""


class Address(Protocol):
    """Where to listen; an empty host is every address."""

    @property
    def host(self) -> str:
        """A name or an IP address."""
        ...

    @property
    def port(self) -> int:
        """A TCP port; 0 is any that is free."""
        ...


def _probe(checks: Sequence[Check]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        problems = [problem for check in checks if (problem := check())]
        return web.Response(text="\n".join(problems) or "ok", status=503 if problems else 200)

    return answer


class HttpServer:
    """Serves /livez, /readyz and /metrics on the addresses given; the same address twice is one listener."""

    def __init__(self, *, live: Sequence[Check], ready: Sequence[Check], render_metrics: Callable[[], bytes]) -> None:
        self._live = live
        self._ready = ready
        self._render = render_metrics
        self._runners: list[web.AppRunner] = []

    async def start(self, health: Address | None, metrics: Address | None) -> None:
        """Listens; None is off. Raises OSError when an address is taken."""
        routes: dict[tuple[str, int], list[web.RouteDef]] = {}
        if health:
            live, ready = _probe(self._live), _probe(self._ready)
            probes = (("/livez", live), ("/healthz", live), ("/readyz", ready))
            routes.setdefault((health.host, health.port), []).extend(web.get(path, probe) for path, probe in probes)
        if metrics:
            routes.setdefault((metrics.host, metrics.port), []).append(web.get("/metrics", self._metrics))
        for (host, port), handlers in routes.items():
            app = web.Application()
            app.add_routes(handlers)
            # A slow scraper must not hold up the end of the process: by default it may for a minute.
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
            await runner.setup()
            self._runners.append(runner)
            await web.TCPSite(runner, host or None, port).start()

    async def stop(self) -> None:
        """Closes the listeners."""
        for runner in self._runners:
            await runner.cleanup()

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self._render(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})
