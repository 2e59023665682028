import signal
from pathlib import Path

import pytest

from controlplane import OperatorProcess, OperatorProcessError, wait_until
from controlplane.operator_process import free_ports

# It answers as the operator does: ready at once, on the two addresses that it is told.
STAND_IN = """
import argparse, http.server, os, signal, sys, threading
parser = argparse.ArgumentParser()
parser.add_argument("--metrics-bind-address"); parser.add_argument("--health-probe-bind-address")
parser.add_argument("--exit", type=int)
given = parser.parse_args()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
print("KUBECONFIG", os.environ["KUBECONFIG"], "WATCH_NAMESPACE", os.environ.get("WATCH_NAMESPACE"), flush=True)
if given.exit is not None:
    print("the last words", file=sys.stderr); sys.exit(given.exit)
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path in ("/readyz", "/metrics") else 500); self.end_headers()
        self.wfile.write(b"a_metric 1\\n")
    def log_message(self, *args): pass
for address in (given.metrics_bind_address, given.health_probe_bind_address):
    host, port = address.split(":")
    server = http.server.ThreadingHTTPServer((host, int(port)), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
signal.sigwait({signal.SIGTERM})
sys.exit(7)
"""
PROGRAM = ("-c", STAND_IN)


def test_its_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCH_NAMESPACE", "of-the-developer")
    with OperatorProcess.start(tmp_path / "kubeconfig", log=tmp_path / "log", program=PROGRAM) as operator:
        assert operator.wait_ready() is operator
        assert operator.alive()
        assert not operator.live()
        assert operator.metrics() == "a_metric 1\n"
        assert operator.terminate() == 7
        assert not operator.alive()
        assert not operator.ready()
    assert operator.log_text() == f"KUBECONFIG {tmp_path / 'kubeconfig'} WATCH_NAMESPACE None\n"


def test_one_that_ends_before_it_is_ready_is_reported_with_its_last_words(tmp_path: Path) -> None:
    with (
        OperatorProcess.start(tmp_path / "k", "--exit=3", log=tmp_path / "log", program=PROGRAM) as operator,
        pytest.raises(OperatorProcessError, match=r"ended with 3 before it was ready:\n(.*\n)*the last words"),
    ):
        operator.wait_ready()
    assert operator.exit_code == 3


def test_a_paused_one_is_alive_and_silent_and_can_be_killed(tmp_path: Path) -> None:
    with OperatorProcess.start(tmp_path / "k", log=tmp_path / "log", program=PROGRAM) as operator:
        operator.wait_ready()
        operator.pause()
        assert operator.alive()
        with pytest.raises(OperatorProcessError, match="runs on after 0 s"):
            operator.wait(0)
        operator.resume()
        wait_until(operator.ready, 10, "it to answer again")
        operator.pause()
        assert operator.kill() == -signal.SIGKILL
        assert operator.kill() == -signal.SIGKILL


def test_a_second_start_appends_to_the_same_log(tmp_path: Path) -> None:
    for _ in range(2):
        with OperatorProcess.start(tmp_path / "k", "--exit=0", log=tmp_path / "log", program=PROGRAM) as operator:
            assert operator.wait(20) == 0
    assert operator.log_text().count("the last words") == 2


def test_free_ports_differ() -> None:
    ports = free_ports(5)
    assert len(set(ports)) == 5
