"""Children of a simple controller: made when absent, repaired when they differ; a stranger's object is never touched.

Enough for a controller that keeps whole objects (`Unstructured`) and has nothing to decide about them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from memcached_operator.errors import NotFoundError, TransientError
from memcached_operator.gvr import GVR
from memcached_operator.runtime.ports import Api
from memcached_operator.runtime.store import Key, Object, Store, Unstructured

Manifest = dict[str, Any]


class Change(NamedTuple):
    """What was written: the reason (`Created` or `Updated`) and the note of an event about it."""

    reason: str
    note: str


def owner_reference(gvr: GVR, owner: Object) -> dict[str, Any]:
    """The reference that makes `owner` the controller of a child, so that deleting the one deletes the other.

    Where OwnerReferencesPermissionEnforcement is on, it needs the right to update the owner's `finalizers`, and every
    later change of it the right to delete the child.
    """
    identity = {"apiVersion": gvr.api_version, "kind": gvr.kind, "name": owner.name, "uid": owner.uid}
    return {**identity, "controller": True, "blockOwnerDeletion": True}


def controller_uid(body: Manifest) -> str:
    """The uid of the object's controller, "" when it has none."""
    references = body["metadata"].get("ownerReferences", [])
    return next((reference["uid"] for reference in references if reference.get("controller")), "")


async def ensure(
    api: Api, store: Store[Unstructured], manifest: Manifest, difference: Callable[[Manifest, Manifest], str | None]
) -> Change | None:
    """Makes the child look as `manifest`, which has name, namespace and the owner's reference.

    `difference(wanted, found)` says in words what is not as wanted, None when nothing is. Returns what was done, None
    when nothing was written. Raises TransientError when the name belongs to somebody else, and what the API answers.
    """
    gvr = store.watch.gvr
    key = Key(manifest["metadata"]["namespace"], manifest["metadata"]["name"])
    child = store.get(key) or await _unseen(api, store, key)
    if child is None:
        store.remember(await api.apply(gvr, key.namespace, key.name, manifest))
        return Change("Created", f"{gvr.kind} {key.name}")
    if controller_uid(child.body) != controller_uid(manifest):
        raise TransientError(f"{gvr.kind} {key.name} exists already and is not ours; rename or delete it")
    words = difference(manifest, child.body)
    if words is None:
        return None
    # The uid makes this an update of that very object: an apply to a name that was deleted meanwhile would create one.
    guarded = {**manifest, "metadata": {**manifest["metadata"], "uid": child.uid}}
    store.remember(await api.apply(gvr, key.namespace, key.name, guarded))
    return Change("Updated", f"{gvr.kind} {key.name}: {words}")


async def _unseen(api: Api, store: Store[Unstructured], key: Key) -> Unstructured | None:
    """What the watch does not show, or not yet: an apply would take a stranger's object over, and not fail."""
    try:
        return store.watch.decode(await api.get(store.watch.gvr, key.namespace, key.name))
    except NotFoundError:
        return None
