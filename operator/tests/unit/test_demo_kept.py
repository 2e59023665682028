import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import demo
from controlplane import OperatorProcess
from story import kept
from story.rig import Rig

FOR_EVER = ("-c", "import signal; signal.pause()")


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    monkeypatch.setenv("CONTROLPLANE_HOME", str(tmp_path / "home"))
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    kept.logs_folder().mkdir(parents=True)
    yield Rig(kept.logs_folder(), keep=True)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def operator(rig: Rig) -> Iterator[OperatorProcess]:
    with OperatorProcess.start(rig.logs / "kubeconfig", log=rig.logs / "log", program=FOR_EVER) as started:
        rig.operators.append(started)
        yield started


def test_nothing_was_kept(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    assert rig.operators == []
    assert not kept.runs()
    assert demo.main(["--stop"]) == 0
    assert capsys.readouterr().out == "no demo was left running\n"


def test_what_was_kept_is_stopped(operator: OperatorProcess, capsys: pytest.CaptureFixture[str]) -> None:
    kept.remember([operator.pid])
    assert kept.runs()
    assert demo.main(["--stop"]) == 0
    assert operator.wait(10) == -signal.SIGTERM
    assert not kept.runs()
    assert "are stopped" in capsys.readouterr().out


def test_no_second_demo_beside_a_kept_one(operator: OperatorProcess, capsys: pytest.CaptureFixture[str]) -> None:
    kept.remember([operator.pid])
    assert demo.main([]) == 1
    assert f"$ {kept.STOP}\n" in capsys.readouterr().out
    assert operator.alive()


def test_a_pid_that_belongs_to_somebody_else_by_now_is_left_alone(operator: OperatorProcess, rig: Rig) -> None:
    (rig.logs / "kept.json").write_text(f'{{"{operator.pid}": "long ago"}}')
    assert not kept.runs()
    assert kept.stop()
    assert operator.alive()


def test_an_operator_that_was_told_to_end_does_not_ail(operator: OperatorProcess, rig: Rig) -> None:
    assert rig.ailing() == ""
    rig.ends(operator)
    operator.kill()
    assert rig.ailing() == ""


def test_an_operator_that_ends_by_itself_ails(operator: OperatorProcess, rig: Rig) -> None:
    operator.kill()
    assert rig.ailing() == f"the operator with pid {operator.pid} has ended by itself, with code -9"
