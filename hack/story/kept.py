"""What KEEP=1 leaves running, and how it is stopped."""

import contextlib
import json
import signal
from pathlib import Path

from controlplane import ControlPlane, ControlPlaneError, processes
from story.rig import CLUSTER, Rig, logs_folder

STOP = ".venv/bin/python hack/demo.py --stop"


def remember(rig: Rig) -> None:
    """Write down which operators are left running, so that `stop` finds them."""
    living = [operator.pid for operator in rig.operators if operator.alive()]
    _file().write_text(json.dumps({str(pid): processes.started_at(pid) for pid in living}))


def runs() -> bool:
    """Tell whether something of a kept demo is still alive."""
    return _file().exists() and bool(_operators() or _components())


def stop() -> bool:
    """End what was kept and return True; False when there is nothing."""
    if not _file().exists():
        return False
    for pid in _operators():
        processes.send(pid, signal.SIGTERM)
    with contextlib.suppress(ControlPlaneError):  # it was stopped by other means
        ControlPlane.attach(CLUSTER).stop()
    processes.kill_and_wait(_operators())
    _file().unlink()
    return True


def _file() -> Path:
    return logs_folder() / "kept.json"


def _operators() -> list[int]:
    """Return the pids of the operators that live; after a reboot a number may be anybody's."""
    recorded: dict[str, str] = json.loads(_file().read_text())
    return [int(pid) for pid, began in recorded.items() if began and processes.started_at(int(pid)) == began]


def _components() -> dict[str, int]:
    try:
        return ControlPlane.attach(CLUSTER).pids()
    except ControlPlaneError:
        return {}
