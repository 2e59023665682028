"""The models of `cache.example.com/v1alpha1`: the CRD is generated from them, and every resource is parsed into them.

Attributes are snake_case, the wire is camelCase. Unknown fields are ignored on read. Types are strict: "3" is no
number. Fields of core/v1 types stay raw JSON here; `core_v1` knows their shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from memcached_operator.api import defaults

JsonObject = dict[str, Any]

PERCENT = r"^(100|[1-9]?[0-9])%$"

IntOrPercent = Annotated[int, Field(ge=0, le=defaults.MAX_SIZE)] | Annotated[str, Field(pattern=PERCENT, max_length=4)]
LabelValue = Annotated[str, Field(max_length=defaults.MAX_LABEL_VALUE_LENGTH)]
AnnotationValue = Annotated[str, Field(max_length=defaults.MAX_ANNOTATION_LENGTH)]


def _core_v1(definition: str) -> JsonObject:
    """Marks a raw JSON field: the CRD takes its schema from this core/v1 definition."""
    return {"x-core-v1": definition}


class ApiModel(BaseModel):
    """Base of all models: frozen, strict, camelCase on the wire."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="ignore",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
    )


class DeletionPolicy(StrEnum):
    """What becomes of the cache when its Memcached is deleted."""

    DELETE = "Delete"
    ORPHAN = "Orphan"
    DRAIN = "Drain"


class Rollout(ApiModel):
    """How pods are replaced when the pod template changes."""

    max_surge: IntOrPercent = Field(
        defaults.MAX_SURGE_DEFAULT,
        description="How many pods, or what percentage of size, may exist above size during a roll-out. "
        "Not 0 when maxUnavailable is 0.",
    )
    max_unavailable: IntOrPercent = Field(
        defaults.MAX_UNAVAILABLE_DEFAULT,
        description="How many pods, or what percentage of size, may be missing during a roll-out. "
        "0 keeps the cache at full size: a new pod is ready before an old one stops.",
    )


class MemcachedSpec(ApiModel):
    """What the user asks for."""

    size: int = Field(
        ge=0, le=defaults.MAX_SIZE, description="Number of memcached pods. 0 stops them all and keeps everything else."
    )
    image: Annotated[str, Field(max_length=defaults.MAX_IMAGE_LENGTH)] | None = Field(
        None,
        description="Container image of memcached, REGISTRY/REPOSITORY:TAG or with @sha256:DIGEST. It must "
        "have memcached on its PATH. Default: what the operator was started with, normally "
        f"{defaults.DEFAULT_IMAGE}. A change replaces the pods, and their items are lost.",
    )
    memory: int = Field(
        defaults.DEFAULT_MEMORY,
        ge=defaults.MIN_MEMORY,
        le=defaults.MAX_MEMORY,
        description="Memory for items, in MiB (memcached's -m), in each pod. The container's memory request and limit "
        "are computed from it unless resources gives them. A change replaces the pods.",
    )
    max_connections: int = Field(
        defaults.DEFAULT_MAX_CONNECTIONS,
        ge=defaults.MIN_MAX_CONNECTIONS,
        le=defaults.MAX_MAX_CONNECTIONS,
        description="Most files that memcached opens at a time (its -c): client connections, and about 5 for each "
        "of its threads. Further clients are turned away. A change replaces the pods.",
    )
    threads: int = Field(
        defaults.DEFAULT_THREADS,
        ge=1,
        le=defaults.MAX_THREADS,
        description="Worker threads of memcached (its -t). About as many as the container may use CPUs.",
    )
    max_item_size: int = Field(
        defaults.DEFAULT_MAX_ITEM_SIZE,
        ge=1,
        le=defaults.MAX_MAX_ITEM_SIZE,
        description="Largest item, in KiB (memcached's -I). A multiple of 512, and at most half of memory: memcached "
        "does not start otherwise.",
    )
    verbosity: int = Field(
        defaults.DEFAULT_VERBOSITY,
        ge=0,
        le=defaults.MAX_VERBOSITY,
        description="How much memcached logs: 0 nothing, 1 errors (-v), 2 also commands and answers (-vv), 3 also its "
        "inner state (-vvv). 2 and 3 show keys.",
    )
    resources: JsonObject | None = Field(
        None,
        description="CPU, memory and ephemeral storage of the container, as in Kubernetes. What is not given "
        "for memory is computed from memory and maxConnections. A memory limit too small for them is refused.",
        json_schema_extra=_core_v1("ResourceRequirements"),
    )
    pod_annotations: dict[str, AnnotationValue] = Field(
        {},
        max_length=defaults.MAX_MAP_ENTRIES,
        description="Annotations for the pods. Keys under cache.example.com/ are reserved. A change replaces the pods.",
    )
    pod_labels: dict[str, LabelValue] = Field(
        {},
        max_length=defaults.MAX_MAP_ENTRIES,
        description="More labels for the pods. The operator's own labels cannot be set. A change replaces the pods.",
    )
    node_selector: dict[str, LabelValue] = Field(
        {},
        max_length=defaults.MAX_MAP_ENTRIES,
        description="Labels that a node must have to run the pods.",
        json_schema_extra={"x-kubernetes-map-type": "atomic"},
    )
    tolerations: list[JsonObject] = Field(
        [],
        max_length=defaults.MAX_TOLERATIONS,
        description="Taints of nodes that the pods tolerate.",
        json_schema_extra={"x-kubernetes-list-type": "atomic", **_core_v1("Toleration")},
    )
    affinity: JsonObject | None = Field(
        None,
        description="Rules on which nodes, and near which other pods, the pods may run.",
        json_schema_extra=_core_v1("Affinity"),
    )
    topology_spread_constraints: list[JsonObject] | None = Field(
        None,
        max_length=defaults.MAX_SPREAD_CONSTRAINTS,
        description="How the pods are spread over hosts and zones. Default: evenly over both where possible; an empty "
        "list means no spreading.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["topologyKey", "whenUnsatisfiable"],
            **_core_v1("TopologySpreadConstraint"),
        },
    )
    priority_class_name: Annotated[str, Field(max_length=253)] | None = Field(
        None, description="Name of the PriorityClass of the pods."
    )
    image_pull_secrets: list[JsonObject] = Field(
        [],
        max_length=defaults.MAX_PULL_SECRETS,
        description="Secrets of the same namespace for pulling the image, each named once.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            **_core_v1("LocalObjectReference"),
        },
    )
    rollout: Rollout = Field(Rollout(), description="How pods are replaced when the pod template changes.")
    deletion_policy: DeletionPolicy = Field(
        DeletionPolicy.DELETE,
        strict=False,
        description="What happens when this Memcached is deleted. Delete: its Deployment, Service and budget go too. "
        "Orphan: they stay, and serve on. Drain: clients lose the endpoints first, the pods stop drainSeconds later.",
    )
    drain_seconds: int = Field(
        defaults.DEFAULT_DRAIN_SECONDS,
        ge=0,
        le=defaults.MAX_DRAIN_SECONDS,
        description="With deletionPolicy Drain: seconds between the deletion and the stop of the pods.",
    )
    paused: bool = Field(
        False,  # noqa: FBT003  a model's default, not a call's flag
        description="True stops every write to the children; status is still kept, and deletion still runs.",
    )


