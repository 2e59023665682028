"""Where the embedded control planes and their programs live on this machine."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
TOOLS = REPOSITORY / "hack" / "tools"


def home() -> Path:
    """Return the folder for programs and clusters: `CONTROLPLANE_HOME`, else `.cache/controlplane` of this clone.

    It is made when absent, and git ignores what is in it wherever it is.
    """
    chosen = os.environ.get("CONTROLPLANE_HOME")
    folder = Path(chosen).expanduser().resolve() if chosen else REPOSITORY / ".cache" / "controlplane"
    folder.mkdir(parents=True, exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
    return folder


@contextmanager
def locked(path: Path, waiting: str = "") -> Iterator[None]:
    """Hold the lock file `path` against other processes; print the line `waiting` once if another holds it.

    The lock ends with the process that holds it, however that ends, so none is ever left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            flock(file, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            if waiting:
                print(waiting, flush=True)
            flock(file, LOCK_EX)
        try:
            yield
        finally:
            flock(file, LOCK_UN)
