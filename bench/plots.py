"""Line plots and flame graphs as SVG, from numbers alone. Pure."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 150, 40, 50
COLOURS = {
    "ours": "#d62728",
    "go-default": "#7f7f7f",
    "go-tuned": "#1f77b4",
    "go-best": "#2ca02c",
    "kopf-idiom": "#9467bd",
}
OTHER = "#000000"
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis says and how it is divided. A logarithmic one shows positive values only."""

    label: str
    logarithmic: bool = False

    def place(self, values: Sequence[float]) -> Callable[[float], float]:
        """Return a function that maps a value to 0 (the least of `values`) to 1 (the greatest)."""
        scale: Callable[[float], float] = math.log10 if self.logarithmic else float
        low, high = scale(min(values)), scale(max(values))
        return lambda value: (scale(value) - low) / ((high - low) or 1)

    def ticks(self, values: Sequence[float]) -> list[float]:
        """Return round values between the least and the greatest."""
        low, high = min(values), max(values)
        if not self.logarithmic:
            step = _round_step((high - low) / 5 or 1)
            return [step * number for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
        exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        found = [factor * 10**exponent for exponent in exponents for factor in (1, 2, 5)]
        return [tick for tick in found if low <= tick <= high]


def line_plot(title: str, x: Axis, y: Axis, lines: Mapping[str, Points]) -> str:
    """An SVG of named lines. Points that a logarithmic axis cannot show are left out. Raises ValueError without any."""
    shown = {
        name: [(px, py) for px, py in points if (px > 0 or not x.logarithmic) and (py > 0 or not y.logarithmic)]
        for name, points in lines.items()
    }
    xs = [px for points in shown.values() for px, _ in points]
    ys = [py for points in shown.values() for _, py in points]
    if not xs:
        raise ValueError(f"{title}: there is nothing to show")
    place_x, place_y = x.place(xs), y.place(ys)

    def at(px: float, py: float) -> tuple[float, float]:
        return LEFT + place_x(px) * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - place_y(py) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"',
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="20" font-size="14">{escape(title)}</text>',
        f'<text x="{(WIDTH + LEFT - RIGHT) / 2:.0f}" y="{HEIGHT - 10}" text-anchor="middle">{escape(x.label)}</text>',
        f'<text transform="translate(16 {HEIGHT / 2:.0f}) rotate(-90)" text-anchor="middle">{escape(y.label)}</text>',
    ]
    for tick in x.ticks(xs):
        px, _ = at(tick, ys[0])
        parts.append(f'<path d="M{px:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#dddddd"/>')
        parts.append(f'<text x="{px:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{tick:g}</text>')
    for tick in y.ticks(ys):
        _, py = at(xs[0], tick)
        parts.append(f'<path d="M{LEFT} {py:.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{py + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for number, (name, points) in enumerate(shown.items()):
        colour = COLOURS.get(name.partition(" ")[0], OTHER)
        placed = [at(*point) for point in points]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in placed)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        if len(placed) <= 10:
            parts += [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{colour}"/>' for px, py in placed]
        legend = TOP + 8 + 18 * number
        parts.append(f'<text x="{WIDTH - RIGHT + 10}" y="{legend}" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _round_step(step: float) -> float:
    """The next number from 1, 2, 5, 10, 20, ... that is not smaller."""
    power: float = 10 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * 0.999)


FLAME_WIDTH, ROW, LEAST = 1200, 16, 0.7


def flame_graph(title: str, stacks: Mapping[tuple[str, ...], int]) -> str:
    """An SVG of stacks (outermost frame first -> samples): a box a frame, as wide as its samples, its callees above it.

    Boxes too narrow to see are left out; the others say all on hovering. Raises ValueError without samples.
    """
    total = sum(stacks.values())
    if not total:
        raise ValueError(f"{title}: there is nothing to show")
    boxes: list[tuple[int, float, float, str, int]] = []

    def lay(level: int, left: float, inside: Mapping[tuple[str, ...], int]) -> None:
        by_frame: dict[str, dict[tuple[str, ...], int]] = {}
        for stack, count in inside.items():
            if len(stack) > level:
                by_frame.setdefault(stack[level], {})[stack] = count
        for frame, below in sorted(by_frame.items()):
            count = sum(below.values())
            width = count / total * FLAME_WIDTH
            if width >= LEAST:
                boxes.append((level, left, width, frame, count))
                lay(level + 1, left, below)
            left += width

    lay(0, 0.0, stacks)
    height = (max(level for level, *_ in boxes) + 1) * ROW + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {FLAME_WIDTH} {height}"',
        ' font-family="monospace" font-size="11">',
        f'<rect width="{FLAME_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="4" y="16" font-size="13">{escape(title)}</text>',
    ]
    for level, left, width, frame, count in boxes:
        top = height - (level + 1) * ROW
        text = escape(frame[: int(width / 6.8)] if width > 20 else "")
        parts.append(
            f'<g><title>{escape(frame)}: {count / total:.1%}</title><rect x="{left:.1f}" y="{top}" width="{width:.1f}" '
            f'height="{ROW - 1}" fill="{_warm(frame)}"/><text x="{left + 2:.1f}" y="{top + 12}">{text}</text></g>'
        )
    return "\n".join([*parts, "</svg>", ""])


def _warm(frame: str) -> str:
    """A colour between red and yellow that is the same for the same source file."""
    digest = zlib.crc32(frame.rpartition("(")[2].partition(":")[0].encode())
    return f"#{220 + digest % 36:02x}{90 + digest // 36 % 140:02x}50"
