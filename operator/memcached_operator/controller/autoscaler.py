"""Is somebody else's HorizontalPodAutoscaler pointed at our Deployment? Asked only when an autoscaler has changed its replicas."""

from __future__ import annotations

import msgspec

from memcached_operator.gvr import DEPLOYMENTS, HORIZONTALPODAUTOSCALERS
from memcached_operator.runtime.ports import Api
from memcached_operator.runtime.store import Key


class _Target(msgspec.Struct, gc=False):
    kind: str
    name: str


class _Spec(msgspec.Struct, gc=False):
    scaleTargetRef: _Target


class _Meta(msgspec.Struct, gc=False):
    name: str


class _Autoscaler(msgspec.Struct, gc=False):
    metadata: _Meta
    spec: _Spec


class _List(msgspec.Struct, gc=False):
    items: list[_Autoscaler] = []


_decode = msgspec.json.Decoder(_List).decode


async def find_autoscaler(api: Api, key: Key) -> str:
    """Name of the autoscaler that targets the Deployment `key`, or "" when there is none (it was deleted, or somebody only scaled once)."""
    autoscalers = _decode(await api.list_page(HORIZONTALPODAUTOSCALERS, key.namespace)).items
    targets = (DEPLOYMENTS.kind, key.name)
    return next((a.metadata.name for a in autoscalers if (a.spec.scaleTargetRef.kind, a.spec.scaleTargetRef.name) == targets), "")
