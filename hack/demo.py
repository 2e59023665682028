"""`make demo`: a real control plane, the real operator on it, and what they do, told as it happens."""

import argparse
import shutil
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from controlplane import ControlPlaneError, binaries, paths
from story import kept
from story.chapters import chapters
from story.opening import shown_path
from story.rig import Rig
from story.screen import Screen
from story.telling import Surroundings, tell

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; return 0, 1 when something that was claimed did not hold, 130 when it was interrupted."""
    arguments = _parser().parse_args(argv)
    screen = Screen()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        with paths.locked(paths.home() / ".demo.lock", "waiting for the demo in another terminal to end ..."):
            return _stop(screen) if arguments.stop else _demo(screen, keep=arguments.keep)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (binaries.BinaryError, ControlPlaneError) as error:
        screen.failure(str(error))
        return 1


def _demo(screen: Screen, *, keep: bool) -> int:
    if kept.runs():
        screen.failure("A demo was left running (KEEP=1). To stop it:")
        screen.command(kept.STOP)
        return 1
    binaries.ensure()
    logs = kept.logs_folder()
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    rig = Rig(logs, keep=keep)
    left_running = False
    try:
        good = _tell(screen, rig)
        if keep and rig.cluster is not None:
            left_running = True
            _explain(screen, rig)
    except KeyboardInterrupt:
        screen.note("interrupted: stopping the operator and the control plane")
        raise
    finally:
        if not left_running:
            # A second Ctrl-C must not leave half of it behind; it takes a second.
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            rig.close()
    return 0 if good else 1


def _tell(screen: Screen, rig: Rig) -> bool:
    """Tell the story and return whether all of it held."""
    surroundings = Surroundings(
        screen=screen,
        folder=paths.REPOSITORY,
        environment=rig.environment,
        ailing=rig.ailing,
        where_to_look=lambda: _where_to_look(rig),
        log=rig.logs / "demo.log",
    )
    screen.note("About a minute. What stands behind a $ is really run, and every line with ok was checked.")
    rows = tell(chapters(rig), surroundings)
    screen.summary(rows)
    good = all(row.verdict == "ok" for row in rows)
    seconds = surroundings.elapsed()
    words = "everything held" if good else "not everything held: see above"
    screen.claim(f"{words} (exit code {0 if good else 1})", holds=good, seconds=seconds)
    return good


def _where_to_look(rig: Rig) -> str:
    logs = " ".join(log.name for log in sorted(rig.logs.glob("*.log")))
    words = [f"logs in {shown_path(rig.logs)}: {logs}"] if logs else []
    if not rig.keep:
        words.append("KEEP=1 leaves the cluster running, to look around in it")
    return "; ".join(words)


def _explain(screen: Screen, rig: Rig) -> None:
    screen.headline("left running")
    screen.note("To use it:")
    screen.answer(rig.exports())
    screen.note("Then, for example:")
    screen.command("kubectl apply -f config/samples/cache_v1alpha1_memcached.yaml")
    screen.command("kubectl get memcached --watch")
    for operator in rig.operators:
        if operator.alive():
            screen.note(
                f"The operator has pid {operator.pid}, its log is {shown_path(operator.log)}, its metrics are at "
                f"http://127.0.0.1:{operator.metrics_port}/metrics"
            )
    screen.note("To stop all of it:")
    screen.command(kept.STOP)


def _stop(screen: Screen) -> int:
    stopped = kept.stop()
    screen.note("the operator and the control plane are stopped" if stopped else "no demo was left running")
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="demo.py", description="A control plane, the operator, and its story.")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--keep", action="store_true", help="leave the cluster and the operator running at the end")
    group.add_argument("--stop", action="store_true", help="stop what --keep left running")
    return parser


if __name__ == "__main__":
    sys.exit(main())
