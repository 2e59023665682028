"""The three deletion policies."""

import shlex

from story.opening import SAMPLE, serving
from story.rig import Rig, condition
from story.telling import Scene

ORPHAN = "memcached-orphan"
DRAIN = "memcached-drain"
DRAIN_SECONDS = 5


def delete(rig: Rig, scene: Scene) -> None:
    """Delete: Kubernetes' garbage collector removes the children."""
    scene.act(f"kubectl delete memcached {SAMPLE}")
    scene.until(lambda: rig.children(SAMPLE), "the children to be gone", until=lambda left: not left)
    took = scene.since_act
    scene.show(f"kubectl get deploy,svc,pdb,pods -l memcached_cr={SAMPLE}")
    gone = rig.find("Memcached", SAMPLE) is None
    scene.claim(gone, f"Deployment, Service, budget and pods are gone {took:.1f} s after it.")


def orphan(rig: Rig, scene: Scene) -> None:
    """Orphan: the children serve on, and a new Memcached of the name adopts them."""
    addresses, pods, children = serving(rig, scene, ORPHAN), rig.ready_pods(ORPHAN), rig.children(ORPHAN)
    scene.act(f"kubectl delete memcached {ORPHAN}")
    scene.show(f"kubectl get deploy,svc,pdb,pods -l memcached_cr={ORPHAN} -o name")
    owned = [
        child
        for kind in ("Deployment", "Service")
        for child in rig.of(kind, ORPHAN)
        if "ownerReferences" in child["metadata"]
    ]
    scene.claim(
        rig.find("Memcached", ORPHAN) is None and rig.children(ORPHAN) == children and not owned and pods,
        "The Memcached is gone, its children serve on: they have no owner reference, so nothing collects them.",
        rig.children(ORPHAN),
    )
    scene.act("kubectl apply -f config/samples/cache_v1alpha1_memcached_orphan.yaml")
    scene.show(f"kubectl wait --for=condition=Ready memcached/{ORPHAN} --timeout=60s")
    scene.until(lambda: rig.events(ORPHAN, "Adopted"), "the event about it")
    scene.show(f"kubectl describe memcached {ORPHAN} | sed -n '/^Events:/,$p'")
    uid = rig.get("Memcached", ORPHAN)["metadata"]["uid"]
    owner = rig.get("Deployment", ORPHAN)["metadata"]["annotations"].get("cache.example.com/owner-uid")
    scene.claim(
        uid == owner and rig.ready_pods(ORPHAN) == pods and rig.endpoints(ORPHAN) == addresses,
        "A new Memcached of the name adopts them: the same pods, not one restarted.",
        f"owner {owner}, pods {rig.ready_pods(ORPHAN)}, before {pods}",
    )


def drain(rig: Rig, scene: Scene) -> None:
    """Drain: clients lose the endpoints first, and the pods stop later."""
    patch = f'{{"spec":{{"drainSeconds":{DRAIN_SECONDS}}}}}'
    scene.act(f"kubectl patch mc {DRAIN} -p {shlex.quote(patch)} --type=merge")
    serving(rig, scene, DRAIN)
    pods = rig.ready_pods(DRAIN)
    scene.act(f"kubectl delete memcached {DRAIN} --wait=false")
    scene.until(lambda: rig.endpoints(DRAIN), "the endpoints to be empty", until=lambda left: not left)
    empty = scene.since_act
    running = rig.ready_pods(DRAIN)
    scene.until(lambda: condition(rig.get("Memcached", DRAIN), "Ready")["status"] == "False", "the status")
    scene.show(f"kubectl get memcached {DRAIN}")
    scene.show(f"kubectl get endpointslices -l memcached_cr={DRAIN}")
    scene.show(f"kubectl get pods -l memcached_cr={DRAIN}")
    scene.claim(
        empty < DRAIN_SECONDS and running == pods and len(pods) == 2,
        f"After {empty:.1f} s no client is sent there any more; the pods run on for those that are connected.",
        f"{len(running)} of {len(pods)} pods",
    )
    scene.until(
        lambda: rig.ready_pods(DRAIN),
        f"the pods to stop, {DRAIN_SECONDS} s after the deletion",
        until=lambda left: not left,
    )
    stopped = scene.since_act
    scene.until(
        lambda: rig.find("Memcached", DRAIN) or rig.children(DRAIN), "all to be gone", until=lambda left: not left
    )
    took = scene.since_act
    scene.show(f"kubectl get deploy,svc,pdb,pods -l memcached_cr={DRAIN}")
    # The deletion's own time has whole seconds.
    scene.claim(
        stopped >= DRAIN_SECONDS - 1,
        f"The pods stopped after {stopped:.1f} s (drainSeconds: {DRAIN_SECONDS}, from the second of the deletion), and "
        f"after {took:.1f} s all was gone.",
    )
