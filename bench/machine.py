"""How much of the machine others take: a race on a machine that works for somebody else measures that somebody.

Linux only: /proc/stat and /proc/PID/stat.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from controlplane import processes

QUIET_CORES = 0.10
"""Others may take so much of one core before a run is refused."""
LOOK_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Sample:
    """Busy seconds of all cores since the machine's start, those of some processes since theirs, and the time."""

    busy: float
    ours: float
    time: float


def sample(pids: Iterable[int]) -> Sample:
    """Look at the machine and at the processes `pids`; those that are gone count nothing."""
    fields = [int(word) for word in Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:]]
    user, nice, system, *_, steal = fields[:8]
    # Without interrupts: the kernel does the network's work in them, and books it on no process.
    busy = (user + nice + system + steal) / os.sysconf("SC_CLK_TCK")
    usages = [processes.usage(pid) for pid in pids]
    children = os.times().children_user + os.times().children_system  # the load driver, once it has ended
    return Sample(busy, children + sum(usage.cpu_seconds for usage in usages if usage), time.monotonic())


def cores_of_others(before: Sample, after: Sample) -> float:
    """Cores that were busy with none of the processes looked at, e.g. 0.25; never negative."""
    others = (after.busy - before.busy) - (after.ours - before.ours)
    return max(0.0, others / (after.time - before.time))


def look(pids: Callable[[], Iterable[int]], seconds: float = LOOK_SECONDS) -> float:
    """Cores that others take now, seen for some seconds."""
    watched = list(pids())
    before = sample(watched)
    time.sleep(seconds)  # a share of time takes time to see
    return cores_of_others(before, sample(watched))


def description() -> dict[str, str | int | float]:
    """What a reader has to know to judge a figure: processor, cores, memory, kernel, Python."""
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("model name")
    ]
    memory = Path("/proc/meminfo").read_text(encoding="ascii").split()[1]
    return {
        "processor": models[0] if models else platform.machine(),
        "cores": os.cpu_count() or 0,
        "memory_gib": round(int(memory) / 2**20, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }
