"""Line plots as SVG, from numbers alone. Pure."""

from __future__ import annotations

import math
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
