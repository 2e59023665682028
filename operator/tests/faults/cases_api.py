"""Class A: the API server and the network."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from functools import partial
from pathlib import Path

from registry import case
from rides import ORACLES, Gap, begin, ride
from rig import OPERATOR_USER, Rig

from controlplane import rbac, wait_until
from controlplane.api import object_path
from controlplane.credentials import issue_certificate, make_authority, write_kubeconfig
from faultrig.oracles import acquit
from faultrig.proxy import Serving
from faultrig.rules import Answer, Cut, Delay, EventRule, Hang, Lines, Match, Phase, Reset, Rule, Throttle, Truncate
from memcached_operator.kube.permissions import cluster_role_rules

HTML = Answer(200, b"<html><body>please log in</body></html>", content_type="text/html")
CONFLICT = Answer(409, b'{"kind":"Status","status":"Failure","reason":"Conflict","code":409,"message":"on purpose"}')
WATCHES = Match(verbs=("watch",))
WRITES = Match(writes=True)
DEAF_SECONDS = 80.0


def error_line(code: int, reason: str) -> bytes:
    """An ERROR event of a watch."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    return json.dumps({"type": "ERROR", "object": {**status, "message": "on purpose"}}).encode()


@case("A01")
def api_server_gone(rig: Rig) -> None:
    def outage(rig: Rig) -> None:
        rig.control_plane.kill("kube-apiserver")
        threading.Event().wait(5)  # the outage
        rig.control_plane.heal()

    ride(rig, harm=outage, limit=90)


@case("A02")
def unavailable(rig: Rig) -> None:
    ride(rig, Gap((Rule("503", Answer(503)),), seconds=8))


@case("A03")
def one_kind_cannot_be_listed(rig: Rig) -> None:
    broken = Match(verbs=("list", "watch"), resources=("deployments",))
    ride(rig, Gap((Rule("500", Answer(500), broken),), seconds=4))


@case("A04")
def watches_time_out_at_their_start(rig: Rig) -> None:
    ride(rig, Gap((Rule("504", Answer(504), WATCHES, times=20),), least=15))


@case("A05")
def one_in_a_hundred_fails(rig: Rig) -> None:
    churn(rig, Rule("500", Answer(500), share=0.01), edits=150)


@case("A06")
def half_of_the_writes_conflict(rig: Rig) -> None:
    churn(rig, Rule("409", CONFLICT, WRITES, share=0.5), edits=40)


@case("A07")
def a_request_hangs(rig: Rig) -> None:
    ride(rig, Gap((Rule("hang", Hang(), WRITES, nth=2),), seconds=33), limit=60)


@case("A08")
def too_many_requests_and_when_to_come_again(rig: Rig) -> None:
    evidence = ride(rig, Gap((Rule("429", Answer(429, headers={"Retry-After": "2"}), WRITES),), seconds=7, least=3))
    told: dict[str, float] = {}
    for entry in evidence.requests:
        what = f"{entry.call.verb} {entry.call.resource} {entry.call.name}"
        if entry.call.resource != "events":
            assert entry.began >= told.get(what, 0.0), f"{what} was tried before its time"
        if entry.fault:
            told[what] = entry.ended + 1.9  # our clock reads both a moment apart


@case("A09")
def too_many_requests_in_other_words(rig: Rig) -> None:
    date = {"Retry-After": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 2))}
    nonsense = {"Retry-After": "soon"}
    rules = (Rule("date", Answer(429, headers=date)), Rule("nonsense", Answer(429, headers=nonsense)))
    ride(rig, *(Gap((rule,), seconds=3) for rule in (*rules, Rule("nothing", Answer(429)))))


@case("A11")
def watches_are_cut_each_second(rig: Rig) -> None:
    churn(rig, Rule("cut", Cut(1.0), WATCHES), edits=60, seconds=20)
    since = rig.journal.mark()
    for number in range(40):  # an edit at the very moment of the cut, which our own write of the status overtakes
        rig.proxy().inject(Rule("reset", Reset(), times=number % 9 + 1))
        rig.caches.patch("cache-0", size=number % 4)
        rig.caches.wait_replicas("cache-0", number % 4)
    rig.proxy().heal()
    all_well(rig, "cache-0", since=since)


