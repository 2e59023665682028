"""`make release`: on a copy of this repository, with the generators that need no further program."""

from __future__ import annotations

import datetime
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

import release
from controlplane.paths import REPOSITORY
from memcached_operator.codegen.files import CATALOG, CSV
from release import RefusedError

TODAY = datetime.date(2026, 11, 30)
NOW = release.current(REPOSITORY)
NEXT = "77.1.0"


def git(root: Path, *args: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false", *args],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def copied(names: list[str], root: Path) -> Path:
    """A repository of one commit with these files of ours, and a changelog that has seen no release."""
    for name in names:
        if (REPOSITORY / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, root / name)
    changelog = root / release.CHANGELOG
    head = changelog.read_text().partition(release.UNRELEASED)[0]
    changelog.write_text(f"{head}{release.UNRELEASED}\n\n- Something.\n")
    git(root, "init", "--quiet")
    git(root, "add", "--all", "--force")
    git(root, "commit", "--quiet", "--message", "all")
    return root


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The files that are edited by hand."""
    return copied([release.VERSION_FILE, release.CHANGELOG, CATALOG, "README.md"], tmp_path / "repository")


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """All that is committed or about to be."""
    listed = git(REPOSITORY, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return copied(listed.split("\0"), tmp_path / "repository")


class Generators:
    """Runs codegen of the copy; what needs operator-sdk or helm-docs is remembered only."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked: list[list[str]] = []

    def __call__(self, command: Sequence[str]) -> int:
        self.asked.append(list(command))
        if command != ["make", "generate"]:
            return 0
        environ = {**os.environ, "PYTHONPATH": str(self.root / "operator")}
        program = [sys.executable, "-m", "memcached_operator.codegen", "--root", str(self.root)]
        return subprocess.run(program, cwd=self.root, env=environ, check=False, capture_output=True).returncode


@pytest.fixture(autouse=True)
def _no_tools_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "missing_tools", lambda _: [])


def texts(root: Path) -> dict[str, str]:
    return {name: (root / name).read_text() for name in git(root, "ls-files").splitlines() if (root / name).is_file()}


