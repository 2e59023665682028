"""Running the steps of the story: what is typed, what is awaited, what is claimed and whether it held."""

import contextlib
import http.client
import os
import signal
import subprocess
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from controlplane import ApiError, ControlPlaneError, OperatorProcessError, WaitTimeoutError, wait_until
from controlplane.binaries import BinaryError
from controlplane.credentials import CredentialsError
from story.screen import Row, Screen

T = TypeVar("T")

PATIENCE = 60.0  # seconds; what is awaited takes milliseconds, on a busy machine seconds
_POLL = 0.02
_GLANCE = 0.2
_UNREACHABLE = (OSError, http.client.HTTPException)


class StepError(RuntimeError):
    """The step cannot go on; the text says why."""


_EXPECTED = (
    ApiError,
    BinaryError,
    ControlPlaneError,
    CredentialsError,
    OperatorProcessError,
    StepError,
    WaitTimeoutError,
    *_UNREACHABLE,
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command printed, and its exit code."""

    text: str
    code: int


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the steps of one demo share: where they print and where commands run."""

    screen: Screen
    folder: Path  # commands run here
    environment: Callable[[], dict[str, str]]  # of the commands
    ailing: Callable[[], str]  # "" or what is wrong with the operators
    where_to_look: Callable[[], str]  # printed after a failure
    log: Path  # gets what is too long for the terminal
    began: float = field(default_factory=time.monotonic)

    def elapsed(self) -> float:
        """Return the seconds since the demo began."""
        return time.monotonic() - self.began


def run(
    command: str,
    folder: Path,
    environment: dict[str, str],
    *,
    patience: float = PATIENCE + 30,
    give_up: Callable[[], str] = str,
) -> Answer:
    """Run a command by the shell, in `folder`, and return what it printed on both streams.

    Raises StepError when it takes longer than `patience` seconds, and as soon as `give_up` returns a reason. It is
    never left running, whatever is raised.
    """
    deadline = time.monotonic() + patience
    with subprocess.Popen(
        ["sh", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        # A group of its own, so that all of a pipe can be ended.
        process_group=0,
    ) as process:
        try:
            while True:
                try:
                    text, _ = process.communicate(timeout=_GLANCE)
                    return Answer(text, process.returncode)
                except subprocess.TimeoutExpired:
                    if reason := give_up():
                        raise StepError(reason) from None
                    if time.monotonic() > deadline:
                        raise StepError(f"the command did not end within {patience:g} s") from None
        except BaseException:
            with contextlib.suppress(ProcessLookupError):  # all of it has ended already
                os.killpg(process.pid, signal.SIGKILL)
            raise


class Scene:
    """One step while it runs. Times are in seconds."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._around = surroundings
        self._screen = surroundings.screen
        self._acted = time.monotonic()
        self.failures = 0

    def act(self, command: str, *, refused: bool = False) -> Answer:
        """Run a command that changes something; `since_act` counts from here. See `show`."""
        self.acts()
        return self.show(command, refused=refused)

    def acts(self) -> None:
        """Something is changed now by other means than a command."""
        self._acted = time.monotonic()

    @property
    def since_act(self) -> float:
        """Return the time since the last change."""
        return time.monotonic() - self._acted

    def show(self, command: str, *, refused: bool = False) -> Answer:
        """Run `command` by the shell, exactly as it is shown, and show the answer.

        Raises StepError when it fails; with `refused`, when it succeeds.
        """
        self._screen.command(command)
        with self._screen.waiting("waiting for the answer"):
            answer = run(command, self._around.folder, self._around.environment(), give_up=self._around.ailing)
        self._screen.answer(answer.text)
        if refused and answer.code == 0:
            raise StepError("the command should have been refused")
        if not refused and answer.code != 0:
            raise StepError(f"the command ended with code {answer.code}")
        return answer

    def during(self, work: Callable[[], T], what: str) -> T:
        """Do something that takes a while and return what it returns; `since_act` counts from its begin."""
        self.acts()
        with self._screen.waiting(f"waiting for {what}"):
            return work()

    def typed(self, command: str) -> None:
        """Show a command that is run by other means."""
        self._screen.command(command)

    def note(self, text: str) -> None:
        """Tell something that is no claim."""
        self._screen.note(text)

    def until(self, observe: Callable[[], T], what: str, *, until: Callable[[T], object] = bool) -> T:
        """Wait until what is observed satisfies `until`, and return it. Raises WaitTimeoutError, StepError.

        `what` completes "waiting for ...". `observe` may raise NotYet with what it saw.
        """

        def observe_the_living() -> T:
            self.expect_living()
            return observe()

        with self._screen.waiting(f"waiting for {what}"):
            return wait_until(
                observe_the_living, PATIENCE, what, until=until, interval=_POLL, tolerate=(ApiError, *_UNREACHABLE)
            )

    def expect_living(self) -> None:
        """Raise StepError when an operator has ended by itself."""
        if problem := self._around.ailing():
            raise StepError(problem)

    def claim(self, holds: object, text: str, found: object = "") -> None:
        """Tell what was proved. If it does not hold, the step has failed, `found` is told, and the step goes on."""
        self._screen.claim(text, holds=bool(holds), seconds=self._around.elapsed())
        if not holds:
            self.failures += 1
            if found != "":
                self._screen.failure(f"found instead: {found}")


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the story. `shown` is its line in the closing table. A `vital` one that breaks off ends the story."""

    title: str
    shown: str
    tell: Callable[[Scene], None]
    vital: bool = False


def tell(steps: Sequence[Step], surroundings: Surroundings) -> list[Row]:
    """Run the steps one after the other and return the rows of the closing table. Raises nothing but interrupts.

    The rest is not run once a vital step broke off, or an operator has ended by itself.
    """
    rows: list[Row] = []
    over = False
    for number, step in enumerate(steps, 1):
        if over:
            rows.append(Row(step.title, step.shown, None, "not run"))
            continue
        surroundings.screen.headline(f"{number}/{len(steps)} {step.title}")
        began = time.monotonic()
        scene = Scene(surroundings)
        finished = _tell_one(step, scene, surroundings)
        if scene.failures:
            surroundings.screen.failure(surroundings.where_to_look())
        verdict = "FAILED" if scene.failures else "ok"
        rows.append(Row(step.title, step.shown, time.monotonic() - began, verdict))
        over = bool(surroundings.ailing()) or (step.vital and not finished)
    return rows


def _tell_one(step: Step, scene: Scene, surroundings: Surroundings) -> bool:
    """Run one step and return whether it came to its end."""
    try:
        step.tell(scene)
        scene.expect_living()
    except _EXPECTED as error:
        # What a program logged before it died may follow the first line.
        first, *more = str(error).splitlines() or [type(error).__name__]
        scene.claim(holds=False, text=first)
        if more:
            _keep(surroundings.log, step, str(error))
    except Exception as error:  # noqa: BLE001 - a mistake of the demo's own must not hide what the other steps find
        scene.claim(holds=False, text=f"the demo itself is wrong: {type(error).__name__}: {error}")
        _keep(surroundings.log, step, traceback.format_exc())
    else:
        return True
    return False


def _keep(log: Path, step: Step, text: str) -> None:
    with log.open("a") as file:
        file.write(f"--- {step.title}\n{text}\n")