def _swallow(*resources: str) -> tuple[EventRule, ...]:
    kinds = resources or ("",)
    return tuple(EventRule(f"swallow {kind}", lambda _: [], resource=kind, only_open=True) for kind in kinds)


@case("A12")
def watches_are_half_open(rig: Rig) -> None:
    ride(rig, Gap(_swallow(), seconds=DEAF_SECONDS, cut=False), limit=60)


@case("A13")
def quiet_watches_die(rig: Rig) -> None:
    ride(rig, Gap(_swallow("services", "pods"), seconds=DEAF_SECONDS, cut=False), limit=60)


@case("A14")
def lines_are_cut_in_half(rig: Rig) -> None:
    ride(rig, Gap((Rule("half", Truncate(), WATCHES),), seconds=5))


@case("A15")
def a_page_of_html(rig: Rig) -> None:
    reads = Rule("html", HTML, Match(verbs=("get", "list", "watch")))
    writes = Rule("html for writes", HTML, WRITES)
    ride(rig, Gap((reads,), seconds=4), Gap((writes,), seconds=3, least=0))


@case("A16")
def the_authority_is_rotated(rig: Rig) -> None:
    proxy = rig.proxy()
    config = json.loads(proxy.kubeconfig.read_text())
    trusted = rig.folder / "ca.crt"
    trusted.write_bytes(Path(config["clusters"][0]["cluster"]["certificate-authority"]).read_bytes())
    config["clusters"][0]["cluster"]["certificate-authority"] = str(trusted)
    operator = rig.start("--log-level=debug", kubeconfig=write_kubeconfig(rig.folder / "rotated.kubeconfig", config))
    rig.caches.create("cache", size=1)
    all_well(rig, "cache")
    since = rig.journal.mark()
    for number in range(2, 4):
        authority, key = make_authority(f"authority-{number}", rig.folder / "pki")
        folder = rig.folder / f"serving-{number}"
        proxy.show(Serving(*issue_certificate("fault-proxy", authority, key, folder, address="127.0.0.1")))
        trusted.write_bytes(authority.read_bytes())
        proxy.inject(Rule("old connections", Reset(), times=20))  # those that were opened under the old certificate
        rig.caches.patch("cache", size=number)
        rig.caches.wait_replicas("cache", number, timeout=90)
    proxy.heal()
    all_well(rig, "cache", since=since)
    assert operator.alive()


@case("A17")
def unauthorized(rig: Rig) -> None:
    ride(rig, Gap((Rule("401", Answer(401)),), seconds=8))


@case("A19")
def a_right_is_removed(rig: Rig) -> None:
    begin(rig)
    since = rig.journal.mark()
    without = [
        {**rule, "verbs": [verb for verb in rule["verbs"] if verb != "create" or "services" not in rule["resources"]]}
        for rule in cluster_role_rules()
    ]
    rbac.bind(rig.api, OPERATOR_USER, without)
    try:
        wait_until(lambda: not _may_create_services(rig), 30, "the right to be gone")
        rig.caches.create("new", size=1)
        wait_until(lambda: "services" in str(rig.caches.get("new")), 40, "a condition to name the right")
        assert "forbidden" in str(rig.caches.condition("new", "Degraded")).lower()
    finally:
        rbac.bind(rig.api, OPERATOR_USER, cluster_role_rules())
    healed_at = time.monotonic()
    settled_at, watched = rig.settle(lambda rig: rig.caches.ready("new"), 120)
    evidence = rig.evidence(since, healed_at=healed_at, settled_at=settled_at, watched_until=watched, limit=120)
    acquit(evidence, ORACLES)


