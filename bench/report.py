"""JSON lines -> a page: tables of ratios with their least and greatest, plots, and what was measured on what."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import plan, plots, records
from bench.contestants import CONTESTANTS, PEERS
from bench.distribution import slope
from bench.limits import COSTS
from bench.records import Pair, Record
from bench.verdicts import Verdict, medians, read_targets, verdict
from controlplane.paths import REPOSITORY
from controlplane.progress import note

RESULTS = REPOSITORY / "bench" / "results.jsonl"
FINDINGS = REPOSITORY / "bench" / "findings.md"
PAGE = REPOSITORY / "docs" / "performance.md"
GROWTH = (("cpu_ms", "CPU a resource, ms"), ("rss_mib", "Memory, MiB"))
MARKS = {"ahead": "ahead", "tie": "tie", "behind": "**behind**"}

INTRODUCTION = """\
# Performance

The operator against operators that do the same job: the one of the well-known Go tutorial on controller-runtime, as it
stands (`go-default`), with ten workers (`go-tuned`), with every advice taken (`go-best`); and one written as kopf's
tutorial writes it (`kopf-idiom`). All own a Deployment and a Service for each resource. `make bench` repeats a part of
it in minutes, `make bench-full` all of it in hours; [bench/](../bench/README.md) says how.

A ratio is ours / theirs, of two runs one after the other on one control plane: the median over the pairs, and in
brackets the least and the greatest. Ratios hold on other machines, single figures do not.
"""


def write(found: Sequence[Record], page: Path) -> None:
    """Write the page and, in a folder of its name, its plots; print the table of verdicts. Raises OSError."""
    pairs = records.pairs(found)
    if not pairs:
        note("there is no complete pair to report")
        return
    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    drawings = dict(_drawings(found))
    for name, drawing in drawings.items():
        (folder / f"{name}.svg").write_text(drawing, encoding="utf-8")
    page.write_text(render(found, pairs, [f"{folder.name}/{name}.svg" for name in drawings]), encoding="utf-8")
    for line in _tables(found, pairs):
        print(line)
    print(f"written: {page}, {len(drawings)} plots in {folder}")


def render(found: Sequence[Record], pairs: Sequence[Pair], drawings: Sequence[str]) -> str:
    """The page's text."""
    lines = [INTRODUCTION, *_surroundings(found), "", *_tables(found, pairs), *_growth(found)]
    lines += [f"![{drawing}]({drawing})\n" for drawing in drawings]
    lines += [*_costs(), FINDINGS.read_text(encoding="utf-8")]
    return "\n".join(lines).rstrip() + "\n"


def _surroundings(found: Sequence[Record]) -> Iterator[str]:
    machines = {tuple(sorted(record.machine.items())) for record in found}
    for machine in machines:
        facts = dict(machine)
        commits = ", ".join(sorted({record.commit for record in found}))
        yield (
            f"Machine: {facts['processor']}, {facts['cores']} cores, {facts['memory_gib']} GiB; "
            f"Linux {facts['kernel']}, Python {facts['python']}. Commits: {commits}."
        )
    noisy = sum(record.noisy for record in found)
    if noisy:
        share = f"{noisy} of {len(found)}"
        yield f"\n**{share} runs were disturbed by other work on the machine: their figures claim nothing.**"


def _tables(found: Sequence[Record], pairs: Sequence[Pair]) -> Iterator[str]:
    targets = read_targets()
    for n in sorted({pair.ours.n for pair in pairs}, reverse=True):
        for peer in PEERS:
            judged = [v for target in targets if (v := verdict(target, pairs, peer, n)) is not None]
            if not judged:
                continue
            count = max(v.ratio.count for v in judged if v.ratio)
            yield f"## {n:,} resources against {peer}\n"
            yield f"{count} pair{'s' if count > 1 else ''}. {_summary(judged)}\n"
            yield "| metric | ours | " + peer + " | ratio | aim | met | |"
            yield "|---|---|---|---|---|---|---|"
            yield from (_row(v) for v in judged)
            yield ""
        yield from _floor(found, n)


def _summary(judged: Sequence[Verdict]) -> str:
    counts = {word: sum(v.outcome == word for v in judged) for word in MARKS}
    aims = [v.met for v in judged if v.met is not None]
    return ", ".join(f"{word} on {count}" for word, count in counts.items()) + f"; {sum(aims)} of {len(aims)} aims met."


