"""One embedded control plane: start, look at, hurt, heal and stop it."""

import http.client
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

from controlplane import binaries, paths, processes, progress, simulation
from controlplane.api import Api, ApiError, object_path
from controlplane.audit import AuditLog, Request
from controlplane.credentials import Credentials, issue_certificate, write_kubeconfig
from controlplane.owners import OWNER_PROBE, wait_known_owners
from controlplane.waiting import NotYet, WaitTimeoutError, wait_until

COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok-controller")
_SERVERS = ("etcd", "kube-apiserver")
_TMPFS = Path("/dev/shm")  # noqa: S108 - etcd's data is wanted in memory; its folder is made for its owner alone
_UNREACHABLE = (OSError, http.client.HTTPException)
_OK = 200
_CONFLICT = 409
_NO_ARGUMENTS: Mapping[str, str] = MappingProxyType({})


class ControlPlaneError(RuntimeError):
    """The control plane, or a kubectl call to it, failed; the text has the failing program's words."""


@dataclass(frozen=True, slots=True)
class _State:
    """What outlives the process that started a cluster. `owner`, if not 0, is the pid whose death makes it stale."""

    name: str
    owner: int
    owner_started_at: str
    nodes: int
    audit: bool
    programs: dict[str, str]
    data: str


class ControlPlane:
    """A real control plane on 127.0.0.1 with simulated nodes; make one with `start` or `attach`, then `stop` it.

    Its folder (`folder`: component logs in `logs/`, certificates in `pki/`) is below `paths.home()`. Used in `with`, it
    is stopped at the end of the block.
    """

    def __init__(self, state: _State) -> None:
        self._state = state
        self.name = state.name
        self.folder = _kwok_home() / "clusters" / state.name
        self._own = _own_folder(state.name)
        self._programs = {name: Path(path) for name, path in state.programs.items()}
        self._api: Api | None = None

    # --- life ---------------------------------------------------------------------------------------------------------

    @classmethod
    def start(  # noqa: PLR0913 - keywords, each with a default
        cls,
        name: str,
        *,
        audit: bool = True,
        nodes: int = 2,
        extra_apiserver_args: Mapping[str, str] = _NO_ARGUMENTS,
        kcm_fast: bool = False,
        tmpfs: bool = False,
        detached: bool = False,
        timeout: float = 120,
    ) -> Self:
        """Start a cluster and return it when it is ready: API server, controllers, scheduler, nodes.

        `audit` logs every request's metadata. `nodes` is at most 100. `extra_apiserver_args` are flags without dashes.
        `kcm_fast` raises the controller manager's request rate and workers. `tmpfs` keeps etcd's data in /dev/shm.
        A cluster belongs to the process that starts it: once that has died without stopping it, the next `start`
        removes it. A `detached` one stays until it is stopped. `timeout` (s) bounds kwokctl's call, and then the wait.

        Raises BinaryError, and ControlPlaneError when the name is taken or it does not come up (with the logs' ends).
        """
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?", name):
            raise ControlPlaneError(f"a cluster's name has lower case letters, digits and inner dashes, not {name!r}")
        programs = binaries.ensure()
        state = _State(
            name=name,
            owner=0 if detached else os.getpid(),
            owner_started_at="" if detached else processes.started_at(os.getpid()),
            nodes=nodes,
            audit=audit,
            programs={program: str(path) for program, path in programs.items()},
            data=str(_TMPFS / f"controlplane-{name}-{uuid.uuid4().hex[:8]}") if tmpfs and _TMPFS.is_dir() else "",
        )
        control_plane = cls(state)
        # One at a time: the ports are looked for now, and taken only when the components bind.
        with paths.locked(paths.home() / ".clusters.lock"):
            sweep()
            control_plane._claim_name()
            control_plane._create(
                simulation.kwokctl_configuration(
                    programs,
                    dict(zip(simulation.PORTS, processes.reserve_ports(len(simulation.PORTS)), strict=True)),
                    audit_policy=control_plane._own / "audit-policy.json" if audit else None,
                    extra_apiserver_args=extra_apiserver_args,
                    kcm_fast=kcm_fast,
                ),
                timeout,
            )
        try:
            control_plane._add_nodes(nodes)
            control_plane.wait_ready(timeout)
        except BaseException:
            control_plane.stop()
            raise
        return control_plane

    @classmethod
    def attach(cls, name: str) -> Self:
        """Return a cluster that some process has started. Raises ControlPlaneError when there is none of that name."""
        try:
            return cls(_State(**json.loads((_own_folder(name) / "state.json").read_text())))
        except FileNotFoundError:
            raise ControlPlaneError(
                f"there is no cluster {name!r}; there are: {', '.join(names()) or 'none'}"
            ) from None

    def stop(self) -> None:
        """End every process of the cluster and return when all are gone; then remove its files. Safe to call again."""
        self.close()
        # Not SIGTERM: the API server takes a minute over it while watches are open.
        processes.kill_and_wait(self.pids().values())
        for folder in (self.folder, self._own, Path(self._state.data) if self._state.data else None):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Close our own connection to the API server; the cluster runs on."""
        if self._api is not None:
            self._api.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- access -------------------------------------------------------------------------------------------------------

    @property
    def server(self) -> str:
        """Return the API server's URL."""
        match = re.search(r"server: (https://\S+)", (self.folder / "kubeconfig.yaml").read_text())
        if match is None:
            raise ControlPlaneError(f"{self.folder / 'kubeconfig.yaml'} names no server")
        return match[1]

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig: for the test driver, never for the operator."""
        return self._own / "admin.kubeconfig"

    @property
    def api(self) -> Api:
        """Return the administrator's connection, closed by `close` and `stop`."""
        if self._api is None:
            self._api = Api(self._administrator())
        return self._api

    def api_as(self, user: str) -> Api:
        """Return a connection of the administrator in the name of `user`, such as a service account. Close it."""
        return Api(self._administrator(), impersonate=user)

    def _administrator(self) -> Credentials:
        pki = self.folder / "pki"
        return Credentials(self.server, pki / "ca.crt", pki / "admin.crt", pki / "admin.key")

    def credentials(self, user: str) -> Credentials:
        """Return credentials of `user`, made on first use. It has no rights but by RBAC: see rbac.py."""
        pki = self.folder / "pki"
        certificate, key = issue_certificate(user, pki / "ca.crt", pki / "ca.key", self._own / "users")
        return Credentials(self.server, pki / "ca.crt", certificate, key)

    def serving_certificate(self, name: str) -> tuple[Path, Path]:
        """Return (certificate, key) that a server on 127.0.0.1 may show to whoever trusts this cluster."""
        pki = self.folder / "pki"
        return issue_certificate(name, pki / "ca.crt", pki / "ca.key", self._own / "users", address=simulation.LOOPBACK)

    def user_kubeconfig(self, user: str, namespace: str | None = None) -> Path:
        """Return a kubeconfig of `user` (see `credentials`); `namespace` becomes its default namespace."""
        name = f"{user}.{namespace}" if namespace else user
        config = self.credentials(user).kubeconfig(self.name, user, namespace)
        return write_kubeconfig(self._own / "users" / f"{name}.kubeconfig", config)

    @property
    def kubectl_path(self) -> Path:
        """Return the kubectl of the cluster's own version."""
        return self._programs["kubectl"]

    def kubectl(
        self,
        *args: str,
        input: str | None = None,  # noqa: A002 - subprocess's word for it
        check: bool = True,
        kubeconfig: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator, or as the user of `kubeconfig`; `input` is its standard input.

        Raises ControlPlaneError with kubectl's words when it fails and `check` is true.
        """
        result = subprocess.run(
            [str(self.kubectl_path), f"--cache-dir={self._own / 'kubectl'}", *args],
            env={**os.environ, "KUBECONFIG": str(kubeconfig or self.kubeconfig)},
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            text=True,
            check=False,
        )
        if check and result.returncode != 0:
            raise ControlPlaneError(f"kubectl {' '.join(args)}: {(result.stderr or result.stdout).strip()}")
        return result

    def install_crds(self, source: Path, timeout: float = 30) -> None:
        """Apply CRDs, from a file or a kustomize folder, and return when they are served and garbage is collected.

        Two parts of the control plane look for new kinds only twice a minute. The controller manager is restarted: its
        garbage collector would not see the deletion of an owner before. OwnerReferencesPermissionEnforcement refuses
        owner references to a kind that it does not know to all but administrators: that is waited for.
        """
        self.kubectl("apply", "--server-side", "-k" if source.is_dir() else "-f", str(source))
        wait_until(self._unserved_crds, timeout, "CRDs to be served", until=lambda names: not names)
        self.kill("kube-controller-manager")
        self.heal(timeout)
        with Api(self.credentials(OWNER_PROBE)) as probe:
            wait_known_owners(self.api, probe, timeout + 30)

    # --- audit --------------------------------------------------------------------------------------------------------

    @property
    def audit_log(self) -> Path:
        """Return the path of the audit log. Raises ControlPlaneError when the cluster was started without one."""
        if not self._state.audit:
            raise ControlPlaneError(f"cluster {self.name!r} was started with audit=False")
        return self.folder / "logs" / "audit.log"

    def audit_offset(self) -> int:
        """Return an offset behind everything that was answered before this call: the `since` of a later `audit`."""
        log = AuditLog(self.audit_log)
        begin = log.offset()
        mark = f"/version?mark={uuid.uuid4().hex}"
        self.api.get(mark)
        # The log is written after the answer is sent.
        wait_until(
            lambda: log.requests(since=begin),
            10,
            "the audit log to have our own request",
            until=lambda requests: any(request.uri == mark for request in requests),
            interval=0.005,
        )
        return log.offset()

    def audit(self, user: str | None = None, since: int = 0) -> list[Request]:
        """Return the requests after offset `since`, of one user or of all, up to those answered before this call."""
        self.audit_offset()
        return AuditLog(self.audit_log).requests(user=user, since=since)

    # --- state --------------------------------------------------------------------------------------------------------

    def pids(self) -> dict[str, int]:
        """Return the pid of each component that lives (a stopped one does). Names: COMPONENTS."""
        living = {}
        for component in COMPONENTS:
            pid = self._recorded_pid(component)
            if pid is not None and self._is_ours(pid):
                living[component] = pid
        return living

    def component_log(self, component: str) -> Path:
        """Return the log file of a component."""
        return self.folder / "logs" / f"{component}.log"

    def unready(self) -> str:
        """Return what is not ready, or "" when the whole cluster is."""
        living = self.pids()
        dead = [component for component in COMPONENTS if component not in living]
        if dead:
            return f"not running: {', '.join(dead)}"
        try:
            return self._unready_api() or self._unready_controllers(living) or self._unready_objects()
        except (ApiError, *_UNREACHABLE) as error:
            return f"kube-apiserver: {error}"

    def wait_ready(self, timeout: float = 60) -> None:
        """Return when every component, the nodes and the default service account are ready.

        Raises ControlPlaneError after `timeout` seconds, with what is missing and the log of a component that died.
        """
        try:
            wait_until(self.unready, timeout, f"cluster {self.name!r}", until=lambda problem: not problem)
        except WaitTimeoutError as error:
            raise ControlPlaneError(f"{error}{self._last_words()}") from error

    # --- harm ---------------------------------------------------------------------------------------------------------

    def kill(self, component: str) -> int:
        """SIGKILL a component and return its pid when it is gone. Raises ControlPlaneError when it is not running."""
        pid = self._pid(component)
        processes.kill_and_wait([pid])
        return pid

    def pause(self, component: str) -> None:
        """SIGSTOP a component: it keeps its connections and answers nothing, until `resume`."""
        processes.send(self._pid(component), signal.SIGSTOP)

    def resume(self, component: str) -> None:
        """SIGCONT a component."""
        processes.send(self._pid(component), signal.SIGCONT)

    def heal(self, timeout: float = 120) -> None:
        """Let go on what is paused, start what is dead (`kwokctl start cluster`), and return when all is ready.

        After an outage of etcd or the API server the controllers, the scheduler and kwok are restarted too: they would
        look for it again only when their back-off is over, a minute and more after a long outage. Those of a real
        cluster end themselves in one, with their lease. Raises ControlPlaneError as `wait_ready` does.
        """
        living = self.pids()
        outage = any(name not in living or processes.is_stopped(living[name]) for name in _SERVERS)
        for pid in living.values():
            processes.send(pid, signal.SIGCONT)

        def whole(unready: Callable[[], str]) -> bool:
            # A component may die of an outage a moment after we looked, so look again each time.
            if len(self.pids()) < len(COMPONENTS):
                try:
                    self._start_dead(timeout)
                except ControlPlaneError as error:
                    raise NotYet(str(error)) from error
            if problem := unready():
                raise NotYet(problem)
            return True

        try:
            if outage:
                wait_until(lambda: whole(self._unready_api), timeout, "the API server", tolerate=_UNREACHABLE)
                clients = [pid for name, pid in self.pids().items() if name not in _SERVERS]
                processes.kill_and_wait(clients)
            wait_until(lambda: whole(self.unready), timeout, f"cluster {self.name!r} to heal")
        except WaitTimeoutError as error:
            raise ControlPlaneError(f"{error}{self._last_words()}") from error

    # --- inside -------------------------------------------------------------------------------------------------------

    def _claim_name(self) -> None:
        if living := self.pids():
            running = ", ".join(f"{component} {pid}" for component, pid in living.items())
            raise ControlPlaneError(f"cluster {self.name!r} is running already ({running}); stop it first")
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self._own, ignore_errors=True)
        self._own.mkdir(parents=True, mode=0o700)
        (self._own / "state.json").write_text(json.dumps(asdict(self._state), indent=1))

    def _create(self, configuration: simulation.Document, timeout: float) -> None:
        if self._state.data:
            data = Path(self._state.data)
            data.mkdir(mode=0o700)
            self.folder.mkdir(parents=True)
            (self.folder / "etcd").symlink_to(data)
        (self._own / "audit-policy.json").write_text(simulation.render([simulation.audit_policy()]))
        documents = [configuration, simulation.kwok_configuration(), *simulation.stages()]
        (self._own / "kwok.json").write_text(simulation.render(documents))
        try:
            # A zero can be said as a flag only: in the file it would be taken for "not given".
            options = ["--config", str(self._own / "kwok.json"), "--node-lease-duration-seconds=0"]
            self._kwokctl("create", "cluster", *options, timeout=timeout)
            pki = self.folder / "pki"
            admin = Credentials(self.server, pki / "ca.crt", pki / "admin.crt", pki / "admin.key")
            write_kubeconfig(self.kubeconfig, admin.kubeconfig(self.name, "admin"))
        except BaseException as error:
            words = self._last_words()
            self.stop()
            if words:
                error.add_note(words)
            raise

    def _start_dead(self, timeout: float) -> None:
        """Start the components that are dead."""
        for component in COMPONENTS:
            pid = self._recorded_pid(component)
            if pid is not None and not self._is_ours(pid):
                # kwokctl takes a zombie, and a stranger who got the number, for the component.
                self._pid_file(component).unlink(missing_ok=True)
        self._kwokctl("start", "cluster", timeout=timeout)

    def _kwokctl(self, *command: str, timeout: float) -> None:
        log = self._own / "kwokctl.log"
        # Its kubeconfig option would otherwise change the user's ~/.kube/config.
        options = ["--kubeconfig", str(self._own / "kwokctl.kubeconfig")] if command[0] == "create" else []
        with (
            log.open("a") as words,
            subprocess.Popen(
                [str(self._programs["kwokctl"]), *command, "--name", self.name, *options],
                env={**os.environ, "KWOK_WORKDIR": str(_kwok_home())},
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
            ) as running,
        ):
            what = f"kwokctl {' '.join(command[:2])}"

            def ended() -> int | None:
                code = running.poll()
                if code is None and (dead := self._stillborn()):
                    raise ControlPlaneError(f"{what}: {dead} ended while it was started")
                return code

            try:
                code = wait_until(ended, timeout, what, until=lambda code: code is not None)
            except WaitTimeoutError as error:
                raise ControlPlaneError(str(error)) from error
            finally:
                running.kill()
        if code != 0:
            raise ControlPlaneError(f"{what} failed:\n{_tail(log)}")

    def _stillborn(self) -> str:
        """Return which of the two that kwokctl waits for, for minutes, has been started and is dead; "" if none is."""
        recorded = {component: self._recorded_pid(component) for component in _SERVERS}
        return next((component for component, pid in recorded.items() if pid and not processes.is_alive(pid)), "")

    def _add_nodes(self, count: int) -> None:
        def reachable() -> bool:
            return bool(self.api.request("GET", "/readyz")[0] == _OK)

        wait_until(reachable, 60, "the API server", tolerate=_UNREACHABLE)
        for node in simulation.nodes(count):
            try:
                self.api.create("/api/v1/nodes", node)
            except ApiError as error:
                if error.code != _CONFLICT:
                    raise

    def _unserved_crds(self) -> list[str]:
        # Not `kubectl wait`: it fails on a CRD that is so new that it has no conditions.
        crds = self.api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
        return [crd["metadata"]["name"] for crd in crds if not _is_true(crd, "Established")]

    def _pid_file(self, component: str) -> Path:
        return self.folder / "pids" / f"{component}.pid"

    def _recorded_pid(self, component: str) -> int | None:
        try:
            return int(self._pid_file(component).read_text())
        except (OSError, ValueError):
            return None

    def _is_ours(self, pid: int) -> bool:
        """Tell whether the pid is a living component of this cluster; after a reboot the number may be anybody's."""
        return processes.is_alive(pid) and str(self.folder) + os.sep in processes.command_line(pid)

    def _pid(self, component: str) -> int:
        try:
            return self.pids()[component]
        except KeyError:
            raise ControlPlaneError(f"{component!r} is not running; running are: {', '.join(self.pids())}") from None

    def _unready_api(self) -> str:
        status, answer = self.api.request("GET", "/readyz")
        return "" if status == _OK else f"kube-apiserver /readyz: {status} {str(answer)[-200:]}"

    def _unready_controllers(self, living: Mapping[str, int]) -> str:
        with_health = ("kube-controller-manager", "kube-scheduler", "kwok-controller")
        return next(filter(None, (self._unhealthy(component, living[component]) for component in with_health)), "")

    def _unready_objects(self) -> str:
        ready = sum(_is_true(node, "Ready") for node in self.api.get("/api/v1/nodes")["items"])
        if ready < self._state.nodes:
            return f"{ready} of {self._state.nodes} nodes are Ready"
        account = self.api.find(object_path("v1", "serviceaccounts", "default", "default"))
        return "" if account else "the namespace default has no service account yet"

    def _unhealthy(self, component: str, pid: int) -> str:
        """Return why the component's own /healthz does not say ok, or ""."""
        port = re.search(r"--(?:secure-port=|server-address=\S+:)(\d+)", processes.command_line(pid))
        if port is None:
            return f"{component} has no port yet"
        context = ssl.create_default_context(cafile=str(self.folder / "pki" / "ca.crt"))
        # Its certificate is made by itself at its start; that something of ours listens there is all we ask.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(simulation.LOOPBACK, int(port[1]), timeout=5, context=context)
        try:
            connection.request("GET", "/healthz")
            response = connection.getresponse()
            return (
                "" if response.status == _OK else f"{component} /healthz: {response.status} {response.read()[-200:]!r}"
            )
        except _UNREACHABLE as error:
            return f"{component}: {error}"
        finally:
            connection.close()

    def _last_words(self) -> str:
        """Return the log's end of each component that is dead, to explain a failure."""
        living = self.pids()
        logs = {component: self.component_log(component) for component in COMPONENTS if component not in living}
        return "".join(f"\n--- {component}\n{_tail(log)}" for component, log in logs.items() if log.exists())


def names() -> list[str]:
    """Return the names of the clusters below `paths.home()`, whether they run or not."""
    return sorted(path.parent.name for path in (paths.home() / "clusters").glob("*/state.json"))


def sweep() -> list[str]:
    """Stop and remove the clusters whose owner died without doing so, and return their names."""
    swept = []
    for name in names():
        try:
            control_plane = ControlPlane.attach(name)
        except ControlPlaneError:
            continue  # its owner has just removed it
        owner = control_plane._state.owner  # noqa: SLF001 - the function is one of the class, but for its file's order
        if owner and processes.started_at(owner) != control_plane._state.owner_started_at:  # noqa: SLF001 - as above
            progress.note(f"removing cluster {name!r}: process {owner}, which started it, is gone")
            control_plane.stop()
            swept.append(name)
    return swept


def _own_folder(name: str) -> Path:
    return paths.home() / "clusters" / name


def _kwok_home() -> Path:
    return paths.home() / "kwok"


def _is_true(body: dict[str, Any], kind: str) -> bool:
    conditions = body.get("status", {}).get("conditions") or []
    return any(condition["type"] == kind and condition["status"] == "True" for condition in conditions)


def _tail(log: Path, lines: int = 15) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
