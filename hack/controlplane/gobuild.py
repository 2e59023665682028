"""Building the programs from the pinned Go modules in hack/tools."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from controlplane.paths import TOOLS
from controlplane.progress import Step

KUBERNETES_VERSION = "v1.35.4"

# These flags decide whether Go finds what it compiled before: change one, and the next build takes ten minutes.
_VERSION = "k8s.io/component-base/version"
_KUBERNETES_FLAGS = (
    f"-X {_VERSION}.gitVersion={KUBERNETES_VERSION} -X {_VERSION}.gitMajor=1 -X {_VERSION}.gitMinor=35"
    f" -X {_VERSION}.gitTreeState=clean -X {_VERSION}.buildDate=2026-01-01T00:00:00Z"
)
_ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"}


class BuildError(RuntimeError):
    """Go is missing or too old, or the build failed; the text says what the user can do."""


@dataclass(frozen=True, slots=True)
class GoProgram:
    """A program of a pinned module: `module` is the folder under hack/tools, `package` what `go build` is given."""

    module: str
    package: str
    linker_flags: str = ""

    @property
    def folder(self) -> Path:
        """Return the folder of the module."""
        return TOOLS / self.module

    def key(self) -> str:
        """Return a digest of all that decides what is built."""
        digest = hashlib.sha256()
        for name in ("go.mod", "go.sum"):
            digest.update((self.folder / name).read_bytes())
        digest.update(f"{self.package} {self.linker_flags}".encode())
        return digest.hexdigest()

    def minimum_go(self) -> tuple[int, int]:
        """Return the Go version that the module asks for, e.g. (1, 26)."""
        return _version((self.folder / "go.mod").read_text(), r"^go ")


PROGRAMS: Mapping[str, GoProgram] = {
    "etcd": GoProgram("etcd", "go.etcd.io/etcd/server/v3"),
    **{
        name: GoProgram("kubernetes", f"k8s.io/kubernetes/cmd/{name}", _KUBERNETES_FLAGS)
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
    },
    "kwok": GoProgram("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    "kwokctl": GoProgram("kwok", "sigs.k8s.io/kwok/cmd/kwokctl"),
}

WAYS_OUT = (
    "What you can do: install Go (https://go.dev/dl, or your system's package manager); or connect this machine to\n"
    "dl.k8s.io and github.com; or point KUBEBUILDER_ASSETS at a folder that holds the programs."
)


def require_go(program: GoProgram, search_path: str | None = None) -> str:
    """Return the path of a Go that can build the program. Raises BuildError that says what is missing.

    `search_path` is looked through instead of PATH. An older Go will do when it may fetch a newer toolchain by itself
    (GOTOOLCHAIN is not `local`; Go has done that since 1.21).
    """
    need = program.minimum_go()
    wanted = f"Go {need[0]}.{need[1]} or newer is needed to build {program.package}"
    go = shutil.which("go", path=search_path)
    if go is None:
        raise BuildError(f"{wanted}, and there is no `go` on PATH.\n{WAYS_OUT}")
    # Asked outside any module: inside one, a Go that is too old refuses to answer.
    command = [go, "env", "GOVERSION", "GOTOOLCHAIN"]
    answer = subprocess.run(command, cwd=tempfile.gettempdir(), capture_output=True, text=True, check=False)
    version, _, toolchain = answer.stdout.strip().partition("\n")
    found = _version(version, "go")
    can_switch = found >= (1, 21) and toolchain.strip() not in {"", "local"}
    if found < need and not can_switch:
        raise BuildError(
            f"{wanted}; {go} is {version or 'of an unknown version'}, and GOTOOLCHAIN={toolchain.strip() or 'local'}"
            f" keeps it from fetching a newer one.\n{WAYS_OUT}\nOr allow the fetch: export GOTOOLCHAIN=auto"
        )
    return go


def build(program: GoProgram, destination: Path, progress: Step) -> None:
    """Build the program into `destination`. Raises BuildError with the end of the compiler's words."""
    go = require_go(program)
    destination.parent.mkdir(parents=True, exist_ok=True)
    partial = destination.with_name(destination.name + ".part")
    flags = ["-mod=readonly", "-trimpath", "-ldflags", f"-s -w {program.linker_flags}"]
    with tempfile.TemporaryFile("w+") as words:
        building = subprocess.Popen(
            [go, "build", *flags, "-o", str(partial), program.package],
            cwd=program.folder,
            env={**os.environ, **_ENVIRONMENT},
            stdout=words,
            stderr=words,
        )
        try:
            while building.poll() is None:
                progress.update()
                try:
                    building.wait(0.25)
                except subprocess.TimeoutExpired:
                    continue
            if building.returncode != 0:
                words.seek(0)
                tail = "".join(words.readlines()[-15:])
                raise BuildError(f"go build {program.package} ended with {building.returncode}:\n{tail}{WAYS_OUT}")
            partial.replace(destination)
        finally:
            if building.poll() is None:
                building.kill()
                building.wait()
            partial.unlink(missing_ok=True)


def _version(text: str, prefix: str) -> tuple[int, int]:
    match = re.search(rf"{prefix}(\d+)\.(\d+)", text, re.MULTILINE)
    return (int(match[1]), int(match[2])) if match else (0, 0)
