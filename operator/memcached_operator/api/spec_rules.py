"""Rules on the resource's own fields: what memcached refuses or breaks on, and what would make the children invalid."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from memcached_operator.api import defaults, names
from memcached_operator.api.core_v1_rules import at_most, quantity_at_least_cel, quantity_at_most_cel
from memcached_operator.api.patterns import (
    DNS_1035_LABEL,
    DNS_SUBDOMAIN,
    IMAGE,
    KEY_WORDS,
    LABEL_VALUE,
    VALUE_WORDS,
    is_key,
    is_key_cel,
    matches,
    matches_cel,
    one_of_cel,
)
from memcached_operator.api.problems import shown
from memcached_operator.api.rules import Rule, Why
from memcached_operator.api.sizing import MIB, memory_need_cel, memory_need_mib
from memcached_operator.api.v1alpha1 import PERCENT, MemcachedSpec, Rollout

NAME_RULES: tuple[Rule[str], ...] = (
    Rule(
        cel=f"size(self.metadata.name) <= {names.MAX_NAME_LENGTH}",
        message=f"the name must have at most {names.MAX_NAME_LENGTH} characters, "
        "so that the names of its pods fit into 63: choose a shorter name",
        holds=lambda name: len(name) <= names.MAX_NAME_LENGTH,
        field=".metadata.name",
    ),
    Rule(
        cel=matches_cel("self.metadata.name", DNS_1035_LABEL),
        message="the name must start with a letter and have only lower-case letters, digits and '-', "
        "because its Service gets the same name: choose another name",
        holds=lambda name: matches(DNS_1035_LABEL, name),
        field=".metadata.name",
    ),
)
"""On `metadata.name`. In CEL they stand at the root, the only place from which metadata can be seen."""


def _zero(value: int | str) -> bool:
    return value in (0, "0%")


def _zero_cel(field: str) -> str:
    return f"(type({field}) == int ? {field} == 0 : {field} == '0%')"


def _is_percent(field: str, value: Callable[[Rollout], int | str]) -> Rule[Rollout]:
    """The same as the schema's pattern, in words."""
    return Rule(
        cel=f"type(self.{field}) == int || {matches_cel(f'self.{field}', PERCENT)}",
        message=f'{field} must be a whole number, or a percentage from "0%" to "100%"',
        holds=lambda rollout: isinstance(value(rollout), int) or matches(PERCENT, str(value(rollout))),
        field=f".{field}",
    )


ROLLOUT_RULES: tuple[Rule[Rollout], ...] = (
    _is_percent("maxSurge", lambda rollout: rollout.max_surge),
    _is_percent("maxUnavailable", lambda rollout: rollout.max_unavailable),
    Rule(
        cel=f"!({_zero_cel('self.maxSurge')} && {_zero_cel('self.maxUnavailable')})",
        message="maxSurge and maxUnavailable are both 0, so that no pod could ever be replaced: raise one of them",
        holds=lambda rollout: not (_zero(rollout.max_surge) and _zero(rollout.max_unavailable)),
    ),
)


def need_mib(spec: MemcachedSpec) -> int:
    """Memory that the container of this spec needs, in MiB."""
    return memory_need_mib(spec.memory, spec.max_connections)


def _amount(spec: MemcachedSpec, side: str) -> Any:
    return (spec.resources or {}).get(side, {}).get("memory")


def _limit_holds(spec: MemcachedSpec) -> bool:
    limit = _amount(spec, "limits")
    return limit is None or at_most(need_mib(spec) * MIB, limit)


def _limit_words(spec: MemcachedSpec) -> str:
    return (
        f"the memory limit is too small for memory {spec.memory} and maxConnections {spec.max_connections}: "
        f"raise it to at least {need_mib(spec)}Mi, or remove it to have it computed"
    )


def _request_holds(spec: MemcachedSpec) -> bool:
    request = _amount(spec, "requests")
    return request is None or _amount(spec, "limits") is not None or at_most(request, need_mib(spec) * MIB)


