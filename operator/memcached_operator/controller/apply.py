"""Step 5: the only writer of children and of the finalizer.

Errors are collected: a child that is refused does not keep the others from being written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from memcached_operator.api import names
from memcached_operator.controller.actions import (
    Action,
    Apply,
    Conflict,
    Create,
    Deed,
    Delete,
    Hold,
    Release,
    Scale,
    SetServing,
    Wait,
)
from memcached_operator.controller.managed_fields import as_apply
from memcached_operator.controller.plan import needs_living_owner, plan_child
from memcached_operator.controller.views import Child, DeploymentView, MemcachedView
from memcached_operator.controller.watches import CHILD_WATCHES
from memcached_operator.errors import ConflictError, FencedError, NotFoundError, OperatorError, TerminalError
from memcached_operator.gvr import DEPLOYMENTS, GVR, MEMCACHEDS, SERVICES
from memcached_operator.resources.manifest import Manifest
from memcached_operator.runtime.ports import Api
from memcached_operator.runtime.store import Key, Stores, is_older

JSON_PATCH = "application/json-patch+json"


class _ScaleMeta(msgspec.Struct, gc=False):
    resourceVersion: str


class _ScaleWire(msgspec.Struct, gc=False):
    metadata: _ScaleMeta


_decode_scale = msgspec.json.Decoder(_ScaleWire).decode


@dataclass(slots=True)
class Applied:
    """What was done, what was refused, and what waits."""

    done: list[Deed] = field(default_factory=list)
    errors: list[tuple[str, OperatorError]] = field(default_factory=list)  # (kind, error)
    conflicts: list[Conflict] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)


class Writer:
    """Carries out actions, and puts the API's answers into the stores: the next reconcile reads its own writes."""

    def __init__(self, api: Api, stores: Stores) -> None:
        self._api = api
        self._stores = stores

    async def apply(self, memcached: MemcachedView, actions: tuple[Action, ...]) -> Applied:
        """Every action in its order. Raises FencedError only: whatever else goes wrong is in the answer."""
        applied = Applied()
        try:
            await self._see_living(memcached, actions)
        except OperatorError as error:
            applied.errors.append((MEMCACHEDS.kind, error))
            return applied
        for action in actions:
            if isinstance(action, Release) and applied.errors:
                break
            try:
                await self._carry_out(memcached, action, applied)
            except FencedError:
                raise
            except OperatorError as error:
                applied.errors.append((action.kind, error))
                if isinstance(action, Hold):
                    break
        return applied

    async def _carry_out(self, memcached: MemcachedView, action: Action, applied: Applied) -> None:
        if isinstance(action, Wait):
            applied.waits.append(action)
        elif isinstance(action, Conflict):
            applied.conflicts.append(action)
        elif await self._write(memcached, action, applied):
            applied.done.append(action)

    async def _write(self, memcached: MemcachedView, deed: Deed, applied: Applied) -> bool:
        """Whether it was done: a child that is to be created may be there, and one that is to be deleted gone."""
        match deed:
            case Create():
                return await self._create(memcached, deed, applied)
            case Delete():
                return await self._delete(memcached.key, deed)
            case Apply():
                await self._apply(memcached, deed)
            case Scale():
                await self._scale(memcached.key, deed)
            case SetServing():
                await self._set_serving(memcached.key, deed)
            case Hold():
                await self._set_finalizers(memcached, [*memcached.finalizers, names.DRAIN_FINALIZER])
            case Release():
                await self._release(memcached)
        return True

    async def _see_living(self, memcached: MemcachedView, actions: tuple[Action, ...]) -> None:
        """Asks, where it matters, whether the resource lives: our watch may not have told of its deletion yet.

        Raises ConflictError when it is gone or going.
        """
        if not any(isinstance(action, Create | Apply) and needs_living_owner(action, memcached) for action in actions):
            return
        store = self._stores[MEMCACHEDS]
        try:
            raw = await self._api.get(MEMCACHEDS, memcached.namespace, memcached.name)
        except NotFoundError as error:
            store.forget(memcached.key, memcached.uid)
            raise ConflictError(f"Memcached {memcached.name} is gone") from error
        live: MemcachedView = store.remember(raw)
        if live.uid != memcached.uid or live.deleted_at:
            raise ConflictError(f"Memcached {memcached.name} is being deleted")

    async def _create(self, memcached: MemcachedView, action: Create, applied: Applied) -> bool:
        """False when the child was there already: what it needs is done instead."""
        gvr = CHILD_WATCHES[action.kind].gvr
        try:
            raw = await self._api.create(gvr, memcached.namespace, action.manifest)
        except ConflictError as error:
            if error.reason != "AlreadyExists":
                raise
            await self._meet(gvr, memcached, action.manifest, applied)
            return False
        self._remember(gvr, raw, action.manifest)
        return True

    async def _meet(self, gvr: GVR, memcached: MemcachedView, manifest: Manifest, applied: Applied) -> None:
        """The name is taken by an object that our watch does not show, or not yet: look at it, and decide again."""
        watch = CHILD_WATCHES[gvr.kind]
        raw = await self._api.get(gvr, memcached.namespace, memcached.name)
        child: Child = watch.decode(raw)
        autoscaled = isinstance(child, DeploymentView) and child.autoscaled
        actions = tuple(plan_child(manifest, child, memcached, autoscaled=autoscaled))
        await self._see_living(memcached, actions)
        if not actions:
            self._remember(gvr, raw, manifest)
        for action in actions:
            await self._carry_out(memcached, action, applied)

    async def _apply(self, memcached: MemcachedView, action: Apply) -> None:
        key, child, manifest = memcached.key, action.child, action.manifest
        gvr = CHILD_WATCHES[action.kind].gvr
        if not child.applied:
            await self._own_by_apply(gvr, key, child)
        # The uid makes this an update of that very object: applying to a name that was deleted meanwhile must not
        # create one from a decision about another.
        guarded = {**manifest, "metadata": {**manifest["metadata"], "uid": child.uid}}
        try:
            raw = await self._api.apply(gvr, key.namespace, key.name, guarded)
        except TerminalError as refusal:
            await self._replace_spec(gvr, key, action, refusal)
            raw = await self._api.apply(gvr, key.namespace, key.name, guarded)
        self._remember(gvr, raw, manifest)

    async def _replace_spec(self, gvr: GVR, key: Key, action: Apply, refusal: TerminalError) -> None:
        """Last resort: clears the way when what others put beside our fields makes an invalid object.

        A budget whose maxUnavailable somebody replaced by minAvailable cannot be applied to: it would end with both.
        Raises the refusal of the apply where this is refused too: then what we want is invalid by itself.
        """
        spec = dict(action.manifest["spec"])
        if isinstance(action.child, DeploymentView):
            spec.setdefault("replicas", action.child.replicas)
        patch = [
            {"op": "replace", "path": "/metadata/uid", "value": action.child.uid},
            {"op": "replace", "path": "/spec", "value": spec},
        ]
        try:
            await self._api.patch(gvr, key.namespace, key.name, patch, content_type=JSON_PATCH)
        except TerminalError:
            raise refusal from None

    async def _own_by_apply(self, gvr: GVR, key: Key, child: Child) -> None:
        """Turn our `Update` entry in managedFields into `Apply`, as client-go's csaupgrade does.

        A POST made us an `Update` manager, and an apply by the same name would then never remove a field that left the
        spec.
        """
        live: dict[str, Any] = msgspec.json.decode(await self._api.get(gvr, key.namespace, key.name))
        if live["metadata"]["uid"] != child.uid:
            raise ConflictError(f"{gvr.kind} {key.name} was replaced by another one")
        fields = as_apply(live["metadata"].get("managedFields", []))
        version = live["metadata"]["resourceVersion"]
        patch = [
            {"op": "replace", "path": "/metadata/managedFields", "value": fields},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        ]
        await self._api.patch(gvr, key.namespace, key.name, patch, content_type=JSON_PATCH)

    async def _scale(self, key: Key, action: Scale) -> None:
        body = {"metadata": {"uid": action.deployment.uid}, "spec": {"replicas": action.replicas}}
        raw = await self._api.patch(DEPLOYMENTS, key.namespace, key.name, body, subresource="scale")
        # The answer is a Scale. What it tells is kept, unless the watch was faster and told more.
        version = _decode_scale(raw).metadata.resourceVersion
        stored = self._stores[DEPLOYMENTS].get(key)
        if stored is not None and stored.uid == action.deployment.uid and is_older(stored.resource_version, version):
            stored.replicas = action.replicas
            stored.resource_version = version
            stored.generation += 1
            stored.autoscaled = False

    async def _set_serving(self, key: Key, action: SetServing) -> None:
        value = None if action.serving else "none"
        body = {"metadata": {"uid": action.service.uid}, "spec": {"selector": {names.SERVING_LABEL: value}}}
        self._stores[SERVICES].remember(await self._api.patch(SERVICES, key.namespace, key.name, body))

    async def _delete(self, key: Key, action: Delete) -> bool:
        """False when there was nothing to delete."""
        gvr = CHILD_WATCHES[action.kind].gvr
        found = True
        try:
            await self._api.delete(gvr, key.namespace, key.name, uid=action.child.uid)
        except NotFoundError:
            found = False
        self._stores[gvr].forget(key, action.child.uid)
        return found

    async def _release(self, memcached: MemcachedView) -> None:
        others = [finalizer for finalizer in memcached.finalizers if finalizer != names.DRAIN_FINALIZER]
        try:
            await self._set_finalizers(memcached, others)
        except NotFoundError:
            self._stores[MEMCACHEDS].forget(memcached.key, memcached.uid)
        else:
            if memcached.deleted_at and not others:
                self._stores[MEMCACHEDS].forget(memcached.key, memcached.uid)

    async def _set_finalizers(self, memcached: MemcachedView, finalizers: list[str]) -> None:
        """The list is written whole, so it has to be the one that we saw: the resourceVersion guards it."""
        guard = {"resourceVersion": memcached.resource_version, "uid": memcached.uid}
        body = {"metadata": {"finalizers": finalizers, **guard}}
        raw = await self._api.patch(MEMCACHEDS, memcached.namespace, memcached.name, body)
        self._stores[MEMCACHEDS].remember(raw)

    def _remember(self, gvr: GVR, raw: bytes, manifest: Manifest) -> None:
        """The answer is the truth of what our manifest became: defaulted by the server, perhaps mutated by a webhook.

        Not so where somebody else wrote since, and the watch was faster: that has to be compared.
        """
        known: Child = self._stores[gvr].remember(raw)
        if known.fingerprint == CHILD_WATCHES[gvr.kind].decode(raw).fingerprint:
            known.satisfies(manifest["metadata"]["annotations"][names.DESIRED_HASH_ANNOTATION])
