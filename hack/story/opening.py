"""The first steps: the control plane, the operator, the first Memcached, another size."""

from pathlib import Path

from controlplane import NotYet, OperatorProcess
from controlplane.paths import REPOSITORY
from story.rig import OPERATOR_FLAGS, OPERATOR_NAMESPACE, Rig, hosts, settled, tally
from story.telling import Scene, StepError

SAMPLE = "memcached-sample"
SCALE_TO_3 = f"""kubectl patch memcached {SAMPLE} -p '{{"spec":{{"size":3}}}}' --type=merge"""


def control_plane(rig: Rig, scene: Scene) -> None:
    """Start the cluster."""
    scene.note("starting etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok")
    plane = scene.during(rig.open, "the control plane to be ready")
    started = scene.since_act
    version = scene.show("kubectl version").text
    scene.show("kubectl get nodes")
    scene.claim(
        "Server Version: v1." in version and plane.server.startswith("https://127.0.0.1:"),
        f"A real control plane, ready after {started:.1f} s, at {plane.server}. Only its nodes are simulated: pods "
        "become Ready, and nothing runs in them.",
    )


def operator(rig: Rig, scene: Scene) -> None:
    """Install the CRD and start the operator as a user of its own."""
    scene.show("kubectl apply --server-side -k config/crd")
    # Applies it again, and makes the garbage collector learn the kind now: by itself it takes up to 30 seconds.
    scene.during(lambda: rig.plane.install_crds(REPOSITORY / "config" / "crd"), "the new kind to be served")
    rig.grant()
    first = start(rig, scene, "operator-1")
    ready = scene.since_act
    leader = scene.until(rig.leader, "the operator to take the Lease")
    leads = scene.since_act
    scene.show(f"kubectl get lease --namespace {OPERATOR_NAMESPACE}")
    may = scene.show("kubectl auth can-i create deployments --as memcached-operator").text.strip()
    may_not = scene.show("kubectl auth can-i get secrets --as memcached-operator", refused=True).text.strip()
    scene.claim(
        first.ready() and leader.startswith("operator-1"),
        f"The operator is ready {ready:.1f} s after its start; after {leads:.1f} s it has the Lease, and may write.",
        f"the Lease is held by {leader!r}",
    )
    scene.claim(
        (may, may_not) == ("yes", "no"), "It has a user of its own, with the rights in config/rbac and no others."
    )


def create(rig: Rig, scene: Scene) -> None:
    """Apply the sample, and see it become Ready."""
    mark = rig.mark()
    scene.act("kubectl apply -f config/samples/cache_v1alpha1_memcached.yaml")
    scene.show(f"kubectl wait --for=condition=Ready memcached/{SAMPLE} --timeout=60s")
    took = scene.since_act
    scene.show("kubectl get memcached")
    scene.show(f"kubectl get deploy,svc,pdb,pods -l memcached_cr={SAMPLE} -o name")
    scene.show(f"kubectl get memcached/{SAMPLE} -o yaml | grep -A 2 nodes:")
    serving(rig, scene, SAMPLE)
    memcached = rig.get("Memcached", SAMPLE)
    pods = sorted(pod["metadata"]["name"] for pod in rig.of("Pod", SAMPLE))
    scene.claim(
        settled(memcached) and len(rig.ready_pods(SAMPLE)) == 2,
        f"Two pods are ready {took:.1f} s after the command was typed.",
        memcached.get("status"),
    )
    scene.claim(
        memcached["status"]["nodes"] == pods and rig.endpoints(SAMPLE) == hosts(memcached),
        "status.nodes names the pods, and the Service leads to the addresses in status.serverList.",
        f"{pods} {rig.endpoints(SAMPLE)}",
    )
    scene.until(lambda: rig.events(SAMPLE, "Created"), "the event about it")
    scene.until(lambda: rig.rested(mark), "the operator to rest")
    counts = tally(rig.writes(mark))
    children = {f"create {kind}": 1 for kind in ("services", "deployments", "poddisruptionbudgets", "events")}
    status = counts.pop("patch memcacheds/status", 0)
    scene.claim(
        counts == children and status <= 2,
        f"It cost {status + 4} writes, by the API server's audit log: 3 children, {status} to the status, 1 event.",
        {**counts, "patch memcacheds/status": status},
    )


def scale(rig: Rig, scene: Scene) -> None:
    """Patch the size, as in the tutorials."""
    mark = rig.mark()
    scene.act(SCALE_TO_3)
    scene.show(f"kubectl wait --for=condition=Ready memcached/{SAMPLE} --timeout=60s")
    took = scene.since_act
    scene.show(f"kubectl get memcached {SAMPLE}")
    memcached = rig.get("Memcached", SAMPLE)
    scene.claim(
        settled(memcached) and len(rig.ready_pods(SAMPLE)) == 3 and memcached["status"]["readyReplicas"] == 3,
        f"Three pods are ready {took:.1f} s after the patch.",
        memcached.get("status"),
    )
    scene.until(lambda: rig.events(SAMPLE, "Scaled"), "the event about it")
    scene.until(lambda: rig.rested(mark), "the operator to rest")
    counts = tally(rig.writes(mark))
    status = counts.pop("patch memcacheds/status", 0)
    scene.claim(
        counts == {"patch deployments/scale": 1, "create events": 1} and status <= 2,
        f"It cost {status + 2} writes: 1 to the Deployment's scale, {status} to the status, 1 event.",
        {**counts, "patch memcacheds/status": status},
    )


def start(rig: Rig, scene: Scene, name: str) -> OperatorProcess:
    """Start an operator, tell its pid, and return it when it is ready."""
    scene.typed(f"memcached-operator run {' '.join(OPERATOR_FLAGS)} &")
    scene.acts()
    started = rig.start_operator(name)
    scene.note(f"[{name}: pid {started.pid}, log {shown_path(started.log)}]")
    scene.until(started.ready, f"{name} to be ready")
    return started


def serving(rig: Rig, scene: Scene, name: str) -> list[str]:
    """Return the addresses of a Memcached when it is Ready and its Service leads to all of them.

    The latter is Kubernetes' own work, and may come a moment after the pods are ready.
    """

    def addresses() -> list[str]:
        memcached = rig.get("Memcached", name)
        if not settled(memcached):
            raise NotYet("it is not Ready")
        found = rig.endpoints(name)
        if found != hosts(memcached):
            raise NotYet(f"the Service leads to {found}, the pods have {hosts(memcached)}")
        return found

    return scene.until(addresses, f"the Service of {name}")


def shown_path(path: Path) -> Path:
    """Return the path as a person in the repository would type it."""
    return path.relative_to(REPOSITORY) if path.is_relative_to(REPOSITORY) else path


def leading(rig: Rig) -> OperatorProcess:
    """Return the operator that was started last and lives. Raises StepError when there is none."""
    living = [operator for operator in rig.operators if operator.alive()]
    if not living:
        raise StepError("no operator runs")
    return living[-1]
