import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from controlplane import WaitTimeoutError
from story.screen import Screen
from story.telling import Scene, Step, StepError, Surroundings, run, tell


class Stage:
    def __init__(self, folder: Path, ailing: str = "") -> None:
        self.stream = io.StringIO()
        self.log = folder / "demo.log"
        self.surroundings = Surroundings(
            screen=Screen(self.stream),
            folder=folder,
            environment=lambda: {**os.environ, "KUBECONFIG": "/the/admin"},
            ailing=lambda: ailing,
            where_to_look=lambda: "logs in .cache",
            log=self.log,
        )

    def play(self, *tales: Callable[[Scene], None], vital: bool = False) -> list[str]:
        steps = [Step(f"step {number}", "", tale, vital=vital) for number, tale in enumerate(tales, 1)]
        return [row.verdict for row in tell(steps, self.surroundings)]

    @property
    def text(self) -> str:
        return self.stream.getvalue()


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def good(scene: Scene) -> None:
    scene.claim(holds=True, text="all is well")


def test_claims_that_hold(stage: Stage) -> None:
    assert stage.play(good, good) == ["ok", "ok"]
    assert stage.text.count("all is well") == 2
    assert "== 2/2 step 2 =" in stage.text
    assert "logs" not in stage.text


def test_a_claim_that_does_not_hold_fails_the_step_which_goes_on(stage: Stage) -> None:
    def bad(scene: Scene) -> None:
        scene.claim(holds=[], text="three pods are ready", found="two")
        scene.claim(holds=True, text="and then")

    assert stage.play(bad, good, vital=True) == ["FAILED", "ok"]
    assert "three pods are ready\n    found instead: two\n" in stage.text
    assert "and then\n    logs in .cache\n" in stage.text


def test_a_step_that_breaks_off_fails_and_the_next_one_is_told(stage: Stage) -> None:
    def breaks(_scene: Scene) -> None:
        raise WaitTimeoutError("waited 60 s for two ready pods; last seen: 1")

    assert stage.play(breaks, good) == ["FAILED", "ok"]
    assert "waited 60 s for two ready pods; last seen: 1\n" in stage.text


def test_without_a_vital_step_the_rest_is_not_run(stage: Stage) -> None:
    def breaks(_scene: Scene) -> None:
        raise StepError("no cluster")

    assert stage.play(good, breaks, good, vital=True) == ["ok", "FAILED", "not run"]
    assert stage.text.count("all is well") == 1


def test_log_lines_in_an_error_go_to_a_file(stage: Stage) -> None:
    def breaks(_scene: Scene) -> None:
        raise WaitTimeoutError("etcd ended\nits last words")

    assert stage.play(breaks) == ["FAILED"]
    assert "etcd ended\n" in stage.text
    assert "last words" not in stage.text
    assert stage.log.read_text() == "--- step 1\netcd ended\nits last words\n"


def test_a_mistake_of_the_demo_itself_shows_no_stack_trace(stage: Stage) -> None:
    def mistaken(_scene: Scene) -> None:
        raise KeyError("status")

    assert stage.play(mistaken, good) == ["FAILED", "ok"]
    assert "the demo itself is wrong: KeyError: 'status'" in stage.text
    assert "Traceback" not in stage.text
    assert "Traceback" in stage.log.read_text()


def test_an_interrupt_ends_the_story(stage: Stage) -> None:
    def interrupted(_scene: Scene) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stage.play(interrupted)


def test_a_command_is_run_as_it_is_shown_and_its_answer_is_shown(stage: Stage) -> None:
    def commands(scene: Scene) -> None:
        answer = scene.show("echo \"$KUBECONFIG\" | sed 's/the/an/'; echo wrong >&2")
        assert answer.text == "/an/admin\nwrong\n"

    assert stage.play(commands) == ["ok"]
    assert "$ echo \"$KUBECONFIG\" | sed 's/the/an/'; echo wrong >&2\n/an/admin\nwrong\n" in stage.text


@pytest.mark.parametrize(
    ("command", "refused", "verdict", "words"),
    (
        ("exit 3", False, "FAILED", "the command ended with code 3"),
        ("exit 3", True, "ok", ""),
        ("true", True, "FAILED", "the command should have been refused"),
    ),
)
def test_the_end_of_a_command(stage: Stage, command: str, *, refused: bool, verdict: str, words: str) -> None:
    def commands(scene: Scene) -> None:
        scene.act(command, refused=refused)

    assert stage.play(commands) == [verdict]
    assert words in stage.text


def test_a_command_that_does_not_end_is_ended(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    # The pipe is held by both: `run` returns when all of them are gone.
    with pytest.raises(StepError, match=r"the command did not end within 0\.2 s"):
        run(f"echo $$ > {pid}; sleep 600 | sleep 600", tmp_path, dict(os.environ), patience=0.2)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_waiting_returns_what_was_seen(stage: Stage) -> None:
    seen = iter((0, 1, 2, 3))
    scene = Scene(stage.surroundings)
    assert scene.until(lambda: next(seen), "two", until=lambda count: count >= 2) == 2


def test_waiting_ends_when_an_operator_has_ended(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ailing="the operator with pid 7 has ended by itself")

    def waits(scene: Scene) -> None:
        scene.until(lambda: False, "nothing")

    assert stage.play(waits, good) == ["FAILED", "not run"]
    assert stage.text.count("the operator with pid 7 has ended by itself") == 1


def test_a_command_is_not_awaited_when_an_operator_has_ended(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ailing="the operator with pid 7 has ended by itself")

    def waits(scene: Scene) -> None:
        scene.show("sleep 600")

    assert stage.play(waits) == ["FAILED"]
    assert "the operator with pid 7 has ended by itself" in stage.text


def test_an_operator_that_ended_fails_the_step_even_if_its_claims_hold(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ailing="the operator with pid 7 has ended by itself")
    assert stage.play(good, good) == ["FAILED", "not run"]