class Condition(ApiModel):
    """One aspect of the state, in the form that all of Kubernetes uses."""

    type: Annotated[str, Field(max_length=316, pattern=r"^[A-Za-z][A-Za-z0-9]*$")] = Field(
        description="Ready, Available, Progressing or Degraded."
    )
    status: Literal["True", "False", "Unknown"] = Field(description="True, False or Unknown.")
    reason: Annotated[str, Field(max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")] = Field(
        description="One word that says why; from a closed list."
    )
    message: Annotated[str, Field(max_length=32768)] = Field("", description="The same in a sentence, for people.")
    last_transition_time: Annotated[str, Field(max_length=32, json_schema_extra={"format": "date-time"})] = Field(
        description="When status last changed."
    )
    observed_generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] | None = Field(
        None, description="The metadata.generation that this condition speaks of."
    )


class MemcachedStatus(ApiModel):
    """What the operator sees. Computed afresh from the cluster each time; nothing is read back from it."""

    nodes: list[Annotated[str, Field(max_length=253)]] = Field(
        [],
        max_length=4096,
        description="Names of the memcached pods, sorted.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    replicas: int = Field(0, ge=0, description="Number of memcached pods.")
    ready_replicas: int = Field(0, ge=0, description="Number of memcached pods that are ready.")
    selector: Annotated[str, Field(max_length=1024)] = Field(
        "", description="Label selector of the pods, as text; autoscalers read it through the scale subresource."
    )
    server_list: list[Annotated[str, Field(max_length=64)]] = Field(
        [],
        max_length=4096,
        description="IP:PORT of each ready pod, sorted; IPv6 addresses in brackets.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    observed_generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] = Field(
        0, description="The metadata.generation that this status speaks of."
    )
    conditions: list[Condition] = Field(
        [],
        max_length=16,
        description="Ready, Available, Progressing and Degraded.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )


@dataclass(frozen=True, slots=True)
class Memcached:
    """A parsed and VALID resource: code that has one need not check anything again. Made by `validation.parse`."""

    name: str
    namespace: str
    uid: str
    generation: int
    spec: MemcachedSpec
