"""The programs in Go that the race needs, built once from bench/peers."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from controlplane.paths import REPOSITORY
from controlplane.progress import step

PEERS = Path(__file__).resolve().with_name("peers")
FOLDER = REPOSITORY / ".cache" / "bench" / "bin"
NAMES = ("go-peer", "loader")


class BuildError(RuntimeError):
    """Go is missing, or the build failed; the text says what the user can do."""


def built(name: str) -> Path:
    """Return where the program of bench/peers/`name` is, or will be once `build_all` has run: new source, new name."""
    digest = hashlib.sha256()
    for file in sorted((PEERS / name).glob("*.*")):
        digest.update(file.read_bytes())
    return FOLDER / f"{name}-{digest.hexdigest()[:12]}"


def build_all() -> None:
    """Build what is not built yet. Raises BuildError."""
    for name in NAMES:
        if built(name).exists():
            continue
        go = _go()
        with step(f"go build bench/peers/{name}"):
            FOLDER.mkdir(parents=True, exist_ok=True)
            partial = built(name).with_suffix(".part")
            done = subprocess.run(
                [go, "build", "-trimpath", "-o", str(partial), "."],
                cwd=PEERS / name,
                env={**os.environ, "CGO_ENABLED": "0"},
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                raise BuildError(f"go build of bench/peers/{name} ended with {done.returncode}:\n{done.stderr[-2000:]}")
            partial.replace(built(name))


def _go() -> str:
    found = subprocess.run(
        [str(REPOSITORY / "hack" / "tool"), "go"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if found.returncode != 0:
        raise BuildError(found.stderr.strip())
    return found.stdout.strip()
