"""The command line and the environment, as a user gives them."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from memcached_operator.settings import DEFAULT_IMAGE, Address, LeaderElection, Settings, parse

NOWHERE = Path("/nonexistent/namespace")


def run(*flags: str, **environ: str) -> Settings:
    """Settings of a lone operator outside a cluster."""
    return parse(["run", *flags], {"LEADER_ELECT": "false", **environ}, namespace_file=NOWHERE)


def refused(capsys: pytest.CaptureFixture[str], *flags: str, **environ: str) -> str:
    """The one line on stderr."""
    with pytest.raises(SystemExit) as ended:
        run(*flags, **environ)
    out, err = capsys.readouterr()
    assert ended.value.code == 2
    assert out == ""
    assert err.startswith("memcached-operator: ")
    assert err.count("\n") == 1
    return err.removeprefix("memcached-operator: ").strip()


def test_defaults() -> None:
    settings = run()
    assert dataclasses.replace(settings, pod_name="me") == Settings(
        kubeconfig=None,
        watch_namespaces=(),
        leader_election=None,
        metrics_address=Address("", 8080),
        health_address=Address("", 8081),
        log_level="info",
        log_format="auto",
        log_colour=True,
        workers=10,
        resync_seconds=600.0,
        default_image=DEFAULT_IMAGE,
        pod_name="me",
        otlp_traces=False,
        otlp_metrics=False,
    )
    assert settings.pod_name


def test_a_flag_wins_over_its_variable() -> None:
    assert run("--workers", "3", WORKERS="5").workers == 3
    assert run("--workers=3").workers == 3
    assert run(WORKERS="5").workers == 5


def test_an_empty_variable_counts_as_unset() -> None:
    settings = run(WORKERS="", RELATED_IMAGE_MEMCACHED="", LOG_LEVEL="", KUBECONFIG="")
    assert settings == run()


@pytest.mark.parametrize(
    ("text", "namespaces"),
    (("", ()), ("a", ("a",)), ("b,a", ("b", "a")), (" a , b ,a", ("a", "b")), ("team-1", ("team-1",))),
)
def test_watch_namespace(text: str, namespaces: tuple[str, ...]) -> None:
    assert run(WATCH_NAMESPACE=text).watch_namespaces == namespaces
    assert run("--watch-namespace", text).watch_namespaces == namespaces


@pytest.mark.parametrize(
    ("text", "address"),
    (
        ("0", None),
        (":9090", Address("", 9090)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("[::1]:8080", Address("::1", 8080)),
        ("localhost:65535", Address("localhost", 65535)),
    ),
)
def test_addresses(text: str, address: Address | None) -> None:
    assert run("--metrics-bind-address", text).metrics_address == address
    assert run(HEALTH_PROBE_BIND_ADDRESS=text).health_address == address


def test_leader_election_takes_the_pods_namespace(tmp_path: Path) -> None:
    file = tmp_path / "namespace"
    file.write_text("from-the-kubelet\n")

    def namespace(*flags: str, **environ: str) -> str:
        election = parse(["run", *flags], environ, namespace_file=file).leader_election
        assert election
        return election.namespace

    assert namespace() == "from-the-kubelet"
    assert namespace(POD_NAMESPACE="from-the-pod") == "from-the-pod"
    assert namespace("--leader-election-namespace", "given", POD_NAMESPACE="from-the-pod") == "given"


def test_leader_election_is_on_unless_switched_off() -> None:
    lease = LeaderElection("ops", "memcached-operator", 15, 10.0, 2.0)
    assert parse(["run"], {"POD_NAMESPACE": "ops"}, namespace_file=NOWHERE).leader_election == lease
    assert run("--leader-elect", POD_NAMESPACE="ops").leader_election == lease
    assert parse(["run", "--no-leader-elect"], {"LEADER_ELECT": "true"}).leader_election is None


def test_leader_election_times() -> None:
    flags = ["--lease-seconds=6", "--renew-deadline-seconds=4.5", "--retry-seconds=0.5", "--leader-election-id=a.b"]
    settings = run("--leader-elect", *flags, POD_NAMESPACE="ops")
    assert settings.leader_election == LeaderElection("ops", "a.b", 6, 4.5, 0.5)


def test_leader_election_without_a_namespace_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, "--leader-elect")
    assert "--leader-election-namespace" in message
    assert "--no-leader-elect" in message


def test_kubeconfig_may_be_a_list(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.touch()
    assert run(KUBECONFIG=f"{file}").kubeconfig == str(file)
    assert run(KUBECONFIG=f"/nonexistent/a:{file}").kubeconfig == f"/nonexistent/a:{file}"


@pytest.mark.parametrize(
    ("environ", "traces", "metrics"),
    (
        ({}, False, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True, False),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True, False),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True, False),
        ({"OTEL_METRICS_EXPORTER": "otlp"}, False, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_TRACES_EXPORTER": "none"}, False, False),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"}, False, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "x", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, True, False),
    ),
)
def test_otlp_follows_the_standard_variables(environ: dict[str, str], traces: bool, metrics: bool) -> None:  # noqa: FBT001 - a table
    settings = run(**environ)
    assert (settings.otlp_traces, settings.otlp_metrics) == (traces, metrics)


@pytest.mark.parametrize(
    ("flags", "environ", "message"),
    (
        ((), {"WORKERS": "many"}, "WORKERS: 'many' is not a whole number from 1 to 100"),
        (("--workers", "0"), {}, "--workers: '0' is not a whole number from 1 to 100"),
        (("--workers", "\u0661"), {}, "--workers: '\u0661' is not a whole number from 1 to 100"),  # an Arabic 1
        (("--workers", "9" * 5000), {}, f"--workers: '{'9' * 5000}' is not a whole number from 1 to 100"),
        (("--workers",), {}, "argument --workers: expected one argument"),
        (("--work", "3"), {}, "unrecognized arguments: --work 3"),
        (("--resync-seconds", "nan"), {}, "--resync-seconds: 'nan' is not a number of seconds, 10 or more"),
        (("--resync-seconds", "inf"), {}, "--resync-seconds: 'inf' is not a number of seconds, 10 or more"),
        (("--resync-seconds", "5"), {}, "--resync-seconds: '5' is not a number of seconds, 10 or more"),
        (("--log-level", "loud"), {}, "--log-level: 'loud' is not one of debug, info, warning, error"),
        ((), {"LOG_FORMAT": "xml"}, "LOG_FORMAT: 'xml' is not one of auto, console, json"),
        ((), {"LEADER_ELECT": "maybe"}, "LEADER_ELECT: 'maybe' is neither true nor false"),
        ((), {"WATCH_NAMESPACE": "a,,b"}, "WATCH_NAMESPACE: '' cannot be the name of a namespace"),
        ((), {"WATCH_NAMESPACE": "Team"}, "WATCH_NAMESPACE: 'Team' cannot be the name of a namespace"),
        ((), {"WATCH_NAMESPACE": "a\nb"}, "WATCH_NAMESPACE: 'a\\nb' cannot be the name of a namespace"),
        (("--metrics-bind-address", "8080"), {}, "--metrics-bind-address: '8080' is not HOST:PORT, :PORT or 0"),
        (("--metrics-bind-address", ":99999"), {}, "--metrics-bind-address: ':99999' is not HOST:PORT, :PORT or 0"),
        (
            ("--metrics-bind-address", "::1:80"),
            {},
            "--metrics-bind-address: '::1:80': write an IPv6 address in brackets, as in [::1]:8080",
        ),
        (("--kubeconfig", "/nonexistent/config"), {}, "--kubeconfig: /nonexistent/config: no such file"),
        ((), {"KUBECONFIG": "/nonexistent/config"}, "KUBECONFIG: /nonexistent/config: no such file"),
        (("--default-image", ""), {}, "--default-image: '' cannot be an image"),
        ((), {"RELATED_IMAGE_MEMCACHED": "a b"}, "RELATED_IMAGE_MEMCACHED: 'a b' cannot be an image"),
        (
            (),
            {"OTEL_TRACES_EXPORTER": "jaeger"},
            "OTEL_TRACES_EXPORTER: 'jaeger' is not supported, only otlp and none are",
        ),
        (
            (),
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "x", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' is not supported, only http/protobuf is",
        ),
        (
            ("--leader-elect", "--lease-seconds", "10"),
            {"POD_NAMESPACE": "ops"},
            (
                "--lease-seconds 10 must be greater than --renew-deadline-seconds 10, "
                "and that greater than --retry-seconds 2"
            ),
        ),
    ),
)
def test_a_bad_value_ends_with_one_line(
    capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], environ: dict[str, str], message: str
) -> None:
    assert refused(capsys, *flags, **environ) == message


def test_help_names_every_flag_and_its_variable(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(["run", "--help"], {})
    text = capsys.readouterr().out
    assert ended.value.code == 0
    for flag in ("--kubeconfig", "--watch-namespace", "--leader-elect", "--no-leader-elect", "--metrics-bind-address"):
        assert flag in text
    for variable in (
        "KUBECONFIG",
        "WATCH_NAMESPACE",
        "RELATED_IMAGE_MEMCACHED",
        "POD_NAMESPACE",
        "OTEL_METRICS_EXPORTER",
    ):
        assert variable in text
    assert "olm.targetNamespaces" in text


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(["version"], {})
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("memcached-operator 0.")


def test_no_command_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse([], {})
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_installed_program_ends_with_2() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "memcached_operator", "run", "--workers", "x"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "memcached-operator: --workers: 'x' is not a whole number from 1 to 100\n"
