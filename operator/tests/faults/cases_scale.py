"""Class K: many of everything, as far as a shared machine allows."""

from __future__ import annotations

import threading

from cases_api import all_well
from registry import case
from rig import Rig
from stories import IMAGE

from controlplane import wait_until
from controlplane.api import object_path
from faultrig.rules import Answer, Rule

MANY = 100


def _names(count: int = MANY) -> list[str]:
    return [f"cache-{number:03}" for number in range(count)]


@case("K01")
def a_cold_start_with_many(rig: Rig) -> None:
    first = rig.start()
    names = _names()
    for name in names:
        rig.caches.create(name, size=0)
    rig.caches.wait_ready(*names, timeout=300)
    assert first.terminate() == 0
    rig.expect_end(first, 0)
    since = rig.journal.mark()
    rig.start()
    rig.caches.create("witness", size=0)
    all_well(rig, *names, "witness", since=since)
    others = [e.call for e in rig.journal.entries(since) if e.took_effect and not e.call.name.startswith("witness")]
    assert others == []
    assert 429 not in {entry.answered for entry in rig.journal.entries(since)}


@case("K02")
def many_at_once_and_all_images_changed(rig: Rig) -> None:
    rig.start()
    since = rig.journal.mark()
    names = _names()
    for name in names:
        rig.caches.create(name, size=1)
    rig.caches.wait_ready(*names, timeout=300)
    for name in names:
        rig.caches.patch(name, image=IMAGE)
    rig.caches.wait_ready(*names, timeout=300)
    all_well(rig, *names, since=since)


@case("K04")
def foreign_objects(rig: Rig) -> None:
    operator = rig.start()
    rig.caches.create("cache", size=1)
    all_well(rig, "cache")
    before = operator.usage()
    for plural in ("secrets", "configmaps"):
        path = object_path("v1", plural, rig.namespace)
        for number in range(1000):
            rig.api.create(path, {"metadata": {"name": f"foreign-{number}"}, "data": {"a": "eHh4eA=="}})
    rig.caches.patch("cache", size=2)
    all_well(rig, "cache")
    after = operator.usage()
    assert before is not None
    assert after is not None
    assert not {entry.call.resource for entry in rig.journal.entries()} & {"secrets", "configmaps"}
    assert after.rss_bytes - before.rss_bytes < 5 * 2**20


@case("K05")
def many_namespaces(rig: Rig) -> None:
    rig.start("--watch-namespace=")
    rig.caches.create("cache", size=1)
    all_well(rig, "cache")
    names = [f"{rig.namespace[:40]}-{number}" for number in range(100)]
    since = rig.journal.mark()
    try:
        for name in names:
            rig.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        rig.caches.patch("cache", size=2)
        all_well(rig, "cache")
        asked = [e.call for e in rig.journal.entries(since) if e.call.verb in ("watch", "list")]
        assert not [call for call in asked if call.namespace in names]
    finally:
        for name in names:
            rig.api.delete(f"/api/v1/namespaces/{name}")


@case("K06")
def one_tenant_never_rests(rig: Rig) -> None:
    rig.start("--workers=2")
    names = _names(20)
    rig.caches.create("busy", size=1)
    for number in range(100):
        rig.caches.patch("busy", podAnnotations={"edit": str(number)})
        if number % 5 == 0:
            rig.caches.create(names[number // 5], size=1)
        threading.Event().wait(0.05)  # the pace of the tenant
    all_well(rig, "busy", *names)


@case("K07")
def many_dirty_after_an_outage(rig: Rig) -> None:
    rig.start()
    names = _names(60)
    for name in names:
        rig.caches.create(name, size=0)
    rig.caches.wait_ready(*names, timeout=300)
    since = rig.journal.mark()
    rig.proxy().inject(Rule("503", Answer(503)))
    for name in names:
        rig.caches.patch(name, size=1)
    wait_until(lambda: rig.journal.faults(since) > 5, 60, "the outage to be felt")
    rig.proxy().heal()
    all_well(rig, *names, since=since)


@case("K08")
def many_that_are_refused(rig: Rig) -> None:
    spec = {"ports": [{"port": 80}]}
    names = _names(60)
    for name in names:
        rig.api.create(object_path("v1", "services", rig.namespace), {"metadata": {"name": name}, "spec": spec})
    rig.start()
    for name in names:
        rig.caches.create(name, size=0)
    wait_until(
        lambda: all("NameConflict" in str(rig.caches.get(name)) for name in names), 120, "all conflicts to be told"
    )
    events = rig.api.get(object_path("events.k8s.io/v1", "events", rig.namespace))["items"]
    told = [event for event in events if event["reason"] == "NameConflict"]
    assert len(told) <= len(names)
