"""Writes the results of the rig into docs/reliability.md, between its markers. Pure but `main`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping

from controlplane.paths import REPOSITORY
from faultrig.catalogue import CATALOGUE, CLASSES, Case
from faultrig.results import Result, latest, load

PAGE = REPOSITORY / "docs" / "reliability.md"
Results = Mapping[str, Result]


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table."""
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *([str(cell).replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def outcome(case: Case, results: Results) -> str:
    """What is known of a case, in a word or a link."""
    if case.absent:
        return f"not here: {case.absent}"
    if case.elsewhere:
        file, _, name = case.elsewhere.partition("::")
        return f"[{name}](../{file})"
    result = results.get(case.id)
    if result is None:
        return "not run yet"
    faults = f", {result.faults} faults" if result.faults else ""
    return f"{'passed' if result.passed else '**failed**'}{faults} ({result.commit})"


def summary(results: Results) -> str:
    """The count of each class."""

    def row(kind: str) -> list[object]:
        cases = [case for case in CATALOGUE if case.kind == kind]
        here = [case for case in cases if not case.elsewhere and not case.absent]
        ran = [results[case.id] for case in here if case.id in results]
        return [
            f"{kind} {CLASSES[kind]}",
            len(cases),
            len(here),
            sum(result.passed for result in ran),
            sum(not result.passed for result in ran),
            sum(bool(case.elsewhere) for case in cases),
            sum(bool(case.absent) for case in cases),
            sum(result.faults for result in ran),
        ]

    rows = [row(kind) for kind in CLASSES]
    totals: list[object] = ["**all**", *(sum(int(str(line[place])) for line in rows) for place in range(1, 8))]
    head = (
        "class",
        "cases",
        "run here",
        "passed",
        "failed",
        "run by another suite",
        "cannot run here",
        "faults injected",
    )
    return table(head, [*rows, totals])


def kills(results: Results) -> str:
    """The kill matrix."""
    rows = []
    for name, result in results.items():
        if found := re.fullmatch(r"test_ended_at_every_write\[(.+)-(SIG\w+)\]", name):
            writes = result.figures.get("writes before", 0)
            word = "passed" if result.passed else "**failed**"
            rows.append([found[1], found[2], writes, result.kills, word, result.commit])
    return table(("story", "signal", "writes", "kills, before and after", "result", "commit"), sorted(rows))


def seeds(results: Results) -> str:
    """The seeded bugs, and who noticed."""
    rows = []
    for name, result in results.items():
        if found := re.fullmatch(r"test_a_seeded_bug_is_caught\[(.+)\]", name):
            rows.append([result.figures.get("kind", ""), found[1], result.figures.get("spoke", ""), result.commit])
    return table(("class", "seeded bug", "oracles that spoke", "commit"), sorted(rows))


def catalogue(results: Results) -> str:
    """Every case."""
    rows = [[case.id, case.title, case.injection, case.assertion, outcome(case, results)] for case in CATALOGUE]
    return table(("id", "fault", "how", "what must hold", "result"), rows)


PARTS = {"summary": summary, "kills": kills, "seeds": seeds, "catalogue": catalogue}


def filled(page: str, results: Results) -> str:
    """The page with each part written anew."""
    for name, render in PARTS.items():
        begin, end = f"<!-- {name}: written by make faults-page -->", f"<!-- end of {name} -->"
        head, _, rest = page.partition(begin)
        _, _, tail = rest.partition(end)
        page = f"{head}{begin}\n\n{render(results)}\n\n{end}{tail}"
    return page


def main() -> int:
    """Write the page; 1 when there are no results."""
    results = latest(load())
    if not results:
        print("no results: run make faults first", file=sys.stderr)
        return 1
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
