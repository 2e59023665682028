"""A Memcached in, the manifests of its children out: what a change to a builder does to a cluster, as a diff.

`GOLDEN_UPDATE=1` rewrites every `expected.yaml`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from memcached_operator.api.v1alpha1 import Memcached
from memcached_operator.api.validation import parse
from memcached_operator.resources.desired import desired_resources

CASES = sorted(path.parent for path in Path(__file__).parent.glob("*/memcached.yaml"))


def manifests(case: Path) -> tuple[dict[str, Any], ...]:
    body = yaml.safe_load((case / "memcached.yaml").read_text())
    metadata = body["metadata"]
    memcached = parse(metadata["name"], metadata["namespace"], metadata["uid"], 1, body["spec"])
    assert isinstance(memcached, Memcached), memcached
    return desired_resources(
        memcached, default_image="docker.io/library/memcached:1.6.45", replicas=memcached.spec.size
    )


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - PyYAML's
        super().increase_indent(flow, indentless=False)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_golden(case: Path) -> None:
    made = manifests(case)
    expected = case / "expected.yaml"
    if os.environ.get("GOLDEN_UPDATE"):
        expected.write_text(yaml.dump_all(made, Dumper=_Dumper, sort_keys=False, width=1000))
    assert list(made) == list(yaml.safe_load_all(expected.read_text()))


def test_there_are_cases() -> None:
    assert len(CASES) >= 8
