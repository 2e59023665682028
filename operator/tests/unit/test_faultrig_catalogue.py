"""The catalogue is complete: each case runs in the rig, or says where it is tested, or why it cannot be."""

import ast
from pathlib import Path

import pytest

from faultrig.catalogue import CATALOGUE, CLASSES, Case, chosen

REPOSITORY = Path(__file__).parents[3]
RIG = REPOSITORY / "operator" / "tests" / "faults"


def registered() -> set[str]:
    """The ids in the decorators `@case(...)` of the rig: read, not imported, because they need a control plane."""
    return {
        str(decorator.args[0].value)
        for file in RIG.glob("cases_*.py")
        for function in ast.parse(file.read_text()).body
        if isinstance(function, ast.FunctionDef)
        for decorator in function.decorator_list
        if isinstance(decorator, ast.Call) and isinstance(decorator.args[0], ast.Constant)
    }


def test_it_has_the_181_cases_once_and_in_order() -> None:
    ids = [case.id for case in CATALOGUE]
    assert len(ids) == len(set(ids)) == 181
    assert ids == sorted(ids)
    assert {case.kind for case in CATALOGUE} == set(CLASSES)


def test_what_neither_is_tested_elsewhere_nor_cannot_run_runs_here_and_nothing_else_does() -> None:
    assert registered() == {case.id for case in CATALOGUE if not case.elsewhere and not case.absent}


@pytest.mark.parametrize("case", [case for case in CATALOGUE if case.elsewhere], ids=lambda case: case.id)
def test_the_other_test_is_there(case: Case) -> None:
    file, _, name = case.elsewhere.partition("::")
    assert f"def {name}(" in (REPOSITORY / file).read_text(encoding="utf-8")
    assert not case.absent


def test_cases_are_chosen_by_class_or_id() -> None:
    assert [case.id for case in chosen("A01,D")][:2] == ["A01", "D01"]
    assert chosen("") == CATALOGUE
    with pytest.raises(ValueError, match="Z9"):
        chosen("A,Z9")
