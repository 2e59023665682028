"""Classes C and D: crashes, stalls and leaders."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from functools import partial
from pathlib import Path

from cases_api import CONFLICT, WRITES, all_well
from registry import case
from rides import begin
from rig import Rig, kill_at

from controlplane import OperatorProcess, wait_until
from controlplane.api import object_path
from faultrig.oracles import acquit
from faultrig.rules import Answer, Delay, EventRule, Hang, Match, Phase, Reset, Rule

LEASE = ("--lease-seconds=6", "--renew-deadline-seconds=4", "--retry-seconds=1")
LEASES = Match(resources=("leases",))
JUDGES = ("O3", "O5", "O7", "O8", "O10", "O12")


def holder(rig: Rig) -> str:
    """Identity of who holds the Lease, "" when nobody does."""
    lease = rig.api.find(object_path("coordination.k8s.io/v1", "leases", rig.namespace, "memcached-operator"))
    return str((lease or {}).get("spec", {}).get("holderIdentity") or "").partition("_")[0]


def wait_leader(rig: Rig, *, other_than: str = "", timeout: float = 40) -> str:
    """Wait for a leader."""
    return wait_until(lambda: holder(rig), timeout, "a leader", until=lambda name: name not in ("", other_than))


def two(rig: Rig) -> tuple[OperatorProcess, OperatorProcess]:
    """A leader called first, and a standby called second."""
    first = rig.start(*LEASE, identity="first", elects=True)
    wait_leader(rig)
    return first, rig.start(*LEASE, identity="second", elects=True)


def settled(rig: Rig, *names: str, since: int, oracles: tuple[str, ...] = JUDGES) -> None:
    """Wait until these are Ready, and judge."""
    healed_at = time.monotonic()
    at, watched = rig.settle(lambda rig: all(rig.caches.ready(name) for name in names), 120)
    acquit(rig.evidence(since, healed_at=healed_at, settled_at=at, watched_until=watched, limit=120), oracles)


@case("C09")
def terminated_in_the_middle(rig: Rig) -> None:
    first = rig.start(*LEASE, identity="first", elects=True)
    wait_leader(rig)
    since = rig.journal.mark()
    rig.proxy("first").inject(kill_at(first, 2, Phase.BEFORE, signal.SIGTERM), cut=False)
    rig.caches.create("cache", size=2)
    assert first.wait(30) == 0
    rig.expect_end(first, 0)
    assert holder(rig) == ""
    rig.start(*LEASE, identity="second", elects=True)
    settled(rig, "cache", since=since)


@case("C10")
def killed_again_and_again(rig: Rig) -> None:
    names = [f"cache-{number}" for number in range(10)]
    since = rig.journal.mark()
    for number in range(5):
        operator = rig.start(ready=number % 2 == 0)
        for place, name in enumerate(names):
            if number == 0:
                rig.caches.create(name, size=1)
            else:
                rig.caches.patch(name, size=(place + number) % 4, memory=64 + number)
        threading.Event().wait(0.3 * number)  # the moment of the kill is what is varied
        operator.kill()
        rig.expect_end(operator, -9)
    rig.start()
    all_well(rig, *names, since=since)
    assert [rig.caches.replicas(name) for name in names] == [(place + 4) % 4 for place in range(10)]


@case("C12")
def made_again_while_the_operator_is_down(rig: Rig) -> None:
    first = rig.start()
    rig.caches.create("cache", size=1)
    rig.caches.wait_ready("cache")
    assert first.terminate() == 0
    rig.expect_end(first, 0)
    since = rig.journal.mark()
    rig.caches.delete("cache")
    rig.caches.create("cache", size=2)
    rig.start()
    all_well(rig, "cache", since=since)


@case("C13")
def ten_edits_while_the_operator_is_down(rig: Rig) -> None:
    first = rig.start()
    rig.caches.create("cache", size=1)
    rig.caches.wait_ready("cache")
    assert first.terminate() == 0
    rig.expect_end(first, 0)
    since = rig.journal.mark()
    for number in range(10):
        rig.caches.patch("cache", memory=70 + number)
    rig.start()
    all_well(rig, "cache", since=since)
    sets = rig.api.get(object_path("apps/v1", "replicasets", rig.namespace))["items"]
    assert len(sets) == 2


@case("C14")
def children_edited_while_the_operator_is_down(rig: Rig) -> None:
    first = rig.start()
    rig.caches.create("cache", size=2)
    rig.caches.wait_ready("cache")
    assert first.terminate() == 0
    rig.expect_end(first, 0)
    since = rig.journal.mark()
    rig.api.delete(object_path("v1", "services", rig.namespace, "cache"))
    rig.api.patch(object_path("apps/v1", "deployments", rig.namespace, "cache"), {"spec": {"replicas": 5}})
    rig.start()
    wait_until(lambda: rig.caches.replicas("cache") == 2, 30, "the drift to be repaired")
    all_well(rig, "cache", since=since)


@case("C15")
def operator_and_pod_die_together(rig: Rig) -> None:
    first = rig.start()
    rig.caches.create("cache", size=2)
    rig.caches.wait_ready("cache")
    since = rig.journal.mark()
    pods = object_path("v1", "pods", rig.namespace)
    lost = rig.api.get(pods)["items"][0]["metadata"]["name"]
    rig.api.delete(f"{pods}/{lost}")
    first.kill()
    rig.expect_end(first, -9)
    rig.start()
    wait_until(lambda: lost not in str(rig.caches.get("cache")), 60, "the status to forget the pod")
    all_well(rig, "cache", since=since)


@case("C19")
def many_slow_writes(rig: Rig) -> None:
    rig.start(*LEASE, elects=True)
    since = rig.journal.mark()
    rig.proxy().inject(Rule("slow", Delay(1.0), WRITES), cut=False)
    names = [f"cache-{number}" for number in range(60)]
    for name in names:
        rig.caches.create(name, size=1)
    rig.caches.wait_ready(*names, timeout=240)
    rig.proxy().heal()
    all_well(rig, *names, since=since)
    assert "no write leaves" not in rig.operators[0][1].log_text()


@case("C22")
def the_collector_is_a_black_hole(rig: Rig) -> None:
    with socket.create_server(("127.0.0.1", 0)) as hole:
        port = hole.getsockname()[1]
        endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}", "OTEL_METRICS_EXPORTER": "otlp"}
        operator = rig.start(env=endpoint)
        names = [f"cache-{number}" for number in range(10)]
        for name in names:
            rig.caches.create(name, size=1)
        all_well(rig, *names)
        assert operator.terminate(30) == 0
        rig.expect_end(operator, 0)


@case("C23")
def nobody_reads_the_log(rig: Rig) -> None:
    pipe = rig.folder / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        operator = OperatorProcess.start(
            rig.proxy().kubeconfig,
            f"--watch-namespace={rig.namespace}",
            "--no-leader-elect",
            "--log-level=debug",
            log=Path(pipe),
        )
        try:
            operator.wait_ready(60)
            names = [f"cache-{number}" for number in range(60)]
            for name in names:
                rig.caches.create(name, size=1)
            wait_until(
                lambda: all(rig.caches.ready(name) for name in names) or not operator.live(), 120, "progress, or a sign"
            )
        finally:
            operator.kill()
    finally:
        os.close(reader)


@case("C24")
def more_than_the_workers_can_hold(rig: Rig) -> None:
    names = [f"cache-{number}" for number in range(60)]
    for name in names:
        rig.caches.create(name, size=1)
    rig.start("--workers=2")
    all_well(rig, *names)


def _ended_or_ready(process: OperatorProcess, rig: Rig) -> bool:
    return not process.alive() or bool(rig.caches.ready("cache"))


@case("D01")
def the_leader_is_killed_at_a_write(rig: Rig) -> None:
    for phase in Phase:
        for k in range(1, 20):
            first, _ = two(rig)
            since = rig.journal.mark()
            rule = kill_at(first, k, phase)
            rig.proxy("first").inject(rule, cut=False)
            rig.caches.create("cache", size=2)
            rig.settle(partial(_ended_or_ready, first), quiet=0)
            struck = rig.proxy("first").book.struck(rule.name) > 0
            if struck:
                first.wait(30)
                rig.expect_end(first, -9)
            settled(rig, "cache", since=since)
            assert holder(rig) == ("second" if struck else "first")
            rig.proxy("first").heal()
            rig.clean()
            for _, operator, _ in rig.operators:
                if operator.alive():
                    operator.terminate()
            rig.forget_ended()
            if not struck:
                break


@case("D03")
def renewals_fail(rig: Rig) -> None:
    for rule in (
        Rule("409", CONFLICT, Match(verbs=("update",), resources=("leases",), identity="first")),
        Rule("500", Answer(500), Match(resources=("leases",), identity="first")),
        Rule("hang", Hang(), Match(resources=("leases",), identity="first")),
    ):
        first, second = two(rig)
        since = rig.journal.mark()
        rig.proxy("first").inject(rule, cut=False)
        rig.caches.create("cache", size=1)
        wait_until(partial(rig.proxy("first").book.struck, rule.name), 30, "renewals to fail")
        threading.Event().wait(8)  # longer than the Lease
        rig.caches.patch("cache", size=2)
        rig.proxy("first").heal()
        rig.expect_end(first, None, 1)
        settled(rig, "cache", since=since)
        assert second.alive()
        rig.clean()
        for operator in (first, second):
            if operator.alive():
                operator.terminate()
        rig.forget_ended()


@case("D04")
def only_leases_are_blocked(rig: Rig) -> None:
    first, second = two(rig)
    since = rig.journal.mark()
    rig.proxy("first").inject(Rule("leases", Reset(), LEASES))
    wait_leader(rig, other_than="first")
    rig.caches.create("cache", size=2)
    rig.caches.wait_replicas("cache", 2)
    rig.proxy("first").heal()
    assert first.wait(40) == 1
    rig.expect_end(first, 1)
    settled(rig, "cache", since=since)
    assert second.alive()


@case("D05")
def the_lease_is_edited_and_deleted(rig: Rig) -> None:
    first, _ = two(rig)
    since = rig.journal.mark()
    lease = object_path("coordination.k8s.io/v1", "leases", rig.namespace, "memcached-operator")
    rig.api.patch(lease, {"spec": {"holderIdentity": "somebody_else"}})
    assert first.wait(30) == 1
    rig.expect_end(first, 1)
    assert wait_leader(rig, other_than="somebody", timeout=60) == "second"
    rig.api.delete(lease)
    wait_leader(rig, timeout=60)
    rig.caches.create("cache", size=1)
    settled(rig, "cache", since=since, oracles=("O3", "O5", "O7", "O8", "O10"))


@case("D07")
def two_that_believe_to_lead(rig: Rig) -> None:
    rig.start(identity="first")
    rig.start(identity="second")
    names = [f"cache-{number}" for number in range(10)]
    since = rig.journal.mark()
    for name in names:
        rig.caches.create(name, size=1)
    for name in names:
        rig.caches.patch(name, size=2, memory=100)
    settled(rig, *names, since=since, oracles=("O3", "O5", "O7", "O8", "O9", "O10"))
    made = [e.call for e in rig.journal.entries(since) if e.took_effect and e.call.verb == "create"]
    deployments = [call.name for call in made if call.resource == "deployments"]
    assert sorted(deployments) == sorted(names)


@case("D09")
def the_leader_is_deaf_and_renews(rig: Rig) -> None:
    rig.start(*LEASE, elects=True)
    rig.caches.create("cache", size=1)
    rig.caches.wait_ready("cache")
    since = rig.journal.mark()
    rig.proxy().inject(EventRule("deaf", lambda _: [], "memcacheds", only_open=True), cut=False)
    rig.caches.patch("cache", size=2)
    rig.caches.wait_replicas("cache", 2, timeout=100)
    rig.proxy().heal()
    settled(rig, "cache", since=since)


@case("D10")
def hand_overs_in_a_row(rig: Rig) -> None:
    rig.caches.create("cache", size=1)
    leader = rig.start(*LEASE, identity="n0", elects=True)
    wait_leader(rig)
    since = rig.journal.mark()
    for number in range(1, 6):
        following = rig.start(*LEASE, identity=f"n{number}", elects=True)
        rig.caches.patch("cache", size=number)
        assert leader.terminate() == 0
        rig.expect_end(leader, 0)
        assert wait_leader(rig, other_than=f"n{number - 1}") == f"n{number}"
        leader = following
    settled(rig, "cache", since=since)
    assert rig.caches.replicas("cache") == 5


@case("D11")
def a_peering_object_appears(rig: Rig) -> None:
    begin(rig)
    names = {"kind": "ClusterKopfPeering", "plural": "clusterkopfpeerings", "singular": "clusterkopfpeering"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    crd = {
        "metadata": {"name": "clusterkopfpeerings.kopf.dev"},
        "spec": {"group": "kopf.dev", "scope": "Cluster", "names": names, "versions": [version]},
    }
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    rig.api.create(crds, crd)
    try:
        peers = "/apis/kopf.dev/v1/clusterkopfpeerings"
        wait_until(lambda: rig.api.request("GET", peers)[0] == 200, 30, "the kind to be served")
        status = {"somebody": {"priority": 10**6, "lastseen": "2100-01-01T00:00:00", "lifetime": 10**9}}
        rig.api.create(
            peers,
            {"apiVersion": "kopf.dev/v1", "kind": names["kind"], "metadata": {"name": "default"}, "status": status},
        )
        rig.caches.patch("kept", size=2)
        rig.caches.wait_replicas("kept", 2)
        all_well(rig, "kept")
    finally:
        rig.api.delete(f"{crds}/clusterkopfpeerings.kopf.dev")
