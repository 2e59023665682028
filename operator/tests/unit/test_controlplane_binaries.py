import hashlib
import io
import re
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from controlplane import binaries, gobuild, paths, releases, wait_until
from controlplane.progress import step
from controlplane.releases import Release

NO_PINS: dict[tuple[str, str], Release] = {}
PLATFORM = releases.this_platform()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        pass


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A web server on loopback: its URL and the folder it serves."""
    folder = tmp_path / "site"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", folder
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def no_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


def program(path: Path, content: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(0o755)
    return path


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_named_program_wins_over_the_folder(tmp_path: Path) -> None:
    named = program(tmp_path / "my-etcd")
    program(tmp_path / "assets" / "etcd")
    environ = {"TEST_ASSET_ETCD": str(named), "KUBEBUILDER_ASSETS": str(tmp_path / "assets")}
    assert binaries.ensure(["etcd"], environ=environ, cache=tmp_path / "cache", pins=NO_PINS) == {"etcd": named}


def test_variables_are_named_as_envtest_names_them(tmp_path: Path) -> None:
    named = program(tmp_path / "kcm")
    assert binaries.given("kube-controller-manager", {"TEST_ASSET_KUBE_CONTROLLER_MANAGER": str(named)}) == named


def test_a_named_program_that_is_not_there_is_an_error_not_a_reason_to_look_on(tmp_path: Path) -> None:
    with pytest.raises(binaries.BinaryError, match=r"TEST_ASSET_ETCD=/no/such is not an executable file"):
        binaries.ensure(["etcd"], environ={"TEST_ASSET_ETCD": "/no/such"}, cache=tmp_path, pins=NO_PINS)


def test_what_the_folder_lacks_comes_from_the_cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = program(tmp_path / "assets" / "etcd")
    cached = program(tmp_path / "cache" / gobuild.PROGRAMS["kwok"].key()[:12] / "kwok")
    environ = {"KUBEBUILDER_ASSETS": str(tmp_path / "assets")}
    found = binaries.ensure(["etcd", "kwok"], environ=environ, cache=tmp_path / "cache", pins=NO_PINS)
    assert found == {"etcd": given, "kwok": cached}
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("no_go")
def test_a_program_cached_for_another_pin_is_not_used(tmp_path: Path) -> None:
    program(tmp_path / "cache" / ("0" * 12) / "etcd")
    with pytest.raises(binaries.BinaryError):
        binaries.ensure(["etcd"], environ={}, cache=tmp_path / "cache", pins=NO_PINS)


def test_a_release_is_downloaded_once(
    tmp_path: Path, site: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    url, folder = site
    (folder / "kubectl").write_bytes(b"a program")
    pins = {("kubectl", PLATFORM): Release(f"{url}/kubectl", sha256(b"a program"))}
    found = binaries.ensure(["kubectl"], environ={}, cache=tmp_path / "cache", pins=pins)
    assert found["kubectl"].read_bytes() == b"a program"
    assert found["kubectl"].stat().st_mode & 0o111
    assert "downloading kubectl" in capsys.readouterr().err
    (folder / "kubectl").unlink()
    assert binaries.ensure(["kubectl"], environ={}, cache=tmp_path / "cache", pins=pins) == found


def test_a_release_may_be_an_archive(tmp_path: Path, site: tuple[str, Path]) -> None:
    url, folder = site
    with tarfile.open(folder / "etcd.tar.gz", "w:gz") as tar:
        entry = tarfile.TarInfo("etcd-v3/etcd")
        entry.size = 4
        tar.addfile(entry, io.BytesIO(b"etcd"))
    pin = Release(f"{url}/etcd.tar.gz", sha256((folder / "etcd.tar.gz").read_bytes()), member="etcd-v3/etcd")
    found = binaries.ensure(["etcd"], environ={}, cache=tmp_path / "cache", pins={("etcd", PLATFORM): pin})
    assert found["etcd"].read_bytes() == b"etcd"
    assert [path.name for path in found["etcd"].parent.iterdir()] == ["etcd"]


@pytest.mark.usefixtures("no_go")
def test_a_download_with_another_sum_is_not_used(
    tmp_path: Path, site: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    url, folder = site
    (folder / "kwok").write_bytes(b"tampered")
    pins = {("kwok", PLATFORM): Release(f"{url}/kwok", sha256(b"the real one"))}
    with pytest.raises(binaries.BinaryError, match="cannot get kwok"):
        binaries.ensure(["kwok"], environ={}, cache=tmp_path / "cache", pins=pins)
    assert f"SHA-256 is {sha256(b'tampered')}, pinned is {sha256(b'the real one')}" in capsys.readouterr().err
    assert not list((tmp_path / "cache").rglob("kwok*"))


@pytest.mark.usefixtures("no_go")
def test_a_host_out_of_reach_costs_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pins = {(name, PLATFORM): Release(f"http://127.0.0.1:1/{name}", "0" * 64) for name in ("kwok", "kwokctl")}
    with pytest.raises(binaries.BinaryError):
        binaries.ensure(["kwok", "kwokctl"], environ={}, cache=tmp_path / "cache", pins=pins)
    assert capsys.readouterr().err == "no download from 127.0.0.1: Connection refused\n"


@pytest.mark.usefixtures("no_go")
def test_without_go_the_user_is_told_which_go_and_what_else_will_do(tmp_path: Path) -> None:
    with pytest.raises(binaries.BinaryError) as caught:
        binaries.ensure(["etcd", "kwok"], environ={}, cache=tmp_path / "cache", pins=NO_PINS)
    assert "cannot get etcd, kwok" in str(caught.value)
    assert "Go 1.26 or newer is needed" in str(caught.value)
    assert "KUBEBUILDER_ASSETS" in str(caught.value)


@pytest.mark.parametrize(
    ("version", "toolchain"),
    (("go1.26.8", "local"), ("go1.27.0", "local"), ("go2.0", "local"), ("go1.22.1", "auto")),
)
def test_a_go_that_is_new_enough_or_can_fetch_a_newer_builds(version: str, toolchain: str, tmp_path: Path) -> None:
    go = program(tmp_path / "go", f"#!/bin/sh\necho '{version}'\necho '{toolchain}'\n")
    assert gobuild.require_go(gobuild.PROGRAMS["etcd"], str(tmp_path)) == str(go)


@pytest.mark.parametrize(("version", "toolchain"), (("go1.25.9", "local"), ("go1.20.14", "")))
def test_a_go_that_is_too_old_is_refused_with_what_to_do(version: str, toolchain: str, tmp_path: Path) -> None:
    program(tmp_path / "go", f"#!/bin/sh\necho '{version}'\necho '{toolchain}'\n")
    etcd = gobuild.PROGRAMS["etcd"]
    assert etcd.minimum_go() == (1, 26)
    with pytest.raises(gobuild.BuildError, match=f"Go 1.26 or newer is needed to build .*{version}.*GOTOOLCHAIN=local"):
        gobuild.require_go(etcd, str(tmp_path))


def test_a_failed_build_tells_the_compilers_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(
        tmp_path / "go",
        "#!/bin/sh\nif [ $1 = env ]; then echo go1.99; echo local; else echo a cruel word >&2; exit 3; fi\n",
    )
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(gobuild.BuildError, match=r"ended with 3:\na cruel word"), step("building") as running:
        gobuild.build(gobuild.PROGRAMS["etcd"], tmp_path / "etcd", running)
    assert not list(tmp_path.glob("etcd*"))


def test_every_program_can_be_built_and_its_module_is_pinned() -> None:
    for name, built in gobuild.PROGRAMS.items():
        module = (built.folder / "go.mod").read_text()
        assert re.search(rf"^(tool |\t){re.escape(built.package)}$", module, re.MULTILINE), name
        assert (built.folder / "go.sum").is_file(), name


def test_every_pin_is_a_sum_of_a_program_we_need() -> None:
    for (name, _), pin in releases.RELEASES.items():
        assert name in binaries.NAMES
        assert len(bytes.fromhex(pin.sha256)) == 32
        assert pin.url.startswith("https://")


def test_one_process_at_a_time_gets_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    order: list[str] = []

    def second() -> None:
        with paths.locked(tmp_path / "lock", "waiting for the first"):
            order.append("second")

    thread = threading.Thread(target=second)
    with paths.locked(tmp_path / "lock"):
        thread.start()
        seen = ""

        def output() -> str:
            nonlocal seen
            seen += capsys.readouterr().out
            return seen

        wait_until(output, 10, "the second to wait", until=lambda text: "waiting for the first" in text)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
