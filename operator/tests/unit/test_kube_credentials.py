"""Credentials: from a kubeconfig, from a pod's service account, and when they change on disk."""

from __future__ import annotations

import asyncio
import datetime
import stat
import sys
from pathlib import Path
from typing import Any, Self

import pytest
import yaml
from kubernetes.aio.config import incluster_config

from memcached_operator.errors import OperatorError
from memcached_operator.kube import credentials
from memcached_operator.kube.credentials import Credentials, load_credentials


class Hours:
    """A clock that is turned by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def write(folder: Path, user: dict[str, Any], **cluster: Any) -> str:
    path = folder / "config"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443/", **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(config))
    return str(path)


def header(found: Credentials) -> str | None:
    return asyncio.run(found.authorization())


def refresh(found: Credentials) -> bool:
    return asyncio.run(found.refresh(found.generation))


def test_a_kubeconfig_with_a_token(tmp_path: Path) -> None:
    found = Credentials(write(tmp_path, {"token": "t1"}))
    assert found.server == "https://10.0.0.1:6443"
    assert header(found) == "Bearer t1"
    assert found.proxy is None


def test_a_kubeconfig_without_a_token_sends_none(tmp_path: Path) -> None:
    assert header(Credentials(write(tmp_path, {}))) is None


def test_a_proxy_of_the_kubeconfig(tmp_path: Path) -> None:
    assert Credentials(write(tmp_path, {}, **{"proxy-url": "http://proxy:3128"})).proxy == "http://proxy:3128"


def test_certificates_are_checked_unless_told_otherwise(tmp_path: Path) -> None:
    assert Credentials(write(tmp_path, {})).ssl_context.check_hostname
    assert not Credentials(write(tmp_path, {}, **{"insecure-skip-tls-verify": True})).ssl_context.check_hostname


@pytest.mark.parametrize(
    "content", ("", "{", "[]", "current-context: x", "apiVersion: v1\nkind: Config\ncontexts: 5\n", "\0")
)
def test_what_is_no_kubeconfig_is_said_in_words(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(OperatorError, match=r"no usable cluster credentials in .*config.* Set KUBECONFIG"):
        asyncio.run(load_credentials(str(path)))


def test_a_missing_kubeconfig_is_said_in_words(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="nowhere"):
        Credentials(str(tmp_path / "nowhere"))


def test_a_new_token_is_found_when_the_old_one_is_refused(tmp_path: Path) -> None:
    clock = Hours()
    found = Credentials(write(tmp_path, {"token": "t1"}), clock=clock)
    write(tmp_path, {"token": "t2"})
    assert header(found) == "Bearer t1"
    assert refresh(found)
    assert header(found) == "Bearer t2"


def test_tokens_that_stay_the_same_are_not_read_again_and_again(tmp_path: Path) -> None:
    clock = Hours()
    found = Credentials(write(tmp_path, {"token": "t1"}), clock=clock)
    assert not refresh(found)
    write(tmp_path, {"token": "t2"})
    assert not refresh(found)
    clock.now += 6
    assert refresh(found)


def test_many_who_are_refused_at_once_read_once(tmp_path: Path) -> None:
    found = Credentials(write(tmp_path, {"token": "t1"}), clock=Hours())
    write(tmp_path, {"token": "t2"})

    async def main() -> list[bool]:
        return await asyncio.gather(*(found.refresh(0) for _ in range(20)))

    assert asyncio.run(main()) == [True] * 20
    assert found.generation == 1


def test_a_file_that_is_half_written_changes_nothing(tmp_path: Path) -> None:
    clock = Hours()
    path = write(tmp_path, {"token": "t1"})
    found = Credentials(path, clock=clock)
    Path(path).write_text("{")
    assert not refresh(found)
    assert header(found) == "Bearer t1"
    write(tmp_path, {"token": "t2"})
    clock.now += 6
    assert refresh(found)


def test_a_plugin_is_asked_again(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    counter = tmp_path / "count"
    counter.write_text("0")
    plugin.write_text(
        f"#!{sys.executable}\n"
        "import json, pathlib\n"
        f"path = pathlib.Path({str(counter)!r})\n"
        "number = int(path.read_text()) + 1\n"
        "path.write_text(str(number))\n"
        "version = 'client.authentication.k8s.io/v1'\n"
        "token = {'token': f'from-plugin-{number}'}\n"
        "print(json.dumps({'apiVersion': version, 'kind': 'ExecCredential', 'status': token}))\n"
    )
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    api = "client.authentication.k8s.io/v1"
    found = Credentials(write(tmp_path, {"exec": {"apiVersion": api, "command": str(plugin)}}))
    assert header(found) == "Bearer from-plugin-1"
    assert refresh(found)
    assert header(found) == "Bearer from-plugin-2"


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pod's service account folder."""
    ca = tmp_path / "ca.crt"
    ca.write_text("")
    token = tmp_path / "token"
    token.write_text("sa-1")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(credentials, "_SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(ca))
    return tmp_path


@pytest.fixture
def pod_with_ca(pod: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, with a CA that nobody needs to read."""
    (pod / "ca.crt").write_text("a certificate")
    monkeypatch.setattr(credentials, "_trust", lambda _context, _configuration: None)
    return pod


@pytest.mark.usefixtures("pod_with_ca")
def test_a_pod_is_who_its_service_account_says() -> None:
    found = Credentials(None)
    assert found.server == "https://[fd00::1]:443"
    assert header(found) == "bearer sa-1"


@pytest.mark.usefixtures("pod")
def test_a_pod_without_its_ca_is_told_so() -> None:
    with pytest.raises(OperatorError, match="exists but empty"):
        Credentials(None)


def test_a_kubeconfig_goes_before_the_service_account(pod_with_ca: Path) -> None:
    assert header(Credentials(write(pod_with_ca, {"token": "mine"}))) == "Bearer mine"


def test_the_kubelets_new_token_is_read_within_a_minute(pod_with_ca: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Credentials(None)
    (pod_with_ca / "token").write_text("sa-2\n")  # a line's end has no place in a header
    assert header(found) == "bearer sa-1"
    later = datetime.datetime.now(tz=None) + datetime.timedelta(minutes=2)  # noqa: DTZ005 - as the official client does

    class Later(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Self:
            return cls(*later.timetuple()[:6], tzinfo=tz)

    monkeypatch.setattr(datetime, "datetime", Later)
    assert header(found) == "bearer sa-2"


def test_a_revoked_token_is_replaced_at_once_whatever_the_clock_says(pod_with_ca: Path) -> None:
    found = Credentials(None)
    (pod_with_ca / "token").write_text("sa-2")
    assert refresh(found)
    assert header(found) == "bearer sa-2"
