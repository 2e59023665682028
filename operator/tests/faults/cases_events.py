"""Class B: stale, missed and strange events."""

from __future__ import annotations

import json
import threading
from typing import Any

from cases_api import WATCHES, all_well, error_line
from registry import case
from rides import Gap, begin, ride
from rig import Rig

from controlplane import wait_until
from controlplane.api import object_path
from faultrig.oracles import acquit
from faultrig.rules import Answer, EventRule, Hang, Lines, Match, Reset, Rule
from faultrig.state import flat, read
from memcacheds import CACHES, CHILDREN

Line = dict[str, Any]


@case("B01")
def gone_as_an_event_and_as_a_status(rig: Rig) -> None:
    event = Rule("event", Lines((error_line(410, "Expired"),)), WATCHES, times=10)
    status = Rule("status", Answer(410), WATCHES, times=10)
    ride(rig, Gap((event,), seconds=1, least=4), Gap((status,), seconds=1, least=4))


@case("B02")
def errors_and_unknown_types(rig: Rig) -> None:
    strange = json.dumps({"type": "SURPRISE", "object": {"metadata": {}}}).encode()
    rules = [
        Rule("500", Lines((error_line(500, "InternalError"),)), WATCHES, times=6),
        Rule("403", Lines((error_line(403, "Forbidden"),)), WATCHES, times=6),
        Rule("unknown", Lines((strange,)), WATCHES, times=6),
    ]
    ride(rig, *(Gap((rule,), seconds=1, least=2) for rule in rules))


@case("B03")
def a_resource_is_deleted_in_a_gap(rig: Rig) -> None:
    kept_away = Rule("gap", Reset(), Match(verbs=("watch", "list"), resources=("memcacheds",)))
    gone = Rule("410", Lines((error_line(410, "Expired"),)), WATCHES, times=4)
    ride(rig, Gap((kept_away,), seconds=5), Gap((gone,), seconds=1))


@case("B04")
def a_child_is_deleted_in_a_gap(rig: Rig) -> None:
    kept_away = Rule("gap", Reset(), Match(verbs=("watch", "list"), resources=("deployments", "services")))
    gone = Rule("410", Lines((error_line(410, "Expired"),)), WATCHES, times=4)
    ride(rig, Gap((kept_away,), seconds=4), Gap((gone,), seconds=1))


@case("B05")
def old_lists_after_a_restart(rig: Rig) -> None:
    first = rig.start()
    rig.caches.create("cache", size=2)
    rig.settle(lambda rig: rig.caches.ready("cache"))
    old = _answers(rig)
    rig.caches.delete("cache")
    rig.caches.wait_gone("cache")
    rig.caches.create("cache", size=1)
    rig.settle(lambda rig: rig.caches.ready("cache"))
    before = flat(read(rig.api, rig.namespace))
    rig.expect_end(first, -9)
    first.kill()

    since = rig.journal.mark()
    rig.proxy().inject(*old)
    second = rig.start(ready=False)
    silent = [rule.name for rule in old if isinstance(rule.action, Hang)]
    book = rig.proxy().book
    wait_until(lambda: all(book.struck(name) for name in silent), 60, "the old lists to be believed")
    threading.Event().wait(6)  # it believes in them: there is nothing to wait for
    stale = [entry.call for entry in rig.journal.entries(since) if entry.took_effect]
    made = [call for call in stale if call.verb in ("create", "delete") and call.resource != "events"]
    assert made == []
    rig.proxy().heal(cut=True)
    all_well(rig, "cache", since=since)
    assert second.alive()
    assert flat(read(rig.api, rig.namespace)) == before


