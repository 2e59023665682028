"""Every case of the catalogue that runs here. `CASES=A,C01` chooses."""

from __future__ import annotations

import os

import cases_api  # noqa: F401 - they register their cases
import cases_events  # noqa: F401 - its cases register themselves
import cases_inputs  # noqa: F401 - its cases register themselves
import cases_life  # noqa: F401 - its cases register themselves
import cases_others  # noqa: F401 - its cases register themselves
import cases_scale  # noqa: F401 - its cases register themselves
import pytest
from registry import RUNS
from rig import Rig

from faultrig.catalogue import Case, chosen

HERE = [case for case in chosen(os.environ.get("CASES", "")) if not case.elsewhere and not case.absent]


@pytest.mark.parametrize("case", [case for case in HERE if case.id in RUNS], ids=lambda case: case.id)
def test_case(rig: Rig, case: Case) -> None:
    RUNS[case.id](rig)
