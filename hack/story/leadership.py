"""The operator's own end: killed and started again, and replaced by another."""

import time

from story.opening import SAMPLE, leading, serving, start
from story.rig import LEASE_SECONDS, OPERATOR_NAMESPACE, Rig, metric, settled, tally
from story.telling import Scene

_LEASE = f"kubectl get lease --namespace {OPERATOR_NAMESPACE}"


def restart(rig: Rig, scene: Scene) -> None:
    """Kill the operator without warning, and start it again: it looks at everything and changes nothing."""
    mark = rig.mark()
    scene.act("kubectl apply -k config/samples")
    scene.show("kubectl wait --for=condition=Ready memcached --all --timeout=60s")
    scene.show("kubectl get memcached")
    names = rig.names()
    scene.until(lambda: rig.rested(mark), "the operator to rest")
    addresses = {name: serving(rig, scene, name) for name in names}
    old = leading(rig)
    mark = rig.mark()
    rig.ends(old)
    scene.act(f"kill -9 {old.pid}")
    old.wait(10)
    scene.claim(
        addresses == {name: rig.endpoints(name) for name in names},
        "Nobody steers now, and no client notices: the addresses are the same.",
    )
    new = start(rig, scene, "operator-2")
    scene.until(
        lambda: metric(new.metrics(), "memcached_operator_leader") == 1,
        f"the dead leader's Lease to run out ({LEASE_SECONDS} s)",
    )
    waited = scene.since_act
    scene.show(_LEASE)

    def looked() -> float:
        return metric(new.metrics(), "memcached_operator_reconcile_duration_seconds_count")

    seen = scene.until(looked, "it to look at every Memcached", until=lambda count: count >= len(names))
    scene.until(lambda: metric(new.metrics(), "memcached_operator_workqueue_depth") == 0, "its queue to be empty")
    looked_at = rig.mark()
    scene.until(lambda: rig.rested(looked_at), "a second in which it might still write")
    writes = rig.writes(mark)
    scene.claim(
        not writes,
        f"The new process leads {waited:.1f} s after its start, has looked at {len(names)} resources "
        f"({seen:.0f} reconciles) and written nothing: since the kill the audit log has 0 writes, but to its Lease.",
        tally(writes),
    )


def handover(rig: Rig, scene: Scene) -> None:
    """Stop the leader while a second operator stands by, and change something at the same moment."""
    old = leading(rig)
    new = start(rig, scene, "operator-3")
    before = rig.leader()
    scene.show(_LEASE)
    mark = rig.mark()
    rig.ends(old)
    stopped_at = time.time()
    scene.act(f"kill -TERM {old.pid}")
    scene.show(f"""kubectl patch memcached {SAMPLE} -p '{{"spec":{{"size":4}}}}' --type=merge""")
    scene.until(lambda: rig.get("Deployment", SAMPLE)["spec"]["replicas"] == 4, "the new leader to act")
    code = old.wait(30)
    scene.until(lambda: settled(rig.get("Memcached", SAMPLE)), "four ready pods")
    scene.show(_LEASE)
    after = rig.leader()
    scene.claim(
        before.startswith("operator-2") and after.startswith("operator-3") and code == 0,
        f"The leader gave its Lease back and ended with code {code}; the standby took it.",
        f"{before} -> {after}, code {code}",
    )
    answered = rig.reaction(mark, asked="memcacheds", wrote="deployments")
    if answered is not None:
        after_change, after_stop = answered.seconds, answered.done_at - stopped_at
        scene.claim(
            after_change < 1,
            f"It acted on the change {after_change * 1000:.0f} ms after it was made, {after_stop:.1f} s after the "
            "leader was told to stop.",
        )
    scene.until(lambda: rig.rested(mark), "the operators to rest")
    counts = tally(rig.writes(mark))
    counts.pop("patch memcacheds/status", None)
    scene.claim(
        counts == {"patch deployments/scale": 1, "create events": 1} and new.alive(),
        "Nothing was done twice: one write to the scale, one event.",
        counts,
    )
