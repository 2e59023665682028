"""The demo's terminal: colour, a spinner and a drawn table on a real one, plain text of 80 columns anywhere else."""

import os
import re
import sys
import textwrap
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

PLAIN_WIDTH = 80
_MOMENT = 0.3  # seconds: a spinner that flashes up is worse than none
_WIDEST = 100  # of headlines and prose: longer lines are hard to read
_NARROWEST_COLUMN = 30
_COLUMNS = ("", "step", "what was shown", "time", "verdict")
_NUMBERS = ("", "time")
_STYLES = {"ok": "bold green", "FAILED": "bold red", "not run": "yellow"}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the closing table; `seconds` is None for a step that did not run."""

    title: str
    shown: str
    seconds: float | None
    verdict: str


class _Elapsed:
    """A text with the seconds since it was made, which rich renders anew with each turn of a spinner."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._began = time.monotonic()

    def __rich__(self) -> Text:
        return Text(f"{self._text}  {time.monotonic() - self._began:.0f} s", "dim")


class Screen:
    """Prints to `stream`; control characters are sent to a terminal only, and never to a dumb one."""

    def __init__(self, stream: TextIO | None = None) -> None:
        stream = stream or sys.stdout
        self.live = stream.isatty() and os.environ.get("TERM", "") not in {"", "dumb", "unknown"}
        self._console = Console(
            file=stream,
            force_terminal=self.live,
            no_color=None if self.live else True,
            width=None if self.live else PLAIN_WIDTH,
            highlight=False,
            emoji=False,
        )

    @property
    def width(self) -> int:
        """Return the columns that there are."""
        return self._console.width

    def headline(self, text: str) -> None:
        """Begin a step: an empty line, then `text` in a rule."""
        self._print()
        columns = min(self.width, _WIDEST)
        self._print(f"== {text} ".ljust(columns, "=")[:columns], "bold cyan")

    def command(self, command: str) -> None:
        """Show what is typed, as it is: a line too long is the terminal's to wrap, so that it can be copied."""
        self._print(f"$ {command}", "bold")

    def answer(self, text: str) -> None:
        """Show what a program printed, its columns kept apart where a line has to be folded."""
        for line in text.rstrip("\n").splitlines():
            for part in fold(line.rstrip(), self.width):
                self._print(part)

    def note(self, text: str) -> None:
        """Say something that is neither an answer nor a claim."""
        self._prose(text, "", "dim")

    def claim(self, text: str, *, holds: bool, seconds: float) -> None:
        """Show what was proved, or was not, `seconds` after the beginning of the demo."""
        verdict = "ok" if holds else "FAILED"
        self._prose(f"{seconds:6.1f} s  {text}", f"{verdict:<3}", _STYLES[verdict])

    def failure(self, text: str) -> None:
        """Explain a failure."""
        self._prose(text, "   ", "red")

    @contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """Turn a spinner beside `text` while the block runs, unless that is over in a moment."""
        if not self.live:
            yield
            return
        spinner = self._console.status(_Elapsed(text), spinner="line")
        timer = threading.Timer(_MOMENT, spinner.start)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
            spinner.stop()

    def summary(self, rows: Sequence[Row]) -> None:
        """Print the closing table."""
        self._print()
        if not self.live:
            for line in plain_table(rows):
                self._print(line)
            return
        table = Table(box=box.ROUNDED, header_style="bold")
        for name in _COLUMNS:
            table.add_column(name, justify="right" if name in _NUMBERS else "left")
        for row in _cells(rows):
            *cells, verdict = row
            table.add_row(*map(Text, cells), Text(verdict, _STYLES[verdict]))
        self._console.print(table)

    def _print(self, text: str = "", style: str = "") -> None:
        # Not wrapped by rich, which would cut words that the terminal can wrap without harm.
        self._console.print(Text(text, style), soft_wrap=True)

    def _prose(self, text: str, mark: str, style: str) -> None:
        """Print text wrapped between words, hanging behind `mark`; only the mark is coloured if there is one."""
        indent = len(mark) + 1 if mark else 0
        hang = indent + _hang(text)
        lines = textwrap.wrap(
            text,
            min(self.width, _WIDEST),
            initial_indent=" " * indent,
            subsequent_indent=" " * hang,
            break_on_hyphens=False,
        )
        for number, line in enumerate(lines):
            if number or not mark:
                self._console.print(Text(line, style if not mark else ""), soft_wrap=True)
            else:
                self._console.print(Text.assemble((mark, style), line[len(mark) :]), soft_wrap=True)


def plain_table(rows: Sequence[Row]) -> list[str]:
    """Return the closing table as lines of text."""
    cells = [_COLUMNS, *_cells(rows)]
    widths = [max(len(cell) for cell in column) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if name in _NUMBERS else cell.ljust(width)
            for name, cell, width in zip(_COLUMNS, row, widths, strict=True)
        ).rstrip()
        for row in cells
    ]
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]


def _cells(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    return [
        (str(number), row.title, row.shown, "" if row.seconds is None else f"{row.seconds:.1f} s", row.verdict)
        for number, row in enumerate(rows, 1)
    ]


def _hang(text: str) -> int:
    """Return where the words begin behind a time such as `  12.3 s  `; 0 where there is none."""
    match = re.match(r" *[\d.]+ s {2}", text)
    return match.end() if match else 0


def fold(line: str, width: int) -> list[str]:
    """Return the line in parts of at most `width` columns.

    The parts after the first begin where the last column of a table does, so that kubectl's tables stay tables; where
    that leaves too little room for its words, or there are no columns, four blanks behind the line's own indent.
    """
    if len(line) <= width:
        return [line]
    own = len(line) - len(line.lstrip())
    gaps = [gap.end() for gap in re.finditer(r"(?<=\S) {2,}(?=\S)", line)]
    room = max([_NARROWEST_COLUMN, *map(len, line[gaps[-1] :].split())]) if gaps else 0
    hang = gaps[-1] if gaps and gaps[-1] + room <= width else own + 4
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=" " * hang,
        drop_whitespace=True,
        replace_whitespace=False,
        break_on_hyphens=False,
    )
