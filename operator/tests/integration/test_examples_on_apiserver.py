"""The controllers of examples/ as a reader starts them, with the rights of their own rbac.yaml and no others.

Writes are counted in the API server's audit log. Each test has its own namespace and each example there its own user.
"""

import datetime
import itertools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
import yaml

from controlplane import ControlPlane, NotYet, OperatorProcess, rbac, wait_until
from controlplane.api import object_path
from controlplane.paths import REPOSITORY

EXAMPLES = REPOSITORY / "examples"
TUTORIAL = "tutorial.example.com/v1"
APPS = "apps/v1"
LONG_AGO = "2020-01-01T00:00:00Z"
_numbers = itertools.count(1)


def manifests(example: str, name: str) -> list[Any]:
    return list(yaml.safe_load_all((EXAMPLES / "manifests" / example / f"{name}.yaml").read_text()))


def rules(example: str) -> list[dict[str, Any]]:
    """What its rbac.yaml allows."""
    found = [body["rules"] for body in manifests(example, "rbac") if body["kind"] in {"Role", "ClusterRole"}]
    assert len(found) == 1
    return list(found[0])


@dataclass(frozen=True)
class Example:
    """One running example, and the namespace and user it has."""

    control_plane: ControlPlane
    namespace: str
    user: str
    process: OperatorProcess
    since: int
    """Offset in the audit log before the start of the process."""

    def path(self, api_version: str, plural: str, name: str | None = None) -> str:
        return object_path(api_version, plural, self.namespace, name)

    def create_sample(self, example: str, name: str, **spec: Any) -> Any:
        """The example's sample.yaml under another name, with some of its spec changed."""
        (body,) = manifests(example, "sample")
        body["metadata"]["name"] = name
        body["spec"].update(spec)
        plural = {"Xca": "xcas", "MyApp": "myapps", "Deployment": "deployments"}[body["kind"]]
        return self.control_plane.api.create(self.path(body["apiVersion"], plural), body)

    def writes(self, since: int | None = None) -> list[str]:
        """Its writes, events excepted, as `verb resource name code`."""
        requests = self.control_plane.audit(user=self.user, since=self.since if since is None else since)
        return [
            f"{r.verb} {r.resource}{'/' + r.subresource if r.subresource else ''} {r.name} {r.code}"
            for r in requests
            if r.is_write and r.resource != "events"
        ]

    def refused(self) -> list[str]:
        """What it asked for without the right to it."""
        return [str(r) for r in self.control_plane.audit(user=self.user, since=self.since) if r.code == 403]

    def reconciles(self) -> float:
        return self._metric("reconcile_total")

    def idle(self) -> bool:
        return self.reconciles() > 0 and self._metric("workqueue_depth") == 0

    def look_again(self, touch: Callable[[], object]) -> None:
        """Do `touch` and return when it has made the example reconcile."""
        before = self.reconciles()
        touch()
        wait_until(lambda: self.reconciles() > before and self.idle(), 20, "another reconcile")

    def _metric(self, name: str) -> float:
        lines = re.findall(rf"^memcached_operator_{name}(?:{{.*}})? (\S+)$", self.process.metrics(), re.MULTILINE)
        return sum(map(float, lines))


class StartExample(Protocol):
    """Starts an example in the test's namespace, again after it has ended, and returns when it is ready."""

    def __call__(self, example: str) -> Example: ...


@pytest.fixture(scope="session")
def example_crds(control_plane: ControlPlane) -> None:
    control_plane.kubectl("apply", "--server-side", "-f", str(EXAMPLES / "manifests" / "xca" / "crd.yaml"))
    control_plane.install_crds(EXAMPLES / "manifests" / "my_app" / "crd.yaml")


@pytest.fixture
def start_example(
    control_plane: ControlPlane,
    example_crds: None,  # noqa: ARG001 - asked for because of what it does
    namespace: str,
    tmp_path: Path,
) -> Iterator[StartExample]:
    started: list[OperatorProcess] = []

    def start(example: str) -> Example:
        user = f"{example}.{namespace}"
        rbac.bind(control_plane.api, user, rules(example), namespace=namespace, name=example)
        since = control_plane.audit_offset()
        process = OperatorProcess.start(
            control_plane.user_kubeconfig(user),
            "--no-leader-elect",
            f"--watch-namespace={namespace}",
            log=tmp_path / f"{example}.log",
            program=(str(EXAMPLES / f"{example}.py"), "run"),
        )
        started.append(process)
        process.wait_ready()
        return Example(control_plane, namespace, user, process, since)

    yield start
    for process in started:
        process.kill()


