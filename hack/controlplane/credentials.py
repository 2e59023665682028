"""Client certificates of a cluster's users, and the kubeconfig files that carry them."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class CredentialsError(RuntimeError):
    """A client certificate could not be made."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """How one user reaches one API server: its URL, and files in PEM."""

    server: str
    authority: Path
    certificate: Path
    key: Path

    def kubeconfig(self, cluster: str, user: str, namespace: str | None = None) -> dict[str, Any]:
        """Return a kubeconfig whose files are given by path; `namespace` becomes the context's default."""
        context = {"cluster": cluster, "user": user, **({"namespace": namespace} if namespace else {})}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": cluster, "cluster": {"server": self.server, "certificate-authority": str(self.authority)}}
            ],
            "users": [
                {"name": user, "user": {"client-certificate": str(self.certificate), "client-key": str(self.key)}}
            ],
            "contexts": [{"name": cluster, "context": context}],
            "current-context": cluster,
        }


def write_kubeconfig(path: Path, config: dict[str, Any]) -> Path:
    """Write the kubeconfig, readable by its owner alone, and return its path. JSON is valid YAML."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=1) + "\n")
    return path


def issue_certificate(
    user: str, authority: Path, authority_key: Path, folder: Path, *, address: str = "", days: int = 365
) -> tuple[Path, Path]:
    """Return (certificate, key) of `user`, signed by the authority and made on the first call.

    The common name is the user's name; there is no organisation, so the API server puts the user into no group but
    `system:authenticated`. With `address`, an IP address, a server may show it there. `days`: 0 has expired at once.
    Raises CredentialsError when the name is unfit or `openssl` is missing.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9:._@-]*", user):
        raise CredentialsError(f"not a user name that fits a certificate: {user!r}")
    openssl = shutil.which("openssl")
    if openssl is None:
        raise CredentialsError(
            "`openssl` is not on PATH; users' certificates are made with it. Install the package openssl."
        )
    folder.mkdir(parents=True, exist_ok=True)
    certificate, key, request = (folder / f"{user}.{suffix}" for suffix in ("crt", "key", "csr"))
    if not certificate.exists():
        key.touch(mode=0o600)
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        _run(openssl, "req", "-new", *curve, "-keyout", str(key), "-subj", f"/CN={user}", "-out", str(request))
        signing = [
            "-CA",
            str(authority),
            "-CAkey",
            str(authority_key),
            "-set_serial",
            str(_serial(folder)),
            "-days",
            str(days),
        ]
        if address:
            extensions = folder / f"{user}.ext"
            extensions.write_text(f"subjectAltName=IP:{address}\n")
            signing += ["-extfile", str(extensions)]
        unfinished = certificate.with_suffix(".part")
        _run(openssl, "x509", "-req", "-in", str(request), *signing, "-sha256", "-out", str(unfinished))
        unfinished.replace(certificate)
    return certificate, key


def make_authority(name: str, folder: Path) -> tuple[Path, Path]:
    """Return (certificate, key) of a new certificate authority in `folder`. Raises CredentialsError."""
    folder.mkdir(parents=True, exist_ok=True)
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    key.touch(mode=0o600)
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    _run("openssl", "req", "-x509", *curve, "-keyout", str(key), "-subj", f"/CN={name}", "-out", str(certificate))
    return certificate, key


def _serial(folder: Path) -> int:
    return 1000 + len(list(folder.glob("*.key")))


def _run(*command: str) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise CredentialsError(f"{' '.join(command[:2])} failed: {result.stderr.strip()}")
