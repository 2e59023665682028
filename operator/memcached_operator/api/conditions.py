"""Condition types and the closed list of their reasons. The reference in docs/ is generated from here."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Described(StrEnum):
    """A string enumeration whose members carry their documentation."""

    description: str

    def __new__(cls, value: str, description: str) -> Self:
        """Member with the wire value `value`, documented by `description`."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.description = description
        return member


class ConditionType(Described):
    """What a condition is about. All four are always present once the operator has seen the resource."""

    READY = "Ready", "The summary: the cache is as the spec asks for. Wait for this one."
    AVAILABLE = "Available", "At least one memcached pod serves, or none was asked for."
    PROGRESSING = "Progressing", "The operator or the cluster is still working towards the spec."
    DEGRADED = "Degraded", "Something is wrong that will not heal by waiting for the usual time; the message says what."


class Reason(Described):
    """Why a condition has its status: a closed list, stable words for alerts and scripts."""

    # All is well.
    ALL_READY = "AllReady", "All pods that the spec asks for are ready and up to date."
    SCALED_TO_ZERO = "ScaledToZero", "The spec asks for no pods, and there are none."
    AS_EXPECTED = "AsExpected", "Nothing to report: the condition has its normal value."
    MINIMUM_AVAILABLE = "MinimumAvailable", "Some pods serve; not all are ready yet."

    # On the way.
    CREATING = "Creating", "The children are being created."
    ROLLING_OUT = "RollingOut", "Pods are being replaced by ones of a new template."
    SCALING = "Scaling", "Pods are being added or removed."
    WAITING_FOR_PODS = "WaitingForPods", "The pods exist and are not ready yet."
    NO_PODS_READY = "NoPodsReady", "No memcached pod serves at the moment."
    PAUSED = "Paused", "spec.paused is true: the operator writes to no child until it is false again."
    DRAINING = "Draining", "The resource is being deleted: clients are sent away before the pods stop."
    DELETING = "Deleting", "The resource is being deleted."

    # The user has to act.
    INVALID_SPEC = "InvalidSpec", "The spec breaks a rule; the children stay as they are until it is corrected."
    NAME_CONFLICT = "NameConflict", "A child's name is taken by an object that this resource does not own."
    FOREIGN_AUTOSCALER = (
        "ForeignAutoscaler",
        "An autoscaler scales the Deployment; it must target the Memcached instead.",
    )
    REJECTED = "Rejected", "The API server refused a child; the message has its words."

    # The cluster has to act.
    IMAGE_PULL_FAILED = "ImagePullFailed", "A pod's image cannot be pulled."
    UNSCHEDULABLE = "Unschedulable", "No node can take a pod."
    CRASH_LOOPING = "CrashLooping", "A memcached container keeps exiting."
    CONTAINER_FAILED = "ContainerFailed", "A memcached container cannot be started."
    QUOTA_EXCEEDED = "QuotaExceeded", "A quota of the namespace keeps pods from being created."
    POD_CREATION_FAILED = "PodCreationFailed", "Pods cannot be created for another reason than a quota."
    PROGRESS_DEADLINE_EXCEEDED = "ProgressDeadlineExceeded", "The roll-out made no progress for ten minutes."
    FORBIDDEN = "Forbidden", "The operator lacks a permission that it needs."
    API_ERROR = "ApiError", "The API server failed; the operator tries again."
