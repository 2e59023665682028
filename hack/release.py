"""Writes a version into every place at once, and the changelog's section. `make release VERSION=1.2.3` calls it.

The version stands in one file (`__version__`); the changelog, the catalog's upgrade graph and image tags in the docs
are edited here, and all else is made anew by the generators. It commits, tags and pushes nothing: it says what to type.
"""

from __future__ import annotations

import argparse
import datetime
import difflib
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import yaml

from memcached_operator.codegen.csv import PACKAGE
from memcached_operator.codegen.files import CATALOG
from memcached_operator.codegen.upgrades import entries, release_name, upgrade

ROOT = Path(__file__).parent.parent
VERSION_FILE = "operator/memcached_operator/__init__.py"
CHANGELOG = "CHANGELOG.md"
UNRELEASED = "## Unreleased"
PAGES = ("README.md", "docs/*.md")
TOOLS = ("helm-docs", "kustomize", "operator-sdk")
COMMANDS = (["make", "generate"], ["make", "bundle"], ["make", "helm-docs"])

# As Python and semantic versioning both take it, and as an image's tag may be: no build metadata.
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-rc\.([1-9]\d*))?")
_ASSIGNMENT = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
_HISTORY = (CHANGELOG, CATALOG, "bundle/", "config/manifests/", "operator/tests/")
"""Where an older version may well be named: it is replaced, or was current once."""

Run = Callable[[Sequence[str]], int]


class RefusedError(Exception):
    """Nothing was written; the message says why, one reason a line."""


