"""One mistake in the operator's source, put there on purpose: tests that do not notice it are missing something."""

from __future__ import annotations

import shutil
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
        text = (PACKAGE / self.file).read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise MutationError(f"{self.name}: not found once in {self.file}: {self.old}")
        return text.replace(self.old, self.new)

    def copy_to(self, folder: Path) -> Path:
        """A copy of the package with the mistake in it, in `folder`, for PYTHONPATH. Raises MutationError."""
        shutil.copytree(PACKAGE, folder / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / PACKAGE.name / self.file).write_text(self.source(), encoding="utf-8")
        return folder
