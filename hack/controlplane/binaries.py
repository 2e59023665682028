"""Finding the programs of the control plane: given, cached, downloaded or built, in this order.

1. Given: `TEST_ASSET_<NAME>` (TEST_ASSET_ETCD, TEST_ASSET_KUBE_APISERVER, ... as envtest has it) is one program,
   `KUBEBUILDER_ASSETS` is a folder that may hold some or all of them. Their version is the user's business.
2. Our cache, below `paths.home()`: filled by 3 and 4, keyed by what is pinned, so a new pin is a new file.
3. Release downloads (releases.py), where a SHA-256 is pinned and the host can be reached.
4. `go build` of the pinned modules (gobuild.py).
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from controlplane import gobuild, paths, progress, releases
from controlplane.releases import Release

NAMES = tuple(gobuild.PROGRAMS)


class BinaryError(RuntimeError):
    """A program could not be had; the text says what was tried and what the user can do."""


def ensure(
    names: Iterable[str] = NAMES,
    *,
    environ: Mapping[str, str] | None = None,
    cache: Path | None = None,
    pins: Mapping[tuple[str, str], Release] = releases.RELEASES,
) -> dict[str, Path]:
    """Return the path of each named program, getting what is missing; silent when nothing is.

    `environ` stands for os.environ, `cache` for `paths.home() / "bin"`, `pins` for the downloads of releases.py.
    Raises BinaryError.
    """
    environ = os.environ if environ is None else environ
    cache = cache or paths.home() / "bin"
    found: dict[str, Path] = {}
    missing: list[str] = []
    for name in names:
        path = given(name, environ) or cached(name, cache, pins)
        if path:
            found[name] = path
        else:
            missing.append(name)
    if not missing:
        return found
    with paths.locked(cache / ".lock", "waiting for another process that gets the control plane's programs ..."):
        # Whoever held the lock may have got them for us.
        found |= {name: path for name in missing if (path := cached(name, cache, pins))}
        missing = [name for name in missing if name not in found]
        found |= _download(missing, cache, pins)
        found |= _build([name for name in missing if name not in found], cache)
    return found


def given(name: str, environ: Mapping[str, str]) -> Path | None:
    """Return the program that the user pointed at, if any. Raises BinaryError when it is named and not there."""
    variable = "TEST_ASSET_" + name.upper().replace("-", "_")
    if chosen := environ.get(variable):
        path = Path(chosen).expanduser().resolve()
        if not _executable(path):
            raise BinaryError(f"{variable}={chosen} is not an executable file")
        return path
    if folder := environ.get("KUBEBUILDER_ASSETS"):
        path = Path(folder).expanduser().resolve() / name
        return path if _executable(path) else None
    return None


def cached(name: str, cache: Path, pins: Mapping[tuple[str, str], Release]) -> Path | None:
    """Return the program from the cache when what is there is what is pinned today."""
    candidates = [_built_path(name, cache)]
    if release := pins.get((name, releases.this_platform())):
        candidates.append(_downloaded_path(name, cache, release))
    return next((path for path in candidates if _executable(path)), None)


def _download(names: Iterable[str], cache: Path, pins: Mapping[tuple[str, str], Release]) -> dict[str, Path]:
    """Return what could be downloaded; one line a host says why the rest could not."""
    got: dict[str, Path] = {}
    unreachable: dict[str, str] = {}
    for name in names:
        release = pins.get((name, releases.this_platform()))
        if release is None:
            continue
        host = release.host
        if host not in unreachable:
            unreachable[host] = releases.unreachable(release.url)
            if unreachable[host]:
                progress.note(f"no download from {host}: {unreachable[host]}")
        if unreachable[host]:
            continue
        path = _downloaded_path(name, cache, release)
        try:
            with progress.step(f"downloading {name}") as step:
                releases.download(release, path, step)
        except releases.DownloadError as error:
            progress.note(str(error))
        else:
            got[name] = path
    return got


def _build(names: list[str], cache: Path) -> dict[str, Path]:
    if not names:
        return {}
    got: dict[str, Path] = {}
    try:
        # Before the first minute is spent: can all of them be built?
        for name in names:
            gobuild.require_go(gobuild.PROGRAMS[name])
        progress.note(
            f"building {len(names)} programs with Go: minutes the first time, seconds when Go has them compiled"
        )
        for name in names:
            path = _built_path(name, cache)
            with progress.step(f"building {name}") as step:
                gobuild.build(gobuild.PROGRAMS[name], path, step)
            got[name] = path
    except gobuild.BuildError as error:
        raise BinaryError(f"cannot get {', '.join(name for name in names if name not in got)}.\n{error}") from error
    return got


def _built_path(name: str, cache: Path) -> Path:
    return cache / gobuild.PROGRAMS[name].key()[:12] / name


def _downloaded_path(name: str, cache: Path, release: Release) -> Path:
    return cache / release.sha256[:12] / name


def _executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
