"""The floor: the same cluster with no operator, where the driver itself makes the bare writes of a life.

A Memcached, its Service and its Deployment are created, and one status is written when the Deployment is ready. No
operator can be faster, because it has to make the same three writes and learn of things before it acts.
"""

from __future__ import annotations

import concurrent.futures
import http.client
import json
import ssl
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.distribution import quantile
from bench.rig import CREATORS, Rig, names
from controlplane.api import Api, object_path
from memcacheds import CACHES

LONE_WRITES = 50
READY_SECONDS = 600.0


def run(rig: Rig, n: int, prefix: str) -> dict[str, float]:
    """Make n lives by bare writes: seconds until all are ready (`ready_s`), and a lone write's `write_p50_ms`."""
    begin = time.monotonic()
    with _deployments(rig) as events, concurrent.futures.ThreadPoolExecutor(CREATORS + 1) as pool:
        reporting = pool.submit(_report, rig, events, n)
        list(pool.map(lambda first: _create(rig, n, prefix, first), range(CREATORS)))
        reporting.result(READY_SECONDS)
    ready = time.monotonic() - begin
    rig.quiesce()
    times = sorted(_lone_write(rig, number % n, prefix, number) for number in range(LONE_WRITES))
    return {"ready_s": ready, "write_p50_ms": quantile(times, 0.5)}


def _create(rig: Rig, n: int, prefix: str, first: int) -> None:
    with Api(rig.driver) as api:
        for number in range(first, n, CREATORS):
            namespace, name = names(number, prefix)
            body = {"apiVersion": CACHES, "kind": "Memcached", "metadata": {"name": name}, "spec": {"size": 1}}
            owner = api.create(object_path(CACHES, "memcacheds", namespace), body)
            service, deployment = _children(owner)
            api.create(object_path("v1", "services", namespace), service)
            api.create(object_path("apps/v1", "deployments", namespace), deployment)


def _children(owner: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    labels = {"floor": owner["metadata"]["name"]}
    reference = {"apiVersion": CACHES, "kind": "Memcached", "controller": True}
    reference |= {key: owner["metadata"][key] for key in ("name", "uid")}
    metadata = {"name": owner["metadata"]["name"], "labels": labels, "ownerReferences": [reference]}
    port = {"name": "memcached", "port": 11211}
    container = {"name": "memcached", "image": "memcached:1.6", "ports": [{"containerPort": 11211}]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return (
        {"metadata": metadata, "spec": {"clusterIP": "None", "selector": labels, "ports": [port]}},
        {"metadata": metadata, "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}},
    )


def _report(rig: Rig, events: Iterator[dict[str, Any]], n: int) -> None:
    """Write one status for each Deployment that becomes ready, until all have."""
    done: set[tuple[str, str]] = set()
    with Api(rig.driver) as api:
        for event in events:
            metadata = event["object"]["metadata"]
            key = (metadata["namespace"], metadata["name"])
            if key in done or not event["object"].get("status", {}).get("readyReplicas"):
                continue
            done.add(key)
            path = object_path(CACHES, "memcacheds", *key)
            api.patch(f"{path}/status", {"status": {"nodes": [f"{metadata['name']}-0"]}})
            if len(done) == n:
                return


@contextmanager
def _deployments(rig: Rig) -> Iterator[Iterator[dict[str, Any]]]:
    """Events of Deployments from now on."""
    credentials = rig.driver
    parts = urllib.parse.urlsplit(credentials.server)
    context = ssl.create_default_context(cafile=str(credentials.authority))
    context.load_cert_chain(credentials.certificate, credentials.key)
    path = object_path("apps/v1", "deployments")
    version = rig.cluster.api.get(path + "?limit=1")["metadata"]["resourceVersion"]
    connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=READY_SECONDS, context=context)
    try:
        connection.request("GET", f"{path}?watch=true&resourceVersion={version}")
        answer = connection.getresponse()
        yield (json.loads(line) for line in answer)
    finally:
        connection.close()


def _lone_write(rig: Rig, number: int, prefix: str, replicas: int) -> float:
    """Milliseconds of one scaling, asked by itself: 0 and 1 replica in turns."""
    namespace, name = names(number, prefix)
    path = object_path("apps/v1", "deployments", namespace, name) + "/scale"
    begin = time.monotonic()
    rig.cluster.api.patch(path, {"spec": {"replicas": 2 + replicas % 2}})
    return (time.monotonic() - begin) * 1000