def _request_words(spec: MemcachedSpec) -> str:
    return (
        f"the memory request is larger than the computed limit of {need_mib(spec)}Mi: "
        "set resources.limits.memory too, or remove the request"
    )


def _has_cel(side: str) -> str:
    return f"has(self.resources) && has(self.resources.{side}) && 'memory' in self.resources.{side}"


_NEED_CEL = memory_need_cel("self")
_NEED_BYTES = f"double({MIB} * ({_NEED_CEL}))"
_LIMIT_CEL = "self.resources.limits['memory']"
_REQUEST_CEL = "self.resources.requests['memory']"
_LEAST_CONNECTIONS = f"{defaults.CONNECTIONS_PER_THREAD} * self.threads + {defaults.CONNECTIONS_BASE}"


def least_connections(threads: int) -> int:
    """Smallest `-c` with which memcached serves with this many threads."""
    return defaults.CONNECTIONS_PER_THREAD * threads + defaults.CONNECTIONS_BASE


SPEC_RULES: tuple[Rule[MemcachedSpec], ...] = (
    Rule(
        # Below 1, memory's own message says it all.
        cel="self.memory < 1 || self.maxItemSize * 2 <= self.memory * 1024",
        message="maxItemSize is more than half of memory, and memcached would not start: lower it, or raise memory",
        message_cel="'maxItemSize %d KiB is more than half of memory %d MiB, and memcached would not start: "
        "lower it to %d, or raise memory'.format([self.maxItemSize, self.memory, self.memory * 512])",
        holds=lambda spec: spec.max_item_size * 2 <= spec.memory * 1024,
        explain=lambda spec: (
            f"maxItemSize {spec.max_item_size} KiB is more than half of memory {spec.memory} MiB, and "
            f"memcached would not start: lower it to {spec.memory * 512}, or raise memory"
        ),
        field=".maxItemSize",
    ),
    Rule(
        cel=f"self.maxConnections >= {_LEAST_CONNECTIONS}",
        message="maxConnections is too small for this many threads: raise it, or lower threads",
        message_cel="'maxConnections %d is too small for %d threads, and memcached would not start: "
        f"raise it to at least %d, or lower threads'.format([self.maxConnections, self.threads, {_LEAST_CONNECTIONS}])",
        holds=lambda spec: spec.max_connections >= least_connections(spec.threads),
        explain=lambda spec: (
            f"maxConnections {spec.max_connections} is too small for {spec.threads} threads, and memcached "
            f"would not start: raise it to at least {least_connections(spec.threads)}, or lower threads"
        ),
        field=".maxConnections",
    ),
    Rule(
        cel=f"!({_has_cel('limits')}) || {quantity_at_least_cel(_LIMIT_CEL, _NEED_BYTES)}",
        message="the memory limit is too small for memory and maxConnections: raise it, or remove it",
        message_cel="'the memory limit is too small for memory %d and maxConnections %d: raise it to at least %dMi, "
        f"or remove it to have it computed'.format([self.memory, self.maxConnections, {_NEED_CEL}])",
        holds=_limit_holds,
        explain=_limit_words,
        field=".resources.limits",
    ),
    Rule(
        cel=f"!({_has_cel('requests')}) || {_has_cel('limits')} || {quantity_at_most_cel(_REQUEST_CEL, _NEED_BYTES)}",
        message="the memory request is larger than the computed limit: set resources.limits.memory too, or remove it",
        message_cel="'the memory request is larger than the computed limit of %dMi: set resources.limits.memory too, "
        f"or remove the request'.format([{_NEED_CEL}])",
        holds=_request_holds,
        explain=_request_words,
        field=".resources.requests",
    ),
)
"""On the spec as a whole: fields that must fit each other."""

Labels = dict[str, str]


