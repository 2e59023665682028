"""Fixtures of the fault rig. `make faults` runs it; `make test` does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rig import Rig

from controlplane import ControlPlane


@pytest.fixture
def rig(
    control_plane: ControlPlane,
    crd: None,  # noqa: ARG001 - asked for because of what it does
    operator_kubeconfig: Path,  # noqa: ARG001 - the operator's rights come with it
    namespace: str,
    tmp_path: Path,
) -> Iterator[Rig]:
    """A namespace with a fault proxy; operators are started by the test."""
    with Rig(control_plane, namespace, tmp_path) as made:
        yield made
