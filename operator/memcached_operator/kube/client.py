"""The thin client: raw JSON in, raw JSON out, typed errors, one timeout and one fence for every write.

Models of the official client cost 559 us and 55 KiB a Deployment against 4 us for a struct of the fields in use, so
bytes pass through here untouched. No retry lives here: the workqueue retries keys, the informers retry watches, and a
retried write is decided on fresh state.
"""

from __future__ import annotations

import re
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

from memcached_operator.errors import FencedError, TransientError
from memcached_operator.gvr import GVR
from memcached_operator.kube.credentials import Credentials
from memcached_operator.kube.errors import error_from_response

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"  # JSON is YAML, but for some characters: see `_as_yaml`

CONNECT_SECONDS = 10.0
LIST_SECONDS = 300.0

_METHODS = {"get": "GET", "list": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}
_MUTATING = frozenset({"create", "update", "patch", "delete"})

_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")

encode = msgspec.json.Encoder(decimal_format="number").encode


async def open_session(
    credentials: Credentials, *, user_agent: str, undelivered_seconds: float | None = None
) -> aiohttp.ClientSession:
    """A session for the running event loop (a session belongs to one loop).

    Every request gets the token of its own moment. After `undelivered_seconds` the system stops sending what the other
    side has not received, and ends the connection; None: when it likes.
    """

    async def show_token(request: aiohttp.ClientRequest) -> None:
        if header := await credentials.authorization():
            request.headers["Authorization"] = header

    async def authenticate(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        generation = credentials.generation
        await show_token(request)
        try:
            response = await handler(request)
        except aiohttp.ClientSSLError:  # the server's certificate is of a new CA, perhaps
            if not await credentials.refresh(generation):
                raise
        else:
            if response.status != 401:
                return response
            if not await credentials.refresh(generation):
                return response
            response.close()  # with its connection, which may be known by an old client certificate
        await show_token(request)
        return await handler(request)  # what was refused had no effect: once more is safe

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            ssl=credentials.ssl_context,
            limit=0,
            keepalive_timeout=60,
            socket_factory=None if undelivered_seconds is None else _giving_up_after(undelivered_seconds),
        ),
        headers={"User-Agent": user_agent, "Accept": JSON},
        middlewares=(authenticate,),
        trace_configs=[_fence_trace()],
        trust_env=False,  # proxies and ~/.netrc of the environment have no business between a pod and its API server
        auto_decompress=True,
        read_bufsize=2**18,
        proxy=credentials.proxy,
    )


