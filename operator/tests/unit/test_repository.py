"""What must hold for the repository as a whole, and would break far from its cause."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections import Counter
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "operator" / "memcached_operator"

# In pieces, so that this file does not hold them.
REGISTRIES = tuple(
    ".".join(parts)
    for parts in (("pypi", "org"), ("pythonhosted", "org"), ("proxy", "golang", "org"), ("npmjs", "org"))
)


def files() -> list[Path]:
    """All that is, or is about to be, committed."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


def texts() -> dict[str, str]:
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8", errors="replace") for path in files()}


def code() -> dict[str, str]:
    return {name: text for name, text in texts().items() if name.endswith(".py")}


# --- `operator/` holds a package and is none, or Python loses its own module of that name -----------------------------


@pytest.mark.parametrize("name", ("__init__.py", "conftest.py"))
def test_the_folder_operator_is_no_package(name: str) -> None:
    assert not (ROOT / "operator" / name).exists()


def test_the_tests_are_no_packages() -> None:
    assert list((ROOT / "operator" / "tests").rglob("__init__.py")) == []


@pytest.mark.parametrize("program", ("import operator", "import collections, memcached_operator.settings, operator"))
def test_python_finds_its_own_operator_from_here(program: str) -> None:
    subprocess.run([sys.executable, "-c", f"{program}; operator.add(1, 1)"], cwd=ROOT, check=True)


def test_test_files_have_names_of_their_own() -> None:
    # Without packages pytest imports them by their bare names: the second of a name would shadow the first.
    names = Counter(path.name for path in (ROOT / "operator" / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_the_wheel_holds_the_package_and_nothing_else(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        packed = {name for name in opened.namelist() if ".dist-info/" not in name}
    assert {name.split("/")[0] for name in packed} == {"memcached_operator"}
    assert {"memcached_operator/py.typed", "memcached_operator/__main__.py"} <= packed


# --- what is in the files ---------------------------------------------------------------------------------------------


def test_no_file_names_this_machine_or_a_package_registry() -> None:
    # Short paths, such as / or /src, are words that a text may well have.
    places = [f"{path}/" for path in (ROOT, ROOT.parent, Path.home()) if len(path.parts) > 1 and len(str(path)) > 4]
    found = [(name, word) for name, text in texts().items() for word in (*places, *REGISTRIES) if word in text]
    assert found == []


def test_every_suppression_has_its_reason_beside_it() -> None:
    # `noqa: ABC123, DEF456 - the reason`, `type: ignore[code] # the reason`
    suppression = re.compile(r"#\s*(?:noqa:\s*[A-Z]+[0-9]+(?:,\s*[A-Z]+[0-9]+)*|type:\s*ignore\[[\w, -]+\])(.*)")
    bare = [
        f"{name}:{number}: {line.strip()}"
        for name, text in code().items()
        for number, line in enumerate(text.splitlines(), 1)
        if (found := suppression.search(line)) and not re.search(r"\w{2,}", found[1])
    ]
    assert bare == []


def test_no_suppression_is_a_blanket() -> None:
    blanket = re.compile(r"#\s*(noqa(?!:)|type:\s*ignore(?!\[))", re.IGNORECASE)
    assert [
        name
        for name, text in code().items()
        if name != "operator/tests/unit/test_repository.py" and blanket.search(text)
    ] == []


def test_settings_alone_reads_the_environment() -> None:
    reads = [
        f"{name}: {line.strip()}"
        for name, text in code().items()
        # credentials.py asks whether this is a pod, as every client does.
        if name.startswith("operator/memcached_operator/") and not name.endswith("kube/credentials.py")
        for line in text.splitlines()
        if re.search(r"\bos\.(environ|getenv)\b", line) and "parse(sys.argv[1:], os.environ)" not in line
    ]
    assert reads == []


# --- dependencies -----------------------------------------------------------------------------------------------------


def pinned(name: str) -> dict[str, str]:
    """Package -> version of a requirements file."""
    return dict(re.findall(r"^([a-z0-9-]+)==([^ ;]+)", (ROOT / name).read_text(), re.MULTILINE))


@pytest.mark.parametrize("name", ("requirements.txt", "requirements-dev.txt"))
def test_every_package_is_pinned_by_hash(name: str) -> None:
    entries = re.split(r"\n(?=\S)", (ROOT / name).read_text())
    packages = [entry for entry in entries if not entry.startswith("#")]
    assert packages
    for entry in packages:
        assert re.match(r"[a-z0-9-]+==\S+", entry), entry
        assert "--hash=sha256:" in entry, entry


def test_the_tests_run_on_what_is_shipped() -> None:
    shipped, tested = pinned("requirements.txt"), pinned("requirements-dev.txt")
    assert {name: tested.get(name) for name in shipped} == shipped


def test_the_lock_satisfies_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for lock, wanted in (
        ("requirements.txt", project["dependencies"] + extras["otlp"]),
        ("requirements-dev.txt", extras["dev"]),
    ):
        versions = pinned(lock)
        for requirement in map(Requirement, wanted):
            assert requirement.specifier.contains(versions[requirement.name], prereleases=True), requirement


def test_nothing_under_the_gpl_is_shipped() -> None:
    assert not {"pykube-ng", "pytest-kind"} & pinned("requirements.txt").keys()


# --- the way in -------------------------------------------------------------------------------------------------------


def test_make_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = set(re.findall(r"^\.PHONY: (.+)$", makefile, re.MULTILINE))
    # A make around this one would hand its flags down.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    shown = subprocess.run(["make", "help"], cwd=ROOT, env=environ, capture_output=True, text=True, check=True).stdout
    assert phony == set(re.findall(r"^  ([a-z0-9-]+) ", shown, re.MULTILINE))


def test_the_readme_opens_with_the_two_commands() -> None:
    readme = (ROOT / "README.md").read_text()
    first = re.search(r"```sh\n(.*?)```", readme, re.DOTALL)
    assert first
    assert [line.split("#")[0].strip() for line in first[1].splitlines()] == ["make demo", "make test"]


def test_the_license_is_apache_2() -> None:
    license_ = (ROOT / "LICENSE").read_text()
    assert "Apache License" in license_
    assert "END OF TERMS AND CONDITIONS" in license_


def test_the_version_is_in_one_place() -> None:
    version = re.search(r'__version__ = "(.+)"', (PACKAGE / "__init__.py").read_text())
    assert version
    assert "version" not in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
