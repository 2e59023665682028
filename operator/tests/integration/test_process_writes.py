"""How many requests a life costs, counted in the API server's audit log.

`RESOURCES=1000 IDLE_SECONDS=600` is the full size.
"""

import os
import threading

from controlplane import ControlPlane, ReadAudit, StartOperator, wait_until
from memcacheds import Memcacheds, writes

RESOURCES = int(os.environ.get("RESOURCES", "40"))
IDLE_SECONDS = float(os.environ.get("IDLE_SECONDS", "3"))
USER = "memcached-operator"


def test_create_scale_restart_and_idle(
    control_plane: ControlPlane, namespace: str, start_operator: StartOperator, audit: ReadAudit
) -> None:
    caches = Memcacheds(control_plane, namespace)
    operator = start_operator()
    names = [f"cache-{number:04d}" for number in range(RESOURCES)]

    since = control_plane.audit_offset()
    for name in names:
        caches.create(name, size=1)
    caches.wait_ready(*names, timeout=300)
    created = writes(audit(user=USER, since=since))
    assert created.pop("patch memcacheds/status") <= 2 * RESOURCES
    assert created == {f"create {kind}": RESOURCES for kind in ("services", "deployments", "events")}

    since = control_plane.audit_offset()
    for name in names:
        caches.patch(name, size=0)
    caches.wait_ready(*names, timeout=300)
    scaled = writes(audit(user=USER, since=since))
    assert scaled.pop("patch memcacheds/status") <= 2 * RESOURCES
    assert scaled == {"patch deployments/scale": RESOURCES, "create events": RESOURCES}

    assert operator.terminate() == 0
    since = control_plane.audit_offset()
    restarted = start_operator()
    caches.create("witness", size=0)  # reconciled after all the others were queued
    caches.wait_ready("witness")
    wait_until(lambda: 'workqueue_depth{controller="memcached"} 0.0' in restarted.metrics(), 60, "an empty queue")
    others = [r for r in audit(user=USER, since=since) if not r.name.startswith("witness")]
    assert writes(others) == {}

    since = control_plane.audit_offset()
    threading.Event().wait(IDLE_SECONDS)  # there is nothing to wait for: that is what is tested
    assert writes(audit(user=USER, since=since)) == {}
