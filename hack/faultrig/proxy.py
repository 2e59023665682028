"""A proxy between an operator and the real kube-apiserver that does what a rule book says. TLS on both sides."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import web

from controlplane.cluster import ControlPlane
from controlplane.credentials import Credentials, write_kubeconfig
from faultrig.journal import EVENT, Call, Entry, Journal, parse_call
from faultrig.rules import (
    Answer,
    Cut,
    Delay,
    EventRule,
    Hang,
    Lines,
    Phase,
    Reset,
    Rule,
    RuleBook,
    Signal,
    Throttle,
    Truncate,
)

_HOP_BY_HOP = frozenset({"host", "connection", "transfer-encoding", "content-length", "content-encoding"})
_SLICES_A_SECOND = 10


@dataclass(frozen=True)
class Serving:
    """Files in PEM that the proxy shows to its client: a certificate for 127.0.0.1, and its key."""

    certificate: Path
    key: Path


class _Broken(Exception):  # noqa: N818 - it is what the client is meant to see
    """The client's connection is to be reset; as it is when the API server's own has broken."""


@dataclass
class _Story:
    """One request while it is under way."""

    call: Call
    began: float
    rule: Rule | None
    committed: int = 0
    answered: int = 0
    holder: str = ""
    uid: str = ""
    told: bool = False
    body: bytes = field(default=b"", repr=False)

    def entry(self) -> Entry:
        fault = self.rule.name if self.rule else ""
        ended = time.monotonic()
        return Entry(self.call, self.began, ended, self.committed, self.answered, fault, self.holder, self.uid)

    def learn(self, body: bytes) -> None:
        """Note what the API server's answer to a write says of it."""
        if not self.call.is_write or not 200 <= self.committed < 300:
            return
        try:
            answer = json.loads(body)
        except ValueError:
            return
        if self.call.resource == "leases":
            self.holder = answer.get("spec", {}).get("holderIdentity") or ""
        if self.call.verb == "create":
            self.uid = answer.get("metadata", {}).get("uid", "")


