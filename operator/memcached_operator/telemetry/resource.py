"""Who sends: the opentelemetry resource that metrics and spans share."""

from __future__ import annotations

from opentelemetry.sdk.resources import OTELResourceDetector, Resource


def process_resource(version: str) -> Resource:
    """The operator's name and version; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win over them."""
    ours = Resource.create({"service.name": "memcached-operator", "service.version": version})
    # Merged again: Resource.create lets its own attributes win over the environment's.
    return ours.merge(OTELResourceDetector().detect())
