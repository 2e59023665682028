"""Classes G, H and L: inputs, the way back from them, and what no input may reach."""

from __future__ import annotations

import json
from typing import Any

from cases_api import all_well
from cases_others import ready
from registry import case
from rig import Rig

from controlplane import wait_until
from controlplane.api import object_path
from faultrig.rules import Answer, Match, Rule
from memcacheds import CACHES

BAD_IMAGE = "example.com/does-not-exist:1"


def refused(rig: Rig, spec: dict[str, Any], name: str = "bad") -> bool:
    """Whether the API server takes no Memcached with this spec."""
    path = object_path(CACHES, "memcacheds", rig.namespace)
    body = {"apiVersion": CACHES, "kind": "Memcached", "metadata": {"name": name}, "spec": {"size": 1, **spec}}
    status, _ = rig.api.request("POST", f"{path}?dryRun=All", body)
    return 400 <= status < 500


def no_such_field(rig: Rig, **fields: Any) -> None:
    """None of these fields is in the schema: they are dropped, and the children are those of one without them."""
    path = object_path(CACHES, "memcacheds", rig.namespace)
    body = {"apiVersion": CACHES, "kind": "Memcached", "metadata": {"name": "odd"}, "spec": {"size": 1, **fields}}
    stored = rig.api.create(f"{path}?fieldValidation=Ignore", body)
    assert not set(fields) & set(stored["spec"])
    strict, _ = rig.api.request("POST", f"{path}?fieldValidation=Strict&dryRun=All", body)
    assert strict == 400
    rig.start()
    rig.caches.create("plain", size=1)
    all_well(rig, "odd", "plain")
    assert rig.look("odd") == rig.look("plain")


@case("G01")
def sizes(rig: Rig) -> None:
    assert [size for size in (-1, 1001, 2**31, "1", 1.5, None) if not refused(rig, {"size": size})] == []
    rig.start()
    rig.caches.create("none", size=0)
    rig.caches.create("one", size=1)
    all_well(rig, "none", "one")


@case("G02")
def memories(rig: Rig) -> None:
    bad: tuple[dict[str, Any], ...] = (
        {"memory": 0},
        {"memory": -5},
        {"memory": 512, "resources": {"limits": {"memory": "256Mi"}}},
        {"memory": 64, "maxItemSize": 64 * 1024},
        {"maxItemSize": 513},
    )
    assert [spec for spec in bad if not refused(rig, spec)] == []


@case("G03")
def threads_and_connections(rig: Rig) -> None:
    bad = (
        {"threads": 0},
        {"threads": 65},
        {"threads": 10**6},
        {"maxConnections": 0},
        {"threads": 64, "maxConnections": 32},
    )
    assert [spec for spec in bad if not refused(rig, spec)] == []


@case("G04")
def an_image_that_does_not_exist(rig: Rig) -> None:
    ready(rig, size=2)
    lived = _pods(rig)
    since = rig.journal.mark()
    rig.caches.patch("cache", image=BAD_IMAGE)
    wait_until(lambda: "ImagePull" in str(rig.caches.get("cache")), 60, "the reason to be told")
    assert lived.items() <= _pods(rig).items()
    assert rig.caches.condition("cache", "Available")["status"] == "True"
    rig.caches.patch("cache", image=None)
    all_well(rig, "cache", since=since)
    assert _pods(rig) == lived


@case("G05")
def resources(rig: Rig) -> None:
    bad = (
        {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}},
        {"resources": {"limits": {"cpu": "abc"}}},
        {"resources": {"requests": {"memory": "-1"}}},
    )
    assert [spec for spec in bad if not refused(rig, spec)] == []


@case("G06")
def placement_that_cannot_be_met(rig: Rig) -> None:
    ready(rig, size=1)
    lived = _pods(rig)
    since = rig.journal.mark()
    rig.caches.patch("cache", nodeSelector={"no": "such-node"})
    wait_until(lambda: "nschedulable" in str(rig.caches.get("cache")), 60, "the reason to be told")
    assert lived.items() <= _pods(rig).items()
    rig.caches.patch("cache", nodeSelector=None)
    all_well(rig, "cache", since=since)
    assert _pods(rig) == lived


