"""Each oracle says nothing of a good run, and something of a run with one fault."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from faultrig.journal import Call, Entry
from faultrig.oracles import ORACLES, Evidence, Process, Reference, creations, judge
from faultrig.state import State, differences, flat, varying

UID = "5f0a"
SPEC: dict[str, Any] = {"size": 1, "memory": 64, "podLabels": {"team": "a"}}
ARGS = ["-m", "64", "-c", "1024", "-t", "4", "-I", "1024k", "-U", "0"]


def call(verb: str, resource: str, name: str = "cache", identity: str = "first") -> Call:
    return Call(identity, verb, "", resource, "", "ns", name)


def entry(verb: str, resource: str, at: float = 1.0, **more: Any) -> Entry:
    identity = more.pop("identity", "first")
    told = {"committed": 200, "answered": 200, **more}
    return Entry(call(verb, resource, identity=identity), at, at + 0.1, **told)


def good_objects() -> dict[str, list[dict[str, Any]]]:
    child = {
        "name": "cache",
        "uid": "c1",
        "generation": 1,
        "labels": {"app.kubernetes.io/managed-by": "memcached-operator"},
        "annotations": {"cache.example.com/owner-uid": UID},
        "ownerReferences": [{"uid": UID, "kind": "Memcached", "name": "cache"}],
    }
    template = {
        "metadata": {"labels": {"team": "a", "app": "memcached"}},
        "spec": {"containers": [{"image": "memcached", "args": ARGS}]},
    }
    counts = {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1}
    ready = {"type": "Ready", "status": "True", "reason": "AllReady", "message": "one of one"}
    return {
        "memcacheds": [
            {
                "metadata": {"name": "cache", "uid": UID, "generation": 2},
                "spec": SPEC,
                "status": {"observedGeneration": 2, "readyReplicas": 1, "conditions": [ready]},
            }
        ],
        "deployments": [
            {"metadata": child, "spec": {"replicas": 1, "strategy": {}, "template": template}, "status": counts}
        ],
        "services": [{"metadata": {**child, "uid": "c2"}, "spec": {"clusterIP": "10.0.0.1"}}],
        "pods": [
            {
                "metadata": {"name": "cache-x", "uid": "p1", "labels": {"memcached_cr": "cache"}},
                "spec": template["spec"],
            }
        ],
    }


def good() -> Evidence:
    state = State(good_objects())
    requests = (entry("create", "deployments"), entry("patch", "memcacheds"))
    lease = entry("update", "leases", 0.5, holder="first_1234")
    return Evidence(
        requests=(lease, *requests),
        state=state,
        processes=(Process("first", None, (None,), "all is well"),),
        reference=Reference(flat(state), creations(requests)),
        healed_at=1.0,
        settled_at=5.0,
        watched_until=6.0,
        fresh=flat(state),
        previous=flat(state),
        canaries=("hunter2",),
        lived={"cache-x": "p1"},
        answers=(True, True),
        named=("AllReady",),
    )


def changed(edit: Callable[[dict[str, Any]], Any]) -> Evidence:
    objects = copy.deepcopy(good_objects())
    edit(objects)
    return replace(good(), state=State(objects))


def spec_of(objects: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = objects["deployments"][0]["spec"]
    return found


def arguments(objects: dict[str, Any]) -> list[str]:
    found: list[str] = spec_of(objects)["template"]["spec"]["containers"][0]["args"]
    return found


def asked_often(gap: float, times: int) -> Evidence:
    return replace(good(), requests=[entry("create", "services", gap * n, answered=500) for n in range(times)])


def with_requests(*requests: Entry) -> Evidence:
    return replace(good(), requests=(*good().requests, *requests))


def ended(code: int | None, log: str = "") -> Evidence:
    return replace(good(), processes=(Process("first", code, (None,), log),))


BAD: dict[str, list[Evidence]] = {
    "O1": [
        changed(lambda objects: spec_of(objects).update(replicas=2)),
        changed(lambda objects: objects.update(services=[])),
        changed(lambda objects: objects["memcacheds"][0]["metadata"].update(uid="another")),
    ],
    "O2": [
        with_requests(entry("create", "deployments", 2.0, answered=0)),
        with_requests(entry("delete", "pods", 2.0)),
        replace(good(), requests=()),
    ],
    "O3": [
        replace(good(), settled_at=None),
        replace(good(), settled_at=40.0, watched_until=41.0),
        with_requests(entry("patch", "memcacheds", 5.5)),
    ],
    "O4": [changed(lambda objects: spec_of(objects).update(leftover=True))],
    "O5": [
        changed(lambda objects: spec_of(objects).update(replicas=2)),
        changed(lambda objects: arguments(objects).__setitem__(1, "32")),
        changed(lambda objects: arguments(objects).append("-vv")),
        changed(lambda objects: spec_of(objects)["template"]["metadata"].update(labels={})),
        changed(lambda objects: spec_of(objects)["template"]["spec"].update(nodeSelector={"a": "b"})),
        changed(lambda objects: objects["memcacheds"][0]["metadata"].update(finalizers=["cache.example.com/drain"])),
        changed(lambda objects: objects.update(deployments=[])),
    ],
    "O6": [changed(lambda objects: spec_of(objects).update(replicas=2))],
    "O7": [
        ended(1),
        ended(None, "x\nTraceback (most recent call last):\n  File"),
        ended(None, "memcached ns/cache: a bug; please report it"),
        replace(good(), processes=(Process("first", None, (-9,), ""),)),
    ],
    "O8": [
        changed(lambda objects: objects["memcacheds"][0]["metadata"].update(generation=3)),
        changed(lambda objects: objects["deployments"][0]["status"].update(readyReplicas=0)),
        changed(lambda objects: objects["deployments"][0]["status"].update(updatedReplicas=0)),
        changed(lambda objects: objects.update(services=[])),
        replace(good(), named=("ImagePullBackOff",)),
    ],
    "O9": [asked_often(0.01, 20), asked_often(0.3, 40), asked_often(1.0, 60), with_requests(entry("watch", "pods"))],
    "O10": [
        changed(lambda objects: objects.update(memcacheds=[])),
        changed(lambda objects: objects.update(events=[{"note": "the password is hunter2"}])),
        ended(None, "login with hunter2"),
    ],
    "O11": [
        changed(lambda objects: objects["pods"][0]["metadata"].update(uid="p2")),
        replace(good(), answers=(True, False)),
    ],
    "O12": [
        with_requests(
            entry("update", "leases", 2.0, identity="second", holder="second_99"),
            entry("patch", "deployments", 3.0),
        )
    ],
}


@pytest.mark.parametrize("name", tuple(ORACLES))
def test_an_oracle_is_silent_on_a_good_run(name: str) -> None:
    assert ORACLES[name](good()) == []


@pytest.mark.parametrize(
    ("name", "evidence"),
    tuple((name, evidence) for name, runs in BAD.items() for evidence in runs),
    ids=[f"{name}-{number}" for name, runs in BAD.items() for number in range(len(runs))],
)
def test_an_oracle_speaks_on_a_bad_one(name: str, evidence: Evidence) -> None:
    assert ORACLES[name](evidence) != []


def test_the_judge_names_the_oracle_that_spoke() -> None:
    assert judge(ended(1), ("O7", "O8")) == ["O7: first ended with 1, not (None,): "]


def test_growing_pauses_between_failures_are_patience() -> None:
    times = [0.005 * 2.0**n for n in range(16)]
    requests = [entry("create", "services", at, answered=500) for at in times]
    assert ORACLES["O9"](replace(good(), requests=requests)) == []


def test_an_empty_list_is_as_good_as_none() -> None:
    assert ORACLES["O5"](changed(lambda objects: objects["memcacheds"][0]["spec"].update(tolerations=[]))) == []


def test_what_varies_between_clean_runs_is_masked() -> None:
    runs: list[dict[str, object]] = [{"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 1}]
    assert varying(runs) == {"b"}
    assert differences(runs[0], runs[1], varying(runs)) == []
    assert differences(runs[0], {"a": 2}, varying(runs)) == ["a: 1 != 2"]
