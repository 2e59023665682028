"""Wire shapes that several kinds share: camelCase as the API writes it, and only the fields in use."""

from __future__ import annotations

import msgspec


class Owner(msgspec.Struct, gc=False):
    """One of metadata.ownerReferences."""

    apiVersion: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    blockOwnerDeletion: bool = False


class Condition(msgspec.Struct, gc=False):
    """One of status.conditions."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
