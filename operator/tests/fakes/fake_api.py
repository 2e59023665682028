"""A small API server in memory, behind the `Api` protocol of `runtime/ports.py`.

It is faithful where the operator depends on it: growing resourceVersions, uids, generations, merge and JSON patches,
server-side apply with field ownership, the status and scale subresources, preconditions, finalizers, pages, watches
with bookmarks and streamed lists, 404/409/410/422. It refuses what `kube/permissions.py` does not grant, and logs
every request.

The operator's side is the protocol (`get`, `create`, ...). The test's side are plain functions that need no
permission and are not logged: `add`, `edit`, `remove`, `object`, `objects`, `bookmark`, `cut_watches`; faults: `fail`
and `on_request`.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fields import apply_fields, track_update
from patches import json_patch, merge_patch

from memcached_operator.errors import (
    ConflictError,
    FencedError,
    NotFoundError,
    OperatorError,
    TerminalError,
    TransientError,
)
from memcached_operator.gvr import DEPLOYMENTS, GVR, MEMCACHEDS, NAMESPACES, PODDISRUPTIONBUDGETS
from memcached_operator.kube import permissions

JSONObject = dict[str, Any]
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"

WITH_GENERATION = frozenset({MEMCACHEDS, DEPLOYMENTS, PODDISRUPTIONBUDGETS})
WITH_STATUS = frozenset({MEMCACHEDS, DEPLOYMENTS, PODDISRUPTIONBUDGETS})
MUTATING = frozenset({"create", "update", "patch", "delete"})
TIME = "2025-06-01T12:00:00Z"


class NotPermitted(BaseException):
    """The operator asked for what RBAC does not grant. No `except Exception` under test may hide it."""


@dataclass(slots=True)
class Request:
    """One request of the operator. `code` is the HTTP status of the answer, 0 while there is none."""

    verb: str
    gvr: GVR
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    body: Any = None
    query: dict[str, str] = field(default_factory=dict)
    code: int = 0

    @property
    def resource(self) -> str:
        return f"{self.gvr.plural}/{self.subresource}" if self.subresource else self.gvr.plural

    def __str__(self) -> str:
        """`patch deployments/scale default/cache`."""
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.verb} {self.resource} {where}".rstrip()


@dataclass(slots=True)
class Fault:
    """What happens to a request.

    It waits `delay` s, its answer takes `reply` s, it fails before or `after` it took effect.
    """

    error: OperatorError | None = None
    after: bool = False
    delay: float = 0.0
    reply: float = 0.0


@dataclass(slots=True)
class _Rule:
    verb: str
    resource: str
    name: str
    fault: Fault
    times: int


@dataclass(slots=True)
class _Change:
    version: int
    type: str
    old: JSONObject | None
    new: JSONObject


class _Stream:
    """One open watch."""

    def __init__(self, gvr: GVR, namespace: str, query: Mapping[str, str]) -> None:
        self.gvr = gvr
        self.namespace = namespace
        self.labels = query.get("labelSelector", "")
        self.fields = query.get("fieldSelector", "")
        self.lines: list[bytes] = []
        self.wake = asyncio.Event()
        self.end: OperatorError | None = None
        self.ended = False

    def sees(self, body: JSONObject | None) -> bool:
        if body is None or (self.namespace and body["metadata"].get("namespace") != self.namespace):
            return False
        if self.fields and f"metadata.name={body['metadata']['name']}" != self.fields:
            return False
        return selects(self.labels, body["metadata"].get("labels", {}))

    def offer(self, change: _Change) -> None:
        before, now = self.sees(change.old), change.type != "DELETED" and self.sees(change.new)
        if now:
            self.say("MODIFIED" if before else "ADDED", change.new)
        elif before:
            self.say("DELETED", change.new)

    def say(self, type_: str, body: JSONObject) -> None:
        self.lines.append(json.dumps({"type": type_, "object": body}).encode())
        self.wake.set()

    def close(self, error: OperatorError | None = None) -> None:
        self.ended, self.end = True, error
        self.wake.set()


def _no_fault(_: Request) -> Fault | None:
    return None


def selects(selector: str, labels: Mapping[str, str]) -> bool:
    """Label selectors as far as we use them: `a=b`, `a!=b`, `a`, `!a`, joined by commas."""
    for term in filter(None, selector.split(",")):
        if "!=" in term:
            key, value = term.split("!=")
            if labels.get(key) == value:
                return False
        elif "=" in term:
            key, value = term.replace("==", "=").split("=")
            if labels.get(key) != value:
                return False
        elif term.startswith("!"):
            if term[1:] in labels:
                return False
        elif term not in labels:
            return False
    return True


class FakeApi:
    """An API server and the operator's client of it, in one."""

    def __init__(self, *, first_version: int = 95, streams_lists: bool | str = True) -> None:
        """`streams_lists`: True, "refused" (422, before 1.32), "broken" (200 and an ERROR event, on an old etcd), or
        "endless" (objects, and never the bookmark)."""
        self.fence: Callable[[], bool] = lambda: True
        self.requests: list[Request] = []
        self.refused: list[Request] = []
        self.on_request: Callable[[Request], Fault | None] = _no_fault
        self.mutate: dict[GVR, Callable[[JSONObject], None]] = {}  # defaults of the server, or a mutating webhook
        self.invalid: dict[GVR, Callable[[JSONObject], str | None]] = {}  # a message refuses the object with 422
        self.missing: set[GVR] = set()  # kinds whose CRD is away
        self.field_manager = "memcached-operator"
        self.now = TIME
        self.streams_lists = streams_lists
        self.compacted = 0  # a watch from an older version than this gets 410
        self._version = first_version
        self._uids = 0
        self._objects: dict[GVR, dict[tuple[str, str], JSONObject]] = {}
        self._history: dict[GVR, list[_Change]] = {}
        self._streams: list[_Stream] = []
        self._pages: dict[str, tuple[str, list[JSONObject]]] = {}
        self._rules: list[_Rule] = []
        self._under_way: set[asyncio.Task[Any]] = set()

    # The test's side

    @property
    def writes(self) -> list[str]:
        """The operator's writes that succeeded, as text, in their order."""
        return [str(request) for request in self.requests if request.verb in MUTATING and 200 <= request.code < 300]

    def take_writes(self) -> list[str]:
        """`writes` since the last call."""
        writes = self.writes
        self.requests.clear()
        return writes

    def object(self, gvr: GVR, namespace: str, name: str) -> JSONObject | None:
        """A copy of an object, or None."""
        body = self._of(gvr).get((namespace, name))
        return copy.deepcopy(body) if body is not None else None

    def objects(self, gvr: GVR) -> list[JSONObject]:
        """Copies of all objects of a kind, by namespace and name."""
        return [copy.deepcopy(body) for _, body in sorted(self._of(gvr).items())]

    def add(self, gvr: GVR, body: JSONObject, *, manager: str = "kubectl") -> JSONObject:
        """Create an object, as somebody else."""
        return copy.deepcopy(self._create(gvr, body["metadata"].get("namespace", ""), body, manager))

    def edit(
        self, gvr: GVR, namespace: str, name: str, patch: JSONObject, *, subresource: str = "", manager: str = "kubectl"
    ) -> JSONObject:
        """Merge-patch an object or its `status`, as somebody else."""
        return copy.deepcopy(self._patch(gvr, namespace, name, patch, MERGE_PATCH, subresource, manager))

    def remove(self, gvr: GVR, namespace: str, name: str) -> None:
        """Delete an object, as somebody else. With finalizers it stays, and has a deletionTimestamp."""
        self._delete(gvr, namespace, name, uid="")

    def collect_garbage(self) -> list[str]:
        """What the garbage collector does: removes objects all of whose owners are gone. Returns their names."""
        alive = {body["metadata"]["uid"] for objects in self._objects.values() for body in objects.values()}
        gone = []
        for gvr, objects in self._objects.items():
            for (namespace, name), body in list(objects.items()):
                owners = body["metadata"].get("ownerReferences", [])
                if owners and not any(owner["uid"] in alive for owner in owners):
                    self._delete(gvr, namespace, name, uid="")
                    gone.append(f"{gvr.plural} {namespace}/{name}")
        return gone

    def fail(
        self,
        error: OperatorError,
        *,
        verb: str = "",
        resource: str = "",
        name: str = "",
        times: int = 1,
        after: bool = False,
    ) -> None:
        """The next `times` requests that match fail; `after`: only the answer is lost."""
        self._rules.append(_Rule(verb, resource, name, Fault(error, after=after), times))

    def heal(self) -> None:
        """No scripted fault is left."""
        self._rules.clear()
        self.on_request = _no_fault

    def bookmark(self) -> None:
        """Every watch is told the present version."""
        for stream in self._streams:
            stream.say("BOOKMARK", {"metadata": {"resourceVersion": str(self._version)}})

    def say(self, type_: str, body: JSONObject, gvr: GVR | None = None) -> None:
        """An event of any kind into every watch (of `gvr`), whether it is true or not."""
        for stream in self._streams:
            if gvr in (None, stream.gvr):
                stream.say(type_, body)

    def cut_watches(self, gvr: GVR | None = None, *, clean: bool = False) -> None:
        """Every watch (of `gvr`) ends: by a broken connection, or as at the end of its time."""
        for stream in self._streams:
            if gvr in (None, stream.gvr):
                stream.close(None if clean else TransientError("watch: the connection was reset"))

    def compact(self) -> None:
        """History is forgotten: watches that resume from before now get 410."""
        self.compacted = self._version
        self._history.clear()

    def take_away(self, gvr: GVR) -> None:
        """The CRD is deleted: its objects are gone, and the API answers 404."""
        for namespace, name in list(self._of(gvr)):
            self._of(gvr)[namespace, name]["metadata"].pop("finalizers", None)
            self._delete(gvr, namespace, name, uid="")
        self.missing.add(gvr)
        self.cut_watches(gvr, clean=True)

    @property
    def watches(self) -> list[str]:
        """Plurals of the open watches."""
        return sorted(stream.gvr.plural for stream in self._streams)

    # The operator's side: memcached_operator.runtime.ports.Api

    async def get(self, gvr: GVR, namespace: str, name: str, *, timeout: float | None = None) -> bytes:
        return await self._serve(Request("get", gvr, namespace, name), lambda: self._get(gvr, namespace, name), timeout)

    async def list_page(
        self, gvr: GVR, namespace: str = "", *, labels: str = "", limit: int = 500, continue_: str = ""
    ) -> bytes:
        query = {"labelSelector": labels, "limit": str(limit), "continue": continue_}
        request = Request("list", gvr, namespace, query=query)
        return await self._serve(request, lambda: self._list(gvr, namespace, labels, limit, continue_))

    async def create(
        self,
        gvr: GVR,
        namespace: str,
        manifest: Mapping[str, Any],
        *,
        fenced: bool = True,
        timeout: float | None = None,
    ) -> bytes:
        body = _plain(manifest)
        request = Request("create", gvr, namespace, body["metadata"].get("name", ""), body=body)
        return await self._serve(
            request, lambda: self._create(gvr, namespace, body, self.field_manager), timeout, fenced=fenced
        )

    async def apply(self, gvr: GVR, namespace: str, name: str, manifest: Mapping[str, Any]) -> bytes:
        body = _plain(manifest)
        request = Request("patch", gvr, namespace, name, body=body, query={"apply": "true"})
        return await self._serve(request, lambda: self._apply(gvr, namespace, name, body, self.field_manager))

    async def patch(
        self,
        gvr: GVR,
        namespace: str,
        name: str,
        body: Any,
        *,
        subresource: str = "",
        content_type: str = MERGE_PATCH,
    ) -> bytes:
        body = _plain(body)
        request = Request("patch", gvr, namespace, name, subresource, body=body)
        return await self._serve(
            request, lambda: self._patch(gvr, namespace, name, body, content_type, subresource, self.field_manager)
        )

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
        new = _plain(body)
        request = Request("update", gvr, namespace, name, body=new)
        return await self._serve(
            request, lambda: self._replace(gvr, namespace, name, new, self.field_manager), timeout, fenced=fenced
        )

    async def delete(self, gvr: GVR, namespace: str, name: str, *, uid: str) -> bytes:
        request = Request("delete", gvr, namespace, name, query={"uid": uid})
        return await self._serve(request, lambda: self._delete(gvr, namespace, name, uid))

    async def watch(
        self, gvr: GVR, namespace: str = "", *, query: Mapping[str, str], silence_seconds: float
    ) -> AsyncGenerator[list[bytes], None]:
        request = Request("watch", gvr, namespace, query=dict(query))
        stream: _Stream = await self._serve_raw(request, lambda: self._open(gvr, namespace, query))
        try:
            while True:
                if stream.lines:
                    lines, stream.lines = stream.lines, []
                    yield lines
                    continue
                if stream.ended:
                    if stream.end is not None:
                        raise stream.end
                    return
                stream.wake.clear()
                try:
                    async with asyncio.timeout(silence_seconds):
                        await stream.wake.wait()
                except TimeoutError:
                    raise TransientError(f"watch {gvr.plural}: no byte in {silence_seconds:.0f} s") from None
        finally:
            self._streams.remove(stream)

    # Requests

    async def _serve(
        self,
        request: Request,
        work: Callable[[], JSONObject],
        timeout: float | None = None,
        *,
        fenced: bool = True,
    ) -> bytes:
        body = await self._serve_raw(request, work, timeout, fenced=fenced)
        return json.dumps(body).encode()

    async def _serve_raw(
        self, request: Request, work: Callable[[], Any], timeout: float | None = None, *, fenced: bool = True
    ) -> Any:
        if request.verb in MUTATING and fenced and not self.fence():
            raise FencedError(f"{request}: not sent, this process does not hold the lease")
        if not permissions.allows(request.verb, request.gvr.group, request.gvr.plural, request.subresource):
            self.refused.append(request)
            raise NotPermitted(f"kube/permissions.py does not grant: {request}")
        self.requests.append(request)
        fault = self._fault(request)
        answer = self._answer(request, work, fault)
        if request.verb != "watch" and (fault.delay or fault.reply):
            answer = self._on_its_own(answer)
        try:
            async with asyncio.timeout(timeout or 30.0):
                return await answer
        except TimeoutError:
            raise TransientError(f"{request}: no answer in {timeout or 30.0:.0f} s") from None

    async def _on_its_own(self, answer: Coroutine[Any, Any, Any]) -> Any:
        """What the server has received takes effect, even when the client does not wait for it any more."""
        task = asyncio.ensure_future(answer)
        self._under_way.add(task)
        task.add_done_callback(self._finished)
        return await asyncio.shield(task)

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # the client may not be there to hear it

    async def _answer(self, request: Request, work: Callable[[], Any], fault: Fault) -> Any:
        await asyncio.sleep(fault.delay)
        if fault.error is not None and not fault.after:
            request.code = fault.error.status
            raise fault.error
        try:
            if request.gvr in self.missing:
                raise TransientError("404 page not found", status=404)
            if request.verb == "watch":
                await asyncio.sleep(fault.reply)
                request.code = 200
                return work()  # nothing is awaited after it: a stream that is open has a reader
            answer = copy.deepcopy(work())
        except OperatorError as error:
            request.code = error.status
            await asyncio.sleep(fault.reply)
            raise
        request.code = {"create": 201}.get(request.verb, 200)
        await asyncio.sleep(fault.reply)
        if fault.error is not None:
            raise fault.error
        return answer

    def _fault(self, request: Request) -> Fault:
        for rule in self._rules:
            if (
                rule.verb in ("", request.verb)
                and rule.resource in ("", request.resource)
                and rule.name in ("", request.name)
            ):
                rule.times -= 1
                if rule.times <= 0:
                    self._rules.remove(rule)
                return rule.fault
        return self.on_request(request) or Fault()

    # Storage

    def _of(self, gvr: GVR) -> dict[tuple[str, str], JSONObject]:
        return self._objects.setdefault(gvr, {})

    def _find(self, gvr: GVR, namespace: str, name: str) -> JSONObject:
        body = self._of(gvr).get((namespace, name))
        if body is None:
            raise NotFoundError(f'{gvr.plural} "{name}" not found', status=404, reason="NotFound")
        return body

    def _get(self, gvr: GVR, namespace: str, name: str) -> JSONObject:
        if gvr == NAMESPACES and (("", name) not in self._of(gvr)) and self._populated(name):
            meta = {"name": name, "uid": name, "resourceVersion": "1"}
            return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
        return self._find(gvr, namespace, name)

    def _populated(self, namespace: str) -> bool:
        return any(namespace == space for objects in self._objects.values() for space, _ in objects)

    def _list(self, gvr: GVR, namespace: str, labels: str, limit: int, continue_: str) -> JSONObject:
        if continue_:
            if continue_ not in self._pages:
                raise TransientError("the continue token has expired", status=410, reason="Expired")
            version, rest = self._pages.pop(continue_)
        else:
            version, rest = str(self._version), self._select(gvr, namespace, labels)
        page, rest = (rest[:limit], rest[limit:]) if limit else (rest, [])
        meta = {"resourceVersion": version}
        if rest:
            meta["continue"] = f"after-{page[-1]['metadata']['name']}-at-{version}"
            self._pages[meta["continue"]] = (version, rest)
        # Items of a LIST have no kind and apiVersion of their own.
        items = [{key: value for key, value in body.items() if key not in ("kind", "apiVersion")} for body in page]
        return {"apiVersion": gvr.api_version, "kind": f"{gvr.kind}List", "metadata": meta, "items": items}

    def expire_pages(self) -> None:
        """Every list that is half read has to begin anew."""
        self._pages.clear()

    def _select(self, gvr: GVR, namespace: str, labels: str) -> list[JSONObject]:
        return [
            copy.deepcopy(body)
            for (space, _), body in sorted(self._of(gvr).items())
            if namespace in ("", space) and selects(labels, body["metadata"].get("labels", {}))
        ]

    def _create(
        self, gvr: GVR, namespace: str, manifest: JSONObject, manager: str, *, applied: bool = False
    ) -> JSONObject:
        new = _plain(manifest)
        name = new["metadata"]["name"]
        if (namespace, name) in self._of(gvr):
            raise ConflictError(f'{gvr.plural} "{name}" already exists', status=409, reason="AlreadyExists")
        space = self._of(NAMESPACES).get(("", namespace))
        if space is not None and "deletionTimestamp" in space["metadata"]:
            raise TransientError(f"namespace {namespace} is being terminated", status=403, reason="Forbidden")
        self._uids += 1
        meta = new["metadata"]
        meta.update({"uid": f"uid-{self._uids}", "creationTimestamp": self.now})
        if namespace:
            meta["namespace"] = namespace
        if gvr in WITH_GENERATION:
            meta["generation"] = 1
        if gvr in WITH_STATUS:
            new.pop("status", None)
        new.update({"apiVersion": gvr.api_version, "kind": gvr.kind})
        self._admit(gvr, new)
        if not applied:
            track_update({}, new, manager, self.now)
        return self._store(gvr, None, new)

    def _replace(self, gvr: GVR, namespace: str, name: str, body: JSONObject, manager: str) -> JSONObject:
        old = self._find(gvr, namespace, name)
        self._check(gvr, old, body.get("metadata", {}))
        new = _plain(body)
        for key in ("uid", "creationTimestamp", "generation", "namespace", "managedFields"):
            if key in old["metadata"]:
                new["metadata"][key] = copy.deepcopy(old["metadata"][key])
        return self._update(gvr, old, new, manager)

    def _patch(
        self, gvr: GVR, namespace: str, name: str, patch: Any, content_type: str, subresource: str, manager: str
    ) -> JSONObject:
        old = self._find(gvr, namespace, name)
        if subresource == "scale":
            return self._scale(gvr, old, patch, manager)
        new = copy.deepcopy(old)
        new = json_patch(new, patch) if content_type == JSON_PATCH else merge_patch(new, patch)
        self._check(gvr, old, new["metadata"])
        if subresource == "status":
            new = {**copy.deepcopy(old), "status": new.get("status", {})}
        elif gvr in WITH_STATUS:
            new.pop("status", None)
            if "status" in old:
                new["status"] = copy.deepcopy(old["status"])
        return self._update(gvr, old, new, manager, subresource)

    def _scale(self, gvr: GVR, old: JSONObject, patch: JSONObject, manager: str) -> JSONObject:
        self._check(gvr, old, patch.get("metadata", {}))
        new = copy.deepcopy(old)
        new["spec"]["replicas"] = patch["spec"]["replicas"]
        stored = self._update(gvr, old, new, manager, "scale")
        meta = {key: stored["metadata"][key] for key in ("name", "namespace", "uid", "resourceVersion")}
        return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": meta, "spec": dict(patch["spec"])}

    def _apply(self, gvr: GVR, namespace: str, name: str, config: JSONObject, manager: str) -> JSONObject:
        old = self._of(gvr).get((namespace, name))
        uid = config["metadata"].pop("uid", "")
        if old is None:
            if uid:
                text = f"uid mismatch: {uid} was given, and there is no {name}"
                raise ConflictError(text, status=409, reason="Conflict")
            seed: JSONObject = {"metadata": {"name": name}}
            new = apply_fields(seed, config, manager, self.now)
            return self._create(gvr, namespace, new, manager, applied=True)
        self._check(gvr, old, {"uid": uid} if uid else {})
        new = apply_fields(copy.deepcopy(old), config, manager, self.now)
        return self._finish(gvr, old, new)

    def _update(self, gvr: GVR, old: JSONObject, new: JSONObject, manager: str, subresource: str = "") -> JSONObject:
        if new["metadata"].get("managedFields") == old["metadata"].get("managedFields"):
            track_update(old, new, manager, self.now, subresource)
        return self._finish(gvr, old, new)

    def _finish(self, gvr: GVR, old: JSONObject, new: JSONObject) -> JSONObject:
        """The end of every update: admission, generation, removal with the last finalizer; no change is no write."""
        self._admit(gvr, new, old)
        if _essence(new) == _essence(old):
            return old
        deleting = "deletionTimestamp" in old["metadata"]
        if gvr in WITH_GENERATION and new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] += 1
        if deleting and not new["metadata"].get("finalizers"):
            return self._purge(gvr, new)
        return self._store(gvr, old, new)

    def _admit(self, gvr: GVR, new: JSONObject, old: JSONObject | None = None) -> None:
        if gvr in self.mutate:
            self.mutate[gvr](new)
        message = self.invalid[gvr](new) if gvr in self.invalid else None
        if gvr == DEPLOYMENTS and old is not None and new["spec"].get("selector") != old["spec"].get("selector"):
            message = "spec.selector: Invalid value: field is immutable"
        if message:
            name = new["metadata"]["name"]
            raise TerminalError(f'{gvr.kind} "{name}" is invalid: {message}', status=422, reason="Invalid")

    def _check(self, gvr: GVR, old: JSONObject, claimed: JSONObject) -> None:
        for key in ("uid", "resourceVersion"):
            mine, theirs = old["metadata"][key], claimed.get(key)
            if theirs not in (None, "", mine):
                text = f"{gvr.plural} {old['metadata']['name']}: {key} is {mine}, not {theirs}"
                raise ConflictError(text, status=409, reason="Conflict")

    def _delete(self, gvr: GVR, namespace: str, name: str, uid: str) -> JSONObject:
        old = self._find(gvr, namespace, name)
        self._check(gvr, old, {"uid": uid})
        if old["metadata"].get("finalizers"):
            if "deletionTimestamp" in old["metadata"]:
                return old
            new = copy.deepcopy(old)
            new["metadata"].update({"deletionTimestamp": self.now, "deletionGracePeriodSeconds": 0})
            if gvr in WITH_GENERATION:
                new["metadata"]["generation"] += 1
            return self._store(gvr, old, new)
        self._purge(gvr, copy.deepcopy(old))
        details = {"name": name, "uid": old["metadata"]["uid"]}
        return {"apiVersion": "v1", "kind": "Status", "status": "Success", "details": details}

    def _purge(self, gvr: GVR, body: JSONObject) -> JSONObject:
        key = (body["metadata"].get("namespace", ""), body["metadata"]["name"])
        old = self._of(gvr).pop(key)
        self._announce(gvr, "DELETED", old, body)
        return body

    def _store(self, gvr: GVR, old: JSONObject | None, new: JSONObject) -> JSONObject:
        self._of(gvr)[new["metadata"].get("namespace", ""), new["metadata"]["name"]] = new
        self._announce(gvr, "ADDED" if old is None else "MODIFIED", old, new)
        return new

    def _announce(self, gvr: GVR, type_: str, old: JSONObject | None, new: JSONObject) -> None:
        self._version += 1
        new["metadata"]["resourceVersion"] = str(self._version)
        change = _Change(self._version, type_, copy.deepcopy(old), copy.deepcopy(new))
        self._history.setdefault(gvr, []).append(change)
        for stream in self._streams:
            if stream.gvr == gvr and not stream.ended:
                stream.offer(change)

    def _open(self, gvr: GVR, namespace: str, query: Mapping[str, str]) -> _Stream:
        stream = _Stream(gvr, namespace, query)
        if query.get("sendInitialEvents") == "true":
            if self.streams_lists == "refused":
                text = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
                raise TerminalError(text, status=422, reason="Invalid")
            self._streams.append(stream)
            if self.streams_lists == "broken":
                stream.say("ERROR", _status(500, "InternalError", "etcd: progress notify is not supported"))
                stream.close()
                return stream
            for body in self._select(gvr, namespace, stream.labels):
                stream.say("ADDED", body)
            if self.streams_lists == "endless":
                return stream
            meta = {"resourceVersion": str(self._version), "annotations": {"k8s.io/initial-events-end": "true"}}
            stream.say("BOOKMARK", {"metadata": meta})
            return stream
        self._streams.append(stream)
        since = int(query.get("resourceVersion") or self._version)
        if since < self.compacted:
            stream.say("ERROR", _status(410, "Expired", f"too old resource version: {since} ({self.compacted})"))
            stream.close()
            return stream
        for change in self._history.get(gvr, []):
            if change.version > since:
                stream.offer(change)
        return stream


def _status(code: int, reason: str, message: str) -> JSONObject:
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}


def _plain(value: Any) -> Any:
    """As it would look after a trip over the wire."""
    return json.loads(json.dumps(value))


def _essence(body: JSONObject) -> JSONObject:
    """What makes a write a write: times of managedFields alone do not."""
    meta = {key: value for key, value in body["metadata"].items() if key != "resourceVersion"}
    meta["managedFields"] = [
        {key: value for key, value in entry.items() if key != "time"} for entry in meta.get("managedFields") or []
    ]
    return {**body, "metadata": meta}


def names(bodies: Iterable[JSONObject]) -> list[str]:
    """The names of objects."""
    return [body["metadata"]["name"] for body in bodies]
