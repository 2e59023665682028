"""Step 6: the status, a pure function of observed facts. Nothing in it is read back but the times of transitions."""

from __future__ import annotations

from typing import Any

from memcached_operator.api import names
from memcached_operator.api.conditions import Reason
from memcached_operator.api.problems import Invalid
from memcached_operator.api.v1alpha1 import Memcached
from memcached_operator.controller import conditions
from memcached_operator.controller.apply import Applied
from memcached_operator.controller.observe import Observed

PORT = 11211


def server(ip: str) -> str:
    """`IP:PORT`, with brackets around an IPv6 address."""
    return f"[{ip}]:{PORT}" if ":" in ip else f"{ip}:{PORT}"


def compute_status(
    observed: Observed,
    parsed: Memcached | Invalid,
    applied: Applied,
    *,
    now: str,
    autoscaler: str = "",
    deleting: str = "",
) -> dict[str, Any]:
    """The status as JSON. `now` is RFC 3339; `autoscaler` names a foreign one; `deleting` says what a deletion is doing."""
    size = parsed.spec.size if isinstance(parsed, Memcached) else _size_of_deployment(observed)
    if isinstance(parsed, Invalid):
        wrong: tuple[Reason, str] | None = (Reason.INVALID_SPEC, parsed.summary())
    else:
        wrong = conditions.trouble(observed, applied, autoscaler)
    facts = conditions.Facts(
        observed=observed,
        size=size,
        settled=conditions.settled(observed, size),
        deleting=deleting,
        paused=isinstance(parsed, Memcached) and parsed.spec.paused,
        trouble=wrong,
        stage=conditions.stage(observed, size),
    )
    previous = observed.memcached.status_json().get("conditions") or []
    return {
        "nodes": [pod.name for pod in observed.pods],
        "replicas": len(observed.pods),
        "readyReplicas": len(observed.ready_pods),
        "selector": names.selector_text(observed.memcached.name),
        "serverList": sorted(server(pod.ip) for pod in observed.ready_pods if pod.ip),
        "observedGeneration": observed.memcached.generation,
        "conditions": conditions.conditions(facts, previous, now),
    }


def _size_of_deployment(observed: Observed) -> int:
    """With an invalid spec the children stay as they are."""
    return observed.deployment.replicas if observed.deployment else 0