def _may_create_services(rig: Rig) -> bool:
    attributes = {"namespace": rig.namespace, "verb": "create", "resource": "services"}
    review = {"spec": {"user": OPERATOR_USER, "resourceAttributes": attributes}}
    answer = rig.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


@case("A20")
def the_crd_is_not_there_yet(rig: Rig) -> None:
    missing = Match(resources=("memcacheds",))
    rig.proxy().inject(Rule("404", Answer(404), missing))
    operator = rig.start(ready=False)
    wait_until(lambda: rig.journal.faults() >= 5, 60, "it to ask again")
    assert operator.alive()
    assert not operator.ready()
    rig.proxy().heal()
    operator.wait_ready(90)
    rig.caches.create("new", size=1)
    all_well(rig, "new")


@case("A21")
def two_seconds_of_latency(rig: Rig) -> None:
    ride(rig, Gap((Rule("late", Delay(2.0)),), seconds=12, cut=False), elects=True)
    assert "no write leaves" not in rig.operators[0][1].log_text()


@case("A22")
def lists_come_slowly(rig: Rig) -> None:
    for number in range(40):
        rig.caches.create(f"cache-{number}", size=0)
    rig.proxy().inject(Rule("slow", Throttle(50_000), Match(verbs=("list",))))
    operator = rig.start(elects=True, ready=False)
    operator.wait_ready(120)
    rig.proxy().heal()
    all_well(rig, *(f"cache-{number}" for number in range(40)))


@case("A24")
def etcd_stands_still(rig: Rig) -> None:
    def stop(rig: Rig) -> None:
        rig.control_plane.pause("etcd")
        threading.Event().wait(10)  # the outage
        rig.control_plane.resume("etcd")
        rig.control_plane.heal()

    ride(rig, harm=stop, limit=90)


@case("A25")
def too_old_a_version(rig: Rig) -> None:
    gone = Rule("410", Lines((error_line(410, "Expired"),)), WATCHES, times=4)
    evidence = ride(rig, Gap((Rule("reset", Reset()),), seconds=2), Gap((gone,), seconds=1))
    lists = defaultdict[str, int](int)
    for entry in evidence.requests:
        if entry.call.verb == "list" and entry.answered == 200:
            lists[entry.call.resource] += 1
    assert all(count <= 3 for count in lists.values()), lists


@case("A27")
def answers_to_writes_are_lost(rig: Rig) -> None:
    ride(rig, Gap((Rule("lost", Reset(), WRITES, Phase.AFTER, times=12),), least=5, cut=False))


@case("A28")
def creates_time_out_after_they_were_done(rig: Rig) -> None:
    creates = Match(verbs=("create",), writes=True)
    ride(rig, Gap((Rule("504", Answer(504), creates, Phase.AFTER, times=8),), least=4, cut=False))


@case("A29")
def one_kind_cannot_be_written(rig: Rig) -> None:
    begin(rig)
    since = rig.journal.mark()
    budgets = Match(resources=("poddisruptionbudgets",), writes=True)
    rig.proxy().inject(Rule("500", Answer(500), budgets), cut=False)
    rig.caches.create("new", size=2)
    wait_until(lambda: rig.caches.condition("new", "Available").get("status") == "True", 40, "the pods to serve")
    wait_until(
        lambda: "PodDisruptionBudget" in str(rig.caches.condition("new", "Degraded")), 30, "a condition to name it"
    )
    rig.proxy().heal()
    all_well(rig, "new", since=since)


@case("A30")
def one_of_many_is_refused(rig: Rig) -> None:
    rig.start()
    since = rig.journal.mark()
    invalid = Answer(422, b'{"kind":"Status","status":"Failure","reason":"Invalid","code":422,"message":"on purpose"}')
    rig.proxy().inject(Rule("422", invalid, Match(name="cache-7", verbs=("create",))), cut=False)
    names = [f"cache-{number}" for number in range(30)]
    for name in names:
        rig.caches.create(name, size=1)
    rig.caches.wait_ready(*(name for name in names if name != "cache-7"), timeout=120)
    assert rig.proxy().book.struck("422") < 20
    rig.proxy().heal()
    rig.caches.patch("cache-7", memory=65)  # what cannot heal by itself waits for an edit
    all_well(rig, *names, since=since)


