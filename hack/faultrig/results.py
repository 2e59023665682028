"""What the rig found out: one JSON line a case, appended; the last line of a case counts."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from controlplane.paths import REPOSITORY

FILE = Path(os.environ.get("FAULTS_RESULTS", REPOSITORY / ".cache" / "faults" / "results.jsonl"))


@dataclass(frozen=True)
class Result:
    """One run of one case. `faults`: requests and lines that a rule struck, and kills. `wrong` is "" when it passed."""

    case: str
    commit: str
    passed: bool
    seconds: float
    faults: int = 0
    kills: int = 0
    wrong: str = ""
    figures: dict[str, float | str] = field(default_factory=dict)


def append(result: Result, file: Path = FILE) -> None:
    """Add one line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(dataclasses.asdict(result)) + "\n")


def load(file: Path = FILE) -> list[Result]:
    """All of them in their order; none when there is no file."""
    if not file.exists():
        return []
    return [Result(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]


def latest(results: Iterable[Result]) -> dict[str, Result]:
    """The last of each case."""
    return {result.case: result for result in results}


def commit() -> str:
    """The commit that is checked out, with `+` where the operator or the rig differ from it."""
    git = ["git", "-C", str(REPOSITORY)]
    head = subprocess.run([*git, "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True, check=True)
    paths = ["operator", "hack/faultrig", "config/crd"]
    changed = subprocess.run([*git, "status", "--porcelain", "--", *paths], capture_output=True, text=True, check=True)
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")
