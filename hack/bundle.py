"""Makes bundle/ and bundle.Dockerfile, here or elsewhere: the OLM bundle of one version. `make bundle` calls it.

operator-sdk and kustomize like to edit the files that they read. They get a copy of config/ here, so that nothing
tracked changes but the bundle; and when only its creation time would change, not even that does.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from memcached_operator.codegen import files
from memcached_operator.codegen.yamltext import to_yaml

ROOT = Path(__file__).parent.parent
MADE = ("bundle", "bundle.Dockerfile")
_CREATED = re.compile(r"^ *createdAt: .*\n", re.MULTILINE)


def main() -> int:
    """Exit code 1 when a tool is missing or fails; its own words are on stderr."""
    options = _options()
    sdk, scratch = _tool("operator-sdk"), ROOT / ".cache"
    if not sdk:
        return 1
    scratch.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bundle.", dir=scratch) as name:
        copy = Path(name)
        _copy_inputs(copy)
        # Not from the models: a previous release has a CRD of its own.
        crd = yaml.safe_load((ROOT / files.CRD).read_text(encoding="utf-8"))
        base = files.cluster_service_version(
            ROOT, crd, options.version, options.image, pinned=options.use_image_digests
        )
        (copy / files.CSV).write_text(to_yaml(base), encoding="utf-8")
        try:
            _generate(copy, sdk, options)
        except subprocess.CalledProcessError as error:
            print(f"{' '.join(map(str, error.cmd))}: exit code {error.returncode}", file=sys.stderr)
            return 1
        if contents(copy) == contents(options.output):
            print("bundle: up to date")
        else:
            _replace(copy, options.output)
            print(f"bundle: made for version {options.version}, image {options.image}")
    return 0


def contents(folder: Path) -> dict[str, str]:
    """Path -> text of all that makes a bundle in `folder`, without the creation time."""
    found = [path for name in MADE for path in (folder / name, *(folder / name).rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): _CREATED.sub("", path.read_text(encoding="utf-8")) for path in found}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", required=True, help="without a v")
    parser.add_argument("--image", required=True, help="the operator's")
    parser.add_argument("--memcached-image", required=True)
    parser.add_argument("--channels", required=True, help="joined by commas")
    parser.add_argument("--default-channel", default="")
    parser.add_argument("--use-image-digests", action="store_true", help="look the images up and name them by digest")
    parser.add_argument("--output", type=Path, default=ROOT, help="folder to make it in; default: the repository's")
    return parser.parse_args()


def _tool(name: str) -> str | None:
    found = subprocess.run([ROOT / "hack" / "tool", name], stdout=subprocess.PIPE, text=True, check=False)
    return None if found.returncode else found.stdout.strip()


def _copy_inputs(copy: Path) -> None:
    shutil.copytree(ROOT / "config", copy / "config")
    (copy / "hack").mkdir()
    for name in ("PROJECT", "hack/render", "hack/kubectl", "hack/tool"):
        shutil.copy2(ROOT / name, copy / name)


def _generate(copy: Path, sdk: str, options: argparse.Namespace) -> None:
    """Raises CalledProcessError."""
    images = {"IMG": options.image, "MEMCACHED_IMAGE": options.memcached_image}
    subprocess.run([sdk, "generate", "kustomize", "manifests", "--interactive=false", "-q"], cwd=copy, check=True)
    rendered = subprocess.run(
        ["hack/render", "config/manifests"], cwd=copy, env=os.environ | images, stdout=subprocess.PIPE, check=True
    )
    command = [sdk, "generate", "bundle", "-q", "--overwrite", "--version", options.version]
    command += ["--channels", options.channels]
    command += ["--default-channel", options.default_channel] if options.default_channel else []
    command += ["--use-image-digests"] if options.use_image_digests else []
    subprocess.run(command, cwd=copy, input=rendered.stdout, check=True)
    _relate(copy / "bundle" / "manifests" / Path(files.CSV).name)
    subprocess.run([sdk, "bundle", "validate", "./bundle"], cwd=copy, check=True)


def _relate(path: Path) -> None:
    """Names the operator's own image among the related ones, as the SDK does for digests alone: a mirror needs all."""
    text = path.read_text(encoding="utf-8")
    manifest = yaml.safe_load(text)
    (deployment,) = manifest["spec"]["install"]["spec"]["deployments"]
    images = {
        container["name"]: container["image"] for container in deployment["spec"]["template"]["spec"]["containers"]
    }
    known = {related["image"] for related in manifest["spec"]["relatedImages"]}
    lines = [f"  - image: {image}\n    name: {name}\n" for name, image in images.items() if image not in known]
    path.write_text(text.replace("  relatedImages:\n", f"  relatedImages:\n{''.join(lines)}", 1), encoding="utf-8")


def _replace(copy: Path, output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(output / "bundle", ignore_errors=True)
    for name in MADE:
        shutil.move(copy / name, output / name)


if __name__ == "__main__":
    sys.exit(main())
