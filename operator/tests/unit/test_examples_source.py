"""The examples are short, and the tutorial shows what is in them."""

import ast
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
TUTORIAL = REPOSITORY / "docs" / "writing-a-controller.md"
EXAMPLES = sorted((REPOSITORY / "examples").glob("*.py"))

every_example = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)


def lines_of_code(source: str) -> int:
    """Lines that are neither blank, nor a comment alone, nor part of a docstring."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = node.body[0]
        if ast.get_docstring(node) is not None:
            docstrings.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines = enumerate(source.splitlines(), start=1)
    return sum(bool(line.strip()) and not line.strip().startswith("#") and n not in docstrings for n, line in lines)


def test_lines_of_code_counts_code() -> None:
    assert (
        lines_of_code(
            '"""Doc.\n\nstring"""\n\n# comment\nx = """a\nb"""\ndef f():\n    """Doc."""\n    return 1  # one\n'
        )
        == 4
    )


def test_there_are_three_examples() -> None:
    assert [path.stem for path in EXAMPLES] == ["managed_by", "my_app", "xca"]


@every_example
def test_an_example_has_less_than_sixty_lines(path: Path) -> None:
    assert lines_of_code(path.read_text()) < 60


@every_example
def test_an_example_uses_the_machinery_and_nothing_of_the_memcached_controller(path: Path) -> None:
    imported = {node.module or "" for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)}
    ours = {name.partition(".")[2] for name in imported if name.startswith("memcached_operator")}
    assert ours <= {"", "errors", "gvr", "resources.comparison", "runtime", "runtime.children", "runtime.conditions"}


def fenced(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TUTORIAL.read_text(), re.MULTILINE | re.DOTALL)


def test_all_python_in_the_tutorial_is_in_the_examples() -> None:
    blocks = fenced("python")
    sources = {path.name: path.read_text() for path in EXAMPLES}
    homeless = [block for block in blocks if not any(block in source for source in sources.values())]
    assert homeless == []
    shown = {name for name, source in sources.items() if any(block in source for block in blocks)}
    assert shown == set(sources)


def test_what_the_tutorial_and_the_manifests_name_exists() -> None:
    text = TUTORIAL.read_text()
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    assert links
    named = set(re.findall(r"\bexamples/[\w/]+\.(?:py|yaml)\b", text))
    assert [link for link in links if not (TUTORIAL.parent / link).exists()] == []
    assert [name for name in named if not (REPOSITORY / name).exists()] == []
