"""The arithmetic of the benchmark: pairs, ratios, verdicts, limits, and which races are left."""

from __future__ import annotations

import dataclasses
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from bench import plan, plots, records, report
from bench.contestants import PEERS
from bench.distribution import Spread, quantile, ratios, slope
from bench.limits import Limits, above, too_many_requests
from bench.plan import Race
from bench.records import Pair, Record
from bench.verdicts import Target, read_targets, verdict

BENCH = Path(__file__).parents[3] / "bench"


def record(operator: str = "ours", peer: str = "go-tuned", n: int = 300, pair: int = 0, **changes: Any) -> Record:
    """A quiet run of one session and commit, unless `changes` say otherwise."""
    said: dict[str, Any] = {"session": "s", "commit": "c", "time": "", "noisy": False, **changes}
    return Record(operator=operator, peer=peer, n=n, pair=pair, **said)


def pair_of(ours: float, theirs: float, n: int = 300, number: int = 0, **changes: Any) -> list[Record]:
    return [
        record("ours", n=n, pair=number, metrics={"cpu_ms": ours}, **changes),
        record("go-tuned", n=n, pair=number, metrics={"cpu_ms": theirs}, **changes),
    ]


# --- distribution -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "value"), ((0.0, 1), (0.5, 2), (0.51, 3), (0.99, 4), (1.0, 4)))
def test_a_quantile_is_the_nearest_rank(share: float, value: float) -> None:
    assert quantile([1, 2, 3, 4], share) == value


def test_ratios_are_taken_pair_by_pair() -> None:
    # The medians of both sides would say 2 / 10.
    assert ratios([(1, 1), (2, 10), (30, 10)]) == Spread(1.0, 0.2, 3.0, 3)


def test_zero_ties_with_zero_and_has_no_ratio_to_nothing_else() -> None:
    assert ratios([(0, 0)]) == Spread(1.0, 1.0, 1.0, 1)
    assert ratios([(0, 4)]) == Spread(0.0, 0.0, 0.0, 1)
    assert ratios([(4, 0)]) is None


def test_a_slope_is_the_exponent() -> None:
    assert slope({100: 3.0, 300: 27.0, 1000: 300.0}) == pytest.approx(2.0)
    assert slope({100: 3.0}) is None
    assert slope({100: 3.0, 300: 0.0}) is None


# --- records and plan -------------------------------------------------------------------------------------------------


def test_pairs_are_of_one_session() -> None:
    found = [record("ours", session="first"), record("go-tuned", session="second"), record("ours", session="second")]
    assert records.pairs(found) == [Pair(found[2], found[1])]


def test_a_pair_that_ran_twice_counts_once() -> None:
    again = pair_of(3, 4, session="again")
    assert records.pairs([*pair_of(1, 2), *again]) == [Pair(*again)]


def test_a_run_that_was_cut_off_does_not_pair_with_itself() -> None:
    assert records.pairs([record("ours"), record("ours")]) == []


def test_records_survive_the_file(tmp_path: Path) -> None:
    path = tmp_path / "there" / "results.jsonl"
    assert records.read(path) == []
    one, two = pair_of(1.5, 2.5)
    records.append(path, one)
    records.append(path, two)
    assert records.read(path) == [one, two]


def test_what_is_left_are_races_without_a_quiet_pair_of_this_commit() -> None:
    races = plan.quick(300, ["go-tuned"], pairs=2)
    done = records.pairs(pair_of(1, 2, number=0))
    assert plan.left(races, done, "c") == [Race(300, 1, "go-tuned")]
    assert plan.left(races, done, "another") == races
    noisy = records.pairs(pair_of(1, 2, noisy=True))
    assert plan.left(races, noisy, "c") == races
    assert plan.left(races, noisy, "c", noisy=True) == races[1:]


def test_pairs_take_turns() -> None:
    assert [Race(1, pair, "go-best").order[0] for pair in range(4)] == ["ours", "go-best", "ours", "go-best"]


def test_the_full_plan_has_five_pairs_where_a_claim_is_made() -> None:
    races = plan.full()
    assert len(set(races)) == len(races)
    for peer in PEERS:
        assert sum((race.n, race.peer) == (1000, peer) for race in races) == 5
    assert {race.peer for race in races if race.n == 5000} == {"go-default", "go-tuned", "go-best"}


# --- verdicts ---------------------------------------------------------------------------------------------------------


