"""Rules inside the core/v1 fields: what the API server would refuse in the pods, refused in the Memcached instead."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from memcached_operator.api.patterns import (
    DNS_LABEL,
    DNS_SUBDOMAIN,
    KEY_WORDS,
    LABEL_VALUE,
    QUALIFIED_NAME,
    VALUE_WORDS,
    is_key,
    is_key_cel,
    matches,
    matches_cel,
    one_of_cel,
)
from memcached_operator.api.quantity import QUANTITY_PATTERN, parse_quantity
from memcached_operator.api.rules import Rule

JsonObject = dict[str, Any]

RESOURCE_NAMES = ("cpu", "memory", "ephemeral-storage")
"""What `resources` may speak of. Devices and huge pages are of no use to memcached, and have rules of their own."""


def _text(pattern: str, words: str) -> Rule[str]:
    return Rule(cel=matches_cel("self", pattern), message=words, holds=lambda text: matches(pattern, text))


IS_KEY = _text(QUALIFIED_NAME, f"must be {KEY_WORDS}")
IS_KEY_OR_EMPTY: Rule[str] = Rule(
    cel=f"self == '' || {IS_KEY.cel}",
    message=f"must be empty or {KEY_WORDS}",
    holds=lambda text: text == "" or IS_KEY.holds(text),
)
IS_LABEL_VALUE = _text(LABEL_VALUE, f"must be {VALUE_WORDS}")
IS_NAMESPACE = _text(DNS_LABEL, "must be the name of a namespace: lower-case letters, digits and '-'")
IS_OBJECT_NAME = _text(DNS_SUBDOMAIN, "must be the name of a Secret: lower-case letters, digits, '-' and '.'")
IS_QUANTITY: Rule[int | str] = Rule(
    cel=f"type(self) == int || {matches_cel('self', QUANTITY_PATTERN)}",
    message='must be a quantity of zero or more, such as "500m", "1.5" or "128Mi"',
    holds=lambda amount: parse_quantity(amount) is not None,
)


def quantity_cel(x: str) -> str:
    """CEL: a readable quantity, or an integer, as a double.

    Of the ways to compare, only this passes the cost estimate: string(x) alone would cost a hundred times more.
    """
    return f"(type({x}) == int ? double({x}) : quantity({x}).asApproximateFloat())"


def readable_cel(x: str) -> str:
    """CEL: whether `x` can be read as a quantity. Where it cannot, the schema says so, and rules keep quiet."""
    return f"(type({x}) == int || isQuantity({x}))"


def quantity_at_least_cel(x: str, number: str) -> str:
    """CEL: whether the quantity is at least `number`, a double."""
    return f"!{readable_cel(x)} || {quantity_cel(x)} >= {number}"


def quantity_at_most_cel(x: str, number: str) -> str:
    """CEL: whether the quantity is at most `number`, a double."""
    return f"!{readable_cel(x)} || {quantity_cel(x)} <= {number}"


def at_most(low: object, high: object) -> bool:
    """Whether one quantity is at most the other. True when either is unreadable: the schema reports that."""
    a, b = parse_quantity(low), parse_quantity(high)
    return a is None or b is None or a <= b


def _request_fits(name: str) -> Rule[JsonObject]:
    request, limit = f"self.requests['{name}']", f"self.limits['{name}']"
    both = f"has(self.requests) && has(self.limits) && '{name}' in self.requests && '{name}' in self.limits"

    def holds(resources: JsonObject) -> bool:
        requests, limits = resources.get("requests", {}), resources.get("limits", {})
        return name not in requests or name not in limits or at_most(requests[name], limits[name])

    return Rule(
        cel=f"!({both} && {readable_cel(request)} && {readable_cel(limit)}) || "
        f"{quantity_cel(request)} <= {quantity_cel(limit)}",
        message=f"requests.{name} is larger than limits.{name}: lower the request or raise the limit",
        holds=holds,
        field=".requests",
    )


def _only_known(side: str) -> Rule[JsonObject]:
    known = one_of_cel("k", RESOURCE_NAMES)
    return Rule(
        cel=f"!has(self.{side}) || self.{side}.all(k, {known})",
        message=f"only {', '.join(RESOURCE_NAMES[:-1])} and {RESOURCE_NAMES[-1]} can be given; remove the others",
        holds=lambda resources: all(name in RESOURCE_NAMES for name in resources.get(side, {})),
        field=f".{side}",
        why="FieldValueForbidden",
    )


def _values_fit_set_operator() -> Rule[JsonObject]:
    def holds(requirement: JsonObject) -> bool:
        values = requirement.get("values", [])
        return bool(values) if requirement["operator"] in ("In", "NotIn") else not values

    return Rule(
        cel="self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 "
        ": !has(self.values) || size(self.values) == 0",
        message="operators In and NotIn need at least one value; Exists and DoesNotExist take none",
        holds=holds,
    )


def _values_fit_node_operator() -> Rule[JsonObject]:
    def holds(requirement: JsonObject) -> bool:
        values = requirement.get("values", [])
        match requirement["operator"]:
            case "In" | "NotIn":
                return bool(values)
            case "Gt" | "Lt":
                return len(values) == 1 and matches("[0-9]{1,18}", values[0])
            case _:
                return not values

    return Rule(
        cel="self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 "
        ": self.operator in ['Gt', 'Lt'] ? has(self.values) && size(self.values) == 1 "
        "&& self.values[0].matches('^[0-9]{1,18}$') : !has(self.values) || size(self.values) == 0",
        message="operators In and NotIn need at least one value, Gt and Lt exactly one whole number; "
        "Exists and DoesNotExist take none",
        holds=holds,
    )


def _label_keys_are_names() -> Rule[JsonObject]:
    return Rule(
        cel=f"!has(self.matchLabels) || self.matchLabels.all(k, {is_key_cel('k')})",
        message=f"a label key must be {KEY_WORDS}: correct the keys",
        holds=lambda selector: all(map(is_key, selector.get("matchLabels", {}))),
        field=".matchLabels",
    )


def _match_fields_are_names() -> Rule[JsonObject]:
    def holds(term: JsonObject) -> bool:
        return all(
            field["key"] == "metadata.name"
            and field["operator"] in ("In", "NotIn")
            and len(field.get("values", [])) == 1
            for field in term.get("matchFields", [])
        )

    return Rule(
        cel="!has(self.matchFields) || self.matchFields.all(f, f.key == 'metadata.name' "
        "&& f.operator in ['In', 'NotIn'] && has(f.values) && size(f.values) == 1)",
        message="a node can be matched by one field only: key metadata.name, operator In or NotIn, exactly one value",
        holds=holds,
        field=".matchFields",
    )


def _keys_need_selector(field: str) -> Rule[JsonObject]:
    return Rule(
        cel=f"!has(self.{field}) || size(self.{field}) == 0 || has(self.labelSelector)",
        message=f"{field} needs labelSelector: give one, or remove {field}",
        holds=lambda term: not term.get(field) or "labelSelector" in term,
        field=f".{field}",
        why="FieldValueForbidden",
    )


def _keys_not_in_selector(field: str) -> Rule[JsonObject]:
    def holds(term: JsonObject) -> bool:
        selector = term.get("labelSelector", {})
        taken = {*selector.get("matchLabels", {}), *(e["key"] for e in selector.get("matchExpressions", []))}
        return taken.isdisjoint(term.get(field, []))

    return Rule(
        cel=f"!has(self.{field}) || !has(self.labelSelector) || self.{field}.all(k, "
        "(!has(self.labelSelector.matchLabels) || !(k in self.labelSelector.matchLabels)) && "
        "(!has(self.labelSelector.matchExpressions) || !self.labelSelector.matchExpressions.exists(e, e.key == k)))",
        message=f"a key of {field} is also in labelSelector: remove it from one of them",
        holds=holds,
        field=f".{field}",
    )


def _match_and_mismatch_differ() -> Rule[JsonObject]:
    return Rule(
        cel="!has(self.matchLabelKeys) || !has(self.mismatchLabelKeys) || "
        "!self.matchLabelKeys.exists(k, k in self.mismatchLabelKeys)",
        message="a key is in both matchLabelKeys and mismatchLabelKeys: remove it from one of them",
        holds=lambda term: set(term.get("matchLabelKeys", [])).isdisjoint(term.get("mismatchLabelKeys", [])),
        field=".mismatchLabelKeys",
    )


_TOLERATION: tuple[Rule[JsonObject], ...] = (
    Rule(
        cel="(has(self.key) && self.key != '') || (has(self.operator) && self.operator == 'Exists')",
        message="a toleration without a key must have operator Exists, which tolerates every taint",
        holds=lambda t: bool(t.get("key")) or t.get("operator") == "Exists",
        field=".operator",
    ),
    Rule(
        cel="!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value == ''",
        message="a toleration with operator Exists takes no value: remove value, or use operator Equal",
        holds=lambda t: t.get("operator") != "Exists" or not t.get("value"),
        field=".value",
    ),
    Rule(
        cel="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
        message="tolerationSeconds works with effect NoExecute only: set that effect, or remove tolerationSeconds",
        holds=lambda t: "tolerationSeconds" not in t or t.get("effect") == "NoExecute",
        field=".effect",
    ),
)

_SPREAD: tuple[Rule[JsonObject], ...] = (
    Rule(
        cel="!has(self.minDomains) || self.whenUnsatisfiable == 'DoNotSchedule'",
        message="minDomains works with whenUnsatisfiable DoNotSchedule only: set that, or remove minDomains",
        holds=lambda c: "minDomains" not in c or c["whenUnsatisfiable"] == "DoNotSchedule",
        field=".minDomains",
    ),
    _keys_need_selector("matchLabelKeys"),
    _keys_not_in_selector("matchLabelKeys"),
)

CORE_RULES: Mapping[str, tuple[Rule[JsonObject], ...]] = MappingProxyType(
    {
        "ResourceRequirements": (
            _only_known("limits"),
            _only_known("requests"),
            *(_request_fits(name) for name in RESOURCE_NAMES),
        ),
        "Toleration": _TOLERATION,
        "TopologySpreadConstraint": _SPREAD,
        "NodeSelectorRequirement": (_values_fit_node_operator(),),
        "LabelSelectorRequirement": (_values_fit_set_operator(),),
        "LabelSelector": (_label_keys_are_names(),),
        "NodeSelectorTerm": (_match_fields_are_names(),),
        "PodAffinityTerm": (
            *(_keys_need_selector(field) for field in ("matchLabelKeys", "mismatchLabelKeys")),
            *(_keys_not_in_selector(field) for field in ("matchLabelKeys", "mismatchLabelKeys")),
            _match_and_mismatch_differ(),
        ),
    }
)
"""Definition -> its rules. Each is asked only about values that fit the definition's schema."""
