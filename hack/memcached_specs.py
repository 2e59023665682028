"""Hypothesis strategies for Memcached specs as raw JSON: right ones, and ones with a mistake nobody can overlook."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

Json = dict[str, Any]

_LABEL_NAMES = st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", fullmatch=True)
_PREFIXES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?(\.[a-z0-9]{1,10}){0,3}", fullmatch=True)
KEYS = st.one_of(_LABEL_NAMES, st.builds("{}/{}".format, _PREFIXES, _LABEL_NAMES))
LABEL_VALUES = st.one_of(st.just(""), _LABEL_NAMES)
_USER_KEYS = KEYS.filter(
    lambda key: (
        key not in ("app", "memcached_cr", "pod-template-hash")
        and not key.startswith(("app.kubernetes.io/", "cache.example.com/"))
    )
)
LABELS = st.dictionaries(_USER_KEYS, LABEL_VALUES, max_size=4)
ANNOTATIONS = st.dictionaries(_USER_KEYS, st.text(st.characters(exclude_categories=["Cs"]), max_size=50), max_size=4)

IMAGES = st.sampled_from(
    (
        "memcached",
        "docker.io/library/memcached:1.6.45",
        "registry.local:5000/team/memcached:1",
        f"memcached@sha256:{'0a' * 32}",
        f"memcached:1.6.45-alpine@sha256:{'0a' * 32}",
    )
)

_INT_OR_PERCENT = st.one_of(st.integers(0, 1000), st.integers(0, 100).map("{}%".format))


def _is_zero(value: int | str) -> bool:
    return value in (0, "0%")


ROLLOUTS = st.fixed_dictionaries({}, optional={"maxSurge": _INT_OR_PERCENT, "maxUnavailable": _INT_OR_PERCENT}).filter(
    lambda rollout: not (_is_zero(rollout.get("maxSurge", 1)) and _is_zero(rollout.get("maxUnavailable", 0)))
)


def _toleration(draw: st.DrawFn) -> Json:
    exists = draw(st.booleans())
    effect = draw(st.sampled_from((None, "", "NoSchedule", "PreferNoSchedule", "NoExecute")))
    toleration: Json = {"operator": "Exists"} if exists else {"key": draw(KEYS)}
    if exists and draw(st.booleans()):
        toleration["key"] = draw(KEYS)
    if not exists:
        toleration |= draw(st.sampled_from(({}, {"operator": ""}, {"operator": "Equal"})))
        toleration["value"] = draw(LABEL_VALUES)
    if effect is not None:
        toleration["effect"] = effect
    if effect == "NoExecute" and draw(st.booleans()):
        toleration["tolerationSeconds"] = draw(st.integers(-10, 10**6))
    return toleration


TOLERATIONS = st.composite(_toleration)()


def _set_requirement(draw: st.DrawFn) -> Json:
    operator = draw(st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")))
    requirement: Json = {"key": draw(KEYS), "operator": operator}
    if operator in ("In", "NotIn"):
        requirement["values"] = draw(st.lists(LABEL_VALUES, min_size=1, max_size=3))
    return requirement


_SET_REQUIREMENTS = st.composite(_set_requirement)()
_NODE_REQUIREMENTS = st.one_of(
    _SET_REQUIREMENTS,
    st.builds(
        lambda key, operator, number: {"key": key, "operator": operator, "values": [str(number)]},
        KEYS,
        st.sampled_from(("Gt", "Lt")),
        st.integers(0, 10**17),
    ),
)
_SELECTORS = st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": st.dictionaries(KEYS, LABEL_VALUES, max_size=3),
        "matchExpressions": st.lists(_SET_REQUIREMENTS, max_size=2),
    },
)
_NODE_FIELD = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
_NODE_TERMS = st.fixed_dictionaries(
    {"matchExpressions": st.lists(_NODE_REQUIREMENTS, max_size=3)},
    optional={"matchFields": st.just([_NODE_FIELD])},
)
_POD_TERMS = st.fixed_dictionaries(
    {"topologyKey": KEYS, "labelSelector": _SELECTORS},
    optional={"namespaceSelector": _SELECTORS, "namespaces": st.just(["default", "kube-system"])},
)
_WEIGHTS = st.integers(1, 100)
_PREFERRED, _REQUIRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("preferred", "required"))
_POD_AFFINITIES = st.fixed_dictionaries(
    {},
    optional={
        _REQUIRED: st.lists(_POD_TERMS, max_size=2),
        _PREFERRED: st.lists(st.fixed_dictionaries({"weight": _WEIGHTS, "podAffinityTerm": _POD_TERMS}), max_size=2),
    },
)
AFFINITIES = st.fixed_dictionaries(
    {},
    optional={
        "nodeAffinity": st.fixed_dictionaries(
            {},
            optional={
                _REQUIRED: st.fixed_dictionaries({"nodeSelectorTerms": st.lists(_NODE_TERMS, min_size=1, max_size=2)}),
                _PREFERRED: st.lists(
                    st.fixed_dictionaries({"weight": _WEIGHTS, "preference": _NODE_TERMS}), max_size=2
                ),
            },
        ),
        "podAffinity": _POD_AFFINITIES,
        "podAntiAffinity": _POD_AFFINITIES,
    },
)
SPREADS = st.lists(
    st.fixed_dictionaries(
        {
            "maxSkew": st.integers(1, 2**31 - 1),
            "topologyKey": KEYS,
            "whenUnsatisfiable": st.sampled_from(("DoNotSchedule", "ScheduleAnyway")),
            "labelSelector": _SELECTORS,
        },
        optional={"nodeTaintsPolicy": st.sampled_from(("Honor", "Ignore"))},
    ),
    max_size=3,
    unique_by=lambda constraint: (constraint["topologyKey"], constraint["whenUnsatisfiable"]),
)
_CPUS = st.sampled_from((0, 1, "1", "500m", "1.5", ".5", "2e0", "1E1"))
RESOURCES = st.one_of(
    st.fixed_dictionaries({}, optional={"limits": st.fixed_dictionaries({}, optional={"cpu": _CPUS})}),
    st.fixed_dictionaries({}, optional={"requests": st.fixed_dictionaries({}, optional={"cpu": _CPUS})}),
    st.just({"limits": {"memory": "20Ti", "cpu": 4}, "requests": {"memory": "1Gi", "cpu": "100m"}}),
    st.just({"limits": {"memory": "20T", "ephemeral-storage": "1G"}, "requests": {"ephemeral-storage": 1000}}),
)


def _spec(draw: st.DrawFn) -> Json:
    threads = draw(st.integers(1, 64))
    memory = draw(st.one_of(st.integers(2, 4096), st.integers(2, 1_048_576)))
    spec: Json = {
        "size": draw(st.integers(0, 1000)),
        "memory": memory,
        "threads": threads,
        "maxConnections": draw(st.integers(max(32, 5 * threads + 12), 65_536)),
        "maxItemSize": 512 * draw(st.integers(1, min(memory, 2048))),
    }
    optional = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "image": IMAGES,
                "verbosity": st.integers(0, 3),
                "resources": RESOURCES,
                "podAnnotations": ANNOTATIONS,
                "podLabels": LABELS,
                "nodeSelector": st.dictionaries(KEYS, LABEL_VALUES, max_size=3),
                "tolerations": st.lists(TOLERATIONS, max_size=3),
                "affinity": AFFINITIES,
                "topologySpreadConstraints": SPREADS,
                "priorityClassName": st.sampled_from(("high", "team.high-1")),
                "imagePullSecrets": st.lists(
                    st.sampled_from(("a", "registry.local", "b-1")).map(lambda name: {"name": name}),
                    max_size=3,
                    unique_by=lambda secret: secret["name"],
                ),
                "rollout": ROLLOUTS,
                "deletionPolicy": st.sampled_from(("Delete", "Orphan", "Drain")),
                "drainSeconds": st.integers(0, 600),
                "paused": st.booleans(),
            },
        )
    )
    defaults_too = draw(st.booleans())
    return {**spec, **optional} if defaults_too else {"size": spec["size"], **optional}


valid_specs: Callable[[], SearchStrategy[Json]] = st.composite(_spec)
"""Specs that must be accepted. Half of them leave memcached's own options to their defaults."""