def _answers(rig: Rig) -> list[Rule]:
    """For each kind: lists that are answered as they are now, and watches that begin with them and then say nothing."""
    rules = []
    for version, plural in ((CACHES, "memcacheds"), *CHILDREN, ("v1", "pods")):
        listed = rig.api.get(object_path(version, plural, rig.namespace))
        kinds = {"apiVersion": listed["apiVersion"], "kind": listed["kind"].removesuffix("List")}
        added = [json.dumps({"type": "ADDED", "object": {**kinds, **item}}).encode() for item in listed["items"]]
        note = {"k8s.io/initial-events-end": "true"}
        metadata = {"resourceVersion": listed["metadata"]["resourceVersion"], "annotations": note}
        end = json.dumps({"type": "BOOKMARK", "object": {**kinds, "metadata": metadata}}).encode()
        streams = () if plural == "memcacheds" else (Lines((*added, end)),)
        rules += [
            Rule(f"old list of {plural}", Answer(200, json.dumps(listed).encode()), Match(("list",), (plural,))),
            *(Rule(f"old stream of {plural}", lines, Match(("watch",), (plural,)), times=1) for lines in streams),
            Rule(f"silence of {plural}", Hang(), Match(("watch",), (plural,))),
        ]
    return rules


@case("B06")
def the_deletion_of_a_namesake_is_told_again(rig: Rig) -> None:
    rig.start()
    rig.caches.create("cache", size=2)
    rig.settle(lambda rig: rig.caches.ready("cache"))
    old = rig.caches.get("cache")
    assert old is not None
    dying = {**old, "metadata": {**old["metadata"], "deletionTimestamp": "2030-01-01T00:00:00Z"}}
    rig.caches.delete("cache")
    rig.caches.wait_gone("cache")
    since = rig.journal.mark()

    def replay(line: Line) -> list[Line] | None:
        new = line["object"]["metadata"].get("uid") not in (None, old["metadata"]["uid"])
        return [line, {"type": "MODIFIED", "object": dying}] if new and line["type"] == "ADDED" else None

    rig.proxy().inject(EventRule("namesake", replay, resource="memcacheds"))
    rig.caches.create("cache", size=2)
    wait_until(lambda: rig.proxy().book.struck("namesake"), 30, "the old object to be told")
    rig.caches.wait_replicas("cache", 2)
    rig.proxy().heal()
    rig.caches.patch("cache", size=1)
    all_well(rig, "cache", since=since)


@case("B07")
def the_middle_is_withheld(rig: Rig) -> None:
    rig.start()
    rig.caches.create("cache", size=1)
    rig.settle(lambda rig: rig.caches.ready("cache"))
    since = rig.journal.mark()
    rule = EventRule(
        "middle", lambda line: [] if line["object"].get("spec", {}).get("size") == 3 else None, "memcacheds"
    )
    rig.proxy().inject(rule, cut=False)
    rig.caches.patch("cache", size=3)
    wait_until(lambda: rig.proxy().book.struck("middle"), 20, "the middle to be withheld")
    rig.caches.patch("cache", size=1)
    rig.caches.create("witness", size=1)
    all_well(rig, "cache", "witness", since=since)
    assert rig.caches.replicas("cache") == 1


@case("B08")
def a_child_is_replaced_and_its_end_withheld(rig: Rig) -> None:
    rig.start()
    rig.caches.create("cache", size=1)
    rig.settle(lambda rig: rig.caches.ready("cache"))
    since = rig.journal.mark()
    service = object_path("v1", "services", rig.namespace)
    mine = rig.api.get(f"{service}/cache")
    deleted = EventRule("deleted", lambda line: [] if line["type"] == "DELETED" else None, "services")
    rig.proxy().inject(deleted, cut=False)
    kept = {key: mine["metadata"][key] for key in ("name", "labels", "annotations", "ownerReferences")}
    rig.api.delete(f"{service}/cache")
    spec = {"clusterIP": "None", "ports": [{"port": 80}], "selector": {"somebody": "else"}}
    rig.api.create(service, {"metadata": kept, "spec": spec})
    wait_until(lambda: rig.proxy().book.struck("deleted"), 20, "the end to be withheld")
    wait_until(lambda: rig.api.get(f"{service}/cache")["spec"]["selector"].get("app"), 40, "the Service to be ours")
    rig.proxy().heal()
    all_well(rig, "cache", since=since)


