"""Makes catalog/configs, the file-based catalog, of the upgrade graph and of bundle images: for `make catalog-build`.

The images must be in their registry, where opm reads them.
"""

from __future__ import annotations

import argparse
import base64
import subprocess
import sys
from pathlib import Path

import yaml

from memcached_operator.codegen import csv, files, upgrades
from memcached_operator.codegen.yamltext import to_yaml

ROOT = Path(__file__).parent.parent
CONFIGS = ROOT / "catalog" / "configs"
# The CSV's metadata instead of whole manifests: a tenth of the size, and what newer catalogs ask for.
MIGRATE = "--migrate-level=bundle-object-to-csv-metadata"


def main() -> int:
    """Exit code 1 when opm is missing or refuses an image or the catalog; its own words are on stderr."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images", nargs="+", help="bundle images, one for each version to offer")
    images = parser.parse_args().images
    found = subprocess.run([ROOT / "hack" / "tool", "opm"], stdout=subprocess.PIPE, text=True, check=False)
    if found.returncode:
        return 1
    opm = found.stdout.strip()
    try:
        bundles = [bundle for image in images for bundle in _render(opm, image)]
        path = CONFIGS / csv.PACKAGE / "catalog.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"---\n{to_yaml(document)}" for document in documents(bundles)), encoding="utf-8")
        subprocess.run([opm, "validate", CONFIGS], check=True)
    except subprocess.CalledProcessError as error:
        print(f"{' '.join(map(str, error.cmd))}: exit code {error.returncode}", file=sys.stderr)
        return 1
    print(f"catalog: {', '.join(bundle['name'] for bundle in bundles)}")
    return 0


def _render(opm: str, image: str) -> list[upgrades.Document]:
    rendered = subprocess.run([opm, "render", image, "-o", "yaml", MIGRATE], stdout=subprocess.PIPE, check=True)
    return list(yaml.safe_load_all(rendered.stdout))


def documents(bundles: list[upgrades.Document]) -> list[upgrades.Document]:
    """The catalog that offers these `olm.bundle` documents."""
    template = list(yaml.safe_load_all((ROOT / files.CATALOG).read_text(encoding="utf-8")))
    icon = {"base64data": base64.b64encode((ROOT / files.ICON).read_bytes()).decode(), "mediatype": "image/svg+xml"}
    with_icon = [{**d, "icon": icon} if d["schema"] == "olm.package" else d for d in template]
    return upgrades.with_bundles(with_icon, bundles)


if __name__ == "__main__":
    sys.exit(main())