_NOT_NUMBERS = st.sampled_from(("1", True, [], {}, 1.5))
_NOT_TEXTS = st.sampled_from((1, True, [], {}))
_NOT_KEYS = st.sampled_from(("", "a b", "-a", "a-", "a/b/c", "/a", "a/", "A.b/c", "é", "a\n", "x" * 64, "a" * 254))
_NOT_VALUES = st.sampled_from(("a b", "-a", "a-", "é", "a\n", "a/b", "x" * 64))
_NOT_QUANTITIES: SearchStrategy[Any] = st.sampled_from(
    ("", "x", "1K", "-1", -1, "1 Gi", "1e", "1ee1", "1.1.1", ".", True, None, [], "1" * 33)
)


def _outside(low: int, high: int) -> SearchStrategy[Any]:
    return st.one_of(st.integers(max_value=low - 1), st.integers(min_value=high + 1), _NOT_NUMBERS)


_MISTAKES: dict[str, SearchStrategy[Any]] = {
    "size": st.one_of(_outside(0, 1000), st.none()),
    "memory": _outside(1, 1_048_576),
    "maxConnections": _outside(32, 65_536),
    "threads": _outside(1, 64),
    "maxItemSize": st.one_of(_outside(1, 1_048_576), st.integers(1, 1_048_576).filter(lambda size: size % 512)),
    "verbosity": _outside(0, 3),
    "drainSeconds": _outside(0, 600),
    "paused": st.sampled_from(("true", 0, 1, [])),
    "deletionPolicy": st.one_of(st.sampled_from(("", "delete", "Keep", "Drain ")), _NOT_TEXTS),
    "image": st.one_of(
        st.sampled_from(("", " a", "a b", "Memcached", "a:b:c", "a//b", "a@sha256:0", "a\n", ":1", "a:" + "t" * 129)),
        _NOT_TEXTS,
    ),
    "priorityClassName": st.one_of(st.sampled_from(("", "A", "a_b", "-a", "a.", "a" * 254)), _NOT_TEXTS),
    "podLabels": st.one_of(
        _NOT_KEYS.map(lambda key: {key: "x"}),
        _NOT_VALUES.map(lambda value: {"x": value}),
        _NOT_TEXTS.map(lambda value: {"x": value}),
        st.sampled_from(("app", "memcached_cr", "app.kubernetes.io/name", "cache.example.com/x")).map(
            lambda key: {key: "x"}
        ),
        st.just({f"k{i}": "" for i in range(65)}),
        st.sampled_from(("x", 1, [])),
    ),
    "podAnnotations": st.one_of(
        _NOT_KEYS.map(lambda key: {key: "x"}),
        st.just({"cache.example.com/owner-uid": "x"}),
        st.just({"x": "y" * 4097}),
        st.just({f"k{i}": "y" * 4096 for i in range(16)}),
    ),
    "nodeSelector": st.one_of(
        _NOT_KEYS.map(lambda key: {key: "x"}), _NOT_VALUES.map(lambda value: {"x": value}), st.just([])
    ),
    "rollout": st.one_of(
        st.sampled_from(({"maxSurge": 0}, {"maxSurge": "0%"}, {"maxSurge": "0%", "maxUnavailable": "0%"}, [], "x")),
        st.sampled_from(("", "1", "101%", "-1%", "01%", -1, 1001, 1.5, True, [])).map(lambda bad: {"maxSurge": bad}),
    ),
    "resources": st.one_of(
        _NOT_QUANTITIES.map(lambda bad: {"limits": {"cpu": bad}}),
        _NOT_QUANTITIES.map(lambda bad: {"requests": {"memory": bad}}),
        st.sampled_from(("0", 0, "1Mi", "64Mi", "1k", 65_000_000)).map(lambda low: {"limits": {"memory": low}}),
        st.just({"requests": {"memory": "9E"}}),
        st.just({"requests": {"cpu": "2"}, "limits": {"cpu": "1999m"}}),
        st.just({"requests": {"nvidia.com/gpu": 1}}),
        st.sampled_from(([], "x", {"limits": []}, {"requests": "x"})),
    ),
    "tolerations": st.sampled_from(
        (
            [{}],
            [{"key": "a", "operator": "Lt", "value": "1"}],
            [{"key": "a", "operator": "Exists", "value": "b"}],
            [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 1}],
            [{"key": "a b"}],
            [{"key": "a", "value": "b c"}],
            [{"key": 1}],
            [{"key": "a", "effect": "NoRun"}],
            [{"key": "a", "effect": "NoExecute", "tolerationSeconds": "1"}],
            [{"operator": "Exists"}] * 33,
            {},
            [[]],
        )
    ),
    "affinity": st.sampled_from(
        (
            [],
            {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": []}}},
            {"nodeAffinity": {_REQUIRED: {}}},
            {"nodeAffinity": {_PREFERRED: [{"weight": 101, "preference": {}}]}},
            {"podAffinity": {_REQUIRED: [{}]}},
            {"podAffinity": {_REQUIRED: [{"topologyKey": ""}]}},
            {"podAffinity": {_REQUIRED: [{"topologyKey": "a", "namespaces": ["A"]}]}},
            {"podAffinity": {_REQUIRED: [{"topologyKey": "a", "matchLabelKeys": ["b"]}]}},
            {
                "podAffinity": {
                    _REQUIRED: [
                        {"topologyKey": "a", "labelSelector": {"matchLabels": {"b": ""}}, "mismatchLabelKeys": ["b"]}
                    ]
                }
            },
            {"podAntiAffinity": {_PREFERRED: [{"weight": 1}]}},
            {"podAntiAffinity": {_REQUIRED: [{"topologyKey": "a", "labelSelector": {"matchLabels": {"a b": ""}}}]}},
        )
    ),
    "topologySpreadConstraints": st.sampled_from(
        (
            {},
            [{}],
            [{"maxSkew": 0, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}],
            [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "Never"}],
            [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 1}],
            [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway", "matchLabelKeys": ["b"]}],
            [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}] * 2,
        )
    ),
    "imagePullSecrets": st.sampled_from(([{}], [{"name": ""}], [{"name": "A"}], [{"name": "a"}] * 2, {}, ["a"])),
}


def _broken_spec(draw: st.DrawFn) -> Json:
    field = draw(st.sampled_from(sorted(_MISTAKES)))
    return {**draw(valid_specs()), field: draw(_MISTAKES[field])}


broken_specs: Callable[[], SearchStrategy[Json]] = st.composite(_broken_spec)
"""Valid specs with one mistake in one field. Every one must be refused."""