def touch(example: Example, api_version: str, plural: str, name: str) -> Callable[[], Any]:
    """An edit that is nobody's business: a label, since an annotation would give a Deployment a new generation."""
    body = {"metadata": {"labels": {"touched": str(next(_numbers))}}}
    return lambda: example.control_plane.api.patch(example.path(api_version, plural, name), body)


# --- Xca -------------------------------------------------------------------------------------------------------------


def active(example: Example, name: str) -> dict[str, Any]:
    """The status of an Xca once it is active."""

    def status() -> dict[str, Any]:
        xca = example.control_plane.api.get(example.path(TUTORIAL, "xcas", name))
        if xca.get("status", {}).get("active") is not True:
            raise NotYet(str(xca.get("status")))
        return dict(xca["status"])

    return wait_until(status, 20, f"Xca {name} to be active")


def test_an_xca_is_made_active_once_and_never_again(start_example: StartExample) -> None:
    example = start_example("xca")
    begin = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    names = ("a", "b", "c")
    for name in names:
        example.create_sample("xca", name)
    statuses = {name: active(example, name) for name in names}
    for status in statuses.values():
        assert set(status) == {"active", "last_update_time"}
        updated = datetime.datetime.fromisoformat(status["last_update_time"])
        assert begin <= updated <= datetime.datetime.now(datetime.UTC)

    api, path = example.control_plane.api, example.path(TUTORIAL, "xcas", "a")
    # With the time of long ago, a second write in the same second would show.
    api.patch(path + "/status", {"status": {"last_update_time": LONG_AGO}})
    example.look_again(touch(example, TUTORIAL, "xcas", "a"))
    example.look_again(lambda: api.patch(path, {"spec": {"note": "edited"}}))
    assert active(example, "a") == {"active": True, "last_update_time": LONG_AGO}
    assert sorted(example.writes()) == [f"patch xcas/status {name} 200" for name in names]
    assert example.refused() == []


def test_an_xca_that_somebody_else_made_active_is_left_alone(start_example: StartExample) -> None:
    example = start_example("xca")
    example.process.terminate()
    example.create_sample("xca", "a")
    status = {"active": True, "last_update_time": LONG_AGO}
    example.control_plane.api.patch(example.path(TUTORIAL, "xcas", "a") + "/status", {"status": status})
    again = start_example("xca")
    wait_until(again.idle, 20, "the first look at everything")
    assert active(again, "a") == status
    assert again.writes() == []


def test_a_restart_of_the_xca_controller_writes_only_what_is_new(start_example: StartExample) -> None:
    example = start_example("xca")
    example.create_sample("xca", "old")
    before = active(example, "old")
    example.process.kill()
    example.create_sample("xca", "new")
    again = start_example("xca")
    active(again, "new")
    assert active(again, "old") == before
    assert again.writes() == ["patch xcas/status new 200"]
    assert again.process.terminate() == 0


def test_a_deleted_xca_is_no_error(start_example: StartExample) -> None:
    example = start_example("xca")
    api = example.control_plane.api
    for number in range(20):
        example.create_sample("xca", f"gone-{number}")
        api.delete(example.path(TUTORIAL, "xcas", f"gone-{number}"))
    example.create_sample("xca", "stays")
    active(example, "stays")
    wait_until(example.idle, 20, "the queue to be empty")
    levels = {json.loads(line)["level"] for line in example.process.log.read_text().splitlines()}
    assert levels == {"info"}


# --- the label on Deployments ----------------------------------------------------------------------------------------


def labels(example: Example, name: str) -> dict[str, str]:
    deployment = example.control_plane.api.get(example.path(APPS, "deployments", name))
    return dict(deployment["metadata"].get("labels", {}))


