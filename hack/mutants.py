"""`make e2e-mutants`: ten operators, each with one mistake, and the end-to-end test that turns red for it.

Exit code 1 when a mutant passes its suite: then a test is missing. The cluster is the one of `make e2e`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from mutation import Mutant

REPOSITORY = Path(__file__).resolve().parent.parent
INSTALLED = "/opt/memcached-operator/lib/python3.*/site-packages/memcached_operator"
IMAGE = "example.com/memcached-operator"
PATIENCE = 45
"""Seconds that a test waits for what a mutant may never do."""


@dataclass(frozen=True)
class Suited(Mutant):
    """A mutant, and the end-to-end suite that must notice it."""

    suite: str = "manifests"


MUTANTS = (
    Suited(
        "wrong owner reference",
        "resources/ownership.py",
        '"uid": memcached.uid,\n        "controller"',
        '"uid": memcached.uid[::-1],\n        "controller"',
    ),
    Suited("no drift repair", "controller/plan.py", "difference = covers(manifest, body)", "difference = None"),
    Suited(
        "status written each time",
        "controller/reconciler.py",
        "if wait is None or (wait > 0 and not news):",
        "if wait is not None and wait > 0 and not news:",
    ),
    Suited(
        "finalizer never removed", "controller/apply.py", "await self._release(memcached)", "return bool(memcached)"
    ),
    Suited("wrong memory argument", "memcached/args.py", "str(spec.memory)", "str(spec.memory // 2)"),
    Suited("UDP on", "memcached/args.py", '("-U", "0")', '("-U", "11211")'),
    Suited(
        "lease not released",
        "runtime/election.py",
        "leading, self.state = self.state is Lead.LEADING, Lead.RELEASED",
        "leading, self._unsure, self.state = False, False, Lead.RELEASED",
        suite="ha",
    ),
    Suited(
        "selector too wide", "resources/service.py", "dict(selector_labels(memcached.name))", '{"app": "memcached"}'
    ),
    Suited(
        "image default ignored",
        "resources/deployment.py",
        "memcached.spec.image or default_image",
        'memcached.spec.image or "docker.io/library/memcached:latest"',
    ),
    Suited(
        "events dropped",
        "runtime/events.py",
        "if not self._take_token(regarding.uid, now):",
        "if self._take_token(regarding.uid, now):",
        suite="api-conformance",
    ),
)


def main() -> int:
    """Run each mutant against its suite; return 0 when all were noticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only these mutants")
    names = parser.parse_args().names
    tool = os.environ.get("CONTAINER_TOOL", "docker")
    subprocess.run(["make", "--no-print-directory", "docker-build", f"IMG={IMAGE}:e2e"], cwd=REPOSITORY, check=True)
    print(f"\n{'mutant':<26}{'suite':<17}{'s':>4}  red by", flush=True)
    missed = 0
    for number, mutant in enumerate(MUTANTS, 1):
        if names and mutant.name not in names:
            continue
        begin = time.monotonic()
        red = noticed_by(mutant, build(tool, mutant, number))
        missed += not red
        took = time.monotonic() - begin
        print(f"{mutant.name:<26}{mutant.suite:<17}{took:>4.0f}  {red or 'NOTHING: it passed'}", flush=True)
    return 1 if missed else 0


def build(tool: str, mutant: Suited, number: int) -> str:
    """The image with the mistake in it, on top of the right one. Its name."""
    image = f"{IMAGE}:mutant-{number}-{int(time.time())}"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "mutant.py").write_text(mutant.source(), encoding="utf-8")
        # The image's bytecode is not compared with its source.
        Path(folder, "Dockerfile").write_text(
            f"FROM {IMAGE}:e2e\nUSER 0\nCOPY mutant.py /tmp/mutant.py\n"
            f"RUN for package in {INSTALLED}; do cp /tmp/mutant.py $package/{mutant.file} && "
            f"python -m compileall -q -f --invalidation-mode unchecked-hash $package/{mutant.file}; done\n"
            "USER 65532:65532\n",
            encoding="utf-8",
        )
        subprocess.run([tool, "build", "-q", "-t", image, folder], check=True, capture_output=True)
    return image


def noticed_by(mutant: Suited, image: str) -> str:
    """Name of the first test of the mutant's suite that fails, "" when all pass."""
    environment = {**os.environ, "E2E_IMAGE": image, "E2E_PATIENCE": str(PATIENCE)}
    make = shutil.which("make") or "make"
    command = [make, "--no-print-directory", "e2e", f"E2E={mutant.suite}", "ARGS=-x -q"]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    red = re.search(r"^(?:FAILED|ERROR) \S+::(\S+)", done.stdout, re.MULTILINE)
    if done.returncode and not red:
        sys.exit(f"{mutant.name}: the suite did not run\n{done.stdout}{done.stderr}")
    return red[1] if red else ""


if __name__ == "__main__":
    sys.exit(main())