def _pods(rig: Rig) -> dict[str, str]:
    pods = rig.api.get(object_path("v1", "pods", rig.namespace))["items"]
    alive = [pod["metadata"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    return {metadata["name"]: metadata["uid"] for metadata in alive}


@case("G07")
def security_contexts(rig: Rig) -> None:
    no_such_field(rig, securityContext={"privileged": True}, hostNetwork=True, hostPID=True, livenessProbe={"exec": {}})


@case("G11")
def arguments(rig: Rig) -> None:
    no_such_field(rig, extraArgs=["-U", "11211", "-u", "root", "; reboot"], args=["-A"], command=["sh"])
    deployment = rig.caches.child("deployments", "odd")
    assert deployment is not None
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["args"][container["args"].index("-U") + 1] == "0"
    assert [port["protocol"] for port in container["ports"]] == ["TCP"]


@case("G12")
def labels_that_break_selectors(rig: Rig) -> None:
    bad = (
        {"podLabels": {"app": "mine"}},
        {"podLabels": {"memcached_cr": "other"}},
        {"podLabels": {"a b": "c"}},
        {"podLabels": {"a": "b c"}},
        {"podAnnotations": {"cache.example.com/owner-uid": "x"}},
        {"podLabels": {"pod-template-hash": "x"}},
    )
    assert [spec for spec in bad if not refused(rig, spec)] == []


@case("G13")
def ports(rig: Rig) -> None:
    no_such_field(rig, port=0, servicePort=65536, metricsPort=11211)


@case("G14")
def service_types(rig: Rig) -> None:
    no_such_field(rig, serviceType="LoadBalancer", externalIPs=["1.2.3.4"])
    service = rig.caches.child("services", "odd")
    assert service is not None
    assert service["spec"]["type"] == "ClusterIP"
    assert service["spec"]["clusterIP"] == "None"


@case("G16")
def an_immutable_field_of_a_child(rig: Rig) -> None:
    ready(rig, size=1)
    mine = rig.caches.child("deployments", "cache")
    assert mine is not None
    rig.operators[0][1].pause()
    path = object_path("apps/v1", "deployments", rig.namespace)
    rig.api.delete(f"{path}/cache")
    wait_until(lambda: rig.caches.child("deployments", "cache") is None, 60, "the Deployment to be gone")
    kept = {key: mine["metadata"][key] for key in ("name", "labels", "annotations", "ownerReferences")}
    template = mine["spec"]["template"]
    template["metadata"]["labels"]["more"] = "than-ours"
    selector = {"matchLabels": {**mine["spec"]["selector"]["matchLabels"], "more": "than-ours"}}
    spec = {"replicas": 1, "selector": selector, "template": template}
    rig.api.create(path, {"metadata": kept, "spec": spec})
    since = rig.journal.mark()
    rig.operators[0][1].resume()
    settled_at, _ = rig.settle(
        lambda rig: rig.caches.condition("cache", "Degraded").get("status") or rig.caches.ready("cache")
    )
    assert settled_at is not None
    writes = [e for e in rig.journal.entries(since) if e.call.is_write and e.call.resource == "deployments"]
    assert len(writes) < 20


@case("G17")
def names(rig: Rig) -> None:
    assert [name for name in ("1st", "ä", "A", "a_b", "-a", "a" * 47, "a.b") if not refused(rig, {}, name)] == []
    rig.start()
    for name in ("a", "a" * 46):
        rig.caches.create(name, size=1)
    all_well(rig, "a", "a" * 46)


@case("G22")
def wrong_types_and_unknown_fields(rig: Rig) -> None:
    bad: tuple[dict[str, Any], ...] = (
        {"size": "1"},
        {"memory": "64"},
        {"podLabels": []},
        {"tolerations": {}},
        {"paused": 1},
    )
    assert [spec for spec in bad if not refused(rig, spec)] == []
    no_such_field(rig, unknown={"deep": [1]})


@case("H02")
def a_bad_image_a_kill_and_back(rig: Rig) -> None:
    ready(rig, size=2)
    _, operator, _ = rig.operators[0]
    since = rig.journal.mark()
    rig.caches.patch("cache", image=BAD_IMAGE)
    wait_until(lambda: BAD_IMAGE in str(rig.caches.child("deployments", "cache")), 30, "the roll-out to begin")
    operator.kill()
    rig.expect_end(operator, -9)
    rig.caches.patch("cache", image=None)
    rig.start()
    all_well(rig, "cache", since=since)


@case("H03")
def a_second_change_while_the_first_is_stuck(rig: Rig) -> None:
    ready(rig, size=2)
    since = rig.journal.mark()
    rig.caches.patch("cache", image=BAD_IMAGE)
    wait_until(lambda: "ImagePull" in str(rig.caches.get("cache")), 60, "it to be stuck")
    rig.caches.patch("cache", image="docker.io/library/memcached:1.6.40", memory=100)
    all_well(rig, "cache", since=since)


@case("H05")
def somebody_denies_our_children(rig: Rig) -> None:
    rig.start()
    since = rig.journal.mark()
    words = b'{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"admission policy: no"}'
    deny = Rule("denied", Answer(403, words), Match(verbs=("create",), resources=("services",)))
    rig.proxy().inject(deny, cut=False)
    rig.caches.create("cache", size=1)
    wait_until(lambda: "admission policy: no" in str(rig.caches.get("cache")), 40, "the policy's words")
    rig.proxy().heal()
    all_well(rig, "cache", since=since)


@case("L04")
def fields_that_point_elsewhere(rig: Rig) -> None:
    bad = ({"imagePullSecrets": [{"name": name}]} for name in ("b/secret", "../x", "A", ""))
    assert [spec for spec in bad if not refused(rig, spec)] == []
    no_such_field(rig, secretName="other/secret", namespace="kube-system")


@case("L05")
def reading_a_secret(rig: Rig) -> None:
    no_such_field(rig, env=[{"name": "A"}], envFrom=[{}], volumes=[{"name": "v"}], volumeMounts=[{"name": "v"}])


@case("L06")
def privileges(rig: Rig) -> None:
    no_such_field(rig, serviceAccountName="admin", hostPath="/", privileged=True, capabilities=["ALL"])
    deployment = rig.caches.child("deployments", "odd")
    assert deployment is not None
    assert deployment["spec"]["template"]["spec"]["automountServiceAccountToken"] is False


@case("L12")
def secrets_are_nowhere(rig: Rig) -> None:
    ready(rig, size=2)
    rig.caches.patch("cache", image=BAD_IMAGE, imagePullSecrets=[{"name": "canary"}])
    wait_until(lambda: "ImagePull" in str(rig.caches.get("cache")), 60, "trouble to tell of")
    rig.caches.patch("cache", image=None, imagePullSecrets=None)
    all_well(rig, "cache")
    assert "secrets" not in {entry.call.resource for entry in rig.journal.entries()}


@case("L14")
def newlines_and_colours(rig: Rig) -> None:
    operator = rig.start("--log-format=json", "--log-level=debug")
    nasty = "a\nb\x1b[31mred\r\u2028{"
    rig.caches.create("cache", size=1, podAnnotations={"nasty": nasty})
    all_well(rig, "cache")
    words = b'{"kind":"Status","status":"Failure","reason":"Invalid","code":422,"message":"no\\n\\u001b[31m{"}'
    rig.proxy().inject(Rule("422", Answer(422, words), Match(verbs=("patch",), resources=("deployments",))), cut=False)
    rig.caches.patch("cache", memory=99)
    wait_until(lambda: rig.proxy().book.struck("422"), 30, "an error with control characters")
    rig.proxy().heal()
    rig.caches.patch("cache", memory=98)
    all_well(rig, "cache")
    for line in operator.log_text().splitlines():
        assert isinstance(json.loads(line), dict)
        assert "\x1b" not in line
