"""Dockerfile, lock files, Makefile and package say the same: what an image build would find out late, or never."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from memcached_operator import __version__, settings

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
IGNORED = [line for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[:1] != "#"]

Instruction = tuple[str, str]

# What certification and registries ask for.
LABELS = {
    *("name", "vendor", "maintainer", "version", "release", "summary", "description"),
    *(
        f"org.opencontainers.image.{name}"
        for name in (
            *("title", "description", "version", "revision", "created", "licenses", "vendor", "authors"),
            *("url", "source", "documentation", "base.name"),
        )
    ),
}


def instructions(name: str = "Dockerfile") -> list[Instruction]:
    """The instructions of a Dockerfile in order: keyword and the rest, lines joined."""
    text = "\n".join(
        line for line in (ROOT / name).read_text(encoding="utf-8").splitlines() if not line.startswith("#")
    )
    lines = text.replace("\\\n", " ").splitlines()
    return [(words[0], words[1].strip()) for line in lines if len(words := line.split(maxsplit=1)) == 2]


def stages() -> list[list[Instruction]]:
    """Instructions of each stage, its FROM first. The first list holds what comes before any."""
    parts: list[list[Instruction]] = [[]]
    for instruction in instructions():
        if instruction[0] == "FROM":
            parts.append([])
        parts[-1].append(instruction)
    return parts


def values(stage: list[Instruction], keyword: str) -> list[str]:
    return [rest for word, rest in stage if word == keyword]


def labels() -> dict[str, str]:
    text = " ".join(values(stages()[-1], "LABEL"))
    return dict(re.findall(r'([\w.-]+)="([^"]*)"', text))


def locked(path: str) -> dict[str, str]:
    """Package -> version of a lock file. Fails when one has no hash."""
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=\S)", (ROOT / path).read_text(encoding="utf-8")):
        if match := re.match(r"([\w.-]+)==(\S+)", entry):
            assert "--hash=sha256:" in entry, f"{path}: {match[1]} has no hash"
            found[match[1]] = match[2]
    return found


def told_by_make(*arguments: str) -> str:
    """The commands that make would run."""
    done = subprocess.run(["make", "-n", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.replace("\\\n", " ")


def kept_out(path: str) -> bool:
    """Whether .dockerignore keeps a file from the builders: the last line that matches it, or a folder of its, wins."""
    parents = [path, *(str(parent) for parent in Path(path).parents if str(parent) != ".")]
    out = False
    for line in IGNORED:
        pattern = line.lstrip("!").replace("**/", "*")
        if any(fnmatchcase(name, pattern) for name in parents):
            out = not line.startswith("!")
    return out


def test_the_entry_point_is_the_program_and_its_command_exists() -> None:
    image = stages()[-1]
    (entrypoint,), (command,) = values(image, "ENTRYPOINT"), values(image, "CMD")
    (program,) = json.loads(entrypoint)
    assert program in PROJECT["project"]["scripts"]
    assert settings.parse(json.loads(command), {"POD_NAMESPACE": "x"}).pod_name


def test_the_user_is_a_number_and_not_root() -> None:
    (user,) = values(stages()[-1], "USER")
    assert re.fullmatch(r"[1-9]\d{4,}:[1-9]\d{4,}", user)


def test_the_ports_are_those_of_the_defaults() -> None:
    parsed = settings.parse(["run"], {"POD_NAMESPACE": "x"})
    assert parsed.metrics_address
    assert parsed.health_address
    (ports,) = values(stages()[-1], "EXPOSE")
    assert ports.split() == [str(parsed.metrics_address.port), str(parsed.health_address.port)]


def test_every_label_is_there_and_says_something() -> None:
    assert labels().keys() == LABELS
    assert all(labels().values())
    assert labels()["org.opencontainers.image.licenses"] == PROJECT["project"]["license"]


def test_what_the_labels_are_made_of_comes_from_make() -> None:
    declared = {name.partition("=")[0] for name in values(stages()[-1], "ARG")}
    assert declared == {name for value in labels().values() for name in re.findall(r"\$\{(\w+)\}", value)}
    told = told_by_make("docker-build", "SOURCE_DATE_EPOCH=86400", "BASE_IMAGE=registry.example.com/python:3.13")
    passed = dict(re.findall(r"--build-arg (\w+)=(\S+)", told))
    assert passed.keys() == declared
    assert (passed["VERSION"], passed["CREATED"]) == (__version__, "1970-01-02T00:00:00Z")
    assert f"--tag example.com/memcached-operator:v{__version__}" in told


def test_every_stage_is_made_of_the_one_base() -> None:
    names = {rest.partition(" AS ")[2] for stage in stages()[1:] for _, rest in stage[:1]}
    bases = {rest.partition(" AS ")[0] for stage in stages()[1:] for _, rest in stage[:1]}
    assert bases - names == {"${BASE_IMAGE}"}


def test_packages_come_from_lock_files_that_have_their_hashes() -> None:
    installs = [step for _, rest in instructions() for step in rest.split("&&") if " install " in f" {step} "]
    pip = [step for step in installs if "-m pip" in step]
    assert pip
    for step in pip:
        if match := re.search(r"-r (\S+)", step):
            assert {"--require-hashes", "--only-binary", ":all:"} <= set(step.split())
            (path,) = (source for source in (match[1], f"hack/{match[1]}") if (ROOT / source).exists())
            assert locked(path)
        else:
            assert {"--no-deps", "--no-build-isolation", "."} <= set(step.split())


def test_every_tool_group_has_its_lock() -> None:
    groups = re.findall(r"^TOOL_GROUPS := (.*)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert groups[0].split() == list(PROJECT["dependency-groups"])
    for group in groups[0].split():
        lock = locked(f"hack/requirements-{group}.txt")
        for wanted in PROJECT["dependency-groups"][group]:
            assert re.split(r"[<>=]", wanted)[0] in lock


def test_the_wheel_in_the_image_is_made_as_the_tests_make_theirs() -> None:
    assert locked("hack/requirements-build.txt")["hatchling"] == locked("requirements-dev.txt")["hatchling"]


def test_any_builder_will_do() -> None:
    for keyword, rest in instructions():
        assert keyword != "RUN" or "--mount" not in rest
        assert "<<" not in rest
        assert not (keyword == "COPY" and re.search(r"--(chmod|link|parents)", rest))


@pytest.mark.parametrize("dockerfile", [path.name for path in sorted(ROOT.glob("*Dockerfile"))])
def test_what_is_copied_reaches_the_builder(dockerfile: str) -> None:
    for keyword, rest in instructions(dockerfile):
        if keyword in {"COPY", "ADD"} and "--from" not in rest:
            *sources, _ = (word for word in rest.split() if not word.startswith("--"))
            assert [source for source in sources if kept_out(source.rstrip("/"))] == []


def test_nothing_else_reaches_the_builder() -> None:
    for path in (".git/config", "operator/tests/conftest.py", "hack/demo.py", ".venv/bin/python", "secret.key"):
        assert kept_out(path)
    assert kept_out("operator/memcached_operator/__pycache__")
    assert not kept_out("operator/memcached_operator/app.py")
