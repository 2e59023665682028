import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane import processes, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

SLEEPER = [sys.executable, "-c", "import signal; signal.pause()", "a mark"]


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(SLEEPER) as process:
        yield process
        process.kill()


def test_a_running_process_is_alive_and_can_be_told_from_another(sleeper: "subprocess.Popen[bytes]") -> None:
    assert processes.is_alive(sleeper.pid)
    wait_until(lambda: processes.command_line(sleeper.pid), 10, "the command line", until=lambda line: "a mark" in line)
    assert processes.started_at(sleeper.pid)
    assert processes.started_at(sleeper.pid) != processes.started_at(os.getpid())


def test_a_zombie_is_dead(sleeper: "subprocess.Popen[bytes]") -> None:
    sleeper.send_signal(signal.SIGKILL)
    wait_until(lambda: not processes.is_alive(sleeper.pid), 10, "the killed process to be dead")
    os.kill(sleeper.pid, 0)  # nobody has reaped it, so the number still answers


HEADLESS = """
import ctypes, threading
threading.Thread(target=threading.Event().wait).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_is_alive_until_its_last_thread_has_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", HEADLESS]) as process:
        state = Path(f"/proc/{process.pid}/stat")
        wait_until(state.read_text, 10, "the first thread to end", until=lambda stat: stat.rpartition(")")[2][1] == "Z")
        assert processes.is_alive(process.pid)
        processes.kill_and_wait([process.pid])
        assert not processes.is_alive(process.pid)


def test_a_stopped_process_is_alive(sleeper: "subprocess.Popen[bytes]") -> None:
    assert not processes.is_stopped(sleeper.pid)
    assert processes.send(sleeper.pid, signal.SIGSTOP)
    wait_until(lambda: processes.is_stopped(sleeper.pid), 10, "the process to stop")
    assert processes.is_alive(sleeper.pid)


def test_a_process_that_is_gone_has_no_facts(sleeper: "subprocess.Popen[bytes]") -> None:
    sleeper.kill()
    sleeper.wait()
    assert not processes.is_alive(sleeper.pid)
    assert processes.command_line(sleeper.pid) == ""
    assert processes.started_at(sleeper.pid) == ""
    assert processes.usage(sleeper.pid) is None
    assert not processes.send(sleeper.pid, signal.SIGTERM)


def test_kill_and_wait_returns_when_all_are_dead(sleeper: "subprocess.Popen[bytes]") -> None:
    with subprocess.Popen(SLEEPER) as other:
        processes.kill_and_wait([sleeper.pid, other.pid])
        assert not processes.is_alive(sleeper.pid)
        assert not processes.is_alive(other.pid)


def test_usage_of_this_process() -> None:
    used = processes.usage(os.getpid())
    assert used is not None
    assert used.cpu_seconds > 0
    assert used.rss_bytes > 1 << 20


@pytest.mark.parametrize(("host", "seen"), (("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "0.0.0.0"), ("::", "0" * 32)))  # noqa: S104 - it must be recognised
def test_listening_addresses_tell_loopback_from_everywhere(host: str, seen: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        assert (seen, server.getsockname()[1]) in processes.listening_addresses(os.getpid())


def test_reserved_ports_differ_and_can_be_bound() -> None:
    ports = processes.reserve_ports(20)
    assert len(set(ports)) == 20
    assert max(ports) < 32_768  # where Linux begins to give ports to clients
    with socket.create_server(("127.0.0.1", ports[0])):
        pass


def test_a_connection_is_not_a_listener() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        listening = {port for _, port in processes.listening_addresses(os.getpid())}
        assert server.getsockname()[1] in listening
        assert client.getsockname()[1] not in listening
