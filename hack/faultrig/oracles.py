"""The twelve oracles: each a pure function from the evidence of a run to what is wrong with it, [] when nothing is.

O1 to O12 are numbered as in docs/reliability.md. What an oracle needs and the evidence lacks (a reference, say) makes
it say nothing: a case names the oracles that it is judged by.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from faultrig.journal import Entry
from faultrig.state import CHILDREN, DEPLOYMENTS, MEMCACHEDS, OWNER_UID, PODS, State, differences, flat

_BEST_EFFORT = ("events", "leases")
_FOREIGN = ("secrets", "configmaps")
BURST = ((1.0, 14), (10.0, 22), (60.0, 30))
"""(seconds, failures): so often may the same request fail in a row in that time. A back-off that doubles from 5 ms,
its upper half at random, gives 9, 12 and 15, and each try of a reconcile may look before it writes."""
MANAGED_BY = ("app.kubernetes.io/managed-by", "memcached-operator")


@dataclass(frozen=True)
class Process:
    """One operator of a run: how it ended (None: it runs) and how it was meant to, and its log."""

    identity: str
    exit_code: int | None
    expected: tuple[int | None, ...]
    log: str


@dataclass(frozen=True)
class Reference:
    """A run of the same story that nothing disturbed: its end state, its creations and deletions, what varies."""

    leaves: Mapping[str, object]
    made: Mapping[str, int]
    masked: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Evidence:
    """What a run left to judge.

    Times are seconds on the monotonic clock: `healed_at` the end of the last fault, `settled_at` when all was as it
    should be, `watched_until` when looking ended. `limit` is how long settling may take. `fresh` and `previous` are the
    leaves of other states. `left_behind` are names whose children outlive them on purpose; `named` are words that the
    conditions must have. `lived` are pods (name -> uid) that nothing justified replacing; `answers` those that a client
    of the cache got.
    """

    requests: Sequence[Entry]
    state: State
    processes: Sequence[Process] = ()
    reference: Reference | None = None
    healed_at: float = 0.0
    settled_at: float | None = 0.0
    watched_until: float = 0.0
    limit: float = 30.0
    fresh: Mapping[str, object] = field(default_factory=dict)
    previous: Mapping[str, object] = field(default_factory=dict)
    left_behind: frozenset[str] = frozenset()
    named: tuple[str, ...] = ()
    canaries: tuple[str, ...] = ()
    lived: Mapping[str, str] = field(default_factory=dict)
    answers: Sequence[bool] = ()


def same_end_state(evidence: Evidence) -> list[str]:
    """O1: the end state is that of the undisturbed run."""
    if evidence.reference is None:
        return []
    return differences(flat(evidence.state), evidence.reference.leaves, evidence.reference.masked)


def same_creations(evidence: Evidence) -> list[str]:
    """O2: each object was created and deleted as often as in the undisturbed run."""
    if evidence.reference is None:
        return []
    made = creations(evidence.requests)
    wanted = evidence.reference.made
    return [
        f"{what}: {made.get(what, 0)} times, not {wanted.get(what, 0)}"
        for what in sorted(made.keys() | wanted.keys())
        if made.get(what, 0) != wanted.get(what, 0)
    ]


def settles(evidence: Evidence) -> list[str]:
    """O3: once the faults are over, the desired state is reached in time, and then nothing is written."""
    if evidence.settled_at is None:
        return [f"not settled {evidence.watched_until - evidence.healed_at:.1f} s after the last fault"]
    took = evidence.settled_at - evidence.healed_at
    late = [f"settled {took:.1f} s after the last fault, not within {evidence.limit:g} s"]
    after = [
        f"written when all was well: {entry.call}"
        for entry in evidence.requests
        if entry.took_effect
        and entry.call.resource not in _BEST_EFFORT
        and evidence.settled_at < entry.began <= evidence.watched_until
    ]
    return (late if took > evidence.limit else []) + after


def same_as_fresh(evidence: Evidence) -> list[str]:
    """O4: a spec that was reached by an edit gives what the same spec gives from nothing."""
    return differences(flat(evidence.state), evidence.fresh, frozenset()) if evidence.fresh else []


def agrees(evidence: Evidence) -> list[str]:
    """O5: what the spec says is what the children say. Written anew from the documentation, not from the builders."""
    found = []
    for memcached in evidence.state.of(MEMCACHEDS):
        name, spec = memcached["metadata"]["name"], memcached["spec"]
        deployment = evidence.state.named(DEPLOYMENTS, name)
        if deployment is None:
            found.append(f"{name} has no Deployment")
            continue
        for what, wanted, got in _correspondences(spec, memcached, deployment):
            if wanted != got:
                found.append(f"{name} {what}: {wanted!r}, but the Deployment has {got!r}")
    return found


def rolls_back(evidence: Evidence) -> list[str]:
    """O6: the spec of before brings the state of before."""
    return differences(flat(evidence.state), evidence.previous, frozenset()) if evidence.previous else []


def ends_as_meant(evidence: Evidence) -> list[str]:
    """O7: processes end when they are meant to, with the right code, and their logs have no stack trace."""
    found = []
    for process in evidence.processes:
        if process.exit_code not in process.expected:
            told = "runs on" if process.exit_code is None else f"ended with {process.exit_code}"
            found.append(f"{process.identity} {told}, not {process.expected}: {process.log[-300:]}")
        trace = process.log.find("Traceback (most recent call last)")
        if trace >= 0:
            found.append(f"{process.identity} logged a stack trace: {process.log[trace : trace + 1500]}")
        if "a bug; please report it" in process.log:
            found.append(f"{process.identity} met a bug of its own")
    return found


def honest(evidence: Evidence) -> list[str]:
    """O8: the status speaks of the present generation, is Ready only if the pods are, and names what is wrong."""
    found = []
    for memcached in evidence.state.of(MEMCACHEDS):
        name, status = memcached["metadata"]["name"], memcached.get("status", {})
        if status.get("observedGeneration") != memcached["metadata"]["generation"]:
            found.append(f"{name}: observedGeneration is not that of the spec")
        ready = _condition(status, "Ready")
        if ready.get("status") == "True":
            found += [f"{name} is Ready, but {why}" for why in _not_ready(evidence.state, memcached)]
    told = str([memcached.get("status", {}).get("conditions") for memcached in evidence.state.of(MEMCACHEDS)])
    return found + [f"no condition tells of {word!r}" for word in evidence.named if word not in told]


def patient(evidence: Evidence) -> list[str]:
    """O9: what fails is asked again ever more slowly, and nobody's objects but our own are asked for.

    A success in between begins anew.
    """
    failures: dict[tuple[str, ...], list[float]] = defaultdict(list)
    found: dict[tuple[str, ...], str] = {
        (entry.call.resource,): f"{entry.call}: asks for everybody's"
        for entry in evidence.requests
        if entry.call.resource in (*CHILDREN, PODS, *_FOREIGN)
        and entry.call.verb in ("list", "watch")
        and not entry.call.selects
    }
    for entry in evidence.requests:
        call = entry.call
        key = (call.identity, call.verb, call.resource, call.subresource, call.namespace, call.name)
        if 0 < entry.answered < 400:
            failures.pop(key, None)
            continue
        if call.resource in _BEST_EFFORT or call.verb == "event":
            continue
        times = failures[key]
        times.append(entry.began)
        for seconds, allowed in BURST:
            if len(times) > allowed and times[-1] - times[-1 - allowed] < seconds:
                found[key] = f"{call}: more than {allowed} failures in {seconds:g} s"
    return list(found.values())


def clean(evidence: Evidence) -> list[str]:
    """O10: every child has an owner that lives, and no secret is anywhere."""
    uids = {body["metadata"]["uid"] for body in evidence.state.of(MEMCACHEDS)}
    found = [
        f"{plural}/{body['metadata']['name']} is an orphan"
        for plural in CHILDREN
        for body in evidence.state.of(plural)
        if (body["metadata"].get("labels") or {}).get(MANAGED_BY[0]) == MANAGED_BY[1]
        and body["metadata"]["name"] not in evidence.left_behind
        and "deletionTimestamp" not in body["metadata"]
        and not _owners(body) & uids
    ]
    texts = {"the namespace": evidence.state.text(), **{f"the log of {p.identity}": p.log for p in evidence.processes}}
    found += [
        f"a secret is in {where}" for where, text in texts.items() for canary in evidence.canaries if canary in text
    ]
    return found


def serves(evidence: Evidence) -> list[str]:
    """O11: no pod was replaced without need, and every client was answered."""
    uids = {pod["metadata"]["uid"] for pod in evidence.state.of(PODS) if "deletionTimestamp" not in pod["metadata"]}
    found = [f"pod {name} was replaced" for name, uid in evidence.lived.items() if uid not in uids]
    failed = sum(not answer for answer in evidence.answers)
    return found + ([f"{failed} of {len(evidence.answers)} requests to the cache failed"] if failed else [])


def one_leader(evidence: Evidence) -> list[str]:
    """O12: nobody writes after another has acquired the Lease. Holders are called IDENTITY_..."""
    found = []
    holder, since = "", 0.0
    for entry in sorted(evidence.requests, key=lambda entry: entry.ended):
        if entry.call.resource == "leases":
            if entry.took_effect and entry.holder.partition("_")[0] != holder and entry.holder:
                holder, since = entry.holder.partition("_")[0], entry.ended
        elif entry.took_effect and holder and entry.call.identity != holder and entry.began > since:
            found.append(f"{entry.call.identity} wrote while {holder} led: {entry.call}")
    return found


Oracle = Callable[[Evidence], list[str]]

ORACLES: Mapping[str, Oracle] = MappingProxyType(
    {
        "O1": same_end_state,
        "O2": same_creations,
        "O3": settles,
        "O4": same_as_fresh,
        "O5": agrees,
        "O6": rolls_back,
        "O7": ends_as_meant,
        "O8": honest,
        "O9": patient,
        "O10": clean,
        "O11": serves,
        "O12": one_leader,
    }
)


def judge(evidence: Evidence, oracles: Sequence[str] = tuple(ORACLES)) -> list[str]:
    """What is wrong, each line with the oracle that says so."""
    return [f"{name}: {wrong}" for name in oracles for wrong in ORACLES[name](evidence)]


def acquit(evidence: Evidence, oracles: Sequence[str]) -> None:
    """Raise AssertionError with what these oracles find wrong, if they do."""
    wrong = judge(evidence, oracles)
    if wrong:
        raise AssertionError("\n".join(wrong))


def creations(requests: Sequence[Entry]) -> Counter[str]:
    """How often what was created or deleted, whatever the operator heard of it; Leases and events apart."""
    return Counter(
        f"{entry.call.verb} {entry.call.resource}/{entry.call.name}"
        for entry in requests
        if entry.took_effect and entry.call.verb in ("create", "delete") and entry.call.resource not in _BEST_EFFORT
    )


def _owners(body: Mapping[str, Any]) -> set[str]:
    metadata = body["metadata"]
    references = {reference["uid"] for reference in metadata.get("ownerReferences") or []}
    return references | {(metadata.get("annotations") or {}).get(OWNER_UID, "")}


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    return next((c for c in status.get("conditions", []) if c["type"] == kind), {})


def _not_ready(state: State, memcached: Mapping[str, Any]) -> Iterator[str]:
    name, size = memcached["metadata"]["name"], memcached["spec"]["size"]
    deployment = state.named(DEPLOYMENTS, name)
    if deployment is None:
        yield "it has no Deployment"
        return
    status = deployment.get("status", {})
    counts = {key: status.get(key, 0) for key in ("replicas", "updatedReplicas", "readyReplicas")}
    if deployment["spec"]["replicas"] == size and set(counts.values()) != {size}:
        yield f"its Deployment has {counts} of {size}"
    if memcached["status"].get("readyReplicas") != status.get("readyReplicas", 0):
        yield "it counts other pods than its Deployment"
    yield from (f"there is no {plural[:-1]}" for plural in ("services",) if state.named(plural, name) is None)


_ARGUMENTS = (("memory", "-m", 64), ("maxConnections", "-c", 1024), ("threads", "-t", 4))
_PASSED_ON = ("nodeSelector", "tolerations", "affinity", "priorityClassName", "imagePullSecrets")


def _correspondences(
    spec: Mapping[str, Any], memcached: Mapping[str, Any], deployment: Mapping[str, Any]
) -> Iterator[tuple[str, object, object]]:
    """(field, what the spec says, what the Deployment says)."""
    if spec.get("paused"):
        return
    template = deployment["spec"]["template"]
    pod, container = template["spec"], template["spec"]["containers"][0]
    arguments = dict(zip(container["args"], container["args"][1:], strict=False))
    yield "size", spec["size"], deployment["spec"]["replicas"]
    for what, flag, default in _ARGUMENTS:
        yield what, str(spec.get(what, default)), arguments.get(flag)
    yield "maxItemSize", f"{spec.get('maxItemSize', 1024)}k", arguments.get("-I")
    yield "UDP", "0", arguments.get("-U")
    loud = [argument for argument in container["args"] if argument.startswith("-v")]
    yield "verbosity", spec.get("verbosity", 0), len(loud[0]) - 1 if loud else 0
    if "image" in spec:
        yield "image", spec["image"], container["image"]
    for what in _PASSED_ON:
        yield what, _without_empty(spec.get(what)), _without_empty(pod.get(what))
    for what, place in (("podLabels", "labels"), ("podAnnotations", "annotations")):
        given = spec.get(what) or {}
        has = template["metadata"].get(place) or {}
        yield what, given, {key: has.get(key) for key in given}
    annotated = {key for key in template["metadata"].get("annotations") or {} if not key.startswith("kubectl.")}
    yield "podAnnotations", set(spec.get("podAnnotations") or {}), annotated  # none is left; a restart's is not ours
    yield from _rollout(spec, deployment)
    drains = spec.get("deletionPolicy", "Delete") == "Drain"
    finalizers = memcached["metadata"].get("finalizers") or []
    yield "deletionPolicy", drains, "cache.example.com/drain" in finalizers
    owned = bool(deployment["metadata"].get("ownerReferences"))
    yield "deletionPolicy", spec.get("deletionPolicy", "Delete") == "Delete", owned


def _rollout(spec: Mapping[str, Any], deployment: Mapping[str, Any]) -> Iterator[tuple[str, object, object]]:
    strategy = deployment["spec"]["strategy"].get("rollingUpdate", {})
    for what in ("maxSurge", "maxUnavailable"):
        if what in (spec.get("rollout") or {}):
            yield f"rollout.{what}", spec["rollout"][what], strategy.get(what)


def _without_empty(value: Any) -> Any:
    """Without null and empty fields, which Kubernetes drops or fills in; `effect: ""` of a toleration is none."""
    if isinstance(value, dict):
        plain = {key: _without_empty(item) for key, item in value.items()}
        return {key: item for key, item in plain.items() if item not in (None, "", [], {})} or None
    if isinstance(value, list):
        return [_without_empty(item) for item in value] or None
    return value or None