def wait_labelled(example: Example, name: str) -> None:
    wait_until(
        lambda: labels(example, name),
        20,
        f"the label on {name}",
        until=lambda found: found.get("managed-by") == "my-operator",
    )


def test_every_deployment_gets_the_label_by_one_write(start_example: StartExample, control_plane: ControlPlane) -> None:
    example = start_example("managed_by")
    elsewhere = manifests("managed_by", "sample")[0]
    outside = object_path(APPS, "deployments", "default")
    elsewhere["metadata"]["name"] = example.namespace
    control_plane.api.create(outside, elsewhere)
    names = [f"deployment-{number}" for number in range(20)]
    for name in names:
        example.create_sample("managed_by", name, replicas=0)
    for name in names:
        wait_labelled(example, name)
    example.look_again(touch(example, APPS, "deployments", names[0]))
    assert sorted(example.writes()) == sorted(f"patch deployments {name} 200" for name in names)
    assert "labels" not in control_plane.api.get(f"{outside}/{example.namespace}")["metadata"]
    control_plane.api.delete(f"{outside}/{example.namespace}")
    assert example.refused() == []


@pytest.mark.parametrize("value", (None, "somebody-else"), ids=("removed", "changed"))
def test_a_label_that_somebody_edits_is_put_back_by_one_write(start_example: StartExample, value: str | None) -> None:
    example = start_example("managed_by")
    example.create_sample("managed_by", "a", replicas=0)
    wait_labelled(example, "a")
    since = example.control_plane.audit_offset()
    edit = {"metadata": {"labels": {"managed-by": value, "team": "blue"}}}
    edited = example.control_plane.api.patch(example.path(APPS, "deployments", "a"), edit)
    assert edited["metadata"]["labels"].get("managed-by") == value
    wait_labelled(example, "a")
    example.look_again(touch(example, APPS, "deployments", "a"))
    assert labels(example, "a").items() >= {"managed-by": "my-operator", "team": "blue"}.items()
    assert example.writes(since) == ["patch deployments a 200"]


def test_a_restart_of_the_label_controller_labels_only_what_is_new(start_example: StartExample) -> None:
    example = start_example("managed_by")
    example.create_sample("managed_by", "old", replicas=0)
    wait_labelled(example, "old")
    example.process.kill()
    example.create_sample("managed_by", "new", replicas=0)
    again = start_example("managed_by")
    wait_labelled(again, "new")
    assert again.writes() == ["patch deployments new 200"]


# --- MyApp -----------------------------------------------------------------------------------------------------------


def conditions(example: Example, name: str = "web") -> dict[str, dict[str, Any]]:
    my_app = example.control_plane.api.get(example.path(TUTORIAL, "myapps", name))
    return {condition["type"]: condition for condition in my_app.get("status", {}).get("conditions", [])}


def wait_progressing(example: Example, reason: str, message: str = "") -> dict[str, dict[str, Any]]:
    """The conditions once Progressing has this reason and this in its message."""

    def reached(found: dict[str, dict[str, Any]]) -> bool:
        progressing = found.get("Progressing", {})
        return progressing.get("reason") == reason and message in progressing["message"]

    return wait_until(lambda: conditions(example), 60, f"MyApp web to be {reason}", until=reached)


def settle(example: Example) -> None:
    wait_progressing(example, "Settled")
    wait_until(example.idle, 20, "the queue to be empty")


def wait_available(example: Example) -> None:
    wait_until(
        lambda: conditions(example).get("Available", {}), 60, "the pods", until=lambda c: c.get("status") == "True"
    )


def child(example: Example, plural: str, name: str = "web") -> Any:
    return example.control_plane.api.find(example.path(APPS if plural == "deployments" else "v1", plural, name))


def events(example: Example, reason: str) -> list[str]:
    found = example.control_plane.api.get(example.path("events.k8s.io/v1", "events"))["items"]
    ours = [event for event in found if event["reportingController"] == "my-app-controller"]
    return [event["note"] for event in ours if event["reason"] == reason and event["regarding"]["name"] == "web"]