def main() -> int:
    """Exit code 1 when the release is refused, or when a generator fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", help="without a v: 1.2.3 or 1.2.3-rc.1")
    parser.add_argument("--dry-run", action="store_true", help="write nothing; show what would be")
    options = parser.parse_args()
    today = datetime.datetime.now(datetime.UTC).date()
    try:
        return release(ROOT, options.version, today, _run, dry_run=options.dry_run)
    except RefusedError as error:
        print(error, file=sys.stderr)
        return 1


def release(root: Path, version: str, today: datetime.date, run: Run, *, dry_run: bool = False) -> int:
    """Prepares the release of `version` in the repository at `root`; returns the exit code.

    `run` starts one of COMMANDS in `root`, and returns its exit code. Raises RefusedError before anything is written.
    """
    if problems := [*check(root, version), *([] if dry_run else missing_tools(root))]:
        raise RefusedError("\n".join(problems))
    old = current(root)
    new_texts = edits(root, version, today)
    if dry_run:
        for path, text in new_texts.items():
            sys.stdout.writelines(_diff(path, (root / path).read_text(encoding="utf-8"), text))
        print(*(f"would run: {' '.join(command)}" for command in COMMANDS), sep="\n")
        return 0
    for path, text in new_texts.items():
        (root / path).write_text(text, encoding="utf-8")
        print(f"{path}: written")
    for command in COMMANDS:
        if code := run(command):
            print(f"{' '.join(command)}: exit code {code}; `git checkout .` undoes it all", file=sys.stderr)
            return code
    if places := leftovers(root, old, version):
        print(f"still of version {old}; `git checkout .` undoes it all:", *places, sep="\n  ", file=sys.stderr)
        return 1
    print(_next_steps(version))
    return 0


def check(root: Path, version: str) -> list[str]:
    """What speaks against this release; empty: nothing."""
    if not (wanted := _order(version)):
        return [f"{version}: not a version; write it as 1.2.3 or 1.2.3-rc.1, without a v"]
    problems = []
    now = current(root)
    if wanted < _order(now):
        problems.append(f"{version}: older than {now}, which is current")
    if _git(root, "tag", "--list", f"v{version}"):
        problems.append(f"{version}: is released already, the tag v{version} exists")
    if dirty := _git(root, "status", "--porcelain"):
        problems.append(f"the working tree has changes that are not committed:\n{dirty}")
    changelog = (root / CHANGELOG).read_text(encoding="utf-8")
    if re.search(rf"^## {re.escape(version)}\b(?!-)", changelog, re.MULTILINE):
        problems.append(f"{CHANGELOG} has a section of {version} already")
    if not _unreleased(changelog).strip():
        problems.append(f"{CHANGELOG}: nothing under {UNRELEASED!r}; what is new for users?")
    return problems


def missing_tools(root: Path) -> list[str]:
    """How to get the programs that the generators need, and that are not on PATH."""
    found = subprocess.run([root / "hack" / "tool", *TOOLS], capture_output=True, text=True, check=False)
    return [found.stderr.strip()] if found.returncode else []


def edits(root: Path, version: str, today: datetime.date) -> dict[str, str]:
    """Path -> new text of the files that hold the version by hand."""
    texts = {path: (root / path).read_text(encoding="utf-8") for path in (VERSION_FILE, CHANGELOG, CATALOG)}
    tag = re.compile(rf"((?:/memcached-operator[a-z-]*:|newTag: )v){re.escape(current(root))}(?![\w.-])")
    pages = {path: (root / path).read_text(encoding="utf-8") for path in _git(root, "ls-files", *PAGES).splitlines()}
    return {
        VERSION_FILE: _ASSIGNMENT.sub(f'__version__ = "{version}"', texts[VERSION_FILE]),
        CHANGELOG: texts[CHANGELOG].replace(UNRELEASED, f"{UNRELEASED}\n\n## {version} - {today.isoformat()}", 1),
        CATALOG: _with_entry(texts[CATALOG], version),
        **{path: tag.sub(rf"\g<1>{version}", text) for path, text in pages.items() if tag.search(text)},
    }


def current(root: Path) -> str:
    """The version of the package. Raises RefusedError when it cannot be found."""
    found = _ASSIGNMENT.search((root / VERSION_FILE).read_text(encoding="utf-8"))
    if not found:
        raise RefusedError(f"{VERSION_FILE}: no __version__")
    return found[1]


def leftovers(root: Path, old: str, new: str) -> list[str]:
    """`path:line: text` of each place that names `old` with the operator, where history is not told."""
    if old == new:
        return []
    tracked = _git(root, "ls-files").splitlines()
    naming = re.compile(rf"(?<![\w.-])v?{re.escape(old)}(?![\w.-])")
    return [
        f"{path}:{number}: {line.strip()}"
        for path in tracked
        if not path.startswith(_HISTORY) and not re.search(r"requirements.*\.txt$|go\.(mod|sum)$", path)
        for number, line in enumerate(_lines(root / path), 1)
        if naming.search(line)
    ]


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []


def _with_entry(catalog: str, version: str) -> str:
    """The catalog's text with an entry for `version` at its end, comments and all. Raises RefusedError."""
    name = release_name(PACKAGE, version)
    before = list(yaml.safe_load_all(catalog))
    if any(entry["name"] == name for entry in entries(before)):
        return catalog
    way = upgrade(before, PACKAGE, version)
    lines = [f"- name: {name}"]
    lines += [f"  replaces: {way.replaces}"] if way.replaces else []
    lines += [f"  skipRange: '{way.skip_range}'"] if way.skip_range else []
    text = catalog.rstrip("\n") + "\n" + "\n".join(lines) + "\n"
    if entries(list(yaml.safe_load_all(text)))[-1]["name"] != name:
        raise RefusedError(f"{CATALOG}: the channel's entries have to come last, that one can be added")
    return text


def _unreleased(changelog: str) -> str:
    _, _, after = changelog.partition(f"\n{UNRELEASED}\n")
    return re.split(r"^## ", after, maxsplit=1, flags=re.MULTILINE)[0]


def _order(version: str) -> tuple[float, ...]:
    """Sort key; empty for what is no version of ours. A candidate comes before its release."""
    found = _VERSION.fullmatch(version)
    return tuple(float("inf") if part is None else float(part) for part in found.groups()) if found else ()


def _diff(path: str, old: str, new: str) -> list[str]:
    return list(difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"a/{path}", f"b/{path}"))  # noqa: FBT003 - its only parameter


def _git(root: Path, *args: str) -> str:
    return subprocess.run(["git", *args], cwd=root, capture_output=True, text=True, check=True).stdout.strip()


def _run(command: Sequence[str]) -> int:
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def _next_steps(version: str) -> str:
    return f"""
Read `git diff`, then:

    git switch -c release-{version} && git commit -am "Release {version}"
    # after review and merge, on the merged commit:
    git tag -s v{version} -m "Release {version}" && git push origin v{version}"""


if __name__ == "__main__":
    sys.exit(main())
