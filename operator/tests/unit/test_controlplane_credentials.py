import json
import shutil
import subprocess
from pathlib import Path

import pytest

from controlplane.credentials import Credentials, CredentialsError, issue_certificate, write_kubeconfig

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


@pytest.fixture
def authority(tmp_path: Path) -> tuple[Path, Path]:
    certificate, key = tmp_path / "ca.crt", tmp_path / "ca.key"
    made_by = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=ca"]
    subprocess.run([*made_by, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key


@needs_openssl
def test_the_certificate_names_the_user_and_no_group(authority: tuple[Path, Path], tmp_path: Path) -> None:
    certificate, key = issue_certificate("system:serviceaccount:a:b", *authority, tmp_path / "users")
    shown = subprocess.run(
        ["openssl", "x509", "-in", certificate, "-noout", "-subject"], check=True, capture_output=True, text=True
    )
    assert shown.stdout.replace(" ", "") == "subject=CN=system:serviceaccount:a:b\n"
    verified = subprocess.run(
        ["openssl", "verify", "-CAfile", authority[0], certificate], capture_output=True, check=False
    )
    assert verified.returncode == 0
    assert key.stat().st_mode & 0o077 == 0


@needs_openssl
def test_a_user_keeps_the_certificate_and_users_differ(authority: tuple[Path, Path], tmp_path: Path) -> None:
    first = issue_certificate("a", *authority, tmp_path / "users")
    content = first[0].read_bytes()
    assert issue_certificate("a", *authority, tmp_path / "users") == first
    assert first[0].read_bytes() == content
    other = issue_certificate("b", *authority, tmp_path / "users")
    assert other[0].read_bytes() != content


@pytest.mark.parametrize("name", ("", "a/CN=admin", "a/O=system:masters", "-a", "a b", "../a"))
def test_names_that_would_say_more_than_a_name_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="not a user name"):
        issue_certificate(name, tmp_path / "ca.crt", tmp_path / "ca.key", tmp_path / "users")


def test_without_openssl_the_user_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CredentialsError, match="Install the package openssl"):
        issue_certificate("a", tmp_path / "ca.crt", tmp_path / "ca.key", tmp_path / "users")


def test_a_kubeconfig_is_private_and_points_at_its_user(tmp_path: Path) -> None:
    credentials = Credentials("https://127.0.0.1:1", tmp_path / "ca", tmp_path / "crt", tmp_path / "key")
    path = write_kubeconfig(tmp_path / "deep" / "k", credentials.kubeconfig("c", "u", "n"))
    assert path.stat().st_mode & 0o077 == 0
    config = json.loads(path.read_text())
    assert config["contexts"] == [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "n"}}]
    assert config["users"][0]["user"] == {
        "client-certificate": str(tmp_path / "crt"),
        "client-key": str(tmp_path / "key"),
    }
