"""`make scan`: what may stay and what may not. The scanners themselves run in the make target."""

from __future__ import annotations

from pathlib import Path

import yaml

from scan import REASONS, Finding, Reason, judge

ROOT_USER = Finding("CKV_K8S_40", "chart.yaml: Deployment.ns.manager", "high UID")
NO_PROBE = Finding("CKV_K8S_8", "chart.yaml: Deployment.ns.manager", "liveness")
PODS_ONLY = Reason("CKV_K8S_8", "chart*: Pod.*", "it runs once")


def test_a_finding_with_a_reason_stays_and_is_counted() -> None:
    reason = Reason("CKV_K8S_40", "*: Deployment.*", "the image has a user")
    assert judge([ROOT_USER, ROOT_USER], [reason]) == (["CKV_K8S_40 *: Deployment.* (2): the image has a user"], [])


def test_a_reason_speaks_of_its_own_resources_alone() -> None:
    stays, wrong = judge([NO_PROBE], [PODS_ONLY])
    assert stays == []
    assert wrong == [
        "CKV_K8S_8 chart.yaml: Deployment.ns.manager: liveness",
        "CKV_K8S_8 chart*: Pod.*: no finding",
    ]


def test_a_reason_that_nothing_needs_must_go() -> None:
    assert judge([], [PODS_ONLY]) == ([], ["CKV_K8S_8 chart*: Pod.*: no finding"])


def test_every_reason_is_a_sentence() -> None:
    entries = yaml.safe_load(Path(REASONS).read_text(encoding="utf-8"))
    assert entries
    assert all(Reason(**entry).reason.endswith(".") for entry in entries)
