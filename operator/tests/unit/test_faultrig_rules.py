"""What a request asks for, and which rule strikes it."""

import time

import pytest

from faultrig.journal import Call, parse_call
from faultrig.rules import EVERYTHING, EventRule, Match, Reset, Rule, RuleBook

NS = "/apis/apps/v1/namespaces/ns/deployments"


@pytest.mark.parametrize(
    ("method", "path", "query", "words"),
    (
        ("GET", NS, {}, ("list", "apps", "deployments", "", "ns", "")),
        ("GET", NS, {"watch": "1"}, ("watch", "apps", "deployments", "", "ns", "")),
        ("GET", f"{NS}/a", {}, ("get", "apps", "deployments", "", "ns", "a")),
        ("PATCH", f"{NS}/a/scale", {}, ("patch", "apps", "deployments", "scale", "ns", "a")),
        ("DELETE", f"{NS}/a", {}, ("delete", "apps", "deployments", "", "ns", "a")),
        ("POST", "/api/v1/namespaces/ns/services", {}, ("create", "", "services", "", "ns", "named")),
        ("GET", "/api/v1/namespaces/ns", {}, ("get", "", "namespaces", "", "", "ns")),
        ("GET", "/api/v1/namespaces/ns/status", {}, ("get", "", "namespaces", "status", "", "ns")),
        ("GET", "/api/v1/pods", {"watch": "true"}, ("watch", "", "pods", "", "", "")),
        ("GET", "/version", {}, ("list", "", "", "", "", "")),
    ),
)
def test_a_request_is_told_in_the_words_of_rbac(
    method: str, path: str, query: dict[str, str], words: tuple[str, ...]
) -> None:
    verb, group, resource, subresource, namespace, name = words
    body = b'{"metadata": {"name": "named"}}'
    told = parse_call("me", method, path, query, body)
    assert told == Call("me", verb, group, resource, subresource, namespace, name)


@pytest.mark.parametrize("body", (b"", b"{", b"[]", b'{"metadata": null}', b'{"metadata": []}'))
def test_a_body_that_says_no_name_has_none(body: bytes) -> None:
    assert parse_call("me", "POST", NS, {}, body).name == ""


def request(verb: str = "patch", resource: str = "services", name: str = "a") -> Call:
    return Call("me", verb, "", resource, "", "ns", name)


@pytest.mark.parametrize(
    ("match", "fits"),
    (
        (EVERYTHING, True),
        (Match(writes=True), True),
        (Match(verbs=("get",)), False),
        (Match(resources=("pods",)), False),
        (Match(name="b"), False),
        (Match(identity="you"), False),
        (Match(subresource="status"), False),
        (Match(subresource=""), True),
    ),
)
def test_each_field_of_a_match_counts(match: Match, *, fits: bool) -> None:
    assert match.fits(request()) is fits


def test_writes_are_without_leases_unless_they_are_named() -> None:
    lease = request("update", "leases")
    assert not Match(writes=True).fits(lease)
    assert Match(writes=True, resources=("leases",)).fits(lease)


def strikes(rule: Rule, times: int = 10) -> list[int]:
    book = RuleBook()
    book.write(rule)
    return [number for number in range(1, times + 1) if book.strike(request())]


def test_the_nth_request_alone_or_the_first_ones_are_struck() -> None:
    assert strikes(Rule("third", Reset(), nth=3)) == [3]
    assert strikes(Rule("twice", Reset(), times=2)) == [1, 2]
    assert strikes(Rule("all", Reset())) == list(range(1, 11))


def test_a_share_is_about_that_share_and_the_same_each_time() -> None:
    some = strikes(Rule("some", Reset(), share=0.1), 1000)
    assert 60 < len(some) < 140
    assert strikes(Rule("some", Reset(), share=0.1), 1000) == some


def test_the_first_rule_that_strikes_wins_and_counts_begin_with_the_rules() -> None:
    book = RuleBook()
    book.write(Rule("first", Reset(), times=1), Rule("rest", Reset()))
    struck = [book.strike(request()) for _ in range(3)]
    assert [rule.name for rule in struck if rule] == ["first", "rest", "rest"]
    assert (book.struck("first"), book.struck("rest")) == (1, 2)
    book.write()
    assert book.strike(request()) is None


def test_a_line_is_altered_by_the_first_rule_that_cares() -> None:
    book = RuleBook()
    line = {"type": "ADDED", "object": {}}
    book.write(
        EventRule("other kind", lambda _: [], resource="pods"),
        EventRule("not this", lambda _: None),
        EventRule("twice", lambda line: [line, line]),
    )
    assert book.alter(request(), line, time.monotonic()) == ([line, line], "twice")
    book.write()
    assert book.alter(request(), line, time.monotonic()) == ([line], "")


def test_a_rule_may_be_for_the_watches_that_are_open() -> None:
    book = RuleBook()
    line = {"type": "ADDED", "object": {}}
    before = time.monotonic()
    book.write(EventRule("swallow", lambda _: [], only_open=True))
    assert book.alter(request(), line, before) == ([], "swallow")
    assert book.alter(request(), line, time.monotonic() + 1) == ([line], "")