def test_a_verdict_judges_the_median_of_ratios() -> None:
    target = Target("cpu_ms", "CPU", "ms", 7, {"go-tuned": 0.75}, at={"5000": {"go-tuned": 0.5}})
    pairs = records.pairs([*pair_of(1, 2), *pair_of(6, 10, number=1), *pair_of(60, 100, n=5000)])
    small, big = verdict(target, pairs, "go-tuned", 300), verdict(target, pairs, "go-tuned", 5000)
    assert small is not None
    assert big is not None
    assert (small.ratio, small.aim, small.met, small.outcome) == (Spread(0.55, 0.5, 0.6, 2), 0.75, True, "ahead")
    assert (big.aim, big.met) == (0.5, False)
    assert verdict(target, pairs, "go-best", 300) is None


def test_more_is_better_where_the_target_says_so() -> None:
    target = Target("cpu_ms", "rate", "/s", 2, {"go-tuned": 1.3}, better="higher")
    judged = verdict(target, records.pairs(pair_of(15, 10)), "go-tuned", 300)
    assert judged is not None
    assert (judged.met, judged.outcome) == (True, "ahead")


@pytest.mark.parametrize(
    ("ours", "theirs", "outcome"), ((0, 66, "ahead"), (3, 0, "behind"), (0, 0, "tie"), (1, 1.04, "tie"))
)
def test_zero_is_compared_too(ours: float, theirs: float, outcome: str) -> None:
    judged = verdict(Target("cpu_ms", "", "", 6, {}), records.pairs(pair_of(ours, theirs)), "go-tuned", 300)
    assert judged is not None
    assert judged.outcome == outcome


def test_every_target_is_measured_and_against_known_peers() -> None:
    phases = (BENCH / "phases.py").read_text(encoding="utf-8")
    measured = set(re.findall(r'metrics\["(\w+)"\]', phases))
    measured |= {f"{phase}_{what}" for phase in ("drift", "scale") for what in ("p50_ms", "p99_ms", "writes")}
    measured |= {"create_writes", "failover_sigterm_s", "failover_sigkill_s"}
    for target in read_targets():
        assert target.metric in measured
        assert {*target.targets, *(peer for at in target.at.values() for peer in at)} <= {*PEERS, plan.FLOOR}


# --- limits -----------------------------------------------------------------------------------------------------------


def test_a_request_without_a_limit_is_too_much() -> None:
    allowed = {"create services": 1.0}
    assert too_many_requests({"create services": 20}, allowed, 20) == []
    assert too_many_requests({"create services": 21}, allowed, 20) == [
        "create services: 1.05 a resource (21 for 20), allowed are 1"
    ]
    assert too_many_requests({"get pods": 1}, allowed, 20) == ["get pods: 0.05 a resource (1 for 20), allowed are 0"]


def test_a_figure_without_a_limit_is_too_much() -> None:
    assert above({"a": 10.0}, {"a": 10.0}, "bytes") == []
    assert above({"b": 10.0}, {"a": 10.0}, "bytes") == ["b: 10 bytes, allowed are 0"]


def test_the_limits_are_those_of_what_is_checked() -> None:
    limits = Limits.read()
    assert set(limits.requests) == {"start", "create", "scale", "repair", "restart", "idle", "delete"}
    hot_path = (BENCH / "hot_path.py").read_text(encoding="utf-8")
    assert [name for name in limits.instructions if f'"{name}"' not in hot_path] == []


# --- the page ---------------------------------------------------------------------------------------------------------


def test_a_plot_is_well_formed_and_has_every_line() -> None:
    axis = plots.Axis("resources", logarithmic=True)
    drawing = plots.line_plot("a < b", axis, plots.Axis("ms"), {"ours": [(100, 1), (1000, 2)], "go-tuned": [(0, 1)]})
    svg = ET.fromstring(drawing)  # noqa: S314 - our own words
    lines = svg.findall("{http://www.w3.org/2000/svg}polyline")
    assert [len(line.attrib["points"].split()) for line in lines] == [2, 0]


def test_the_page_says_when_runs_were_noisy() -> None:
    machine = {"processor": "p", "cores": 2, "memory_gib": 8, "kernel": "6", "python": "3.11"}
    quiet = pair_of(1, 2, machine=machine)
    noisy = [dataclasses.replace(quiet[0], noisy=True), quiet[1]]
    assert "claim nothing" not in report.render(quiet, records.pairs(quiet), [])
    page = report.render(noisy, records.pairs(noisy), ["x.svg"])
    assert "**1 of 2 runs were disturbed" in page
    assert "| 7. Operator's CPU a resource made ready | 1 ms | 2 ms | 0.50 | ≤ 1 | yes | ahead |" in page
    assert "![x.svg](x.svg)" in page
