"""What a reconcile can do. Every action carries its reason: logs, events and conditions explain themselves."""

from __future__ import annotations

from dataclasses import dataclass

from memcached_operator.api.conditions import Reason
from memcached_operator.controller.views import Child, DeploymentView, ServiceView
from memcached_operator.gvr import DEPLOYMENTS, MEMCACHEDS, SERVICES
from memcached_operator.resources.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Create:
    """POST: cheaper than an apply that creates (1.5 ms of API server against 2.5)."""

    manifest: Manifest
    reason: str

    @property
    def kind(self) -> str:
        """The child's kind."""
        return str(self.manifest["kind"])


@dataclass(frozen=True, slots=True)
class Apply:
    """Server-side apply of a child that exists; `adopted` when it belonged to nobody any more."""

    manifest: Manifest
    child: Child
    reason: str
    adopted: bool = False

    @property
    def kind(self) -> str:
        """The child's kind."""
        return str(self.manifest["kind"])


@dataclass(frozen=True, slots=True)
class Scale:
    """The scale subresource: 1.2 ms against 3.6 for an apply."""

    deployment: DeploymentView
    replicas: int
    reason: str
    kind: str = DEPLOYMENTS.kind


@dataclass(frozen=True, slots=True)
class SetServing:
    """Whether the Service selects the pods. A drain stops it first: clients leave while the pods still answer."""

    service: ServiceView
    serving: bool
    reason: str
    kind: str = SERVICES.kind


@dataclass(frozen=True, slots=True)
class Delete:
    """Removes a child that is not wanted (any more)."""

    kind: str
    child: Child
    reason: str


@dataclass(frozen=True, slots=True)
class Hold:
    """Adds the finalizer. Always first: without it, a deletion could slip in before the rest is done."""

    reason: str
    kind: str = MEMCACHEDS.kind


@dataclass(frozen=True, slots=True)
class Release:
    """Removes the finalizer. Always last, and not done when something before it failed."""

    reason: str
    kind: str = MEMCACHEDS.kind


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can be done about this child now."""

    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """The name is taken by an object that is not ours: it is never touched."""

    kind: str
    reason: str


Deed = Create | Apply | Scale | SetServing | Delete | Hold | Release
Action = Deed | Wait | Conflict


@dataclass(frozen=True, slots=True)
class Plan:
    """Actions in their order.

    For a resource that is being deleted, `deleting` is the (reason, message) that says how far that is. `after` is when
    to look again, in seconds, though nothing may happen.
    """

    actions: tuple[Action, ...] = ()
    deleting: tuple[Reason, str] | None = None
    after: float | None = None