def test_a_my_app_gets_its_children_conditions_and_events(start_example: StartExample) -> None:
    example = start_example("my_app")
    my_app = example.create_sample("my_app", "web")
    settle(example)
    found = conditions(example)
    assert {name: (c["status"], c["reason"], c["message"]) for name, c in found.items()} == {
        "Available": ("True", "PodCount", "2/2 ready"),
        "Progressing": ("False", "Settled", ""),
    }
    deployment, service = child(example, "deployments"), child(example, "services")
    for body in (deployment, service):
        (owner,) = body["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("MyApp", my_app["metadata"]["uid"], True)
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == my_app["spec"]["image"]
    assert service["spec"]["selector"] == deployment["spec"]["template"]["metadata"]["labels"]
    wait_until(
        lambda: sorted(events(example, "Created")),
        20,
        "the events",
        until=lambda notes: notes == ["Deployment web", "Service web"],
    )
    children = [write for write in example.writes() if "status" not in write]
    assert children == ["patch deployments web 201", "patch services web 201"]
    assert example.refused() == []


def test_a_settled_my_app_costs_no_write_also_after_a_restart(start_example: StartExample) -> None:
    example = start_example("my_app")
    example.create_sample("my_app", "web")
    settle(example)
    since = example.control_plane.audit_offset()
    example.look_again(touch(example, TUTORIAL, "myapps", "web"))
    example.look_again(touch(example, APPS, "deployments", "web"))
    example.look_again(touch(example, "v1", "services", "web"))
    assert example.writes(since) == []
    example.process.kill()
    again = start_example("my_app")
    wait_until(again.idle, 20, "the first look at everything")
    again.look_again(touch(example, TUTORIAL, "myapps", "web"))
    assert [str(r) for r in again.control_plane.audit(user=again.user, since=again.since) if r.is_write] == []


def test_the_time_of_a_condition_changes_only_with_its_status(start_example: StartExample) -> None:
    example = start_example("my_app")
    example.create_sample("my_app", "web")
    settle(example)
    api, path = example.control_plane.api, example.path(TUTORIAL, "myapps", "web")
    old = [{**condition, "lastTransitionTime": LONG_AGO} for condition in conditions(example).values()]
    api.patch(path + "/status", {"status": {"conditions": old}})
    # No pod of the two may be missing during a roll-out, so it stays Available, and is Progressing for a while.
    api.patch(path, {"spec": {"image": "docker.io/library/nginx:1.30"}})
    wait_progressing(example, "RollingOut")
    settle(example)
    times = {name: condition["lastTransitionTime"] for name, condition in conditions(example).items()}
    assert times["Available"] == LONG_AGO
    assert times["Progressing"] > LONG_AGO


EDITS: dict[str, tuple[str, dict[str, Any], Callable[[Any], object], object]] = {
    "replicas": ("deployments", {"spec": {"replicas": 5}}, lambda body: body["spec"]["replicas"], 2),
    "selector": (
        "services",
        {"spec": {"selector": {"my-app": "x"}}},
        lambda body: body["spec"]["selector"],
        {"my-app": "web"},
    ),
    "label": (
        "services",
        {"metadata": {"labels": {"my-app": None}}},
        lambda body: body["metadata"].get("labels"),
        {"my-app": "web"},
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_drift_of_a_child_is_repaired_by_one_write(start_example: StartExample, edit: str) -> None:
    plural, patch, field, wanted = EDITS[edit]
    example = start_example("my_app")
    example.create_sample("my_app", "web")
    settle(example)
    since = example.control_plane.audit_offset()
    path = example.path(APPS if plural == "deployments" else "v1", plural, "web")
    metadata = {"annotations": {"somebody": "else"}, **patch.get("metadata", {})}
    edited = example.control_plane.api.patch(path, {**patch, "metadata": metadata})
    assert field(edited) != wanted
    wait_until(lambda: field(child(example, plural)), 20, "the repair", until=lambda value: value == wanted)
    settle(example)
    assert child(example, plural)["metadata"]["annotations"]["somebody"] == "else"
    assert [write for write in example.writes(since) if "status" not in write] == [f"patch {plural} web 200"]
    kind = {"deployments": "Deployment", "services": "Service"}[plural]
    wait_until(lambda: events(example, "Updated"), 20, "the event", until=lambda notes: len(notes) == 1)
    assert events(example, "Updated")[0].startswith(f"{kind} web: ")


@pytest.mark.parametrize("plural", ("deployments", "services"))
def test_a_deleted_child_is_made_again(start_example: StartExample, plural: str) -> None:
    example = start_example("my_app")
    example.create_sample("my_app", "web")
    settle(example)
    first = child(example, plural)["metadata"]["uid"]
    example.control_plane.api.delete(example.path(APPS if plural == "deployments" else "v1", plural, "web"))
    wait_until(
        lambda: child(example, plural), 20, "another one", until=lambda body: body and body["metadata"]["uid"] != first
    )
    settle(example)


@pytest.mark.parametrize("propagation", ("Background", "Foreground"))
def test_the_children_go_with_their_my_app(start_example: StartExample, propagation: str) -> None:
    example = start_example("my_app")
    example.create_sample("my_app", "web")
    settle(example)
    since = example.control_plane.audit_offset()
    api = example.control_plane.api
    api.delete(example.path(TUTORIAL, "myapps", "web"), propagation)
    pods = example.path("v1", "pods")
    for left in (
        lambda: child(example, "deployments"),
        lambda: child(example, "services"),
        lambda: api.get(pods)["items"],
        lambda: api.find(example.path(TUTORIAL, "myapps", "web")),
    ):
        wait_until(left, 60, "all that belongs to web to be gone", until=lambda found: not found)
    wait_until(example.idle, 20, "the queue to be empty")
    # While it goes, pods may be counted once more; nothing is made again.
    assert [write for write in example.writes(since) if "status" not in write] == []


def test_a_child_that_is_refused_is_tried_again_until_it_is_allowed(start_example: StartExample) -> None:
    example = start_example("my_app")
    api = example.control_plane.api
    quotas = example.path("v1", "resourcequotas")
    api.create(quotas, {"metadata": {"name": "no-services"}, "spec": {"hard": {"count/services": "0"}}})
    wait_until(lambda: api.get(f"{quotas}/no-services").get("status", {}).get("used"), 20, "the quota to be counted")
    example.create_sample("my_app", "web")
    found = wait_progressing(example, "Failed", "exceeded quota")
    assert found["Progressing"]["status"] == "False"
    assert child(example, "deployments"), "the other child does not have to wait"
    # It serves, whatever else has failed; and from now on nothing wakes it but its own back-off.
    wait_available(example)
    wait_until(lambda: example.writes().count("patch services web 403"), 20, "three tries", until=lambda n: n >= 3)
    wait_until(lambda: events(example, "Failed"), 20, "the event", until=lambda notes: "exceeded quota" in str(notes))
    api.delete(f"{quotas}/no-services")
    settle(example)
    assert child(example, "services")


def test_a_missing_right_is_reported_and_its_grant_is_noticed(start_example: StartExample) -> None:
    example = start_example("my_app")
    api, all_rules = example.control_plane.api, rules("my_app")
    fewer = [
        {**rule, "verbs": [verb for verb in rule["verbs"] if verb != "create" or "services" not in rule["resources"]]}
        for rule in all_rules
    ]
    rbac.bind(api, example.user, fewer, namespace=example.namespace, name="my_app")
    example.create_sample("my_app", "web")
    wait_progressing(example, "Failed", "is forbidden")
    # Once the pods are ready nothing wakes it but its own back-off.
    wait_available(example)
    rbac.bind(api, example.user, all_rules, namespace=example.namespace, name="my_app")
    settle(example)
    assert child(example, "services")


def test_a_strangers_object_of_the_same_name_is_never_touched(start_example: StartExample) -> None:
    example = start_example("my_app")
    path = example.path("v1", "services", "web")
    stranger = {"metadata": {"name": "web"}, "spec": {"selector": {"whose": "mine"}, "ports": [{"port": 1}]}}
    created = example.control_plane.api.create(example.path("v1", "services"), stranger)
    example.create_sample("my_app", "web")
    wait_progressing(example, "Failed", "Service web exists already and is not ours")
    assert example.control_plane.api.get(path) == created
    example.control_plane.api.delete(path)
    settle(example)
