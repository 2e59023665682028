"""Replicas that want to lead: electors, each with a network of its own to one fake API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fake_api import FakeApi, Fault, Request
from virtual_time import clock

from memcached_operator.runtime.election import Elector, LeaseConfig


class Wire:
    """The API server as one replica reaches it: `fault` may delay or lose each of its requests."""

    def __init__(self, api: FakeApi) -> None:
        self._api = api
        self.fence: Callable[[], bool] = lambda: True
        self.fault: Callable[[Request], Fault | None] = lambda _: None

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._api, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self._api.on_request = self.fault  # asked at the first step of the call
            return method(*args, **kwargs)

        async def called(*args: Any, **kwargs: Any) -> Any:
            return await call(*args, **kwargs)

        return call if name == "watch" else called


class Candidate:
    """A replica: an elector, and what it was told."""

    def __init__(
        self, api: FakeApi, name: str, times: Mapping[str, float] | None = None, rng: Callable[[], float] = lambda: 0.5
    ) -> None:
        self.api = Wire(api)
        self.told: list[str] = []
        self.elector = Elector(
            self.api,
            LeaseConfig("ns", "operator", name, **{"renew_every": 5.0, "retry_every": 0.5, **(times or {})}),
            on_started=lambda: self.told.append("started"),
            on_fenced=lambda: self.told.append("fenced"),
            on_regained=lambda: self.told.append("regained"),
            clock=clock,
            rng=rng,
        )
        self.task = asyncio.create_task(self.elector.run())

    def leads(self) -> bool:
        return self.elector.may_write()

    async def stop(self) -> None:
        await self.crash()
        await self.elector.release()

    async def crash(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@asynccontextmanager
async def never_two(candidates: Sequence[Candidate]) -> AsyncGenerator[None]:
    """Looks all the time that no two lead, and at the end that none of them has died of an error."""

    async def look() -> None:
        while True:
            leaders = [one.elector.config.identity for one in candidates if one.leads()]
            assert len(leaders) < 2, f"two leaders: {leaders}"
            await asyncio.sleep(0.05)

    watcher = asyncio.create_task(look())
    yield
    assert not watcher.done(), watcher.exception()
    watcher.cancel()
    for one in candidates:
        if one.task.done() and not one.task.cancelled():
            assert one.task.exception() is None
        await one.crash()
