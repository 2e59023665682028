"""Progress of slow steps with the time each has taken: live on a terminal that has rich, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TextIO

try:
    from rich.console import Console
    from rich.status import Status

    _RICH = True
except ImportError:  # the demo has to run before anything is installed
    _RICH = False

QUIET_SECONDS = 10.0


class Step:
    """One step that runs: call `update` as often as you like, it decides what is worth showing."""

    def __init__(self, label: str, stream: TextIO, status: "Status | None") -> None:
        self._label = label
        self._stream = stream
        self._status = status
        self._began = time.monotonic()
        self._printed = self._began

    @property
    def seconds(self) -> float:
        """Return how long the step has run."""
        return time.monotonic() - self._began

    def update(self, detail: str = "") -> None:
        """Show the elapsed seconds and `detail`: at once on a terminal, else one line every 10 seconds."""
        text = f"{self._label}  {self.seconds:.0f} s" + (f"  {detail}" if detail else "")
        if self._status is not None:
            self._status.update(text)
        elif time.monotonic() - self._printed >= QUIET_SECONDS:
            self._printed = time.monotonic()
            print(text, file=self._stream, flush=True)


def note(line: str, stream: TextIO | None = None) -> None:
    """Print one line of information beside the progress, to stderr by default."""
    print(line, file=stream or sys.stderr, flush=True)


@contextmanager
def step(label: str, stream: TextIO | None = None) -> Iterator[Step]:
    """Show `label` while the block runs and `label  N s` when it is done; nothing more when it raises."""
    stream = stream or sys.stderr
    live: AbstractContextManager[Status | None] = nullcontext()
    if _RICH and stream.isatty():
        live = Console(file=stream).status(label)
    else:
        print(f"{label} ...", file=stream, flush=True)
    with live as status:
        running = Step(label, stream, status)
        yield running
    print(f"{label}  {running.seconds:.1f} s", file=stream, flush=True)
