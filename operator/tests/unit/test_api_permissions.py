from __future__ import annotations

from itertools import chain

from memcached_operator.kube.permissions import (
    LEASE,
    OWN_NAMESPACE,
    WATCHED_NAMESPACES,
    allows,
    cluster_role_rules,
    leader_election_rules,
)
from memcached_operator.settings import parse

ALL = (*WATCHED_NAMESPACES, *OWN_NAMESPACE)


def test_no_wildcard_and_no_secrets() -> None:
    words = set(chain.from_iterable((p.group, p.resource, *p.verbs) for p in ALL))
    assert not {
        word for word in words if "*" in word or "secret" in word or word in ("escalate", "bind", "impersonate")
    }


def test_a_resource_has_one_row() -> None:
    rows = [(p.group, p.resource, p.names) for p in ALL]
    assert len(rows) == len(set(rows))


def test_every_row_says_why() -> None:
    assert all(p.why.endswith(".") and p.verbs for p in ALL)


def test_allows_follows_the_table() -> None:
    assert allows("patch", "apps", "deployments")
    assert allows("patch", "apps", "deployments", "scale")
    assert allows("update", "coordination.k8s.io", "leases")
    assert not allows("update", "apps", "deployments")
    assert not allows("get", "apps", "deployments", "scale")
    assert not allows("patch", "", "deployments")
    assert not allows("update", "cache.example.com", "memcacheds")
    assert not allows("get", "", "secrets")


def test_rules_have_rbac_form() -> None:
    assert {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]} in cluster_role_rules()
    assert leader_election_rules() == [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": ["memcached-operator"],
            "verbs": ["get", "watch", "update"],
        },
    ]


def test_the_lease_of_the_role_is_the_one_that_is_held_by_default() -> None:
    election = parse(["run", "--leader-election-namespace=system"], {}).leader_election
    assert election
    assert election.name == LEASE
