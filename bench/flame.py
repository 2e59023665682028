"""`make bench-flame`: where the operator's CPU goes while resources are created, as an SVG. Needs py-spy on PATH."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from bench import phases, programs
from bench.contestants import OURS
from bench.report import PAGE
from bench.rig import started
from controlplane import binaries
from controlplane.progress import note, step

HERTZ = 200
SVG = PAGE.with_suffix("") / "flame.svg"


def main() -> int:
    """Record the load of N resources; return 1 without py-spy."""
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
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    logs = programs.FOLDER.parent / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    command = [spy, "record", "--rate", str(HERTZ), "--threads", "--output", str(arguments.output), "--pid"]
    with started(f"flame-{os.getpid()}", logs, lambda _: False) as rig, rig.start(OURS) as running:
        phases.settle(running)
        with (
            step(f"{arguments.n} resources"),
            subprocess.Popen([*command, str(running.pid)], stdout=subprocess.DEVNULL) as recording,
        ):
            rig.drive("load", arguments.n, "flame", 120 + arguments.n / 5, size=1)
            phases.settle(running)
            running.stop()
            recording.wait(60)  # it writes what it has when the operator ends
    print(f"written: {arguments.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