def _every_key(good: Callable[[str], bool], good_cel: str, words: str, why: Why = "FieldValueInvalid") -> Rule[Labels]:
    """A rule on the keys of a map, called `k` in CEL.

    Python names the first bad key. CEL cannot: a key has no bound, and any text made of one breaks the cost estimate.
    """
    return Rule(
        cel=f"self.all(k, {good_cel})",
        message=words,
        holds=lambda labels: all(map(good, labels)),
        explain=lambda labels: f"{words} ({shown(min(key for key in labels if not good(key)))})",
        why=why,
    )


def _keys_are_names(what: str) -> Rule[Labels]:
    return _every_key(is_key, is_key_cel("k"), f"the key of {what} must be {KEY_WORDS}")


def _no_reserved_prefix() -> Rule[Labels]:
    return _every_key(
        lambda key: not key.startswith(names.RESERVED_PREFIX),
        f"!k.startsWith('{names.RESERVED_PREFIX}')",
        f"keys under {names.RESERVED_PREFIX} belong to the operator: remove them",
        why="FieldValueForbidden",
    )


def _no_reserved_label() -> Rule[Labels]:
    return _every_key(
        lambda key: key not in names.RESERVED_LABEL_KEYS,
        f"!({one_of_cel('k', names.RESERVED_LABEL_KEYS)})",
        f"the labels {', '.join(names.RESERVED_LABEL_KEYS)} are set on every pod: remove them",
        why="FieldValueForbidden",
    )


FIELD_RULES: Mapping[str, tuple[Rule[Any], ...]] = MappingProxyType(
    {
        "image": (
            Rule(
                cel=matches_cel("self", IMAGE),
                message="is no image reference: write REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@sha256:DIGEST, "
                "the repository in lower case",
                holds=lambda image: matches(IMAGE, image),
            ),
        ),
        "max_item_size": (
            Rule(
                cel=f"self % {defaults.ITEM_SIZE_STEP} == 0",
                message=f"memcached starts only with a multiple of {defaults.ITEM_SIZE_STEP} (KiB): "
                "use 512, 1024, 1536 and so on",
                holds=lambda size: size % defaults.ITEM_SIZE_STEP == 0,
            ),
        ),
        "priority_class_name": (
            Rule(
                cel=matches_cel("self", DNS_SUBDOMAIN),
                message="is no name of a PriorityClass: use lower-case letters, digits, '-' and '.'",
                holds=lambda name: matches(DNS_SUBDOMAIN, name),
            ),
        ),
        "pod_labels": (
            _keys_are_names("a label"),
            _no_reserved_prefix(),
            _no_reserved_label(),
        ),
        "pod_annotations": (
            _keys_are_names("an annotation"),
            _no_reserved_prefix(),
            Rule(
                cel=f"self.map(k, size(k) + size(self[k])).sum() <= {defaults.MAX_ANNOTATIONS_TOTAL}",
                message=f"the annotations have more than {defaults.MAX_ANNOTATIONS_TOTAL} characters together: "
                "remove some, or keep large values in a ConfigMap",
                holds=lambda annotations: (
                    sum(len(k) + len(v) for k, v in annotations.items()) <= defaults.MAX_ANNOTATIONS_TOTAL
                ),
            ),
        ),
        "node_selector": (_keys_are_names("a label"),),
        "rollout": ROLLOUT_RULES,
    }
)
"""Attribute of MemcachedSpec -> rules on its value, asked when it is given."""

_LABEL_VALUE_RULE: Rule[str] = Rule(
    cel=matches_cel("self", LABEL_VALUE),
    message=f"a label value must be {VALUE_WORDS}",
    holds=lambda value: matches(LABEL_VALUE, value),
)

VALUE_RULES: Mapping[str, tuple[Rule[str], ...]] = MappingProxyType(
    {"pod_labels": (_LABEL_VALUE_RULE,), "node_selector": (_LABEL_VALUE_RULE,)}
)
"""Attribute of MemcachedSpec that is a map -> rules on each of its values."""