def _row(judged: Verdict) -> str:
    target = judged.target
    unit = f" {target.unit}" if target.unit else ""
    ratio = f"{judged.ratio.median:.2f}" if judged.ratio else "-"
    if judged.ratio and judged.ratio.count > 1:
        ratio += f" [{judged.ratio.low:.2f}, {judged.ratio.high:.2f}]"
    aim = "" if judged.aim is None else f"{'≥' if target.better == 'higher' else '≤'} {judged.aim:g}"
    met = {None: "", True: "yes", False: "**no**"}[judged.met]
    cells = [f"{target.number}. {target.title}", f"{judged.ours:.3g}{unit}", f"{judged.theirs:.3g}{unit}"]
    return "| " + " | ".join([*cells, ratio, aim, met, MARKS[judged.outcome]]) + " |"


def _costs() -> Iterator[str]:
    """What `make bench-check` counted."""
    if not COSTS.exists():
        return
    yield "## What every build is held to\n"
    yield "Counted by `make bench-check`, which times nothing. Requests are a resource's, or the operator's.\n"
    yield "| what | |"
    yield "|---|---|"
    for name, figure in json.loads(COSTS.read_text(encoding="utf-8")).items():
        yield f"| {name} | {figure:,g} |" if figure < 1000 else f"| {name} | {figure:,.0f} |"
    yield ""


def _floor(found: Sequence[Record], n: int) -> Iterator[str]:
    """All ready, as a multiple of the bare writes."""
    floors = [r.metrics for r in found if (r.operator, r.n) == (plan.FLOOR, n)]
    if not floors:
        return
    ready = statistics.median(metrics["ready_s"] for metrics in floors)
    write_ms = statistics.median(metrics["write_p50_ms"] for metrics in floors)
    times = [
        f"{name} {medians(found, name, 'ready_s')[n] / ready:.2f}"
        for name in CONTESTANTS
        if n in medians(found, name, "ready_s")
    ]
    yield (
        f"The same writes without any operator: {n:,} resources are ready after {ready:.1f} s; as multiples of it: "
        f"{', '.join(times)}. A lone write takes {write_ms:.1f} ms.\n"
    )


def _growth(found: Sequence[Record]) -> Iterator[str]:
    """Exponents of growth with the number of resources."""
    rows = []
    for name in CONTESTANTS:
        cpu = {n: value * n for n, value in medians(found, name, "cpu_ms").items()}
        empty, full = medians(found, name, "rss_empty_mib"), medians(found, name, "rss_mib")
        memory = {n: full[n] - empty[n] for n in full}
        slopes = [slope(cpu), slope(memory)]
        if any(value is not None for value in slopes):
            cells = ["-" if value is None else f"{value:.2f}" for value in slopes]
            rows.append(f"| {name} | {' | '.join(cells)} |")
    if rows:
        yield "## Growth\n"
        yield "Exponents k of n^k for n resources: 1 is proportional. Memory is that beyond an empty cluster's.\n"
        yield "| | CPU | memory |"
        yield "|---|---|---|"
        yield from rows
        yield ""


def _drawings(found: Sequence[Record]) -> Iterator[tuple[str, str]]:
    for n in sorted({record.n for record in found}):
        lines = {name: _latency(found, name, n) for name in CONTESTANTS}
        lines = {name: line for name, line in lines.items() if line}
        if lines:
            title = f"Memcached to Deployment, {n:,} created in a burst"
            x, y = plots.Axis("milliseconds", logarithmic=True), plots.Axis("share of resources")
            yield f"latency-{n}", plots.line_plot(title, x, y, lines)
    for metric, label in GROWTH:
        lines = {name: list(medians(found, name, metric).items()) for name in CONTESTANTS}
        lines = {name: line for name, line in lines.items() if len(line) > 1}
        if lines:
            x, y = plots.Axis("resources", logarithmic=True), plots.Axis(label, logarithmic=True)
            yield metric.replace("_", "-"), plots.line_plot(label, x, y, lines)


def _latency(found: Sequence[Record], operator: str, n: int) -> list[tuple[float, float]]:
    """Latency -> share of resources, of the median run of an operator."""
    runs = [r for r in found if (r.operator, r.n) == (operator, n) and r.latencies.get("create")]
    if not runs:
        return []
    middle = sorted(runs, key=lambda record: record.latencies["create"][50])[len(runs) // 2]
    return [(latency, share / 100) for share, latency in enumerate(middle.latencies["create"])]
