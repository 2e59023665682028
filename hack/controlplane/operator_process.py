"""The real operator as a process of this machine, for the tests, the demo and the benchmark."""

import http.client
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Protocol, Self

from controlplane import paths, processes
from controlplane.waiting import WaitTimeoutError, wait_until

HOST = "127.0.0.1"
OPERATOR = ("-m", "memcached_operator", "run")
_OK = 200
_NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
# A developer's own settings (WATCH_NAMESPACE, OTEL_*, ...) must not change what is tested.
_INHERITED = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "TZ", "SYSTEMROOT", "VIRTUAL_ENV", "LD_LIBRARY_PATH")


class OperatorProcessError(AssertionError):
    """The operator ended, or did not end, when the contrary was expected; the text has the end of its log."""


class StartOperator(Protocol):
    """Starts one more operator, with defaults that its giver documents; further flags win over them."""

    def __call__(
        self, *args: str, kubeconfig: Path | None = None, env: dict[str, str] | None = None, ready: bool = True
    ) -> "OperatorProcess":
        """Return the operator: when it is ready, or at once if `ready` is false."""


class OperatorProcess:
    """One running operator, a child of this process. Used in `with`, it is killed at the end of the block.

    `pid`, `args` (the full command), `log` (the file with its stdout and stderr), `metrics_port` and `health_port`
    (both on 127.0.0.1) are there to read.
    """

    def __init__(
        self, process: "subprocess.Popen[bytes]", args: Sequence[str], log: Path, metrics_port: int, health_port: int
    ) -> None:
        self._process = process
        self.pid = process.pid
        self.args = tuple(args)
        self.log = log
        self.metrics_port = metrics_port
        self.health_port = health_port

    @classmethod
    def start(
        cls,
        kubeconfig: Path,
        *args: str,
        log: Path,
        env: Mapping[str, str] = _NO_VARIABLES,
        program: Sequence[str] = OPERATOR,
        python: str = sys.executable,
    ) -> Self:
        """Start the operator against `kubeconfig` and return at once; `wait_ready` waits.

        `args` are further flags and win over the two addresses given here. The environment is clean but for PATH and
        the like, KUBECONFIG, PYTHONPATH (this clone's operator) and `env`. `program` replaces the module that Python
        runs; it has to know the same two flags. The log is appended to: a restart keeps the story in one file.
        """
        metrics_port, health_port = free_ports(2)
        command = [
            python,
            *program,
            f"--metrics-bind-address={HOST}:{metrics_port}",
            f"--health-probe-bind-address={HOST}:{health_port}",
            *args,
        ]
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        source = {"PYTHONPATH": str(paths.REPOSITORY / "operator"), "KUBECONFIG": str(kubeconfig)}
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as words:
            process = subprocess.Popen(
                command, env={**inherited, **source, **env}, stdin=subprocess.DEVNULL, stdout=words, stderr=words
            )
        return cls(process, command, log, metrics_port, health_port)

    def alive(self) -> bool:
        """Tell whether the process has not ended; a stopped one has not."""
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """Return the exit code, negative for a signal, None while it runs."""
        return self._process.poll()

    def ready(self) -> bool:
        """Tell whether /readyz says yes: caches are synced, leader or not."""
        return self._asks_well("/readyz")

    def live(self) -> bool:
        """Tell whether /healthz says yes: the operator makes progress."""
        return self._asks_well("/healthz")

    def wait_ready(self, timeout: float = 30) -> Self:
        """Return self when `ready`. Raises OperatorProcessError when it ended or the time (s) is over."""

        def ready_or_over() -> bool:
            if not self.alive():
                raise OperatorProcessError(
                    f"the operator ended with {self.exit_code} before it was ready:\n{self.tail()}"
                )
            return self.ready()

        try:
            wait_until(ready_or_over, timeout, "the operator to be ready")
        except WaitTimeoutError as error:
            raise OperatorProcessError(f"{error}\n{self.tail()}") from error
        return self

    def metrics(self) -> str:
        """Return what /metrics serves. Raises OSError or http.client.HTTPException when it does not answer."""
        return self._get(self.metrics_port, "/metrics")[1]

    def usage(self) -> processes.Usage | None:
        """Return CPU time and resident memory, None when it has ended. Linux only."""
        return processes.usage(self.pid)

    def terminate(self, timeout: float = 30) -> int:
        """SIGTERM, as a rollout does; return the exit code. Raises OperatorProcessError after `timeout` seconds."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout)

    def kill(self) -> int:
        """SIGKILL and return when it is gone, with the exit code. Does nothing to one that has ended."""
        self.signal(signal.SIGKILL)
        return self.wait(10)

    def pause(self) -> None:
        """SIGSTOP: it keeps its connections and does nothing until `resume`."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self.signal(signal.SIGCONT)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to this process, if it has not ended."""
        self._process.send_signal(number)

    def wait(self, timeout: float) -> int:
        """Return the exit code when it has ended by itself. Raises OperatorProcessError after `timeout` seconds."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise OperatorProcessError(f"the operator runs on after {timeout:g} s:\n{self.tail()}") from error

    def log_text(self) -> str:
        """Return the whole log."""
        return self.log.read_text(errors="replace")

    def tail(self, lines: int = 20) -> str:
        """Return the last lines of the log."""
        return "\n".join(self.log_text().splitlines()[-lines:])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _asks_well(self, path: str) -> bool:
        try:
            return self._get(self.health_port, path)[0] == _OK
        except (OSError, http.client.HTTPException):
            return False

    @staticmethod
    def _get(port: int, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(HOST, port, timeout=5)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode(errors="replace")
        finally:
            connection.close()


def free_ports(count: int) -> list[int]:
    """Return different TCP ports of 127.0.0.1 that nothing listens on now."""
    # All are held until the last is known: one that is closed may be given out again.
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    try:
        return [int(held.getsockname()[1]) for held in sockets]
    finally:
        for held in sockets:
            held.close()
