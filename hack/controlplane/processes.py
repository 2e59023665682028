"""Facts about, and signals to, processes that are not our children (kwokctl detaches what it starts).

Read from /proc; where there is none (macOS), from `ps`.
"""

import os
import random
import signal
import socket
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from controlplane.waiting import wait_until

_PROC = Path("/proc")
_HAS_PROC = (_PROC / "self" / "stat").exists()
_DEAD_STATES = "ZX"
_SERVER_PORTS = range(11_000, 32_000)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process has used: `cpu_seconds` (user + system, 10 ms grain), `rss_bytes` (what the OOM killer sees)."""

    cpu_seconds: float
    rss_bytes: int


def is_alive(pid: int) -> bool:
    """Tell whether the process runs or is stopped; a zombie is dead, although signal 0 reaches it."""
    if _HAS_PROC:
        fields = _stat(pid)
        return fields is not None and (fields[0] not in _DEAD_STATES or _has_other_threads(pid))
    state = _ps(pid, "state")
    return bool(state) and state[0] not in _DEAD_STATES


def is_stopped(pid: int) -> bool:
    """Tell whether the process is held by SIGSTOP."""
    state = (_stat(pid) or [""])[0] if _HAS_PROC else _ps(pid, "state")
    return state.startswith("T")


def command_line(pid: int) -> str:
    """Return the arguments joined by blanks, or "" when there is no such process."""
    if not _HAS_PROC:
        return _ps(pid, "args")
    try:
        return (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def started_at(pid: int) -> str:
    """Return a text that, with the pid, names one process for ever; "" when there is none. Pids are used again."""
    if not _HAS_PROC:
        return _ps(pid, "lstart")
    return fields[19] if (fields := _stat(pid)) else ""


def usage(pid: int) -> Usage | None:
    """Return CPU time and resident memory of one process, None when it is gone. Linux only."""
    if (fields := _stat(pid)) is None:
        return None
    ticks = int(fields[11]) + int(fields[12])
    return Usage(ticks / os.sysconf("SC_CLK_TCK"), int(fields[21]) * os.sysconf("SC_PAGE_SIZE"))


def send(pid: int, sig: signal.Signals) -> bool:
    """Send a signal; False when the process was already gone."""
    try:
        os.kill(pid, sig)
    except ProcessLookupError:
        return False
    return True


def kill_and_wait(pids: Iterable[int], timeout: float = 10) -> None:
    """SIGKILL each pid and return when all are gone. Raises WaitTimeoutError after `timeout` seconds."""
    pids = tuple(pids)
    for pid in pids:
        send(pid, signal.SIGKILL)
    wait_until(
        lambda: [pid for pid in pids if is_alive(pid)],
        timeout,
        "killed processes to be gone",
        until=lambda alive: not alive,
        interval=0.01,
    )


def reserve_ports(count: int) -> list[int]:
    """Return different TCP ports that nothing listens on now, at random, below those the system gives to clients.

    At random, so that a server that is down for minutes is not likely to lose its port to the next one that starts.
    """
    found: list[int] = []
    for port in random.sample(_SERVER_PORTS, len(_SERVER_PORTS)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"no {count} free ports from {_SERVER_PORTS.start} to {_SERVER_PORTS.stop - 1}")


def listening_addresses(pid: int) -> set[tuple[str, int]]:
    """Return (address, port) of every TCP socket that the process listens on. Linux only.

    Addresses are dotted for IPv4 and as in /proc/net/tcp6 (32 hexadecimal digits) for IPv6.
    """
    inodes = set()
    for entry in (_PROC / str(pid) / "fd").iterdir():
        try:
            target = str(entry.readlink())
        except FileNotFoundError:
            continue  # closed since it was listed
        if target.startswith("socket:["):
            inodes.add(target[len("socket:[") : -1])
    found = set()
    for table in ("tcp", "tcp6"):
        for line in (_PROC / str(pid) / "net" / table).read_text().splitlines()[1:]:
            columns = line.split()
            listening = columns[3] == "0A"
            if listening and columns[9] in inodes:
                address, port = columns[1].rsplit(":", 1)
                found.add((_address(address), int(port, 16)))
    return found


def _address(digits: str) -> str:
    ipv4 = 8
    if len(digits) != ipv4:
        return digits
    # The kernel prints the 32 bits in the machine's byte order; all that we run on are little-endian.
    return ".".join(str(byte) for byte in reversed(bytes.fromhex(digits)))


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat from the state on (proc(5) numbers that one 3)."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The command's name, in brackets, may itself hold brackets and blanks.
    return text.rpartition(")")[2].split()


def _has_other_threads(pid: int) -> bool:
    """Tell whether threads outlive the first one: until the last has ended, the process keeps its ports and files."""
    try:
        return len(list((_PROC / str(pid) / "task").iterdir())) > 1
    except OSError:
        return False


def _ps(pid: int, column: str) -> str:
    result = subprocess.run(["ps", "-o", f"{column}=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return result.stdout.strip()