def _giving_up_after(seconds: float) -> Callable[[tuple[Any, ...]], socket.socket]:
    """Makes sockets that forget what was not received for so long.

    Without that the system keeps a request for minutes, even when its connection was closed and its process has ended,
    and a write that was sent into a broken network arrives when it heals: long after others have taken the Lease.
    """
    milliseconds = max(1000, int(seconds * 1000))  # sooner, a single lost packet would end a connection

    def make(address: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, *_ = address
        made = socket.socket(family, kind, protocol)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        return made

    return make


def _fence_trace() -> aiohttp.TraceConfig:
    """Asks the fence of a request again when it has its connection: the last moment before its bytes leave.

    Between its first question and that moment lie a TLS handshake, the time that the process was stopped, or the second
    try that aiohttp makes by itself when a connection breaks.
    """

    async def ask(_: aiohttp.ClientSession, context: Any, _params: object) -> None:
        fence: Callable[[], bool] | None = context.trace_request_ctx
        if fence is not None and not fence():
            raise FencedError("a write was not sent: this process no longer holds the lease")

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(ask)
    trace.on_connection_reuseconn.append(ask)
    return trace


@dataclass(frozen=True, slots=True)
class _Call:
    """One request: its verb and resource as in RBAC."""

    verb: str
    resource: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = JSON


def _always() -> bool:
    return True


def _uncounted(_verb: str, _resource: str, _code: int) -> None:
    return None


class KubeClient:
    """Requests to one API server. `fence` is asked right before each mutating request.

    `on_request` hears (verb, resource, code).
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        server: str,
        *,
        timeout_seconds: float = 30.0,
        field_manager: str = "memcached-operator",
        fence: Callable[[], bool] = _always,
        on_request: Callable[[str, str, int], None] = _uncounted,
    ) -> None:
        self._session = session
        self._server = server  # may end in a path: API servers behind a proxy do
        self._timeout = timeout_seconds
        self._as_manager = {"fieldManager": field_manager}
        self._on_request = on_request
        self.fence = fence

    async def get(self, gvr: GVR, namespace: str, name: str, *, timeout: float | None = None) -> bytes:
        """One object. Raises NotFoundError when it is not there."""
        return await self._send(_Call("get", gvr.plural, gvr.path(namespace, name)), timeout=timeout)

    async def list_page(
        self, gvr: GVR, namespace: str = "", *, labels: str = "", limit: int = 500, continue_: str = ""
    ) -> bytes:
        """One page of a quorum LIST; `metadata.continue` of the answer leads to the next."""
        query = {"limit": str(limit)}
        if labels:
            query["labelSelector"] = labels
        if continue_:
            query["continue"] = continue_
        # By progress: a page may be megabytes over a slow line.
        timeout = aiohttp.ClientTimeout(total=LIST_SECONDS, sock_connect=CONNECT_SECONDS, sock_read=self._timeout)
        return await self._send(_Call("list", gvr.plural, gvr.path(namespace), query), timeout=timeout)

    async def create(
        self,
        gvr: GVR,
        namespace: str,
        manifest: Mapping[str, Any],
        *,
        fenced: bool = True,
        timeout: float | None = None,
    ) -> bytes:
        """POST. Raises ConflictError (reason AlreadyExists) when the name is taken."""
        call = _Call("create", gvr.plural, gvr.path(namespace), self._as_manager, encode(manifest))
        return await self._send(call, fenced=fenced, timeout=timeout)

    async def apply(self, gvr: GVR, namespace: str, name: str, manifest: Mapping[str, Any]) -> bytes:
        """Server-side apply, forced: we own what we declare (KEP-555)."""
        query = {**self._as_manager, "force": "true"}
        return await self._send(
            _Call("patch", gvr.plural, gvr.path(namespace, name), query, _as_yaml(encode(manifest)), APPLY_PATCH)
        )

    async def patch(
        self, gvr: GVR, namespace: str, name: str, body: Any, *, subresource: str = "", content_type: str = MERGE_PATCH
    ) -> bytes:
        """Merge patch (RFC 7386) or JSON patch (RFC 6902) of an object or one of its subresources."""
        resource = f"{gvr.plural}/{subresource}" if subresource else gvr.plural
        path = gvr.path(namespace, name, subresource)
        return await self._send(_Call("patch", resource, path, self._as_manager, encode(body), content_type))

    async def replace(
        self,
        gvr: GVR,
        namespace: str,
        name: str,
        body: Mapping[str, Any],
        *,
        fenced: bool = True,
        timeout: float | None = None,
    ) -> bytes:
        """PUT, guarded by the resourceVersion in the body."""
        call = _Call("update", gvr.plural, gvr.path(namespace, name), self._as_manager, encode(body))
        return await self._send(call, fenced=fenced, timeout=timeout)

    async def delete(self, gvr: GVR, namespace: str, name: str, *, uid: str) -> bytes:
        """DELETE of this very object: another one of the same name (another uid) answers ConflictError.

        What it owns goes in the background.
        """
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        body = encode({**options, "preconditions": {"uid": uid}})
        return await self._send(_Call("delete", gvr.plural, gvr.path(namespace, name), {}, body))

    async def watch(
        self, gvr: GVR, namespace: str = "", *, query: Mapping[str, str], silence_seconds: float
    ) -> AsyncGenerator[list[bytes], None]:
        """Lines of a watch stream, in batches as they arrive; ends when the server ends it.

        Raises TransientError after `silence_seconds` without a byte: a half-open connection looks just like a quiet
        one, and bookmarks come about once a minute.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=silence_seconds)
        what = f"watch {gvr.plural}"
        url, params = self._server + gvr.path(namespace), {**query, "watch": "1"}
        code = 0
        try:
            async with self._session.get(url, params=params, timeout=timeout, allow_redirects=False) as response:
                code = response.status
                self._on_request("watch", gvr.plural, code)
                if code != 200:
                    raise error_from_response(code, await response.read(), what, response.headers.get("Retry-After"))
                _expect_json(response, what)
                rest = b""
                async for chunk in response.content.iter_any():
                    lines = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
                    rest = lines.pop()  # half a line at the end of the stream is no event: it comes again
                    if lines:
                        yield lines
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if not code:
                self._on_request("watch", gvr.plural, 0)
            raise TransientError(f"{what}: {type(error).__name__}: {error}") from error

    async def _send(
        self, call: _Call, *, fenced: bool = True, timeout: float | aiohttp.ClientTimeout | None = None
    ) -> bytes:
        fence = self.fence if fenced and call.verb in _MUTATING else None
        if fence is not None and not fence():
            raise FencedError(f"{call.verb} {call.path}: not sent, this process does not hold the lease")
        if not isinstance(timeout, aiohttp.ClientTimeout):
            timeout = aiohttp.ClientTimeout(total=timeout or self._timeout, sock_connect=CONNECT_SECONDS)
        what = f"{call.verb} {call.path}"
        code = 0
        try:
            async with self._session.request(
                _METHODS[call.verb],
                self._server + call.path,
                params=call.query,
                data=call.body,
                headers={"Content-Type": call.content_type} if call.body is not None else None,
                timeout=timeout,
                allow_redirects=False,  # an API server sends none, and nobody else gets our token
                trace_request_ctx=fence,
            ) as response:
                answer = await response.read()
                code = response.status
                if not 200 <= code < 300:
                    raise error_from_response(code, answer, what, response.headers.get("Retry-After"))
                _expect_json(response, what)
                return answer
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TransientError(f"{what}: {type(error).__name__}: {error}") from error
        finally:
            self._on_request(call.verb, call.resource, code)


def _as_yaml(json: bytes) -> bytes:
    """The same JSON, for a reader of YAML 1.1: what that refuses, or takes for the end of a line, is escaped.

    An annotation may hold such characters. Others stay as they are: YAML has no escapes for halves of a pair.
    """
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", json.decode()).encode()


def _expect_json(response: aiohttp.ClientResponse, what: str) -> None:
    """A proxy's page, or a login form, is no answer of the API server."""
    if not response.content_type.endswith("json"):
        raise TransientError(f"{what}: answer is {response.content_type}, not JSON")