class FaultProxy:
    """Forwards to the API server of `credentials` as their user, or as whose token a request carries.

    `identity` stands in the journal for whoever uses `kubeconfig`, which is written to `folder` and leads through the
    proxy. Used in `with`; the rules may be changed at any time, from any thread.
    """

    def __init__(
        self, credentials: Credentials, serving: Serving, folder: Path, identity: str, journal: Journal | None = None
    ) -> None:
        self._credentials = credentials
        self._serving = serving
        self._shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._changed = asyncio.Event()  # of the rules: wakes what hangs
        self._streams: set[asyncio.Task[object]] = set()
        self._listens: Future[int] = Future()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.identity = identity
        self.journal = journal or Journal()
        self.book = RuleBook()
        self.kubeconfig = folder / f"{identity}-proxy.kubeconfig"

    @classmethod
    def to(
        cls, cluster: ControlPlane, user: str, folder: Path, identity: str = "operator", journal: Journal | None = None
    ) -> Self:
        """A proxy to this cluster for its user of this name."""
        serving = Serving(*cluster.serving_certificate("fault-proxy"))
        return cls(cluster.credentials(user), serving, folder, identity, journal)

    def inject(self, *rules: Rule | EventRule, cut: bool = True) -> None:
        """From now on these rules. `cut`: watches that are open are broken, so that the rules meet them too."""
        self.book.write(*rules)
        self._loop.call_soon_threadsafe(self._rules_changed, cut)

    def show(self, serving: Serving) -> None:
        """Show another certificate on connections from now on."""
        self._shown.load_cert_chain(serving.certificate, serving.key)

    def heal(self, *, cut: bool = False) -> None:
        """No rules any more; what hangs goes on. `cut`: and watches begin anew."""
        self.inject(cut=cut)

    def __enter__(self) -> Self:
        self._thread.start()
        port = self._listens.result(timeout=10)
        config = self._credentials.kubeconfig("proxy", self.identity)
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
        write_kubeconfig(self.kubeconfig, config)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout=10)

    def _rules_changed(self, cut: bool) -> None:  # noqa: FBT001 - call_soon_threadsafe has no keywords
        self._changed.set()
        self._changed = asyncio.Event()
        if cut:
            for task in self._streams:
                task.cancel()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        upstream = ssl.create_default_context(cafile=str(self._credentials.authority))
        as_user = ssl.create_default_context(cafile=str(self._credentials.authority))
        as_user.load_cert_chain(self._credentials.certificate, self._credentials.key)
        timeout = aiohttp.ClientTimeout(total=None)
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=as_user, limit=0), timeout=timeout) as ours,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=upstream, limit=0), timeout=timeout) as theirs,
        ):

            async def handle(request: web.Request) -> web.StreamResponse:
                return await self._handle(theirs if "Authorization" in request.headers else ours, request)

            app = web.Application(client_max_size=2**24)
            app.router.add_route("*", "/{path:.*}", handle)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            self._shown.load_cert_chain(self._serving.certificate, self._serving.key)
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._shown).start()
            self._listens.set_result(int(runner.addresses[0][1]))
            await self._stop.wait()
            await runner.cleanup()
        # TLS connections say goodbye after the session is closed (aiohttp, graceful shutdown).
        await asyncio.sleep(0.25)

    async def _handle(self, session: aiohttp.ClientSession, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        call = parse_call(self.identity, request.method, request.path, request.query, body)
        story = _Story(call, time.monotonic(), self.book.strike(call), body=body)
        try:
            if (early := await self._before(story, request)) is not None:
                return early
            if call.verb == "watch":
                return await self._stream(session, request, story)
            return await self._forward(session, request, story)
        except (_Broken, aiohttp.ClientError, asyncio.CancelledError) as end:
            if request.transport is not None:
                request.transport.abort()
            if isinstance(end, asyncio.CancelledError) and self._stop.is_set():
                raise
            return web.Response(status=500)  # nobody reads it
        finally:
            self._tell(story)

    def _tell(self, story: _Story) -> None:
        """Into the journal, once: a watch when it is accepted, anything else when it is over."""
        if not story.told:
            story.told = True
            self.journal.append(story.entry())

    async def _before(self, story: _Story, request: web.Request) -> web.StreamResponse | None:
        """What strikes a request on its way to the API server; None when it goes on."""
        if story.rule is None or story.rule.phase is not Phase.BEFORE:
            return None
        match story.rule.action:
            case Answer() as answer:
                return _answer(answer, story)
            case Delay(seconds):
                await asyncio.sleep(seconds)
            case Reset():
                raise _Broken
            case Hang():
                await self._changed.wait()
                raise _Broken
            case Signal() as signal:
                _send(signal)
            case Lines(lines):
                return await _say(lines, story, request)
            case Truncate() | Cut() | Throttle():
                pass  # done to the answer
        return None

    async def _forward(self, session: aiohttp.ClientSession, request: web.Request, story: _Story) -> web.StreamResponse:
        async with self._ask(session, request, story) as answer:
            story.committed = answer.status
            content = await answer.read()
            story.learn(content)
            kept = _kept(answer)
        rule = story.rule
        if rule is not None and rule.phase is Phase.AFTER:
            match rule.action:
                case Answer() as told:
                    return _answer(told, story)
                case Delay(seconds):
                    await asyncio.sleep(seconds)
                case Hang():
                    await self._changed.wait()
                    raise _Broken
                case Signal() as signal:
                    _send(signal)
                case _:
                    raise _Broken
        if rule is not None and isinstance(rule.action, Truncate | Throttle):
            return await self._slowly(content, kept, rule.action, story, request)
        story.answered = story.committed
        return web.Response(status=story.committed, headers=kept, body=content)

    async def _slowly(
        self, content: bytes, headers: dict[str, str], action: Truncate | Throttle, story: _Story, request: web.Request
    ) -> web.StreamResponse:
        """An answer that comes in part, or in small slices."""
        response = web.StreamResponse(status=story.committed, headers=headers)
        await response.prepare(request)
        if isinstance(action, Truncate):
            await response.write(content[: int(len(content) * action.share)])
            raise _Broken
        size = max(1, action.bytes_per_second // _SLICES_A_SECOND)
        for begin in range(0, len(content), size):
            await response.write(content[begin : begin + size])
            await asyncio.sleep(1 / _SLICES_A_SECOND)
        await response.write_eof()
        story.answered = story.committed
        return response

    async def _stream(self, session: aiohttp.ClientSession, request: web.Request, story: _Story) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a handler runs in a task, for the type checker
        self._streams.add(task)
        action = story.rule.action if story.rule else None
        try:
            async with asyncio.timeout(action.seconds if isinstance(action, Cut) else None):
                return await self._pass_on(session, request, story)
        except TimeoutError:
            raise _Broken from None
        finally:
            self._streams.discard(task)

    async def _pass_on(self, session: aiohttp.ClientSession, request: web.Request, story: _Story) -> web.StreamResponse:
        """A watch, line by line."""
        async with self._ask(session, request, story) as answer:
            story.committed = story.answered = answer.status
            response = web.StreamResponse(status=answer.status, headers=_kept(answer))
            await response.prepare(request)
            self._tell(story)
            half = b""
            async for chunk in answer.content.iter_any():
                *lines, half = (half + chunk).split(b"\n")
                for line in lines:
                    await self._pass_line(response, line, story)
            await response.write(half)
            await response.write_eof()
            return response

    async def _pass_line(self, response: web.StreamResponse, line: bytes, story: _Story) -> None:
        if story.rule is not None and isinstance(story.rule.action, Truncate):
            await response.write(line[: int(len(line) * story.rule.action.share)])
            raise _Broken
        altered, name = self.book.alter(story.call, json.loads(line), story.began)
        if not name:
            await response.write(line + b"\n")
            return
        now = time.monotonic()
        self.journal.append(Entry(_event_call(story.call), now, now, fault=name))
        for event in altered:
            await response.write(json.dumps(event).encode() + b"\n")

    def _ask(
        self, session: aiohttp.ClientSession, request: web.Request, story: _Story
    ) -> aiohttp.client._RequestContextManager:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        url = self._credentials.server + request.path_qs
        return session.request(request.method, url, headers=headers, data=story.body or None)


def _event_call(call: Call) -> Call:
    return Call(call.identity, EVENT, call.group, call.resource, "", call.namespace, "")


def _kept(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP}


def _answer(answer: Answer, story: _Story) -> web.Response:
    body = answer.body
    if body is None:
        told = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": answer.status}
        body = json.dumps({**told, "message": "on purpose"}).encode()
    story.answered = answer.status
    return web.Response(status=answer.status, body=body, headers=dict(answer.headers), content_type=answer.content_type)


async def _say(lines: tuple[bytes, ...], story: _Story, request: web.Request) -> web.StreamResponse:
    story.answered = 200
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    for line in lines:
        await response.write(line + b"\n")
    await response.write_eof()
    return response


def _send(signal: Signal) -> None:
    signal.send()
    if signal.drops:
        raise _Broken
