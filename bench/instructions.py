"""How many machine instructions the hot path takes, counted by valgrind: the same number on a busy machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from controlplane.paths import REPOSITORY

HOT_PATH = Path(__file__).resolve().with_name("hot_path.py")
SOURCES = (REPOSITORY / "operator", REPOSITORY / "operator" / "tests" / "fakes")
NOTHING = "nothing"


def available() -> bool:
    """Tell whether this machine has valgrind."""
    return shutil.which("valgrind") is not None


def count(timeout: float = 300) -> dict[str, float]:
    """Instructions of one execution of each operation of hot_path.py.

    Raises subprocess.SubprocessError when valgrind, or what it ran, failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
        done = subprocess.run(
            [*command, f"--log-file={folder}/log.%p", sys.executable, str(HOT_PATH)],
            # Hashes of strings decide how often a dict has to look twice.
            env={"PATH": os.environ["PATH"], "PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(map(str, SOURCES))},
            check=True,
            capture_output=True,
            timeout=timeout,
        )
        children = json.loads(done.stdout)
        totals = {name: _total((Path(folder) / f"log.{pid}").read_text()) for name, pid in children["pids"].items()}
    return per_execution(totals, children["repeats"])


def per_execution(totals: Mapping[str, int], repeats: int) -> dict[str, float]:
    """Instructions of one repetition: the common start, which the child that did nothing counted too, is left out."""
    return {name: (total - totals[NOTHING]) / repeats for name, total in totals.items() if name != NOTHING}


def _total(log: str) -> int:
    found = re.search(r"I +refs: +([\d,]+)", log)
    if found is None:
        raise subprocess.SubprocessError(f"valgrind counted nothing:\n{log[-2000:]}")
    return int(found[1].replace(",", ""))