def all_well(rig: Rig, *names: str, since: int = 0) -> None:
    """Wait until these are Ready and all is quiet, and judge what has happened since."""
    healed_at = time.monotonic()
    settled_at, watched = rig.settle(lambda rig: all(rig.caches.ready(name) for name in names), 150)
    evidence = rig.evidence(since, healed_at=healed_at, settled_at=settled_at, watched_until=watched, limit=120)
    acquit(evidence, ORACLES)


def churn(rig: Rig, rule: Rule, *, edits: int, caches: int = 5, seconds: float = 0.0) -> None:
    """So many edits of a few caches while the rule is in force; the last edit of each wins."""
    rig.start()
    names = [f"cache-{number}" for number in range(caches)]
    for name in names:
        rig.caches.create(name, size=1)
    rig.caches.wait_ready(*names, timeout=120)
    since = rig.journal.mark()
    rig.proxy().inject(rule)
    pause = seconds / edits
    for number in range(edits):
        rig.caches.patch(names[number % caches], size=number % 4, verbosity=number % 3)
        threading.Event().wait(pause)  # the pace of the edits
    wait_until(lambda: rig.proxy().book.struck(rule.name) > 0, 60, "the rule to strike")
    rig.proxy().heal()
    all_well(rig, *names, since=since)


@case("A18")
def the_token_is_replaced_and_the_old_one_revoked(rig: Rig) -> None:
    account = object_path("v1", "serviceaccounts", rig.namespace)
    rig.api.create(account, {"metadata": {"name": "rotated"}})
    user = f"system:serviceaccount:{rig.namespace}:rotated"
    rbac.bind(rig.api, user, cluster_role_rules(), name="rotated-token")
    try:
        token = rig.folder / "token"
        token.write_text(_token(rig, "token-0"))
        operator = rig.start(kubeconfig=_with_token(rig, token))
        rig.caches.create("cache", size=1)
        all_well(rig, "cache")
        secrets = object_path("v1", "secrets", rig.namespace)
        since = rig.journal.mark()
        for number in range(1, 4):
            old = token.read_text()
            token.write_text(_token(rig, f"token-{number}"))
            rig.api.delete(f"{secrets}/token-{number - 1}")  # a token that is bound to it is no good any more
            wait_until(partial(_refused, rig, old), 40, "the old token to be refused")  # the API server caches for 10 s
            rig.proxy().inject()  # watches that were let in by the old one end
            rig.caches.patch("cache", size=number + 1)
            all_well(rig, "cache", since=since)
        assert operator.alive()
        assert not any(word in operator.log_text() for word in token.read_text().split("."))
    finally:
        rbac.unbind(rig.api, "rotated-token")


def _token(rig: Rig, secret: str) -> str:
    secrets = object_path("v1", "secrets", rig.namespace)
    made = rig.api.create(secrets, {"metadata": {"name": secret}})
    bound = {"kind": "Secret", "apiVersion": "v1", "name": secret, "uid": made["metadata"]["uid"]}
    request = {"spec": {"expirationSeconds": 3600, "boundObjectRef": bound}}
    path = object_path("v1", "serviceaccounts", rig.namespace, "rotated")
    return str(rig.api.create(f"{path}/token", request)["status"]["token"])


def _refused(rig: Rig, token: str) -> bool:
    review = rig.api.create("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}})
    return not review["status"].get("authenticated", False)


def _with_token(rig: Rig, token: Path) -> Path:
    config = json.loads(rig.proxy().kubeconfig.read_text())
    config["users"][0]["user"] = {"tokenFile": str(token)}
    return write_kubeconfig(rig.folder / "token.kubeconfig", config)
