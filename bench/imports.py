"""`python -m bench.imports`: what the operator's start is made of, its dearest imports first.

Times are those of CPython's own `-X importtime`, the median of several starts with warm byte code. A module's time is
its own, without that of what it imports.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
from collections import defaultdict

STARTS = 5
SHOWN = 20
_LINE = re.compile(r"import time:\s+(\d+) \|\s+(\d+) \|\s+(\S+)")


def own_times(report: str) -> dict[str, int]:
    """Module -> microseconds, from what `-X importtime` writes."""
    return {found[3]: int(found[1]) for line in report.splitlines() if (found := _LINE.match(line))}


def main() -> int:
    """Print the table."""
    times: dict[str, list[int]] = defaultdict(list)
    command = [sys.executable, "-X", "importtime", "-c", "import memcached_operator.app"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(STARTS + 1):
        report = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stderr
        for module, own in own_times(report).items():
            times[module].append(own)
    # Without the first, which may have had to compile.
    medians: dict[str, float] = {module: statistics.median(found[1:] or found) for module, found in times.items()}
    packages: dict[str, float] = defaultdict(float)
    for module, microseconds in medians.items():
        packages[module.partition(".")[0]] += microseconds
    print(f"{len(medians)} modules, {sum(medians.values()) / 1000:.0f} ms; by package:")
    for name, figures in (("package", packages), ("module", medians)):
        print(f"{name:60} {'ms':>8}")
        for module, microseconds in sorted(figures.items(), key=lambda item: -item[1])[:SHOWN]:
            print(f"{module:60} {microseconds / 1000:8.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
