"""Who takes part in the race, and how each is started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from bench import programs
from controlplane import processes
from controlplane.operator_process import HOST, free_ports
from controlplane.paths import REPOSITORY

LEASES = "default"
"""The namespace of every contestant's Lease: the peers' is written in their source."""


@dataclass(frozen=True)
class Contestant:
    """An operator in one configuration. `program` is a Go peer's name or a Python command line."""

    name: str
    program: str | tuple[str, ...]
    flags: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    elects: bool = True  # two of it agree who writes

    @property
    def user(self) -> str:
        """Who it is to the API server: one name a contestant, so that the audit log tells them apart."""
        return f"bench-{self.name}"

    def command(self, ports: Sequence[int]) -> list[str]:
        """Return the whole command line; `ports` are for metrics and for probes."""
        addresses = [f"{HOST}:{port}" for port in ports]
        flags = [flag.format(metrics=addresses[0], probe=addresses[1]) for flag in self.flags]
        if isinstance(self.program, str):
            return [str(programs.built(self.program)), *flags]
        return [sys.executable, *self.program, *flags]


_GO = ("-service", "-metrics={metrics}", "-probe={probe}")
_TUNED = ("-concurrency=10", *_GO)

CONTESTANTS = {
    contestant.name: contestant
    for contestant in (
        Contestant(
            "ours",
            ("-m", "memcached_operator", "run"),
            (
                f"--leader-election-namespace={LEASES}",
                "--metrics-bind-address={metrics}",
                "--health-probe-bind-address={probe}",
            ),
            MappingProxyType({"PYTHONPATH": str(REPOSITORY / "operator")}),
        ),
        Contestant("go-default", "go-peer", _GO),
        Contestant("go-tuned", "go-peer", _TUNED),
        Contestant("go-best", "go-peer", ("-lean", *_TUNED), MappingProxyType({"GOGC": "50"})),
        Contestant(
            "kopf-idiom",
            ("-m", "kopf", "run", "--all-namespaces", "--standalone", "--quiet", str(programs.PEERS / "kopf_idiom.py")),
            (),
            elects=False,
        ),
    )
}
OURS = CONTESTANTS["ours"]
PEERS = tuple(name for name in CONTESTANTS if name != "ours")


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes in RAM: `resident` is what the OOM killer sees, `anonymous` the part that is in no file."""

    resident: int
    anonymous: int


class Running:
    """One contestant's process. Used in `with`, it is killed at the end of the block."""

    def __init__(self, contestant: Contestant, kubeconfig: Path, log: Path) -> None:
        environment = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH") if name in os.environ}
        environment |= {"KUBECONFIG": str(kubeconfig), **contestant.env}
        self.contestant = contestant
        with log.open("ab") as words:
            self._process = subprocess.Popen(
                contestant.command(free_ports(2)),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
            )
        self.pid = self._process.pid
        self._log = log

    def cpu(self) -> float:
        """CPU seconds since its start, user and system, in steps of 10 ms. Raises RuntimeError when it has ended."""
        usage = processes.usage(self.pid)
        if usage is None or self._process.poll() is not None:
            words = self._log.read_text(errors="replace")[-1000:]
            raise RuntimeError(f"{self.contestant.name} ended with {self._process.poll()}:\n{words}")
        return usage.cpu_seconds

    def memory(self) -> Memory:
        """What it has in RAM now, from /proc/PID/smaps_rollup."""
        lines = Path(f"/proc/{self.pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
        sizes = {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}
        return Memory(sizes["Rss"], sizes["Anonymous"])

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it has not ended."""
        self._process.send_signal(number)

    def stop(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send the signal and return when it is gone; after 30 s it is killed."""
        self.send(number)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
