"""The command line and the environment, read once into a frozen `Settings`; nothing else reads either.

Each setting is a flag and an environment variable, in this order: flag, variable, default. An empty variable counts as
unset, because manifests like to leave them empty. A bad value ends the process with code 2 and one line that names it.

The OTEL_* variables belong to the opentelemetry SDK. Here only the question is answered whether anything is to be sent.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import platform
import re
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeVar

from memcached_operator import __version__

PROGRAM = "memcached-operator"
DEFAULT_IMAGE = "docker.io/library/memcached:1.6.45"
# Where the kubelet puts the pod's namespace.
NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

T = TypeVar("T")


@dataclass(frozen=True)
class Address:
    """Where a server listens. `host` is empty for all addresses, IPv4 and IPv6; `port` 0 lets the system choose."""

    host: str
    port: int


@dataclass(frozen=True)
class LeaderElection:
    """The Lease that says which replica may write. lease_seconds > renew_deadline_seconds > retry_seconds > 0."""

    namespace: str
    name: str
    lease_seconds: int
    renew_deadline_seconds: float
    retry_seconds: float


@dataclass(frozen=True)
class Settings:
    """All that can be configured, checked."""

    kubeconfig: str | None  # files joined by `:`; None: the pod's service account, else ~/.kube/config
    watch_namespaces: tuple[str, ...]  # empty: all
    leader_election: LeaderElection | None  # None: this process leads without asking
    metrics_address: Address | None  # None: off
    health_address: Address | None  # None: off
    log_level: str  # debug, info, warning, error
    log_format: str  # auto, console, json
    log_colour: bool  # may the console use colours
    workers: int
    resync_seconds: float
    default_image: str  # for resources without spec.image
    pod_name: str  # who reports events and holds the lease
    otlp_traces: bool
    otlp_metrics: bool


@dataclass(frozen=True)
class _Option:
    flag: str
    variable: str
    default: str
    metavar: str
    help: str

    @property
    def key(self) -> str:
        return self.flag.removeprefix("--").replace("-", "_")


_OPTIONS = {
    "cluster": (
        _Option(
            "--kubeconfig",
            "KUBECONFIG",
            "",
            "PATH",
            "kubeconfig file. Default: the service account in a pod, ~/.kube/config elsewhere",
        ),
        _Option(
            "--watch-namespace",
            "WATCH_NAMESPACE",
            "",
            "NAMES",
            "namespaces to work in, joined by commas; empty: all. Under OLM the manifest fills the variable from the "
            "pod's annotation olm.targetNamespaces (valueFrom.fieldRef), which OLM derives from the OperatorGroup",
        ),
    ),
    "leader election": (
        _Option(
            "--leader-elect", "LEADER_ELECT", "true", "", "write only while holding a Lease; --no-leader-elect: alone"
        ),
        _Option(
            "--leader-election-namespace",
            "LEADER_ELECTION_NAMESPACE",
            "",
            "NAME",
            "namespace of the Lease. Default: the pod's own",
        ),
        _Option("--leader-election-id", "LEADER_ELECTION_ID", "memcached-operator", "NAME", "name of the Lease"),
        _Option("--lease-seconds", "LEASE_SECONDS", "15", "N", "how long the others wait for a silent leader"),
        _Option(
            "--renew-deadline-seconds",
            "RENEW_DEADLINE_SECONDS",
            "10",
            "N",
            "a leader that could not renew the Lease for so long stops writing",
        ),
        _Option("--retry-seconds", "RETRY_SECONDS", "2", "N", "time between two attempts to get or renew the Lease"),
    ),
    "servers": (
        _Option(
            "--metrics-bind-address", "METRICS_BIND_ADDRESS", ":8080", "HOST:PORT", "where metrics are served; 0: off"
        ),
        _Option(
            "--health-probe-bind-address",
            "HEALTH_PROBE_BIND_ADDRESS",
            ":8081",
            "HOST:PORT",
            "where the probes are answered; 0: off",
        ),
    ),
    "logs": (
        _Option("--log-level", "LOG_LEVEL", "info", "LEVEL", "debug, info, warning or error"),
        _Option(
            "--log-format", "LOG_FORMAT", "auto", "FORMAT", "console, json, or auto: console on a terminal, else json"
        ),
    ),
    "work": (
        _Option("--workers", "WORKERS", "10", "N", "resources reconciled at the same time, 1 to 100"),
        _Option(
            "--resync-seconds",
            "RESYNC_SECONDS",
            "600",
            "N",
            "time after which a resource is looked at again with nothing heard of it, 10 or more",
        ),
        _Option(
            "--default-image",
            "RELATED_IMAGE_MEMCACHED",
            DEFAULT_IMAGE,
            "IMAGE",
            "image for resources without spec.image",
        ),
    ),
}

_EPILOG = """\
environment only:
  POD_NAME              who we are in events and in the Lease; default: the host's name
  POD_NAMESPACE         the pod's namespace; default: its service account's
  NO_COLOR              no colours on the console
  OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_TRACES_EXPORTER=otlp
                        send a span of each reconcile by OTLP (http/protobuf)
  OTEL_METRICS_EXPORTER=otlp
                        send the metrics by OTLP too
  OTEL_*                all else as the opentelemetry SDK documents it

