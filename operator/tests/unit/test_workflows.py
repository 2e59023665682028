"""The workflows that a fork can switch on: no more rights than needed, nothing unpinned, nothing that is not there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.paths import REPOSITORY

GITHUB = REPOSITORY / ".github"
FILES = sorted(GITHUB.rglob("*.yaml"))
WORKFLOWS = [path for path in FILES if path.parent.name == "workflows"]
WRITES = {"publish": {"packages", "id-token"}, "announce": {"contents"}}

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(GITHUB)))
each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)


def steps(path: Path) -> list[dict[str, Any]]:
    content = yaml.safe_load(path.read_text())
    runs = [content["runs"]] if "runs" in content else content["jobs"].values()
    return [step for each in runs for step in each.get("steps", [])]


def scripts(path: Path) -> str:
    return "\n".join(step["run"] for step in steps(path) if "run" in step)


@each_workflow
def test_a_job_has_no_right_that_it_was_not_given(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {}
    for name, job in workflow["jobs"].items():
        written = {scope for scope, level in job["permissions"].items() if level == "write"}
        assert written == WRITES.get(name, set()), name
        assert "timeout-minutes" in job or "uses" in job, name


@each_file
def test_actions_of_others_are_pinned_by_commit_and_say_their_version(path: Path) -> None:
    for line in re.findall(r"uses: (.+)", path.read_text()):
        assert line.startswith("./") or re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


@each_file
def test_what_others_can_choose_gets_into_no_script(path: Path) -> None:
    # `${{ }}` is pasted into the script's text: variables are not.
    assert "${{" not in scripts(path)


@each_file
def test_there_is_no_secret_but_the_token_of_the_run_and_it_is_not_shown(path: Path) -> None:
    text = path.read_text()
    assert "secrets." not in text
    assert "set -x" not in text
    assert "pull_request_target" not in text
    assert not re.search(r"echo[^\n]*TOKEN", text)
    for step in steps(path):
        if "checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False


@each_file
def test_every_target_of_make_exists(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    asked = {
        word
        for arguments in re.findall(r"(?:^|&& )make ([^\n&|]+)", scripts(path), re.MULTILINE)
        for word in re.sub(r"\S+=(\"[^\"]*\"|\S*)", "", arguments).replace('"', "").split()
        if re.fullmatch(r"[a-z-]+", word)
    }
    assert asked <= targets


@each_file
def test_every_script_of_ours_exists(path: Path) -> None:
    for name in re.findall(r"(?:^|\s)((?:hack|\.ci)/[\w.-]+)", scripts(path)):
        assert (REPOSITORY / name).is_file(), name


def test_programs_are_of_the_versions_that_hack_tool_names() -> None:
    advice = (REPOSITORY / "hack/tool").read_text()
    installed = re.findall(r"\S+@v[\d.]+", scripts(GITHUB / "actions/packaging-tools/action.yaml"))
    assert len(installed) == 7
    for module in installed:
        assert module in advice, module


def test_a_release_passes_the_checks_first() -> None:
    jobs = yaml.safe_load((GITHUB / "workflows/release.yaml").read_text())["jobs"]
    assert jobs["checks"]["uses"] == "./.github/workflows/ci.yaml"
    assert (jobs["publish"]["needs"], jobs["announce"]["needs"]) == ("checks", "publish")
    assert "./.ci/run" in (GITHUB / "workflows/ci.yaml").read_text().replace(" .ci/run", " ./.ci/run")
