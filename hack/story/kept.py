"""What a demo leaves behind: its folder, and with KEEP=1 a cluster and operators, until they are stopped."""

import contextlib
import json
import signal
from collections.abc import Iterable
from pathlib import Path

from controlplane import ControlPlane, ControlPlaneError, processes
from controlplane.paths import home

CLUSTER = "demo"
STOP = ".venv/bin/python hack/demo.py --stop"


def logs_folder() -> Path:
    """Return the folder of the operators' logs; each demo begins it anew."""
    return home() / "demo"


def remember(operators: Iterable[int]) -> None:
    """Write down that the cluster and the operators with these pids are to stay, so that `stop` finds them."""
    _file().write_text(json.dumps({str(pid): processes.started_at(pid) for pid in operators}))


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
