"""The soak as a picture: what the process held, and how many requests it made, over the minutes. Pure but `main`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence

from controlplane.paths import REPOSITORY
from faultrig.results import FILE

PICTURE = REPOSITORY / "docs" / "soak.svg"
SAMPLES = FILE.with_name("soak.jsonl")
_SERIES = (("rss_mib", "memory, MiB"), ("files", "open files"), ("threads", "threads"), ("requests", "requests so far"))
_WIDTH, _HEIGHT, _LEFT, _GAP = 640, 90, 60, 34
_STYLE = "text{font:12px sans-serif;fill:#555}path{fill:none;stroke:#2a7;stroke-width:2}line{stroke:#ccc}"

Sample = Mapping[str, float]


def svg(samples: Sequence[Sample]) -> str:
    """One panel a series, each from zero, over the same time."""
    panels = "".join(_panel(samples, key, title, number) for number, (key, title) in enumerate(_SERIES))
    height = len(_SERIES) * (_HEIGHT + _GAP) + 20
    box = f'viewBox="0 0 {_LEFT + _WIDTH + 20} {height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box}><style>{_STYLE}</style>{panels}</svg>\n'


def _panel(samples: Sequence[Sample], key: str, title: str, number: int) -> str:
    top = number * (_HEIGHT + _GAP) + 20
    end = max(samples[-1]["seconds"], 1.0)
    most = max(*(sample[key] for sample in samples), 1.0)
    points = " L".join(
        f"{_LEFT + _WIDTH * sample['seconds'] / end:.1f} {top + _HEIGHT * (1 - sample[key] / most):.1f}"
        for sample in samples
    )
    base = top + _HEIGHT
    return (
        f'<text x="{_LEFT}" y="{top - 6}">{title}</text><text x="4" y="{top + 10}">{most:.0f}</text>'
        f'<text x="4" y="{base}">0</text><line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{base}" y2="{base}"/>'
        f'<text x="{_LEFT + _WIDTH - 50}" y="{base + 14}">{end / 60:.0f} min</text><path d="M{points}"/>'
    )


def main() -> int:
    """Draw; 1 when there was no soak."""
    if not SAMPLES.exists():
        print("no samples: run make soak first", file=sys.stderr)
        return 1
    samples = [json.loads(line) for line in SAMPLES.read_text(encoding="utf-8").splitlines()]
    PICTURE.write_text(svg(samples), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
