"""A short name for a manifest's content, so that "is it still what we wrote?" is one string comparison."""

from __future__ import annotations

import hashlib

import msgspec

from memcached_operator.api.names import DESIRED_HASH_ANNOTATION
from memcached_operator.resources.manifest import Manifest

_canonical = msgspec.json.Encoder(order="sorted").encode

_LENGTH = 16
"""Hexadecimal digits: 64 bits. A collision would hide one change of one object until the fields are compared."""


def desired_hash(manifest: Manifest) -> str:
    """Hash of all that is in `manifest` but the annotation that carries it and `spec.replicas`.

    The number of replicas is written through the scale subresource, which cannot keep an annotation up to date.
    """
    metadata = dict(manifest["metadata"])
    metadata["annotations"] = {
        key: value for key, value in metadata["annotations"].items() if key != DESIRED_HASH_ANNOTATION
    }
    spec = {key: value for key, value in manifest["spec"].items() if key != "replicas"}
    return hashlib.sha256(_canonical({**manifest, "metadata": metadata, "spec": spec})).hexdigest()[:_LENGTH]


def with_hash(manifest: Manifest) -> Manifest:
    """`manifest` with the annotation that carries its hash."""
    manifest["metadata"]["annotations"][DESIRED_HASH_ANNOTATION] = desired_hash(manifest)
    return manifest
