import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from story.screen import Row, Screen, fold, plain_table

CONTROL = re.compile(r"[^\x20-\x7e\n]")
LONG = "word " * 40
EVENT = (
    "  Normal  Created  0s    memcached-operator  " + "Created Service memcached-sample, Deployment memcached-sample"
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def show_everything(screen: Screen) -> None:
    screen.headline("3/12 Create")
    with screen.waiting("waiting for pods"):
        screen.command("kubectl get memcached")
    screen.answer(f"NAME   SIZE\nsample   2\n{EVENT}\n{LONG}")
    screen.note(LONG)
    screen.claim(LONG, holds=True, seconds=1.23)
    screen.claim("the pods are ready", holds=False, seconds=12.3)
    screen.failure("logs in .cache")
    screen.summary([Row("Create", "the sample", 1.5, "ok"), Row("Drain", "no more", None, "not run")])


def test_without_a_terminal_the_text_is_plain_and_has_80_columns() -> None:
    stream = io.StringIO()
    show_everything(Screen(stream))
    assert CONTROL.findall(stream.getvalue()) == []
    assert max(len(line) for line in stream.getvalue().splitlines()) == 80
    assert "waiting" not in stream.getvalue()
    assert "FAILED   12.3 s  the pods are ready\n" in stream.getvalue()


def test_a_dumb_terminal_gets_the_same_text(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, dumb = io.StringIO(), Terminal()
    show_everything(Screen(plain))
    monkeypatch.setenv("TERM", "dumb")
    show_everything(Screen(dumb))
    assert dumb.getvalue() == plain.getvalue()


def test_a_terminal_gets_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    show_everything(Screen(stream))
    assert "\x1b[1;32mok \x1b[0m    1.2 s  word" in stream.getvalue()
    assert "\x1b[1;31mFAILED" in stream.getvalue()


def test_what_looks_like_markup_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = Terminal()
    screen = Screen(stream)
    screen.answer("containers[memcached].image [bold]:smile:")
    screen.summary([Row("[red]", "[bold]x[/]", 1.0, "ok")])
    assert "containers[memcached].image [bold]:smile:\n" in stream.getvalue()
    assert "[bold]x[/]" in stream.getvalue()


def test_a_command_is_never_folded_so_that_it_can_be_copied() -> None:
    stream = io.StringIO()
    Screen(stream).command(LONG)
    assert stream.getvalue() == f"$ {LONG}\n"


def test_the_time_of_a_claim_stands_before_its_words_and_they_hang_behind_it() -> None:
    stream = io.StringIO()
    Screen(stream).claim(LONG, holds=True, seconds=7.04)
    first, *others = stream.getvalue().splitlines()
    assert first.startswith("ok     7.0 s  word")
    assert {line[:14] for line in others} == {" " * 14}


@pytest.mark.parametrize(
    ("line", "width", "parts"),
    (
        ("short", 10, ["short"]),
        ("    indented words go on", 16, ["    indented", "        words go", "        on"]),
        (
            EVENT,
            80,
            [
                "  Normal  Created  0s    memcached-operator  Created Service memcached-sample,",
                "                                             Deployment memcached-sample",
            ],
        ),
        # The last column would be too narrow.
        (
            EVENT,
            70,
            [
                "  Normal  Created  0s    memcached-operator  Created Service",
                "      memcached-sample, Deployment memcached-sample",
            ],
        ),
        # A word does not fit there.
        ("Message:    " + "x" * 40 + " y", 50, ["Message:", "    " + "x" * 40 + " y"]),
    ),
)
def test_folding(line: str, width: int, parts: list[str]) -> None:
    assert fold(line, width) == parts


@given(st.lists(st.text("ab,.", min_size=1, max_size=12), min_size=1), st.integers(40, 100))
def test_folding_loses_no_word_and_keeps_to_the_width(words: list[str], width: int) -> None:
    for gap in (" ", "   "):
        parts = fold(gap.join(words), width)
        assert [word for part in parts for word in part.split()] == words
        assert max(map(len, parts)) <= width


def test_the_closing_table() -> None:
    rows = [Row("Create", "the sample becomes Ready", 1.26, "ok"), Row("Drain", "clients leave", None, "not run")]
    assert plain_table(rows) == [
        "   step    what was shown             time  verdict",
        "-  ------  ------------------------  -----  -------",
        "1  Create  the sample becomes Ready  1.3 s  ok",
        "2  Drain   clients leave                    not run",
    ]
