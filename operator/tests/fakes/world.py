"""A reconciler over the fake API server, with its time, and with the parts of Kubernetes that answer to what it writes.

No watch runs: `reconcile` first puts what a watch would have told into the stores. So a test says what the cluster
looks like, lets one pass happen, and reads off every write, every event and the status, exactly.
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import json
from typing import Any, Self

from fake_api import FakeApi, selects

from memcached_operator.controller.reconciler import MemcachedReconciler
from memcached_operator.controller.watches import MEMCACHED_WATCH, OWNED
from memcached_operator.gvr import DEPLOYMENTS, EVENTS, GVR, MEMCACHEDS, PODDISRUPTIONBUDGETS, PODS, SERVICES
from memcached_operator.runtime.events import Recorder
from memcached_operator.runtime.result import Result
from memcached_operator.runtime.store import Key, Store
from memcached_operator.telemetry.metrics import Metrics

JSONObject = dict[str, Any]

NAMESPACE = "shop"
NAME = "cache"
KEY = Key(NAMESPACE, NAME)
REPLICASETS = GVR("apps", "v1", "replicasets", "ReplicaSet")
CHILDREN = (SERVICES, DEPLOYMENTS, PODDISRUPTIONBUDGETS)
START = datetime.datetime(2025, 6, 1, 12, tzinfo=datetime.UTC)
PATIENCE = 1.0
"""A pass that asks for another one sooner than this (s) gets it; later is for the test to decide."""


class NeverAtRestError(AssertionError):
    """Passes follow each other without an end."""


class World:
    """One namespace of a cluster, one Memcached of interest, and the operator's reconciler."""

    def __init__(self) -> None:
        self.api = FakeApi()
        self.seconds = 0.0
        self.pods: JSONObject = {}  # what every pod's status is patched with: see `failing`
        self.drift: list[str] = []
        self._told = 0
        self.restart()

    @classmethod
    async def with_cache(cls, size: int = 2, **spec: Any) -> Self:
        """A world with a cache that is ready, and whose story so far is told."""
        world = cls()
        world.create(size=size, **spec)
        await world.live()
        world.take_writes()
        world.take_events()
        return world

    # What people do

    def create(self, *, metadata: JSONObject | None = None, **spec: Any) -> JSONObject:
        """A Memcached, of size 1 if nothing else is said."""
        meta = {"name": NAME, "namespace": NAMESPACE, **(metadata or {})}
        return self.api.add(MEMCACHEDS, {"metadata": meta, "spec": {"size": 1, **spec}})

    def change(self, **spec: Any) -> None:
        """Fields of its spec; None removes one."""
        self.api.edit(MEMCACHEDS, NAMESPACE, NAME, {"spec": spec})

    def replace(self, spec: JSONObject) -> None:
        """Its whole spec: what is not in the new one is removed."""
        self.change(**dict.fromkeys(self.object(MEMCACHEDS)["spec"]))
        self.change(**spec)

    def delete(self) -> None:
        """The Memcached."""
        self.api.remove(MEMCACHEDS, NAMESPACE, NAME)

    def edit(self, gvr: GVR, patch: JSONObject, manager: str = "kubectl-edit") -> None:
        """One of its children, by merge patch."""
        self.api.edit(gvr, NAMESPACE, NAME, patch, manager=manager)

    # What is there

    def object(self, gvr: GVR) -> JSONObject:
        """The Memcached or the child of its name."""
        body = self.api.object(gvr, NAMESPACE, NAME)
        assert body is not None, f"there is no {gvr.kind}"
        return body

    def has(self, gvr: GVR) -> bool:
        return self.api.object(gvr, NAMESPACE, NAME) is not None

    def children(self) -> list[str]:
        """Kinds of the children that exist."""
        return [gvr.kind for gvr in CHILDREN if self.has(gvr)]

    def status(self) -> JSONObject:
        status: JSONObject = self.object(MEMCACHEDS).get("status", {})
        return status

    def condition(self, type_: str) -> JSONObject:
        return next(c for c in self.status()["conditions"] if c["type"] == type_)

    def verdicts(self) -> list[str]:
        """`Ready=True/AllReady` and so on."""
        return [f"{c['type']}={c['status']}/{c['reason']}" for c in self.status().get("conditions", [])]

    def picture(self) -> list[Any]:
        """What has to be the same whatever came before: children, finalizers, and all of the status but times."""
        children = [self.api.object(gvr, NAMESPACE, NAME) for gvr in CHILDREN]
        shown: list[Any] = [
            (_without_nothing(child["spec"]), child["metadata"]["labels"]) for child in children if child
        ]
        status = dict(self.status(), observedGeneration=None)
        changing = ("lastTransitionTime", "observedGeneration")
        status["conditions"] = [
            {key: value for key, value in condition.items() if key not in changing}
            for condition in status["conditions"]
        ]
        return [*shown, self.object(MEMCACHEDS)["metadata"].get("finalizers", []), status]

    # What the operator does

    def restart(self) -> None:
        """A new process: it knows nothing, and finds out by listing."""
        self.stores = {watch.gvr: Store(watch) for watch in (MEMCACHED_WATCH, *OWNED)}
        metrics = Metrics("test")
        self.recorder = Recorder(
            self.api, metrics, controller="memcached-operator", instance="test", clock=lambda: self.seconds
        )
        self.reconciler = MemcachedReconciler(
            self.api,
            self.stores,
            self.recorder,
            self,
            default_image="cache:1",
            clock=lambda: self.seconds,
            now=lambda: START + datetime.timedelta(seconds=self.seconds),
        )

    def drift_repaired(self, kind: str) -> None:
        """The reconciler's metric."""
        self.drift.append(kind)

    def hear(self, *gvrs: GVR) -> None:
        """The watches (of these kinds; of all if none is named) tell what is new."""
        for gvr in gvrs or tuple(self.stores):
            store = self.stores[gvr]
            listing = store.begin_list("")
            for body in self.api.objects(gvr):
                if selects(store.watch.labels, body["metadata"].get("labels", {})):
                    listing.put(json.dumps(body).encode())
            listing.finish()

    async def reconcile(self, *, hear: bool = True) -> Result:
        """One pass. Raises its error."""
        if hear:
            self.hear()
        try:
            return await self.reconciler.reconcile(KEY)
        finally:
            await self._post_events()

    async def rest(self) -> Result:
        """Passes until one asks for none soon, as the queue grants them. Raises the first error."""
        for _ in range(30):
            result = await self.reconcile()
            if result.after is None or result.after > PATIENCE:
                return result
            self.wait(result.after)
        raise NeverAtRestError(str(result))

    async def live(self) -> Result:
        """The operator and Kubernetes answer each other until both are at rest."""
        for _ in range(30):
            result = await self.rest()
            if not self.kubernetes():
                return result
        raise NeverAtRestError(f"{self.api.writes}")

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.seconds += seconds
        self.api.now = (START + datetime.timedelta(seconds=self.seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def take_writes(self) -> list[str]:
        """The operator's writes since the last call, without events, and without namespace and name."""
        writes = [write for write in self.api.take_writes() if " events " not in write]
        where = f" {NAMESPACE}/{NAME}"
        assert all(write.endswith(where) for write in writes), writes
        return [write.removesuffix(where) for write in writes]

    def take_events(self) -> list[str]:
        """`Normal Created: Created Service cache` and so on, those that are new since the last call."""
        events = sorted(self.api.objects(EVENTS), key=lambda body: int(body["metadata"]["resourceVersion"]))
        told, self._told = events[self._told :], len(events)
        return [f"{event['type']} {event['reason']}: {event['note']}" for event in told]

    async def _post_events(self) -> None:
        posting = asyncio.create_task(self.recorder.run())
        await self.recorder.drain(5.0)
        posting.cancel()

    # What Kubernetes does

    def failing(self, reason: str, message: str) -> None:
        """From now on every container waits with this reason; "" ends it."""
        waiting = {"state": {"waiting": {"reason": reason, "message": message}}}
        self.pods = {"containerStatuses": [waiting]} if reason else {}

    def kubernetes(self) -> bool:
        """Deployment controller, kubelets and garbage collector do all that is to do. Whether that was anything."""
        before = self._versions()
        for deployment in self.api.objects(DEPLOYMENTS):
            if "deletionTimestamp" not in deployment["metadata"]:
                self._roll(deployment)
        while self.api.collect_garbage():
            pass
        return self._versions() != before

    def _versions(self) -> list[str]:
        kinds = (MEMCACHEDS, *CHILDREN, REPLICASETS, PODS)
        return [body["metadata"]["resourceVersion"] for gvr in kinds for body in self.api.objects(gvr)]

    def _roll(self, deployment: JSONObject) -> None:
        """Every pod has the newest template, and there are as many as wanted."""
        meta, spec = deployment["metadata"], deployment["spec"]
        text = json.dumps(spec["template"], sort_keys=True).encode()
        name = f"{meta['name']}-{hashlib.sha256(text).hexdigest()[:8]}"
        for old in self.api.objects(REPLICASETS):
            if old["metadata"]["name"] != name and old["metadata"]["ownerReferences"][0]["uid"] == meta["uid"]:
                self.api.remove(REPLICASETS, NAMESPACE, old["metadata"]["name"])
        replicaset = self.api.object(REPLICASETS, NAMESPACE, name) or self.api.add(
            REPLICASETS, {"metadata": _owned_by(deployment, name), "spec": {}}
        )
        pods = [f"{name}-{number}" for number in range(spec["replicas"])]
        for pod in self.api.objects(PODS):
            mine = pod["metadata"]["ownerReferences"][0]["uid"] == replicaset["metadata"]["uid"]
            if mine and pod["metadata"]["name"] not in pods:
                self.api.remove(PODS, NAMESPACE, pod["metadata"]["name"])
        for number, pod_name in enumerate(pods, 1):
            self._run(pod_name, replicaset, spec["template"]["metadata"]["labels"], f"10.0.0.{number}")
        counts = {"replicas": len(pods), "updatedReplicas": len(pods), "readyReplicas": 0 if self.pods else len(pods)}
        self._say(DEPLOYMENTS, meta["name"], {"observedGeneration": meta["generation"], **counts})

    def _run(self, name: str, replicaset: JSONObject, labels: JSONObject, address: str) -> None:
        if self.api.object(PODS, NAMESPACE, name) is None:
            digest = replicaset["metadata"]["name"].rpartition("-")[2]
            meta = {**_owned_by(replicaset, name), "labels": {**labels, "pod-template-hash": digest}}
            self.api.add(PODS, {"metadata": meta, "spec": {}})
        ready = {"type": "Ready", "status": "False" if self.pods else "True"}
        phase = "Pending" if self.pods else "Running"
        status = {"phase": phase, "podIP": address, "conditions": [ready], "containerStatuses": None, **self.pods}
        self._say(PODS, name, status)

    def _say(self, gvr: GVR, name: str, status: JSONObject) -> None:
        manager = "kube-controller-manager"
        self.api.edit(gvr, NAMESPACE, name, {"status": status}, subresource="status", manager=manager)


def _owned_by(owner: JSONObject, name: str) -> JSONObject:
    """Metadata of an object that `owner` controls."""
    identity = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "uid": owner["metadata"]["uid"]}
    reference = {**identity, "name": owner["metadata"]["name"], "controller": True}
    return {"name": name, "namespace": NAMESPACE, "ownerReferences": [reference]}


def _without_nothing(value: Any) -> Any:
    """`value` without what an API server mostly does not store: null, empty maps and lists."""
    if isinstance(value, dict):
        kept = {key: _without_nothing(inner) for key, inner in value.items()}
        return {key: inner for key, inner in kept.items() if inner not in (None, {}, [])}
    return [_without_nothing(inner) for inner in value] if isinstance(value, list) else value
