"""`python -m memcached_operator.smoke`: makes a Memcached, speaks to it, removes it. What `helm test` runs.

It is a user: it needs `create`, `get` and `delete` of memcacheds in one namespace, and none of the operator's rights.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from memcached_operator import __version__
from memcached_operator.errors import ConflictError, NotFoundError, OperatorError, TransientError
from memcached_operator.gvr import GVR, MEMCACHEDS
from memcached_operator.kube.client import KubeClient, open_session
from memcached_operator.kube.credentials import load_credentials
from memcached_operator.memcached.client import Client

JsonObject = dict[str, Any]

_POLL_SECONDS = 0.5
_KEY, _VALUE = "smoke", b"one\r\ntwo"


class Api(Protocol):
    """What is asked of the API server; `kube.client.KubeClient` does it."""

    async def get(self, gvr: GVR, namespace: str, name: str) -> bytes:
        """One object. Raises NotFoundError."""
        ...

    async def create(self, gvr: GVR, namespace: str, manifest: JsonObject) -> bytes:
        """POST."""
        ...

    async def delete(self, gvr: GVR, namespace: str, name: str, *, uid: str) -> bytes:
        """DELETE of this very object."""
        ...


class SmokeError(Exception):
    """What did not happen in time, for people."""


class Smoke:
    """One test of an operator, with the Memcached `name` in `namespace`. `tell` gets a line for each step."""

    def __init__(self, api: Api, namespace: str, name: str, *, tell: Callable[[str], None]) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._tell = tell
        self._where = f"Memcached {namespace}/{name}"

    async def run(self, *, image: str, seconds: float) -> None:
        """All steps; each waits for at most `seconds`. An empty `image` is the operator's default.

        Leaves no Memcached behind, neither of this run nor of one that was killed.

        Raises:
            SmokeError: something did not happen in time.
            OperatorError: the API server refused a request, or memcached gave a wrong answer.
        """
        if await self._remove(seconds):
            self._tell(f"{self._where} was left by an earlier run: deleted")
        spec = {"size": 1, "memory": 16, "maxConnections": 64, **({"image": image} if image else {})}
        manifest = {
            "apiVersion": MEMCACHEDS.api_version,
            "kind": MEMCACHEDS.kind,
            "metadata": {"name": self._name},
            "spec": spec,
        }
        await self._api.create(MEMCACHEDS, self._namespace, manifest)
        self._tell(f"{self._where} created")
        try:
            for address in await self._ready(seconds):
                await self._speak(address)
        except BaseException:
            # Without waiting: that could fail too, and hide what went wrong first.
            with contextlib.suppress(OperatorError):
                await self._delete()
            raise
        await self._remove(seconds)
        self._tell(f"{self._where} deleted")

    async def _ready(self, seconds: float) -> list[str]:
        """Waits for the condition Ready; returns `host:port` of each pod."""
        seen: JsonObject = {}
        try:
            async with asyncio.timeout(seconds):
                while True:
                    seen = await self._look() or seen
                    if _is_ready(seen):
                        break
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise SmokeError(f"{self._where} is not Ready after {seconds:g} s. {_words(seen)}") from None
        addresses: list[str] = seen["status"]["serverList"]
        self._tell(f"{self._where} is Ready: {', '.join(addresses)}")
        return addresses

    async def _speak(self, address: str) -> None:
        try:
            async with await Client.connect(address) as cache:
                self._tell(f"{address} version: {await cache.version()}")
                await cache.set(_KEY, _VALUE)
                self._tell(f"{address} set {_KEY}: {_VALUE!r}")
                if (value := await cache.get(_KEY)) != _VALUE:
                    raise SmokeError(f"{address} get {_KEY}: {value!r} instead of {_VALUE!r}")
                self._tell(f"{address} get {_KEY}: {value!r}")
        except OSError as error:  # TimeoutError is one
            raise SmokeError(f"{address}: no conversation with memcached: {str(error) or 'it is silent'}") from error

    async def _remove(self, seconds: float) -> bool:
        """Deletes the Memcached, and waits until it is gone. Returns whether there was one."""
        found = False
        try:
            async with asyncio.timeout(seconds):
                while await self._delete():
                    found = True
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise SmokeError(f"{self._where} is still there {seconds:g} s after it was deleted") from None
        return found

    async def _delete(self) -> bool:
        """Whether there was something to delete. A deletion that is under way is none the worse for another."""
        if (found := await self._look()) is None:
            return False
        with contextlib.suppress(NotFoundError, ConflictError):
            await self._api.delete(MEMCACHEDS, self._namespace, self._name, uid=found["metadata"]["uid"])
        return True

    async def _look(self) -> JsonObject | None:
        """What is stored; None when there is none. What may pass by itself is tried again, for ever."""
        while True:
            try:
                found: JsonObject = msgspec.json.decode(await self._api.get(MEMCACHEDS, self._namespace, self._name))
            except NotFoundError:
                return None
            except TransientError as error:
                if error.status == 403:  # a role is missing: waiting would only hide it
                    raise
                await asyncio.sleep(_POLL_SECONDS)
            else:
                return found


def _is_ready(memcached: JsonObject) -> bool:
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in _conditions(memcached))


def _conditions(memcached: JsonObject) -> list[JsonObject]:
    found: list[JsonObject] = memcached.get("status", {}).get("conditions", [])
    return found


def _words(memcached: JsonObject) -> str:
    """The conditions, or what it means that there are none."""
    conditions = [
        f"{condition['type']} {condition['status']} ({condition['reason']}): {condition['message']}"
        for condition in _conditions(memcached)
    ]
    return "; ".join(conditions) or "It has no status: does an operator run, and does it watch this namespace?"


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 when all went well; 1 after a line on stderr that says what did not."""
    parser = argparse.ArgumentParser(prog="python -m memcached_operator.smoke", description=__doc__)
    parser.add_argument("--kubeconfig", help="default: the service account in a pod, ~/.kube/config elsewhere")
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--name", default="memcached-operator-test", help="of the Memcached that is made and removed")
    parser.add_argument("--image", default="", help="its spec.image; empty: the operator's default")
    parser.add_argument("--timeout-seconds", type=float, default=120, metavar="N", help="for each step")
    options = parser.parse_args(argv)
    try:
        asyncio.run(_main(options))
    except (SmokeError, OperatorError) as error:
        print(f"FAILED: {error}", file=sys.stderr)  # noqa: T201  the terminal is its interface
        return 1
    return 0


async def _main(options: argparse.Namespace) -> None:
    credentials = await load_credentials(options.kubeconfig)
    async with await open_session(credentials, user_agent=f"memcached-operator-smoke/{__version__}") as session:
        client = KubeClient(session, credentials.server, field_manager="memcached-operator-smoke")
        smoke = Smoke(client, options.namespace, options.name, tell=_tell)
        await smoke.run(image=options.image, seconds=options.timeout_seconds)


def _tell(line: str) -> None:
    print(line, flush=True)  # noqa: T201  see above


if __name__ == "__main__":
    sys.exit(main())
