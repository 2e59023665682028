"""A pod beside the caches that runs the small programs of e2e/programs/: clients in a cluster, with its DNS."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from real_cluster import Cluster, to_json

PROGRAMS = Path(__file__).parent / "programs"
NAME = "client"


class Run:
    """A program that runs in the pod until its standard input ends."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def finish(self, timeout: float = 60) -> dict[str, Any]:
        """Ask it to end; the JSON that it prints last. Raises AssertionError when it fails."""
        printed, told = self._process.communicate(timeout=timeout)
        assert self._process.returncode == 0, f"{printed}\n{told}"
        result: dict[str, Any] = json.loads(printed.splitlines()[-1])
        return result


@dataclass(frozen=True)
class ClientPod:
    """A pod of the operator's image, for the Python and the memcached client in it."""

    cluster: Cluster
    namespace: str

    @contextmanager
    def start(self, program: str, *arguments: str) -> Iterator[Run]:
        """Run programs/`program`.py; it is killed at the end of the block, unless it was finished."""
        script = (PROGRAMS / f"{program}.py").read_text()
        command = [self.cluster.kubectl_path, "exec", "--stdin", "--namespace", self.namespace, NAME, "--"]
        with subprocess.Popen(
            [*command, "python", "-u", "-c", script, *arguments],
            env=self.cluster.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield Run(process)
            finally:
                process.kill()

    def run(self, program: str, *arguments: str, timeout: float = 120) -> dict[str, Any]:
        """Run a program that ends by itself; the JSON that it prints last."""
        with self.start(program, *arguments) as running:
            return running.finish(timeout)


def start_client_pod(cluster: Cluster, namespace: str, image: str) -> ClientPod:
    """Make the pod and wait until it runs."""
    container = {
        "name": "client",
        "image": image,
        "command": ["python", "-c", "import signal; signal.sigwait({signal.SIGTERM})"],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    spec = {"containers": [container], "automountServiceAccountToken": False, "restartPolicy": "Never"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": NAME}, "spec": spec}
    cluster.kubectl("apply", "--namespace", namespace, "-f", "-", given=to_json(pod))
    cluster.kubectl("wait", "--namespace", namespace, "--for=condition=Ready", f"pod/{NAME}", "--timeout=60s")
    return ClientPod(cluster, namespace)
