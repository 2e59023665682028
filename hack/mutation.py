"""One mistake in the operator's source, put there on purpose: tests that do not notice it are missing something."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "operator" / "memcached_operator"


class MutationError(RuntimeError):
    """The source has changed: what the mistake replaces is not found exactly once."""


@dataclass(frozen=True)
class Mutant:
    """In `file` of the package, `old` (found once) becomes `new`."""

    name: str
    file: str
    old: str
    new: str

    def source(self) -> str:
        """The file's text with the mistake in it. Raises MutationError."""
        return _replaced(PACKAGE / self.file, self.old, self.new)


def copy_package(folder: Path, edits: Iterable[tuple[str, str, str]]) -> Path:
    """Copy the package into `folder`, for PYTHONPATH, with (file, old, new) replaced in it. Raises MutationError."""
    shutil.copytree(PACKAGE, folder / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    for file, old, new in edits:
        copied = folder / PACKAGE.name / file
        copied.write_text(_replaced(copied, old, new), encoding="utf-8")
    return folder


def _replaced(file: Path, old: str, new: str) -> str:
    text = file.read_text(encoding="utf-8")
    if text.count(old) != 1:
        raise MutationError(f"not found once in {file}: {old}")
    return text.replace(old, new)
