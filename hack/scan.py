"""`make scan`: hadolint and checkov over the Dockerfiles, checkov over all that people install, rendered.

Every finding is mended, or has its reason in hack/scan.yaml; a reason that no finding needs any more fails too. Exit
code 1 and a list when something is left.
"""

from __future__ import annotations

import fnmatch
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import shipped

ENVIRONMENTS = shipped.REPOSITORY / ".cache" / "env"
REASONS = shipped.REPOSITORY / "hack" / "scan.yaml"


@dataclass(frozen=True)
class Finding:
    """What a scanner says. `place` is `file: resource`, the resource as checkov names it (Deployment.SPACE.NAME)."""

    check: str
    place: str
    text: str


@dataclass(frozen=True)
class Reason:
    """Why findings stay. `place` is a shell pattern."""

    check: str
    place: str
    reason: str

    def covers(self, finding: Finding) -> bool:
        """Whether it speaks of this finding."""
        return self.check == finding.check and fnmatch.fnmatchcase(finding.place, self.place)


def dockerfiles() -> list[str]:
    """The Dockerfiles at the root of the repository."""
    return sorted(path.name for path in shipped.REPOSITORY.glob("*Dockerfile"))


def render(folder: Path) -> None:
    """Write all that people install into a folder, one file a variant."""
    for name, make in shipped.outputs().items():
        (folder / f"{name.replace('/', '-').replace(' ', '_')}.yaml").write_text(make(), encoding="utf-8")


def hadolint() -> list[Finding]:
    """Findings of hadolint in the Dockerfiles."""
    program = str(ENVIRONMENTS / "hadolint" / "bin" / "hadolint")
    told = _output([program, "--no-fail", "--format", "json", *dockerfiles()])
    return [Finding(item["code"], f"{item['file']}: line {item['line']}", item["message"]) for item in json.loads(told)]


def checkov(*arguments: str) -> list[Finding]:
    """Findings of checkov, run with these arguments. Raises ToolError when there is a file that it cannot read."""
    program = str(ENVIRONMENTS / "checkov" / "bin" / "checkov")
    report = json.loads(_output([program, "--skip-download", "--soft-fail", "--output", "json", *arguments]))
    if "results" not in report:
        raise shipped.ToolError(f"checkov {' '.join(arguments)}: found nothing to read")
    results: dict[str, Any] = report["results"]
    if results["parsing_errors"]:
        raise shipped.ToolError(f"checkov {' '.join(arguments)}: cannot read {results['parsing_errors']}")
    return [
        Finding(found["check_id"], f"{found['file_path'].lstrip('/')}: {found['resource']}", found["check_name"])
        for found in results["failed_checks"]
    ]


def judge(findings: Iterable[Finding], reasons: Sequence[Reason]) -> tuple[list[str], list[str]]:
    """What stays for a reason, and what may not stay: findings without a reason and reasons without a finding."""
    stays: dict[Reason, int] = dict.fromkeys(reasons, 0)
    wrong = []
    for finding in findings:
        reason = next((reason for reason in reasons if reason.covers(finding)), None)
        if reason is None:
            wrong.append(f"{finding.check} {finding.place}: {finding.text}")
        else:
            stays[reason] += 1
    kept = [f"{reason.check} {reason.place} ({count}): {reason.reason}" for reason, count in stays.items() if count]
    idle = [f"{reason.check} {reason.place}: no finding" for reason, count in stays.items() if not count]
    return kept, wrong + idle


def main() -> int:
    """Scan everything; 0 when nothing is left to mend."""
    try:
        # Not in .cache: checkov leaves out what is hidden.
        with tempfile.TemporaryDirectory() as folder:
            render(Path(folder))
            findings = checkov("--framework", "kubernetes", "--directory", folder)
        findings += [*hadolint(), *checkov("--framework", "dockerfile", "--file", *dockerfiles())]
    except shipped.ToolError as error:
        print(error, file=sys.stderr)
        return 1
    reasons = [Reason(**entry) for entry in yaml.safe_load(REASONS.read_text(encoding="utf-8"))]
    stays, wrong = judge(findings, reasons)
    print("stays, with its reason:", *stays, sep="\n  ")
    print(*(["left:", *wrong] if wrong else [f"{len(findings)} findings, all with a reason"]), sep="\n  ")
    return 1 if wrong else 0


def _output(command: list[str]) -> str:
    done = subprocess.run(command, cwd=shipped.REPOSITORY, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise shipped.ToolError(f"{Path(command[0]).name}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    raise SystemExit(main())
