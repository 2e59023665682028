"""Is somebody's HorizontalPodAutoscaler pointed at our Deployment? Asked only while an autoscaler owns its replicas."""

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


class _ListMeta(msgspec.Struct, gc=False):
    continue_: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct, gc=False):
    metadata: _ListMeta
    items: list[_Autoscaler] = []


_decode = msgspec.json.Decoder(_List).decode


async def find_autoscaler(api: Api, key: Key) -> str:
    """Name of the autoscaler that targets the Deployment `key`; "" when there is none (it was deleted).

    Raises what the API answers.
    """
    continue_ = ""
    while True:
        page = _decode(await api.list_page(HORIZONTALPODAUTOSCALERS, key.namespace, continue_=continue_))
        for autoscaler in page.items:
            target = autoscaler.spec.scaleTargetRef
            if (target.kind, target.name) == (DEPLOYMENTS.kind, key.name):
                return autoscaler.metadata.name
        continue_ = page.metadata.continue_
        if not continue_:
            return ""