def test_every_place_gets_the_new_version(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What helm-docs and operator-sdk write is not written here.
    monkeypatch.setattr(release, "_HISTORY", (*release._HISTORY, "helm/memcached-operator/README.md"))  # noqa: SLF001 - see above
    generators = Generators(whole)
    assert release.release(whole, NEXT, TODAY, generators) == 0
    assert generators.asked == [["make", "generate"], ["make", "bundle"], ["make", "helm-docs"]]

    assert release.current(whole) == NEXT
    chart = yaml.safe_load((whole / "helm/memcached-operator/Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (NEXT, NEXT)
    manager = yaml.safe_load((whole / "config/manager/kustomization.yaml").read_text())
    assert [image["newTag"] for image in manager["images"]] == [f"v{NEXT}"]
    csv = yaml.safe_load((whole / CSV).read_text())
    assert csv["spec"]["version"] == NEXT
    assert csv["metadata"]["annotations"]["containerImage"].endswith(f":v{NEXT}")
    (channel,) = [d for d in yaml.safe_load_all((whole / CATALOG).read_text()) if d["schema"] == "olm.channel"]
    *_, before, last = channel["entries"]
    assert last["name"] == f"memcached-operator.v{NEXT}"
    assert last["replaces"] == before["name"]
    assert last["skipRange"].endswith(f"<{NEXT}")


def test_image_tags_in_the_docs_are_of_the_new_version_and_other_words_stay(repository: Path) -> None:
    page = repository / "docs/extra.md"
    page.parent.mkdir()
    page.write_text(f"IMG=example.com/memcached-operator:v{NOW}\nnewTag: v{NOW}\nSince {NOW}. other:v{NOW}\n")
    git(repository, "add", ".")
    assert release.edits(repository, NEXT, TODAY)["docs/extra.md"] == (
        f"IMG=example.com/memcached-operator:v{NEXT}\nnewTag: v{NEXT}\nSince {NOW}. other:v{NOW}\n"
    )


def test_the_changelog_gets_a_section_with_the_date_and_an_empty_one_for_what_comes(repository: Path) -> None:
    before = (repository / release.CHANGELOG).read_text()
    after = release.edits(repository, NEXT, TODAY)[release.CHANGELOG]
    head, news = before.split(f"{release.UNRELEASED}\n", 1)
    assert after == f"{head}{release.UNRELEASED}\n\n## {NEXT} - 2026-11-30\n{news}"


def test_the_version_that_is_current_and_was_never_released_can_be(repository: Path) -> None:
    assert release.check(repository, NOW) == []
    changed = release.edits(repository, NOW, TODAY)
    old = texts(repository)
    assert [path for path, text in changed.items() if text != old[path]] == [release.CHANGELOG]


@pytest.mark.parametrize(
    "version", ("", "v1.2.3", "1.2", "1.2.3.4", "01.2.3", "1.2.3-beta", "1.2.3+build", "1.2.3 ", "x")
)
def test_what_is_no_version_is_refused(repository: Path, version: str) -> None:
    refused(repository, version, "not a version")


def test_an_older_version_is_refused(repository: Path) -> None:
    refused(repository, "0.0.1", f"0.0.1: older than {NOW}, which is current")


def test_a_candidate_comes_before_its_release(repository: Path) -> None:
    refused(repository, f"{NOW}-rc.1", "older than")
    assert release.check(repository, f"{NEXT}-rc.1") == []


def test_a_released_version_is_refused(repository: Path) -> None:
    git(repository, "tag", f"v{NEXT}")
    refused(repository, NEXT, f"the tag v{NEXT} exists")


def test_a_tree_with_changes_is_refused(repository: Path) -> None:
    (repository / "README.md").write_text("changed")
    refused(repository, NEXT, "not committed:\nM README.md")


def test_a_file_that_git_does_not_know_is_a_change_too(repository: Path) -> None:
    (repository / "new.txt").write_text("new")
    refused(repository, NEXT, "?? new.txt")


def test_a_release_without_news_is_refused(repository: Path) -> None:
    changelog = repository / release.CHANGELOG
    changelog.write_text(release.edits(repository, "1.1.1", TODAY)[release.CHANGELOG])
    git(repository, "commit", "--quiet", "--all", "--message", "released")
    refused(repository, NEXT, "what is new for users?")
    refused(repository, "1.1.1", "has a section of 1.1.1 already")


def test_missing_tools_refuse_before_anything_is_written(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "missing_tools", lambda _: ["operator-sdk: not found"])
    refused(repository, NEXT, "operator-sdk: not found")


def refused(root: Path, version: str, why: str) -> None:
    before, generators = git(root, "status", "--porcelain"), Generators(root)
    with pytest.raises(RefusedError) as error:
        release.release(root, version, TODAY, generators)
    assert why in str(error.value)
    assert generators.asked == []
    assert git(root, "status", "--porcelain") == before


def test_a_dry_run_shows_the_changes_and_makes_none(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generators = Generators(repository)
    assert release.release(repository, NEXT, TODAY, generators, dry_run=True) == 0
    shown = capsys.readouterr().out
    assert f'+__version__ = "{NEXT}"' in shown
    assert f"+## {NEXT} - 2026-11-30" in shown
    assert "would run: make bundle" in shown
    assert generators.asked == []
    assert git(repository, "status", "--porcelain") == ""


def test_a_place_that_was_forgotten_is_named(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "docs").mkdir()
    (repository / "docs/extra.md").write_text(f"\nhelm install memcached-operator-{NOW}.tgz --version {NOW}\n")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message", "a page")
    assert release.release(repository, NEXT, TODAY, lambda _: 0) == 1
    assert f"docs/extra.md:2: helm install memcached-operator-{NOW}.tgz --version {NOW}" in capsys.readouterr().err


def test_a_generator_that_fails_ends_it(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release.release(repository, NEXT, TODAY, lambda _: 2) == 2
    assert "make generate: exit code 2" in capsys.readouterr().err
