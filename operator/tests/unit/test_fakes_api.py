"""The fake API server does what the real one does, where the operator depends on it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from typing import Any

import pytest
from fake_api import FakeApi, Fault, NotPermitted, names
from virtual_time import run, settle

from memcached_operator.errors import ConflictError, FencedError, NotFoundError, TerminalError, TransientError
from memcached_operator.gvr import DEPLOYMENTS, GVR, LEASES, MEMCACHEDS, SERVICES

SECRETS = GVR("", "v1", "secrets", "Secret")
JSON_PATCH = "application/json-patch+json"


def answer(work: Awaitable[bytes]) -> dict[str, Any]:
    async def main() -> bytes:
        return await work

    body: dict[str, Any] = json.loads(run(main()))
    return body


def deployment(**spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "memcached", "image": "a"}], **spec}}
    return {
        "metadata": {"name": "x", "namespace": "ns"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "x"}}, "template": template},
    }


def test_versions_grow_and_a_write_without_a_change_is_none() -> None:
    api = FakeApi(first_version=98)
    body = api.add(SERVICES, {"metadata": {"name": "x", "namespace": "ns"}, "spec": {"a": 1}})
    assert body["metadata"]["resourceVersion"] == "99"
    assert api.edit(SERVICES, "ns", "x", {"spec": {"a": 1}})["metadata"]["resourceVersion"] == "99"
    assert api.edit(SERVICES, "ns", "x", {"spec": {"a": 2}})["metadata"]["resourceVersion"] == "100"


def test_generation_counts_changes_of_the_spec() -> None:
    api = FakeApi()
    api.add(DEPLOYMENTS, deployment())
    assert (
        api.edit(DEPLOYMENTS, "ns", "x", {"status": {"replicas": 1}}, subresource="status")["metadata"]["generation"]
        == 1
    )
    assert api.edit(DEPLOYMENTS, "ns", "x", {"metadata": {"labels": {"a": "b"}}})["metadata"]["generation"] == 1
    assert api.edit(DEPLOYMENTS, "ns", "x", {"spec": {"replicas": 2}})["metadata"]["generation"] == 2


def test_spec_and_status_have_their_own_doors() -> None:
    api = FakeApi()
    api.add(MEMCACHEDS, {"metadata": {"name": "x", "namespace": "ns"}, "spec": {"size": 1}, "status": {"size": 9}})
    patch = {"spec": {"size": 2}, "status": {"nodes": ["a"]}}
    answer(api.patch(MEMCACHEDS, "ns", "x", patch, subresource="status"))
    stored = api.object(MEMCACHEDS, "ns", "x")
    assert stored
    assert (stored["spec"], stored["status"]) == ({"size": 1}, {"nodes": ["a"]})
    answer(api.patch(MEMCACHEDS, "ns", "x", {"spec": {"size": 3}, "status": {"nodes": []}}))
    stored = api.object(MEMCACHEDS, "ns", "x")
    assert stored
    assert (stored["spec"], stored["status"]) == ({"size": 3}, {"nodes": ["a"]})


def test_scale_changes_replicas_alone() -> None:
    api = FakeApi()
    api.add(DEPLOYMENTS, deployment())
    scale = answer(api.patch(DEPLOYMENTS, "ns", "x", {"spec": {"replicas": 5}}, subresource="scale"))
    stored = api.object(DEPLOYMENTS, "ns", "x")
    assert stored
    assert scale["kind"] == "Scale"
    assert scale["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
    assert stored["spec"]["replicas"] == 5
    assert any(entry.get("subresource") == "scale" for entry in stored["metadata"]["managedFields"])


@pytest.mark.parametrize("claim", ({"resourceVersion": "1"}, {"uid": "other"}))
def test_preconditions_answer_409(claim: dict[str, str]) -> None:
    api = FakeApi()
    api.add(DEPLOYMENTS, deployment())
    with pytest.raises(ConflictError):
        answer(api.patch(DEPLOYMENTS, "ns", "x", {"metadata": claim, "spec": {"replicas": 2}}))


def test_an_apply_removes_what_it_no_longer_names() -> None:
    api = FakeApi()
    answer(api.apply(DEPLOYMENTS, "ns", "x", deployment(nodeSelector={"disk": "ssd"}, tolerations=[{"key": "a"}])))
    api.edit(DEPLOYMENTS, "ns", "x", {"metadata": {"labels": {"foreign": "yes"}}})
    body = answer(api.apply(DEPLOYMENTS, "ns", "x", deployment()))
    assert body["spec"]["template"]["spec"] == {"containers": [{"name": "memcached", "image": "a"}]}
    assert body["metadata"]["labels"] == {"foreign": "yes"}


def test_an_apply_after_a_post_removes_nothing() -> None:
    # The trap: a POST makes us an Update manager, and a field that two managers own is not removed.
    api = FakeApi()
    answer(api.create(DEPLOYMENTS, "ns", deployment(nodeSelector={"disk": "ssd"})))
    body = answer(api.apply(DEPLOYMENTS, "ns", "x", deployment()))
    assert body["spec"]["template"]["spec"]["nodeSelector"] == {"disk": "ssd"}


def test_an_apply_is_forced_and_idempotent() -> None:
    api = FakeApi()
    answer(api.apply(DEPLOYMENTS, "ns", "x", deployment()))
    api.edit(DEPLOYMENTS, "ns", "x", {"spec": {"replicas": 7}})
    assert answer(api.apply(DEPLOYMENTS, "ns", "x", deployment()))["spec"]["replicas"] == 1
    before = api.object(DEPLOYMENTS, "ns", "x")
    answer(api.apply(DEPLOYMENTS, "ns", "x", deployment()))
    assert api.object(DEPLOYMENTS, "ns", "x") == before


def test_an_apply_merges_lists_by_key() -> None:
    api = FakeApi()
    answer(api.apply(DEPLOYMENTS, "ns", "x", deployment()))
    sidecar = {"name": "sidecar", "image": "b"}
    containers = [{"name": "memcached", "image": "a"}, sidecar]
    api.edit(DEPLOYMENTS, "ns", "x", {"spec": {"template": {"spec": {"containers": containers}}}})
    body = answer(api.apply(DEPLOYMENTS, "ns", "x", deployment()))
    assert sidecar in body["spec"]["template"]["spec"]["containers"]


def test_an_apply_with_the_uid_of_a_lost_object_makes_no_new_one() -> None:
    api = FakeApi()
    manifest = deployment()
    manifest["metadata"]["uid"] = "gone"
    with pytest.raises(ConflictError):
        answer(api.apply(DEPLOYMENTS, "ns", "x", manifest))
    assert api.objects(DEPLOYMENTS) == []


def test_managed_fields_can_be_rewritten() -> None:
    api = FakeApi()
    body = answer(api.create(DEPLOYMENTS, "ns", deployment(nodeSelector={"disk": "ssd"})))
    (entry,) = body["metadata"]["managedFields"]
    assert (entry["operation"], entry["manager"]) == ("Update", "memcached-operator")
    operation = {"op": "replace", "path": "/metadata/managedFields", "value": [{**entry, "operation": "Apply"}]}
    answer(api.patch(DEPLOYMENTS, "ns", "x", [operation], content_type=JSON_PATCH))
    body = answer(api.apply(DEPLOYMENTS, "ns", "x", deployment()))
    assert "nodeSelector" not in body["spec"]["template"]["spec"]


def test_a_finalizer_holds_a_deletion() -> None:
    api = FakeApi()
    api.add(MEMCACHEDS, {"metadata": {"name": "x", "namespace": "ns", "finalizers": ["a/b"]}, "spec": {}})
    api.remove(MEMCACHEDS, "ns", "x")
    stored = api.object(MEMCACHEDS, "ns", "x")
    assert stored
    assert "deletionTimestamp" in stored["metadata"]
    api.edit(MEMCACHEDS, "ns", "x", {"metadata": {"finalizers": None}})
    assert api.object(MEMCACHEDS, "ns", "x") is None


def test_deletes_are_of_one_uid() -> None:
    api = FakeApi()
    body = api.add(DEPLOYMENTS, deployment())
    with pytest.raises(ConflictError):
        answer(api.delete(DEPLOYMENTS, "ns", "x", uid="other"))
    answer(api.delete(DEPLOYMENTS, "ns", "x", uid=body["metadata"]["uid"]))
    with pytest.raises(NotFoundError):
        answer(api.delete(DEPLOYMENTS, "ns", "x", uid=body["metadata"]["uid"]))


def test_owners_take_their_children_along() -> None:
    api = FakeApi()
    owner = api.add(MEMCACHEDS, {"metadata": {"name": "x", "namespace": "ns"}, "spec": {}})
    child = deployment()
    child["metadata"]["ownerReferences"] = [{"uid": owner["metadata"]["uid"], "name": "x", "kind": "Memcached"}]
    api.add(DEPLOYMENTS, child)
    assert api.collect_garbage() == []
    api.remove(MEMCACHEDS, "ns", "x")
    assert api.collect_garbage() == ["deployments ns/x"]


def test_pages_are_of_one_moment() -> None:
    async def main() -> list[str]:
        api = FakeApi()
        for name in "abc":
            api.add(SERVICES, {"metadata": {"name": name, "namespace": "ns"}})
        page = json.loads(await api.list_page(SERVICES, limit=2))
        api.add(SERVICES, {"metadata": {"name": "late", "namespace": "ns"}})
        rest = json.loads(await api.list_page(SERVICES, limit=2, continue_=page["metadata"]["continue"]))
        assert page["metadata"]["resourceVersion"] == rest["metadata"]["resourceVersion"]
        assert "continue" not in rest["metadata"]
        assert "kind" not in page["items"][0]
        return [item["metadata"]["name"] for item in page["items"] + rest["items"]]

    assert run(main()) == ["a", "b", "c"]


def test_a_watch_goes_on_where_it_is_told_to() -> None:
    async def main() -> list[tuple[str, str]]:
        api = FakeApi()
        labels = {"labelSelector": "a=b"}
        body = api.add(SERVICES, {"metadata": {"name": "x", "namespace": "ns", "labels": {"a": "b"}}})
        version = body["metadata"]["resourceVersion"]
        api.edit(SERVICES, "ns", "x", {"spec": {"n": 1}})
        api.add(SERVICES, {"metadata": {"name": "unlabelled", "namespace": "ns"}})
        stream = api.watch(SERVICES, query={"resourceVersion": version, **labels}, silence_seconds=5)
        seen = [json.loads(line) for line in await anext(stream)]
        api.edit(SERVICES, "ns", "x", {"metadata": {"labels": {"a": None}}})
        api.edit(SERVICES, "ns", "x", {"metadata": {"labels": {"a": "b"}}})
        api.remove(SERVICES, "ns", "x")
        seen += [json.loads(line) for line in await anext(stream)]
        with pytest.raises(TransientError, match="no byte"):
            await anext(stream)
        assert api.watches == []
        return [(event["type"], event["object"]["metadata"]["name"]) for event in seen]

    assert run(main()) == [("MODIFIED", "x"), ("DELETED", "x"), ("ADDED", "x"), ("DELETED", "x")]


def test_a_watch_from_before_the_compaction_is_told_so() -> None:
    async def main() -> Any:
        api = FakeApi()
        body = api.add(SERVICES, {"metadata": {"name": "x", "namespace": "ns"}})
        api.edit(SERVICES, "ns", "x", {"spec": {"n": 1}})
        api.compact()
        query = {"resourceVersion": body["metadata"]["resourceVersion"]}
        (line,) = await anext(api.watch(SERVICES, query=query, silence_seconds=5))
        return json.loads(line)

    event = run(main())
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


def test_permissions_fences_faults_and_the_log() -> None:
    api = FakeApi()
    with pytest.raises(NotPermitted):
        answer(api.get(SECRETS, "ns", "x"))
    api.fail(TransientError("no", status=503), verb="create")
    with pytest.raises(TransientError):
        answer(api.create(SERVICES, "ns", {"metadata": {"name": "x"}}))
    api.fail(TransientError("the answer is lost"), verb="create", after=True)
    with pytest.raises(TransientError):
        answer(api.create(SERVICES, "ns", {"metadata": {"name": "x"}}))
    with pytest.raises(ConflictError, match="exists"):
        answer(api.create(SERVICES, "ns", {"metadata": {"name": "x"}}))
    api.fence = lambda: False
    with pytest.raises(FencedError):
        answer(api.create(SERVICES, "ns", {"metadata": {"name": "y"}}))
    answer(api.create(LEASES, "ns", {"metadata": {"name": "y"}}, fenced=False))
    assert [request.code for request in api.requests] == [503, 201, 409, 201]
    assert api.take_writes() == ["create services ns/x", "create leases ns/y"]


def test_kinds_can_be_away_and_objects_refused() -> None:
    api = FakeApi()
    api.invalid[SERVICES] = lambda body: "no good" if body["spec"]["bad"] else None
    with pytest.raises(TerminalError, match="no good"):
        answer(api.create(SERVICES, "ns", {"metadata": {"name": "x"}, "spec": {"bad": True}}))
    api.take_away(SERVICES)
    with pytest.raises(TransientError) as refusal:
        answer(api.list_page(SERVICES))
    assert refusal.value.status == 404


def test_what_the_server_received_takes_effect_without_the_client() -> None:
    async def main() -> None:
        api = FakeApi()
        api.on_request = lambda _: Fault(delay=60.0)
        with pytest.raises(TransientError):
            await api.create(LEASES, "ns", {"metadata": {"name": "x"}}, timeout=5.0)
        assert api.objects(LEASES) == []
        await asyncio.sleep(56)
        assert names(api.objects(LEASES)) == ["x"]

    run(main())


def test_time_passes_only_as_scripted() -> None:
    async def main() -> None:
        api = FakeApi()
        api.on_request = lambda _: Fault(delay=60.0)
        with pytest.raises(TransientError, match="no answer in 5 s"):
            await api.get(LEASES, "ns", "x", timeout=5.0)
        await settle()

    run(main())
