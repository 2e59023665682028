"""What the store believes when events, lists and answers to our own writes overtake each other."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from memcached_operator.gvr import PODS, SERVICES
from memcached_operator.runtime.store import (
    GRAVES,
    JSONBytes,
    Key,
    Object,
    Store,
    Watch,
    decode_unstructured,
    is_older,
)

X = Key("ns", "x")


def raw(version: int | str, *, uid: str = "u1", name: str = "x", namespace: str = "ns", owner: str = "") -> bytes:
    meta = {
        "name": name,
        "namespace": namespace,
        "uid": uid,
        "resourceVersion": str(version),
        "labels": {"owner": owner},
    }
    return json.dumps({"metadata": meta}).encode()


class Heard:
    """A store, and what its listener was told as (old version, new version, by a list?)."""

    def __init__(self, watch: Watch[Any] | None = None) -> None:
        self.told: list[tuple[str | None, str | None, bool]] = []
        self.store: Store[Any] = Store(watch or Watch(SERVICES, decode_unstructured), self.changed)

    def changed(self, old: Object | None, new: Object | None, listed: bool) -> None:  # noqa: FBT001 - see OnChange
        before, after = (thing.resource_version if thing else None for thing in (old, new))
        self.told.append((before, after, listed))

    def version(self, key: Key = X) -> str | None:
        thing = self.store.get(key)
        return thing.resource_version if thing else None


@pytest.mark.parametrize(
    ("one", "other", "older"),
    (
        ("9", "10", True),
        ("10", "9", False),
        ("10", "10", False),
        ("", "10", False),
        ("9", "", False),
        ("a", "b", False),
    ),
)
def test_versions_are_numbers_where_they_are_numbers(one: str, other: str, older: bool) -> None:  # noqa: FBT001 - a table
    assert is_older(one, than=other) is older


def test_events_are_told_once() -> None:
    heard = Heard()
    for version in (9, 9, 10, 9):
        heard.store.put(raw(version))
    assert heard.told == [(None, "9", False), ("9", "10", False)]
    heard.store.drop(raw(11))
    heard.store.drop(raw(11))
    assert heard.told[2:] == [("10", None, False)]
    assert len(heard.store) == 0


def test_the_answer_to_a_write_is_known_and_wakes_nobody() -> None:
    heard = Heard()
    heard.store.put(raw(9))
    heard.store.remember(raw(12))
    heard.store.put(raw(10))
    heard.store.put(raw(12))
    assert heard.told == [(None, "9", False)]
    assert heard.version() == "12"


def test_an_answer_that_shows_what_somebody_else_did_wakes_though_its_event_comes_after_it() -> None:
    watch = Watch(SERVICES, decode_unstructured, news=lambda old, new: old.uid != new.uid)
    heard = Heard(watch)
    heard.store.put(raw(10))
    heard.told.clear()
    heard.store.remember(raw(11))
    assert heard.told == []
    heard.store.remember(raw(13, uid="u2"))
    assert heard.told == [("11", "13", False)]
    heard.store.put(raw(12, uid="u2"))
    heard.store.put(raw(13, uid="u2"))
    assert heard.told == [("11", "13", False)]


def test_a_late_answer_to_a_write_does_not_hide_newer_news() -> None:
    heard = Heard()
    heard.store.put(raw(12))
    assert heard.store.remember(raw(10)).resource_version == "12"
    assert heard.version() == "12"


def test_a_late_answer_to_a_write_does_not_bring_back_the_dead() -> None:
    heard = Heard()
    heard.store.put(raw(9))
    heard.store.drop(raw(11))
    heard.store.remember(raw(10))
    assert heard.store.get(X) is None


def test_the_answer_that_deleted_is_no_new_object() -> None:
    # The patch that takes the last finalizer off is answered with the version of the deletion itself.
    heard = Heard()
    heard.store.drop(raw(11))
    heard.store.remember(raw(11))
    assert heard.store.get(X) is None


def test_a_late_event_does_not_bring_back_the_dead() -> None:
    heard = Heard()
    heard.store.drop(raw(11))
    heard.store.put(raw(10))
    assert heard.store.get(X) is None
    heard.store.put(raw(12, uid="u2"))
    assert heard.version() == "12"


def test_a_late_deletion_spares_the_successor() -> None:
    heard = Heard()
    heard.store.put(raw(9))
    heard.store.remember(raw(13, uid="u2"))
    heard.store.put(raw(10))
    heard.store.drop(raw(11))
    assert heard.version() == "13"


def test_a_deletion_takes_a_predecessor_along_whose_own_was_never_heard() -> None:
    heard = Heard()
    heard.store.put(raw(9))
    heard.store.drop(raw(20, uid="u2"))
    assert heard.store.get(X) is None


def test_labels_taken_away_and_given_back() -> None:
    # The watch says DELETED although the object lives on; our repair was answered first.
    heard = Heard()
    heard.store.put(raw(9))
    heard.store.remember(raw(11))
    heard.store.drop(raw(10))
    assert heard.version() == "11"


def test_a_recreated_object_is_a_change() -> None:
    heard = Heard()
    heard.store.put(raw(9))
    heard.store.put(raw(12, uid="u2"))
    assert heard.told == [(None, "9", False), ("9", "12", False)]


def test_what_we_deleted_is_forgotten_by_its_uid_and_wakes_nobody() -> None:
    heard = Heard()
    heard.store.put(raw(9))
    heard.store.forget(X, "other")
    assert heard.version() == "9"
    heard.store.forget(X, "u1")
    assert heard.store.get(X) is None
    assert len(heard.told) == 1


def test_a_list_forgets_what_it_does_not_name() -> None:
    heard = Heard()
    for name in ("x", "y"):
        heard.store.put(raw(9, name=name))
    listing = heard.store.begin_list("")
    listing.put(raw(9))
    assert [ghost.name for ghost in listing.finish()] == ["y"]
    assert heard.told[2:] == [("9", None, True)]


def test_a_list_of_one_namespace_forgets_nothing_of_another() -> None:
    heard = Heard()
    heard.store.put(raw(9, namespace="other"))
    listing = heard.store.begin_list("ns")
    assert listing.finish() == []
    assert heard.version(Key("other", "x")) == "9"


def test_an_object_born_while_a_list_is_read_is_no_ghost() -> None:
    heard = Heard()
    listing = heard.store.begin_list("")
    heard.store.put(raw(12))
    heard.store.remember(raw(13, name="mine"))
    assert listing.finish() == []
    assert heard.version() == "12"
    assert heard.version(Key("ns", "mine")) == "13"


def test_a_list_does_not_undo_what_was_heard_while_it_was_read() -> None:
    heard = Heard()
    heard.store.put(raw(9))
    listing = heard.store.begin_list("")
    heard.store.put(raw(12))
    listing.put(raw(10))
    assert listing.finish() == []
    assert heard.version() == "12"


def test_a_list_does_not_bring_back_what_died_while_it_was_read() -> None:
    heard = Heard()
    heard.store.put(raw(9))
    listing = heard.store.begin_list("")
    heard.store.drop(raw(12))
    listing.put(raw(10))
    listing.finish()
    assert heard.store.get(X) is None


def test_a_list_is_believed_where_versions_go_back() -> None:
    # etcd was restored from a backup.
    heard = Heard()
    heard.store.put(raw(900))
    heard.store.put(raw(901, name="y"))
    listing = heard.store.begin_list("")
    listing.put(raw(50))
    listing.finish()
    assert heard.version() == "50"
    assert heard.store.keys() == [X]


def test_a_list_revives_what_was_dropped_before_it_began() -> None:
    heard = Heard()
    heard.store.drop(raw(900))
    listing = heard.store.begin_list("")
    listing.put(raw(50))
    listing.finish()
    assert heard.version() == "50"


def test_a_list_without_news_tells_nobody() -> None:
    heard = Heard()
    heard.store.put(raw(9))
    listing = heard.store.begin_list("")
    listing.put(raw(9))
    listing.finish()
    assert len(heard.told) == 1


def test_a_kind_that_is_gone_is_forgotten_whole() -> None:
    heard = Heard()
    heard.store.put(raw(9))
    heard.store.put(raw(10, name="y"))
    heard.store.clear()
    assert len(heard.store) == 0
    assert heard.told[2:] == [("9", None, True), ("10", None, True)]


class Pod(Object):
    owner: str


def decode_pod(body: JSONBytes) -> Pod:
    thing = decode_unstructured(body)
    owner = thing.body["metadata"]["labels"]["owner"]
    return Pod(thing.namespace, thing.name, thing.uid, thing.resource_version, owner)


def owner_of(pod: Pod) -> Key | None:
    return Key(pod.namespace, pod.owner) if pod.owner else None


def test_the_index_follows_every_change() -> None:
    store = Heard(Watch(PODS, decode_pod, owner=owner_of, indexed=True)).store
    a, b = Key("ns", "a"), Key("ns", "b")

    def owned(key: Key) -> list[str]:
        return sorted(pod.name for pod in store.owned_by(key))

    store.put(raw(1, name="p", owner="a"))
    store.put(raw(2, name="q", owner="a"))
    assert owned(a) == ["p", "q"]
    store.put(raw(3, name="p", owner="b"))
    assert (owned(a), owned(b)) == (["q"], ["p"])
    store.remember(raw(4, name="q", owner=""))
    assert owned(a) == []
    store.put(raw(5, name="p", uid="u2", owner="a"))
    assert (owned(a), owned(b)) == (["p"], [])
    store.drop(raw(6, name="p", uid="u2", owner="a"))
    assert owned(a) == []
    store.put(raw(7, name="r", owner="a"))
    store.begin_list("").finish()
    assert owned(a) == []
    assert store._owned == {}  # noqa: SLF001 - owners that come and go must leave nothing behind


def test_what_was_worked_out_is_carried_over_to_the_same_object_only() -> None:
    carried: list[tuple[str, str]] = []
    watch = Watch(
        SERVICES,
        decode_unstructured,
        carry=lambda old, new: carried.append((old.resource_version, new.resource_version)),
    )
    store = Heard(watch).store
    store.put(raw(1))
    store.put(raw(2))
    store.put(raw(3, uid="u2"))
    assert carried == [("1", "2")]


def test_the_graves_of_a_churning_kind_are_not_kept_for_ever() -> None:
    store = Heard().store
    for number in range(GRAVES * 3):
        store.drop(raw(number + 1, name=f"job-{number}"))
    assert len(store.versions()) == GRAVES


def test_json_of_another_shape_is_an_error_of_msgspec() -> None:
    for body in (b'{"metadata": 1}', b'{"kind": "Status"}', b"[]", b"<html>"):
        with pytest.raises(msgspec.MsgspecError):
            Heard().store.put(body)
