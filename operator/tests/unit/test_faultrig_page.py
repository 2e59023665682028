"""The page and the picture are made of results; nothing of the page outside the markers is touched."""

import xml.etree.ElementTree as ET
from pathlib import Path

from faultrig.catalogue import CATALOGUE, CLASSES
from faultrig.page import PARTS, filled, outcome
from faultrig.picture import svg
from faultrig.results import Result, append, latest, load

PAGE = Path(__file__).parents[3] / "docs" / "reliability.md"
RESULTS = {
    "A02": Result("A02", "abc", passed=True, seconds=1.0, faults=7),
    "B01": Result("B01", "abc", passed=False, seconds=1.0),
    "test_ended_at_every_write[create-SIGKILL]": Result(
        "test_ended_at_every_write[create-SIGKILL]", "abc", passed=True, seconds=9.0, kills=14
    ),
    "test_a_seeded_bug_is_caught[hot]": Result(
        "test_a_seeded_bug_is_caught[hot]", "abc", passed=True, seconds=1.0, figures={"kind": "T3", "spoke": "O9"}
    ),
}


def test_each_part_is_between_its_markers_and_the_rest_stays() -> None:
    page = PAGE.read_text(encoding="utf-8")
    new = filled(page, RESULTS)
    assert new.split("<!-- summary")[0] == page.split("<!-- summary")[0]
    assert filled(new, RESULTS) == new
    assert "| create | SIGKILL | 0 | 14 | passed | abc |" in new
    assert "| T3 | hot | O9 | abc |" in new
    for name in PARTS:
        assert new.count(f"<!-- end of {name} -->") == 1


def test_every_class_and_case_has_its_line() -> None:
    new = filled(PAGE.read_text(encoding="utf-8"), RESULTS)
    assert [kind for kind in CLASSES if f"| {kind} {CLASSES[kind]} |" not in new] == []
    assert [case.id for case in CATALOGUE if f"| {case.id} | {case.title} |" not in new] == []


def test_what_is_known_of_a_case() -> None:
    told = {case.id: outcome(case, RESULTS) for case in CATALOGUE}
    assert told["A02"] == "passed, 7 faults (abc)"
    assert told["B01"].startswith("**failed**")
    assert told["A03"] == "not run yet"
    assert told["A23"].startswith("not here: ")
    assert told["E12"].startswith("[test_create_scale_restart_and_idle](../operator/tests/")


def test_the_last_result_of_a_case_counts(tmp_path: Path) -> None:
    file = tmp_path / "new" / "results.jsonl"
    assert load(file) == []
    for passed in (True, False):
        append(Result("A01", "abc", passed=passed, seconds=1.0), file)
    assert latest(load(file))["A01"].passed is False


def test_the_picture_is_one() -> None:
    samples = [{"seconds": s, "rss_mib": 60.0, "files": 20, "threads": 9, "requests": s * 10} for s in (0.0, 5.0, 10.0)]
    drawn = ET.fromstring(svg(samples))  # noqa: S314 - our own text
    assert len(drawn.findall("{http://www.w3.org/2000/svg}path")) == 4
