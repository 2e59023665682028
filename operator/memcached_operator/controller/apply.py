"""Step 5: the only writer of children. Errors are collected: a child that is refused does not keep the others from being written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from memcached_operator.api import names
from memcached_operator.controller.plan import (
    Action,
    Apply,
    Conflict,
    Create,
    Delete,
    Scale,
    StopServing,
    Wait,
    conflict_words,
    is_orphan_of,
    is_ours,
)
from memcached_operator.controller.views import CHILD_WATCHES, Child
from memcached_operator.errors import ConflictError, FencedError, NotFoundError, OperatorError
from memcached_operator.gvr import DEPLOYMENTS, GVR, SERVICES
from memcached_operator.resources.manifest import Manifest
from memcached_operator.runtime.ports import Api
from memcached_operator.runtime.store import Key, Stores

JSON_PATCH = "application/json-patch+json"


class _ScaleMeta(msgspec.Struct, gc=False):
    resourceVersion: str


class _ScaleWire(msgspec.Struct, gc=False):
    metadata: _ScaleMeta


_decode_scale = msgspec.json.Decoder(_ScaleWire).decode


@dataclass(slots=True)
class Applied:
    """What was done, what was refused, and what waits."""

    done: list[Action] = field(default_factory=list)
    errors: list[tuple[str, OperatorError]] = field(default_factory=list)  # (kind, error)
    conflicts: list[Conflict] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)


class Writer:
    """Carries out actions, and puts the API's answers into the stores, so that the next reconcile reads its own writes."""

    def __init__(self, api: Api, stores: Stores) -> None:
        self._api = api
        self._stores = stores

    async def apply(self, key: Key, uid: str, actions: tuple[Action, ...]) -> Applied:
        """Every action in its order. Raises FencedError only: whatever else goes wrong is in the answer."""
        applied = Applied()
        for action in actions:
            match action:
                case Wait():
                    applied.waits.append(action)
                    continue
                case Conflict():
                    applied.conflicts.append(action)
                    continue
            try:
                done = await self._carry_out(key, uid, action)
            except FencedError:
                raise
            except OperatorError as error:
                applied.errors.append((action.kind, error))
            else:
                if isinstance(done, Conflict):
                    applied.conflicts.append(done)
                elif isinstance(done, Wait):
                    applied.waits.append(done)
                elif done is not None:
                    applied.done.append(done)
        return applied

    async def _carry_out(self, key: Key, uid: str, action: Create | Apply | Scale | StopServing | Delete) -> Action | None:
        gvr = CHILD_WATCHES[action.kind].gvr
        match action:
            case Create():
                return await self._create(gvr, key, uid, action)
            case Apply():
                await self._server_side_apply(gvr, key, action.manifest, action.child)
            case Scale():
                await self._scale(key, action)
            case StopServing():
                await self._stop_serving(key, action)
            case Delete():
                return await self._delete(gvr, key, action)
        return action

    async def _create(self, gvr: GVR, key: Key, uid: str, action: Create) -> Action:
        try:
            raw = await self._api.create(gvr, key.namespace, action.manifest)
        except ConflictError as error:
            if error.reason != "AlreadyExists":
                raise
            return await self._meet(gvr, key, uid, action)
        self._remember(gvr, raw, action.manifest)
        return action

    async def _meet(self, gvr: GVR, key: Key, uid: str, action: Create) -> Action:
        """The name is taken by an object that our label-selected watch does not show, or not yet: look at it itself."""
        raw = await self._api.get(gvr, key.namespace, key.name)
        child: Child = CHILD_WATCHES[action.kind].decode(raw)
        if child.deleting:
            return Wait(action.kind, f"{action.kind} {key.name} is being deleted; it is made again when it is gone")
        adopted = is_orphan_of(child, key.name)
        if not is_ours(child, uid) and not adopted:
            return Conflict(action.kind, conflict_words(action.kind, key.name))
        done = Apply(action.manifest, child, "its labels were changed", adopted=adopted and not is_ours(child, uid))
        await self._server_side_apply(gvr, key, action.manifest, child)
        return done

    async def _server_side_apply(self, gvr: GVR, key: Key, manifest: Manifest, child: Child) -> None:
        if not child.applied:
            await self._own_by_apply(gvr, key, child)
        # The uid makes this an update of that very object: applying to a name that was deleted meanwhile must not create one
        # from a decision about another.
        guarded = {**manifest, "metadata": {**manifest["metadata"], "uid": child.uid}}
        raw = await self._api.apply(gvr, key.namespace, key.name, guarded)
        self._remember(gvr, raw, manifest)

    async def _own_by_apply(self, gvr: GVR, key: Key, child: Child) -> None:
        """Turn our `Update` entry in managedFields into `Apply`, as client-go's csaupgrade does.

        A POST made us an `Update` manager, and an apply by the same name would then never remove a field that left the spec.
        """
        live: dict[str, Any] = msgspec.json.decode(await self._api.get(gvr, key.namespace, key.name))
        if live["metadata"]["uid"] != child.uid:
            raise ConflictError(f"{gvr.kind} {key.name} was replaced by another one")
        fields = managed_fields_as_apply(live["metadata"].get("managedFields", []))
        version = live["metadata"]["resourceVersion"]
        patch = [
            {"op": "replace", "path": "/metadata/managedFields", "value": fields},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        ]
        await self._api.patch(gvr, key.namespace, key.name, patch, content_type=JSON_PATCH)

    async def _scale(self, key: Key, action: Scale) -> None:
        body = {"metadata": {"uid": action.deployment.uid}, "spec": {"replicas": action.replicas}}
        raw = await self._api.patch(DEPLOYMENTS, key.namespace, key.name, body, subresource="scale")
        stored = self._stores[DEPLOYMENTS].get(key)
        if stored is not None and stored.uid == action.deployment.uid:  # the answer is a Scale: keep what it tells
            stored.replicas = action.replicas
            stored.resource_version = _decode_scale(raw).metadata.resourceVersion
            stored.generation += 1
            stored.autoscaled = False

    async def _stop_serving(self, key: Key, action: StopServing) -> None:
        body = {"metadata": {"uid": action.service.uid}, "spec": {"selector": {names.SERVING_LABEL: "none"}}}
        self._stores[SERVICES].remember(await self._api.patch(SERVICES, key.namespace, key.name, body))

    async def _delete(self, gvr: GVR, key: Key, action: Delete) -> Action | None:
        try:
            await self._api.delete(gvr, key.namespace, key.name, uid=action.child.uid)
        except NotFoundError:
            self._stores[gvr].forget(key, action.child.uid)
            return None
        self._stores[gvr].forget(key, action.child.uid)
        return action

    def _remember(self, gvr: GVR, raw: bytes, manifest: Manifest) -> None:
        """The answer is the truth of what our manifest became: defaulted by the server, perhaps mutated by a webhook."""
        child: Child = self._stores[gvr].remember(raw)
        child.satisfies(manifest["metadata"]["annotations"][names.DESIRED_HASH_ANNOTATION])


def managed_fields_as_apply(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """managedFields in which every field that we own through `Update` is owned through one `Apply` entry (KEP-555)."""
    ours = [e for e in entries if e.get("manager") == names.FIELD_MANAGER and not e.get("subresource")]
    others = [e for e in entries if not (e.get("manager") == names.FIELD_MANAGER and not e.get("subresource"))]
    if not ours:
        return others
    merged: dict[str, Any] = {}
    for entry in ours:
        merged = _union(merged, entry.get("fieldsV1", {}))
    newest = max(ours, key=lambda e: str(e.get("time", "")))
    return [*others, {**newest, "operation": "Apply", "fieldsV1": merged}]


def _union(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    both = dict(one)
    for key, value in other.items():
        mine = both.get(key)
        both[key] = _union(mine, value) if isinstance(mine, dict) and isinstance(value, dict) else value
    return both
