"""Step 6: the status, a pure function of observed facts. Nothing in it is read back but the times of transitions."""

from __future__ import annotations

from typing import Any

from memcached_operator.api import names
from memcached_operator.controller.conditions import conditions
from memcached_operator.controller.facts import Facts
from memcached_operator.controller.observe import Observed
from memcached_operator.memcached.args import PORT


def server(ip: str) -> str:
    """`IP:PORT`, with brackets around an IPv6 address."""
    return f"[{ip}]:{PORT}" if ":" in ip else f"{ip}:{PORT}"


def compute_status(observed: Observed, facts: Facts, *, now: str) -> dict[str, Any]:
    """The status as JSON. `now` is RFC 3339."""
    previous = observed.memcached.status_json().get("conditions") or []
    return {
        "nodes": [pod.name for pod in observed.pods],
        "replicas": len(observed.pods),
        "readyReplicas": len(observed.ready_pods),
        "selector": names.selector_text(observed.memcached.name),
        "serverList": sorted(server(pod.ip) for pod in observed.ready_pods if pod.ip),
        "observedGeneration": observed.memcached.generation,
        "conditions": conditions(facts, previous, now),
    }
