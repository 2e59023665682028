"""All children that a Memcached should have."""

from __future__ import annotations

from memcached_operator.api.v1alpha1 import Memcached
from memcached_operator.resources.deployment import deployment
from memcached_operator.resources.hashing import with_hash
from memcached_operator.resources.manifest import Manifest
from memcached_operator.resources.poddisruptionbudget import poddisruptionbudget
from memcached_operator.resources.service import service


def desired_resources(memcached: Memcached, *, default_image: str, replicas: int) -> tuple[Manifest, ...]:
    """Manifests of the children, in the order in which they are written. Pure: the same input gives the same bytes.

    The order: the Service first, so that its name resolves when the first pod starts; then the Deployment; the
    PodDisruptionBudget last, because it protects pods that must be there to be counted. A kind that is missing here is
    not wanted: the budget is left out where there is one replica or none.

    `replicas` is what the Deployment should ask for now.
    """
    children = (
        service(memcached),
        deployment(memcached, default_image=default_image, replicas=replicas),
        poddisruptionbudget(memcached, replicas=replicas),
    )
    return tuple(with_hash(manifest) for manifest in children if manifest is not None)
