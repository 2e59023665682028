"""Step 4: what has to be written, and why. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from memcached_operator.api import names
from memcached_operator.api.v1alpha1 import DeletionPolicy, Memcached
from memcached_operator.controller.actions import (
    Action,
    Apply,
    Conflict,
    Create,
    Delete,
    Hold,
    Plan,
    Release,
    Scale,
    Wait,
)
from memcached_operator.controller.observe import Observed
from memcached_operator.controller.views import Child, DeploymentView, MemcachedView
from memcached_operator.gvr import DEPLOYMENTS, PODDISRUPTIONBUDGETS, SERVICES
from memcached_operator.resources.comparison import covers
from memcached_operator.resources.manifest import Manifest


def plan(memcached: Memcached, desired: Sequence[Manifest], observed: Observed) -> Plan:
    """The actions that make the cluster as desired; none when it is.

    The finalizer is on the resource before its children lose their owner references, and until they have them again.
    """
    drains = memcached.spec.deletion_policy is DeletionPolicy.DRAIN
    hold: tuple[Action, ...] = (Hold("deletionPolicy is Drain"),) if drains and not observed.held else ()
    actions = plan_children(desired, observed)
    if memcached.spec.paused:
        return Plan((*hold, *(action for action in actions if isinstance(action, Conflict))))
    policy = memcached.spec.deletion_policy.value
    release: tuple[Action, ...] = (Release(f"deletionPolicy is {policy}"),) if observed.held and not drains else ()
    return Plan((*hold, *actions, *release))


def plan_children(desired: Sequence[Manifest], observed: Observed) -> tuple[Action, ...]:
    """The actions on children: those that are wanted in the order of `desired`, then those that are not."""
    autoscaled = bool(observed.autoscaler or observed.errors)  # also when nobody could tell
    wanted = {str(manifest["kind"]) for manifest in desired}
    actions: list[Action] = []
    for manifest in desired:
        child = observed.children.get(str(manifest["kind"]))
        actions.extend(plan_child(manifest, child, observed.memcached, autoscaled=autoscaled))
    for kind, child in observed.children.items():
        if kind not in wanted and not child.deleting and is_ours(child, observed.memcached.uid):
            actions.append(Delete(kind, child, "no longer wanted"))
    return tuple(actions)


def plan_child(
    manifest: Manifest, child: Child | None, memcached: MemcachedView, *, autoscaled: bool
) -> Iterator[Action]:
    """The actions that make one child as its manifest. `autoscaled`: an autoscaler is known to scale the Deployment."""
    kind, name = str(manifest["kind"]), memcached.name
    if child is None:
        yield Create(manifest, f"{kind} {name} is missing")
    elif child.deleting:
        yield Wait(kind, f"{kind} {name} is being deleted; it is made again when it is gone")
    elif is_ours(child, memcached.uid):
        yield from _repair(manifest, child, autoscaled=autoscaled)
    elif child.of_namesake:
        yield Wait(
            kind, f"{kind} {name} belongs to a deleted resource of the same name; the garbage collector removes it"
        )
    elif is_orphan_of(child, name):
        yield Apply(manifest, child, f"{kind} {name} was left behind by a former resource of this name", adopted=True)
    else:
        yield Conflict(kind, _conflict(kind, name))


def plan_removal(observed: Observed) -> tuple[Action, ...]:
    """Deletes what is ours: the budget first, so that it does not stand in the way, and the Deployment last."""
    return tuple(
        Delete(kind, child, "the cache is deleted")
        for kind in (PODDISRUPTIONBUDGETS.kind, SERVICES.kind, DEPLOYMENTS.kind)
        if (child := observed.children.get(kind)) is not None
        and not child.deleting
        and is_ours(child, observed.memcached.uid)
    )


def is_ours(child: Child, uid: str) -> bool:
    """Owned by the resource with this uid: by controller reference, or by annotation where there is no controller."""
    return child.controller_uid == uid if child.controller_uid else child.owner_uid == uid


def is_orphan_of(child: Child, name: str) -> bool:
    """Left behind by a former resource of the same name: our labels and annotation, and no controller."""
    return not child.controller_uid and bool(child.owner_uid) and child.instance == name


def needs_living_owner(action: Create | Apply, memcached: MemcachedView) -> bool:
    """Whether the action would do harm if the resource is gone already, and the news of it are on their way.

    A reference to an owner that is gone has the garbage collector delete a child that was meant to be left behind. A
    child without a reference that is made again would never be removed. One with a reference, of a resource that was
    at rest, is missing because somebody deleted it or because the garbage collector did: then it would be made and
    collected in turns, until the news arrive.
    """
    references = "ownerReferences" in action.manifest["metadata"]
    if isinstance(action, Apply):
        return references and action.child.controller_uid != memcached.uid
    if names.DRAIN_FINALIZER in memcached.finalizers or memcached.status == b"{}":
        return False
    return not references or memcached.status_json().get("observedGeneration") == memcached.generation


def _conflict(kind: str, name: str) -> str:
    return (
        f"{kind} {name} exists and does not belong to this Memcached, so it is left alone. "
        f"Rename or delete the {kind}, or create the Memcached under another name."
    )


def _repair(manifest: Manifest, child: Child, *, autoscaled: bool) -> Iterator[Action]:
    # An autoscaler that has set replicas owns the field: what we leave out of an apply stays as it set it.
    autoscaled = autoscaled and isinstance(child, DeploymentView) and child.autoscaled
    difference = first_difference(manifest, child)
    if difference is not None:
        yield Apply(_without_replicas(manifest) if autoscaled else manifest, child, difference)
    elif isinstance(child, DeploymentView) and not autoscaled:
        replicas = int(manifest["spec"]["replicas"])
        if child.replicas != replicas:
            yield Scale(child, replicas, f"replicas {child.replicas} -> {replicas}")


def first_difference(manifest: Manifest, child: Child) -> str | None:
    """Why the child has to be written, or None.

    A body that was compared once is not kept: its fingerprint speaks for it.
    """
    desired_hash = manifest["metadata"]["annotations"][names.DESIRED_HASH_ANNOTATION]
    if child.verified == desired_hash:
        return None
    if child.desired_hash != desired_hash or child.body is None:
        return "the desired state changed"
    body: dict[str, Any] = msgspec.json.decode(child.body)
    difference = covers(manifest, body)
    if difference is None:
        child.satisfies(desired_hash)
    return difference


def _without_replicas(manifest: Manifest) -> Manifest:
    return {**manifest, "spec": {key: value for key, value in manifest["spec"].items() if key != "replicas"}}
