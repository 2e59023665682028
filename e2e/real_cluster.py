"""A kind cluster as the tests see it: kubectl, a client for JSON, and the protocol of the caches in it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import re
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import yaml

from controlplane import wait_until
from controlplane.api import Api, object_path
from controlplane.credentials import Credentials
from controlplane.paths import REPOSITORY
from memcached_operator.memcached.client import Client
from memcacheds import Memcacheds

T = TypeVar("T")
OPERATOR_NAMESPACE = "memcached-operator-system"
IMAGE = "example.com/memcached-operator"
RESTRICTED = {
    "pod-security.kubernetes.io/enforce": "restricted",
    "pod-security.kubernetes.io/warn": "restricted",
}
PORT = 11211
READY = float(os.environ.get("E2E_PATIENCE", "120"))
"""Seconds that pods may take to become ready, or to be gone."""


@dataclass(frozen=True)
class Cluster:
    """One cluster, by its administrator's kubeconfig."""

    kubeconfig: Path
    kubectl_path: str
    api: Api

    def kubectl(self, *arguments: str, given: str | None = None, check: bool = True) -> str:
        """Run kubectl; return what it prints, errors too. Raises AssertionError with all of it when it fails."""
        done = subprocess.run(
            [self.kubectl_path, *arguments],
            env=self.environment(),
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert not check or done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.returncode}\n{done.stdout}"
        return done.stdout

    def environment(self) -> dict[str, str]:
        """The environment of a program that is to work with this cluster."""
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    @contextlib.contextmanager
    def forward(self, namespace: str, pod: str) -> Iterator[str]:
        """A local `host:port` that leads to the pod's memcached."""
        command = [self.kubectl_path, "port-forward", "--namespace", namespace, f"pod/{pod}", f":{PORT}"]
        with subprocess.Popen(command, env=self.environment(), stdout=subprocess.PIPE, text=True) as forwarding:
            try:
                assert forwarding.stdout is not None
                first = forwarding.stdout.readline()  # Forwarding from 127.0.0.1:34567 -> 11211
                found = re.search(r"(127\.0\.0\.1:\d+) ->", first)
                assert found, f"kubectl port-forward to {pod} said {first!r}"
                yield found[1]
            finally:
                forwarding.terminate()

    def speak(self, namespace: str, pod: str, talk: Callable[[Client], Awaitable[T]]) -> T:
        """What `talk` returns, called with a connection to the pod's memcached."""

        async def connect(address: str) -> T:
            async with await Client.connect(address) as cache:
                return await talk(cache)

        with self.forward(namespace, pod) as address:
            return asyncio.run(connect(address))


def make(cluster: Cluster, *words: str) -> str:
    """Run a target of the Makefile against the cluster; return what it prints."""
    done = subprocess.run(
        ["make", "--no-print-directory", *words],
        cwd=REPOSITORY,
        env=cluster.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"make {' '.join(words)}: {done.returncode}\n{done.stdout}"
    return done.stdout


def operator_repository() -> str:
    """Where the operator's images are: in E2E_REGISTRY, where it is set.

    One name in all suites: once a kubelet has pulled an image, it does not run the same one under another name that it
    never pulled (KEP-2535), although `kind load` has put it there.
    """
    registry = os.environ.get("E2E_REGISTRY", "").rstrip("/")
    return f"{registry}/memcached-operator" if registry else IMAGE


def credentials(kubeconfig: Path, folder: Path) -> Credentials:
    """The current context's server and client certificate, with the PEM files written into `folder`."""
    config: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
    (cluster,) = [c["cluster"] for c in config["clusters"]]
    (user,) = [u["user"] for u in config["users"]]

    def write(name: str, encoded: str) -> Path:
        path = folder / name
        path.touch(mode=0o600)
        path.write_bytes(base64.b64decode(encoded))
        return path

    return Credentials(
        cluster["server"],
        write("ca.crt", cluster["certificate-authority-data"]),
        write("client.crt", user["client-certificate-data"]),
        write("client.key", user["client-key-data"]),
    )


async def roundtrip(cache: Client) -> str:
    """Set a key and get it back; the version. Raises ProtocolError, and AssertionError when it is not what was set."""
    await cache.set("e2e", b"one\r\ntwo")
    assert await cache.get("e2e") == b"one\r\ntwo"
    return await cache.version()


def nodes(caches: Memcacheds, name: str) -> list[str]:
    found: list[str] = (caches.get(name) or {}).get("status", {}).get("nodes", [])
    return found


def wait_nodes(caches: Memcacheds, name: str, number: int) -> list[str]:
    return wait_until(partial(nodes, caches, name), READY, f"{number} nodes", until=lambda found: len(found) == number)


def wait_condition(caches: Memcacheds, name: str, kind: str, reason: str) -> dict[str, Any]:
    observe = partial(caches.condition, name, kind)
    return wait_until(observe, READY, f"{kind} {reason}", until=lambda c: c.get("reason") == reason)


def wait_serving(cluster: Cluster, caches: Memcacheds, name: str, number: int) -> list[str]:
    """Until the Memcached is Ready with so many pods, each of which keeps a key; their names."""

    def ready() -> list[str]:
        found = nodes(caches, name)
        return found if len(found) == number and caches.ready(name) else []

    pods = wait_until(ready, READY, f"{name} to be Ready with {number} pods")
    for pod in pods:
        assert cluster.speak(caches.namespace, pod, roundtrip)
    return pods


def lives(caches: Memcacheds, name: str) -> dict[str, int]:
    """Pod's uid -> how often its memcached was restarted."""
    selector = f"?labelSelector=memcached_cr={name}"
    pods = caches.api.get(object_path("v1", "pods", caches.namespace) + selector)["items"]
    statuses = {pod["metadata"]["uid"]: pod["status"]["containerStatuses"] for pod in pods}
    return {uid: sum(status["restartCount"] for status in containers) for uid, containers in statuses.items()}


def to_json(*documents: dict[str, Any]) -> str:
    """For `kubectl apply -f -`."""
    return "\n---\n".join(map(json.dumps, documents))
