"""`make bench-flame`: where the operator's CPU goes while resources are created, as an SVG and by package.

Needs py-spy on PATH (a sampling profiler for Python that attaches to a process).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from bench import phases, plots, programs
from bench.contestants import OURS
from bench.report import PAGE
from bench.rig import started
from controlplane import binaries
from controlplane.progress import note, step

HERTZ = 100
SVG = PAGE.with_suffix("") / "flame.svg"
Stack = tuple[str, ...]
STANDARD = "Python"
_FRAME = re.compile(r"(?P<function>.+) \((?P<file>[^()]*?)(?::\d+)?\)$")


def read_stacks(folded: str) -> dict[Stack, int]:
    """Stack, outermost frame first -> samples, from py-spy's raw format: `frame;frame;frame COUNT` a line."""
    stacks: Counter[Stack] = Counter()
    for line in folded.splitlines():
        frames, _, count = line.rpartition(" ")
        stacks[tuple(frames.split(";"))] += int(count)
    return dict(stacks)


def package_of(frame: str) -> str:
    """`kopf` for `worker (kopf/_core/reactor/queueing.py:249)`; `Python` for the standard library and its like."""
    found = _FRAME.match(frame)
    if found is None or "/" not in found["file"]:
        return STANDARD
    # py-spy shortens paths to what follows the folder of an import path.
    name = found["file"].partition("/")[0]
    return name if name not in {"asyncio", "json", "logging", "concurrent", "importlib"} else STANDARD


def shares(stacks: Mapping[Stack, int]) -> dict[str, tuple[float, float]]:
    """Package -> share of the samples in which it runs itself, and of those in which it is on the stack at all."""
    total = sum(stacks.values())
    own: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    for stack, count in stacks.items():
        own[package_of(stack[-1])] += count
        for package in {package_of(frame) for frame in stack}:
            inside[package] += count
    return {package: (own[package] / total, inside[package] / total) for package, _ in inside.most_common()}


def record(spy: str, n: int) -> dict[Stack, int]:
    """Samples of the operator from the first of n resources to the last one ready."""
    logs = programs.FOLDER.parent / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    raw = logs / "flame.txt"
    # Samples of who holds the interpreter: a loop that waits looks busy to py-spy where it cannot read its system call.
    # And without stopping it for each of them, which would be most of what it does.
    command = [spy, "record", "--rate", str(HERTZ), "--format", "raw", "--threads", "--gil", "--nonblocking"]
    with started(f"flame-{os.getpid()}", logs, lambda _: False) as rig, rig.start(OURS) as running:
        phases.settle(running)
        with (
            step(f"{n} resources"),
            subprocess.Popen(
                [*command, "--output", str(raw), "--pid", str(running.pid)], stdout=subprocess.DEVNULL
            ) as recording,
        ):
            rig.drive("load", n, "flame", 120 + n / 5, size=1)
            running.stop()
            recording.wait(60)  # it writes what it has when the operator ends
    return read_stacks(raw.read_text(encoding="utf-8"))


def main() -> int:
    """Record, draw, and print the shares; return 1 without py-spy."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.flame")
    parser.add_argument("--n", type=int, default=300, help="resources")
    parser.add_argument("--output", type=Path, default=SVG)
    arguments = parser.parse_args()
    spy = shutil.which("py-spy")
    if spy is None:
        note("py-spy: not found. One way to get it: pip install py-spy")
        return 1
    programs.build_all()
    binaries.ensure()
    stacks = record(spy, arguments.n)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    title = f"The operator's CPU while {arguments.n} Memcacheds are created: {sum(stacks.values())} samples"
    arguments.output.write_text(plots.flame_graph(title, stacks), encoding="utf-8")
    print(f"{'package':24} {'itself':>8} {'on the stack':>14}")
    for package, (own, inside) in shares(stacks).items():
        if inside >= 0.01:
            print(f"{package:24} {own:8.1%} {inside:14.1%}")
    print(f"written: {arguments.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
