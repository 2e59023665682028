"""Fixtures and options of the fault rig. `make faults` runs it; `make test` does not.

Each result is one JSON line in `.cache/faults/results.jsonl`. What has passed at this very commit is not run again, so
that a run that was cut off goes on. From the environment:

CASES=A,C01      only these cases
BUDGET=60        no case is begun after so many minutes
SHARD=1/4        the first quarter of the cases
FRESH=1          also what has passed
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("cases_api", "cases_events", "cases_life", "cases_others", "cases_inputs", "cases_scale")

from rig import Rig  # noqa: E402 - asserts of the cases are to be rewritten

from controlplane import ControlPlane  # noqa: E402 - as above
from faultrig import results  # noqa: E402 - as above

_BUDGET = float(os.environ.get("BUDGET", "0")) * 60
_BEGAN = time.monotonic()
_COMMIT = results.commit()
_calls: dict[str, pytest.TestReport] = {}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out other shards, and what has passed at this commit (not when it has uncommitted changes)."""
    passed = {
        result.case
        for result in results.latest(results.load()).values()
        if result.passed and result.commit == _COMMIT and not _COMMIT.endswith("+")
    }
    number, _, shards = os.environ.get("SHARD", "1/1").partition("/")
    mine = [item for place, item in enumerate(items) if place % int(shards) == int(number) - 1]
    wanted = [item for item in mine if os.environ.get("FRESH") or _name(item.nodeid) not in passed]
    config.hook.pytest_deselected(items=[item for item in items if item not in wanted])
    items[:] = wanted


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin nothing when the time is over."""
    if _BUDGET and time.monotonic() - _BEGAN > _BUDGET:
        item.session.shouldstop = "the budget is spent; the same command goes on from here"
        pytest.skip("the budget is spent")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write the line of a case when it is torn down."""
    if report.when == "call" or (report.when == "setup" and report.failed):
        _calls[report.nodeid] = report
    if report.when != "teardown" or report.nodeid not in _calls:
        return
    call = _calls.pop(report.nodeid)
    told: dict[str, float | str] = {}
    for name, value in report.user_properties:
        told[name] = value if isinstance(value, int | float) else str(value)
    crash = getattr(call.longrepr, "reprcrash", None)
    wrong = "" if call.passed else (crash.message if crash else str(call.longrepr))[:1500]
    faults, kills = int(str(told.pop("faults", 0))), int(str(told.pop("kills", 0)))
    seconds = round(call.duration, 1)
    results.append(results.Result(_name(report.nodeid), _COMMIT, call.passed, seconds, faults, kills, wrong, told))


def _name(nodeid: str) -> str:
    """`A01` of test_case[A01]; the test's name and parameters otherwise."""
    name = nodeid.rpartition("::")[2]
    return name.removeprefix("test_case[").removesuffix("]") if name.startswith("test_case[") else name


@pytest.fixture
def rig(
    control_plane: ControlPlane,
    crd: None,  # noqa: ARG001 - asked for because of what it does
    operator_kubeconfig: Path,  # noqa: ARG001 - the operator's rights come with it
    namespace: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Rig]:
    """A namespace with a fault proxy; operators are started by the test."""
    with Rig(control_plane, namespace, tmp_path) as made:
        yield made
        request.node.user_properties.append(("faults", made.journal.faults()))
