"""Official release downloads with pinned SHA-256.

The sums were taken from public files that other projects keep for the same downloads, because the download hosts were
out of reach when this was written; a wrong sum could only make a download be refused. Where two of the sources name the
same file, they agree:

- Kubernetes 1.35.4: kops, pkg/assets/assetdata/k8s-1.35.yaml (all four), and kubespray, checksums.yml (kubectl).
- etcd 3.6.14: kubespray, checksums.yml. It is the newest 3.6 that such a file names; `go build` makes 3.6.16.
- kwok 0.8.0, linux/amd64: the AUR package kwok-bin, and a second, unrelated project. For linux/arm64 there was one
  source only, so there is no pin, and kwok is built there. macOS has no release of the Kubernetes servers at all.
"""

import hashlib
import http.client
import platform
import shutil
import socket
import sys
import tarfile
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from controlplane.progress import Step

CONNECT_SECONDS = 3.0
READ_SECONDS = 60.0

_KUBERNETES = "https://dl.k8s.io/release/v1.35.4/bin/linux"
_ETCD = "https://github.com/etcd-io/etcd/releases/download/v3.6.14"
_KWOK = "https://github.com/kubernetes-sigs/kwok/releases/download/v0.8.0"


class DownloadError(RuntimeError):
    """A release could not be downloaded or is not the file that was pinned."""


@dataclass(frozen=True, slots=True)
class Release:
    """One download: `sha256` is of the file at `url`; `member` names the program inside when that is a tar archive."""

    url: str
    sha256: str
    member: str = ""

    @property
    def host(self) -> str:
        """Return the host name of the download, which may redirect to another."""
        return urllib.parse.urlsplit(self.url).hostname or ""


RELEASES: Mapping[tuple[str, str], Release] = {
    ("kube-apiserver", "linux/amd64"): Release(
        f"{_KUBERNETES}/amd64/kube-apiserver", "d5fff07e41f6826963254685667cfb3ec354dd676aa697e75c1e973e86d28fc7"
    ),
    ("kube-controller-manager", "linux/amd64"): Release(
        f"{_KUBERNETES}/amd64/kube-controller-manager",
        "be0dc23daaf568c51017ea867707bd38ab36a78a83982bc12af9184e8e370c2c",
    ),
    ("kube-scheduler", "linux/amd64"): Release(
        f"{_KUBERNETES}/amd64/kube-scheduler", "c796c9e54fc56745b9f50d2aa464d97d10007adc7cf0ba36a9cbf450a6f11770"
    ),
    ("kubectl", "linux/amd64"): Release(
        f"{_KUBERNETES}/amd64/kubectl", "b529430df69a688fd61b64ad2299edb5fd71cb58be2a4779dba624c7d3510efd"
    ),
    ("kube-apiserver", "linux/arm64"): Release(
        f"{_KUBERNETES}/arm64/kube-apiserver", "ef055372df04d541c84ab8cb6dabfa67c3f5f35e6cbe7642673f94e1ca560cf3"
    ),
    ("kube-controller-manager", "linux/arm64"): Release(
        f"{_KUBERNETES}/arm64/kube-controller-manager",
        "0ba5bc092a1fe68987f2b4ae072146962ed31b73819c1552153894eff67968c0",
    ),
    ("kube-scheduler", "linux/arm64"): Release(
        f"{_KUBERNETES}/arm64/kube-scheduler", "ad75d09987d28f69d12959b880074ae3d2fedcf7491f5d41d6f23456d822333c"
    ),
    ("kubectl", "linux/arm64"): Release(
        f"{_KUBERNETES}/arm64/kubectl", "6a5a4cc4e396d7626a7a693a3044b51c75520f81db30fe6816c2554e53be336f"
    ),
    ("etcd", "linux/amd64"): Release(
        f"{_ETCD}/etcd-v3.6.14-linux-amd64.tar.gz",
        "ffe840ff9295808e88cce2794a18a5ac87f12a5203c8314d0bf6aa119b41bac5",
        member="etcd-v3.6.14-linux-amd64/etcd",
    ),
    ("etcd", "linux/arm64"): Release(
        f"{_ETCD}/etcd-v3.6.14-linux-arm64.tar.gz",
        "fa1b80565ee6fc2df1ae6f57a508b221f3ecc7d591c317c581cd8281b0842b3e",
        member="etcd-v3.6.14-linux-arm64/etcd",
    ),
    ("kwok", "linux/amd64"): Release(
        f"{_KWOK}/kwok-linux-amd64", "f5a4385a2ae1b9dd7f8acae18e002a75c0ebba124ae9d7259aa8dadb50711f46"
    ),
    ("kwokctl", "linux/amd64"): Release(
        f"{_KWOK}/kwokctl-linux-amd64", "d5743166c657283d6e827c7c4c20cacfd9009fd94830f06718ca7b2c7099461f"
    ),
}


def this_platform() -> str:
    """Return this machine as Go names it, e.g. "linux/amd64"."""
    machine = platform.machine().lower()
    return f"{sys.platform}/{ {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(machine, machine) }"


def unreachable(url: str, timeout: float = CONNECT_SECONDS) -> str:
    """Return why the host of `url` cannot be connected to within `timeout` seconds, or "" when it can.

    A configured proxy is taken at its word: behind one, the host itself is not expected to answer us.
    """
    parts = urllib.parse.urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    if parts.scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(host):
        return ""
    outcome = [f"no answer in {timeout:g} s"]

    def connect() -> None:
        try:
            with socket.create_connection((host, port), timeout):
                outcome[0] = ""
        except OSError as error:
            outcome[0] = error.strerror or str(error)

    # In a thread, because the socket's time-out does not bound the look-up of the name.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(timeout)
    return outcome[0]


def download(release: Release, destination: Path, progress: Step) -> None:
    """Put the program at `destination`, executable, after its sum was checked. Raises DownloadError; leaves no part."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    partial = destination.with_name(destination.name + ".part")
    try:
        _fetch(release, partial, progress)
        if release.member:
            _extract(partial, release.member)
        partial.chmod(0o755)
        partial.replace(destination)
    except (OSError, http.client.HTTPException, tarfile.TarError, KeyError) as error:
        raise DownloadError(f"{release.url}: {error}") from error
    finally:
        partial.unlink(missing_ok=True)


def _fetch(release: Release, partial: Path, progress: Step) -> None:
    digest = hashlib.sha256()
    received = 0
    with (
        urllib.request.urlopen(release.url, timeout=READ_SECONDS) as response,  # noqa: S310 - the table above has the URLs
        partial.open("wb") as file,
    ):
        while chunk := response.read(1 << 18):
            file.write(chunk)
            digest.update(chunk)
            received += len(chunk)
            progress.update(f"{received / 2**20:.0f} MiB")
    if digest.hexdigest() != release.sha256:
        raise DownloadError(f"{release.url}: SHA-256 is {digest.hexdigest()}, pinned is {release.sha256}: not used")


def _extract(archive: Path, member: str) -> None:
    """Replace the archive by one of its members."""
    program = archive.with_name(archive.name + ".member")
    with tarfile.open(archive) as tar:
        content = tar.extractfile(member)
        if content is None:
            raise KeyError(member)
        with content, program.open("wb") as file:
            shutil.copyfileobj(content, file)
    program.replace(archive)