A flag wins over its variable; an empty variable counts as unset.
"""


def parse(argv: Sequence[str], environ: Mapping[str, str], *, namespace_file: Path = NAMESPACE_FILE) -> Settings:
    """The settings of `memcached-operator run`.

    `argv` is without the program's name. `namespace_file` is where a pod finds its namespace.

    Raises:
        SystemExit: code 0 after `version` and `--help`; code 2 after one line on stderr when something is wrong.
    """
    arguments = _parser().parse_args(argv)
    if arguments.command == "version":
        print(f"{PROGRAM} {__version__} (Python {platform.python_version()})")  # noqa: T201 - what the command is for
        raise SystemExit(0)
    try:
        return _settings(_Source(vars(arguments), environ), namespace_file)
    except _BadValueError as error:
        _fail(str(error))


class _BadValueError(ValueError):
    """The message tells what is wrong, for the person who typed it."""


def _fail(message: str) -> NoReturn:
    print(f"{PROGRAM}: {message}", file=sys.stderr)  # noqa: T201 - logging is not configured yet
    raise SystemExit(2)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        # argparse prints the usage first, a screenful that hides the one line that matters.
        _fail(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog=PROGRAM, description="Runs memcached on Kubernetes.", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("version", help="print the version", allow_abbrev=False)
    run = commands.add_parser(
        "run",
        help="run the operator",
        allow_abbrev=False,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for title, options in _OPTIONS.items():
        group = run.add_argument_group(title)
        for option in options:
            _add_option(group, option)
    return parser


def _add_option(group: argparse._ArgumentGroup, option: _Option) -> None:
    default = f", default {option.default}" if option.default else ""
    text = f"{option.help} [{option.variable}{default}]"
    if option.metavar:
        group.add_argument(option.flag, metavar=option.metavar, help=text)
        return
    off = option.flag.replace("--", "--no-", 1)
    group.add_argument(option.flag, dest=option.key, action="store_const", const="true", help=text)
    group.add_argument(off, dest=option.key, action="store_const", const="false", help=argparse.SUPPRESS)


class _Source:
    """Finds a value and knows where it came from, for the message when it is bad."""

    def __init__(self, arguments: Mapping[str, str | None], environ: Mapping[str, str]) -> None:
        self._arguments = arguments
        self._environ = environ
        self._options = {option.key: option for options in _OPTIONS.values() for option in options}

    def get(self, key: str, convert: Callable[[str], T]) -> T:
        option = self._options[key]
        given = self._arguments[key]
        if given is None:
            name, value = option.variable, self._environ.get(option.variable, "") or option.default
        else:
            name, value = option.flag, given
        try:
            return convert(value.strip())
        except ValueError as error:
            raise _BadValueError(f"{name}: {error}") from None

    def variable(self, name: str) -> str:
        return self._environ.get(name, "").strip()


def _settings(source: _Source, namespace_file: Path) -> Settings:
    return Settings(
        kubeconfig=source.get("kubeconfig", _kubeconfig),
        watch_namespaces=source.get("watch_namespace", _namespaces),
        metrics_address=source.get("metrics_bind_address", _address),
        health_address=source.get("health_probe_bind_address", _address),
        log_level=source.get("log_level", _one_of("debug", "info", "warning", "error")),
        log_format=source.get("log_format", _one_of("auto", "console", "json")),
        log_colour=not source.variable("NO_COLOR"),
        workers=source.get("workers", _integer(1, 100)),
        resync_seconds=source.get("resync_seconds", _seconds(10)),
        default_image=source.get("default_image", _image),
        pod_name=source.variable("POD_NAME") or socket.gethostname(),
        otlp_traces=_otlp(source, "TRACES", by_endpoint=True),
        # Not by the endpoint alone: the metrics are on /metrics already, and twice is a surprise.
        otlp_metrics=_otlp(source, "METRICS", by_endpoint=False),
        # Last: what is missing is told only when all that is there is good.
        leader_election=_leader_election(source, namespace_file) if source.get("leader_elect", _boolean) else None,
    )


def _leader_election(source: _Source, namespace_file: Path) -> LeaderElection:
    namespace = (
        source.get("leader_election_namespace", _optional(_namespace))
        or source.variable("POD_NAMESPACE")
        or _read(namespace_file)
    )
    if not namespace:
        raise _BadValueError(
            "leader election outside a pod needs --leader-election-namespace NAME (or --no-leader-elect when this is "
            "the only operator on the cluster)"
        )
    election = LeaderElection(
        namespace=namespace,
        name=source.get("leader_election_id", _lease_name),
        lease_seconds=source.get("lease_seconds", _integer(1, 3600)),
        renew_deadline_seconds=source.get("renew_deadline_seconds", _seconds(0.1)),
        retry_seconds=source.get("retry_seconds", _seconds(0.1)),
    )
    if not election.lease_seconds > election.renew_deadline_seconds > election.retry_seconds:
        raise _BadValueError(
            f"--lease-seconds {election.lease_seconds} must be greater than --renew-deadline-seconds "
            f"{election.renew_deadline_seconds:g}, and that greater than --retry-seconds {election.retry_seconds:g}"
        )
    return election


def _otlp(source: _Source, signal: str, *, by_endpoint: bool) -> bool:
    """Whether the standard variables ask for this signal (TRACES or METRICS) to be sent."""
    if source.variable("OTEL_SDK_DISABLED").lower() == "true":
        return False
    variable = f"OTEL_{signal}_EXPORTER"
    exporter = source.variable(variable)
    if exporter not in {"", "none", "otlp"}:
        raise _BadValueError(f"{variable}: {exporter!r} is not supported, only otlp and none are")
    endpoint = source.variable("OTEL_EXPORTER_OTLP_ENDPOINT") or source.variable(
        f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"
    )
    if not (exporter == "otlp" or (by_endpoint and not exporter and endpoint)):
        return False
    for name in (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if source.variable(name) not in {"", "http/protobuf"}:
            raise _BadValueError(f"{name}: {source.variable(name)!r} is not supported, only http/protobuf is")
    if not importlib.util.find_spec("opentelemetry.exporter.otlp"):
        raise _BadValueError("OTLP is asked for, but not installed: pip install 'memcached-operator[otlp]'")
    return True


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


# --- values: each takes what was typed, and raises ValueError with the words that follow "NAME: " --------------------

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DNS_SUBDOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_PORT = 65535


def _optional(convert: Callable[[str], T]) -> Callable[[str], T | None]:
    return lambda text: convert(text) if text else None


def _kubeconfig(text: str) -> str | None:
    if not text:
        return None
    files = [Path(part).expanduser() for part in text.split(os.pathsep) if part]
    # Like kubectl: a list may name files that do not exist, as long as one does.
    if not any(file.is_file() for file in files):
        raise ValueError(f"{text}: no such file")
    return os.pathsep.join(str(file) for file in files)


def _namespaces(text: str) -> tuple[str, ...]:
    """In the order given, each once."""
    return tuple(dict.fromkeys(_namespace(part.strip()) for part in text.split(","))) if text else ()


def _namespace(text: str) -> str:
    if not _DNS_LABEL.fullmatch(text):
        raise ValueError(f"{text!r} cannot be the name of a namespace")
    return text


def _lease_name(text: str) -> str:
    if not _DNS_SUBDOMAIN.fullmatch(text):
        raise ValueError(f"{text!r} cannot be the name of a Lease")
    return text


def _boolean(text: str) -> bool:
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if text.lower() not in words:
        raise ValueError(f"{text!r} is neither true nor false")
    return words[text.lower()]


def _one_of(*words: str) -> Callable[[str], str]:
    def convert(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(f"{text!r} is not one of {', '.join(words)}")
        return text.lower()

    return convert


def _integer(low: int, high: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,9}", text) or not low <= int(text) <= high:
            raise ValueError(f"{text!r} is not a whole number from {low} to {high}")
        return int(text)

    return convert


def _seconds(low: float) -> Callable[[str], float]:
    def convert(text: str) -> float:
        try:
            seconds = float(text)
        except ValueError:
            seconds = math.nan
        # Written so that nan fails too.
        if not low <= seconds < math.inf:
            raise ValueError(f"{text!r} is not a number of seconds, {low:g} or more")
        return seconds

    return convert


def _address(text: str) -> Address | None:
    """`HOST:PORT`, `:PORT`, `[IPV6]:PORT`, or `0` for none."""
    if text == "0":
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > _MAX_PORT:
        raise ValueError(f"{text!r} is not HOST:PORT, :PORT or 0")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise ValueError(f"{text!r}: write an IPv6 address in brackets, as in [::1]:8080")
    return Address(host.strip("[]"), int(port))


def _image(text: str) -> str:
    if not text or re.search(r"\s", text):
        raise ValueError(f"{text!r} cannot be an image")
    return text