@case("B09")
def twice_and_out_of_order(rig: Rig) -> None:
    held: list[Line] = []

    def swap(line: Line) -> list[Line] | None:
        if line["type"] == "BOOKMARK":
            return None
        held.append(line)
        if len(held) % 2:
            return []
        return [held[-1], held[-2]]

    twice = EventRule("twice", lambda line: [line, line] if line["type"] != "BOOKMARK" else None)
    ride(rig, Gap((twice,), seconds=3, cut=False))
    rig.clean()
    rig.forget_ended()
    since = rig.journal.mark()
    rig.proxy().inject(EventRule("swap", swap, "deployments"), cut=False)
    rig.caches.create("cache", size=2)
    wait_until(lambda: rig.proxy().book.struck("swap") > 2, 30, "events to be swapped")
    rig.proxy().heal(cut=True)
    all_well(rig, "cache", since=since)


@case("B10")
def an_end_is_lost_for_ever(rig: Rig) -> None:
    begin(rig, "--resync-seconds=10")
    since = rig.journal.mark()
    lost = EventRule("lost", lambda line: [] if line["type"] == "DELETED" else None, "services")
    rig.proxy().inject(lost, cut=False)
    rig.api.delete(object_path("v1", "services", rig.namespace, "kept"))
    wait_until(lambda: rig.proxy().book.struck("lost"), 20, "the end to be lost")
    wait_until(lambda: rig.caches.child("services", "kept"), 60, "the resync to find it")
    all_well(rig, "kept", "drifted", "deleted", since=since)


@case("B11")
def two_hundred_updates_in_a_burst(rig: Rig) -> None:
    rig.start()
    rig.caches.create("cache", size=1)
    rig.settle(lambda rig: rig.caches.ready("cache"))
    since = rig.journal.mark()
    for number in range(200):
        rig.caches.patch("cache", podAnnotations={"edit": str(number)})
    all_well(rig, "cache", since=since)
    deployment = rig.caches.child("deployments", "cache")
    assert deployment is not None
    assert deployment["spec"]["template"]["metadata"]["annotations"]["edit"] == "199"


@case("B12")
def silence(rig: Rig) -> None:
    begin(rig)
    rig.settle(lambda _: True, quiet=2)
    since = rig.journal.mark()
    threading.Event().wait(20)  # that nothing happens is what is looked at
    assert [
        entry.call for entry in rig.journal.entries(since) if entry.call.is_write or entry.call.verb == "list"
    ] == []


@case("B13")
def a_very_large_resource(rig: Rig) -> None:
    operator = begin(rig)
    since = rig.journal.mark()
    path = object_path(CACHES, "memcacheds", rig.namespace, "kept")
    for _ in range(5):
        rig.api.patch(path, {"metadata": {"annotations": {f"big/{n}": "x" * 50_000 for n in range(5)}}})
        rig.api.patch(path, {"metadata": {"annotations": {f"big/{n}": None for n in range(5)}}})
    rig.caches.patch("kept", size=2)
    all_well(rig, "kept", since=since)
    assert operator.alive()


@case("B14")
def fields_of_a_newer_api(rig: Rig) -> None:
    def newer(line: Line) -> list[Line] | None:
        if line["type"] not in ("ADDED", "MODIFIED"):
            return None
        body = line["object"]
        more = {"spec": {**body.get("spec", {}), "ofTheFuture": {"a": [1]}}, "ofTheFuture": True}
        return [{**line, "object": {**body, **more}}]

    evidence = ride(rig, Gap((EventRule("newer", newer),), seconds=3))
    assert "ofTheFuture" not in evidence.state.text()
    acquit(evidence, ("O5",))
