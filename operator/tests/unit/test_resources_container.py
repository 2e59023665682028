from __future__ import annotations

from typing import Any

import pytest

from memcached_operator.api.v1alpha1 import MemcachedSpec
from memcached_operator.resources.container import container_resources, memcached_container


def spec(**fields: Any) -> MemcachedSpec:
    return MemcachedSpec.model_validate({"size": 1, **fields})


def test_memcached_is_started_without_a_shell() -> None:
    container = memcached_container(spec(memory=100), image="cache:1")
    assert container["image"] == "cache:1"
    assert container["command"] == ["memcached"]
    assert container["args"][:2] == ["-m", "100"]


def test_the_port_has_the_name_that_service_and_probe_use() -> None:
    container = memcached_container(spec(), image="cache:1")
    assert container["ports"] == [{"name": "memcached", "containerPort": 11211, "protocol": "TCP"}]
    assert container["readinessProbe"]["tcpSocket"] == {"port": "memcached"}


def test_a_cache_is_never_restarted_by_a_probe() -> None:
    container = memcached_container(spec(), image="cache:1")
    assert "livenessProbe" not in container
    assert "startupProbe" not in container


def test_the_pull_policy_is_the_api_servers_default() -> None:
    assert "imagePullPolicy" not in memcached_container(spec(), image="cache:latest")


# Need of the default spec: 1.1 * 64 MiB + 64 MiB, rounded up.
@pytest.mark.parametrize(
    ("given", "limits", "requests"),
    (
        (None, {"memory": "135Mi"}, {"memory": "135Mi"}),
        ({}, {"memory": "135Mi"}, {"memory": "135Mi"}),
        ({"limits": {}, "requests": {}}, {"memory": "135Mi"}, {"memory": "135Mi"}),
        ({"limits": {"cpu": 1}}, {"memory": "135Mi", "cpu": "1"}, {"memory": "135Mi"}),
        ({"requests": {"cpu": "0.1"}}, {"memory": "135Mi"}, {"memory": "135Mi", "cpu": "100m"}),
        ({"limits": {"memory": "1024Mi"}}, {"memory": "1Gi"}, {"memory": "135Mi"}),
        ({"requests": {"memory": "64Mi"}}, {"memory": "135Mi"}, {"memory": "64Mi"}),
        (
            {"limits": {"memory": "2Gi", "cpu": "2000m"}, "requests": {"memory": "1Gi", "ephemeral-storage": "1e3"}},
            {"memory": "2Gi", "cpu": "2"},
            {"memory": "1Gi", "ephemeral-storage": "1e3"},
        ),
    ),
)
def test_memory_is_filled_in_where_it_is_not_given(
    given: dict[str, Any] | None, limits: dict[str, str], requests: dict[str, str]
) -> None:
    assert container_resources(spec(resources=given)) == {"limits": limits, "requests": requests}


@pytest.mark.parametrize(
    ("memory", "connections", "need"), ((64, 1024, "135Mi"), (1024, 1024, "1191Mi"), (64, 65_536, "1383Mi"))
)
def test_computed_memory_follows_cache_and_connections(memory: int, connections: int, need: str) -> None:
    resources = container_resources(spec(memory=memory, maxConnections=connections))
    assert resources == {"limits": {"memory": need}, "requests": {"memory": need}}
