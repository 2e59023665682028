"""`python -m memcached_operator.codegen [--check]`: brings the generated files of a repository up to date."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from memcached_operator.codegen.files import generated_files


def main(argv: list[str] | None = None) -> int:
    """Writes the files that differ, or with --check only names them. Exit code 1 when --check finds one."""
    parser = argparse.ArgumentParser(prog="python -m memcached_operator.codegen", description=main.__doc__)
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="the repository (default: the current folder)")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is out of date")
    options = parser.parse_args(argv)
    stale = [(path, text) for path, text in generated_files(options.root).items() if _read(options.root / path) != text]
    for path, text in stale:
        if not options.check:
            (options.root / path).parent.mkdir(parents=True, exist_ok=True)
            (options.root / path).write_text(text, encoding="utf-8")
        print(f"{path}: {'out of date' if options.check else 'written'}")  # noqa: T201  the terminal is its interface
    if options.check and stale:
        print("run `make generate manifests` and commit the result", file=sys.stderr)  # noqa: T201  see above
        return 1
    return 0


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main())
