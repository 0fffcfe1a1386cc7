"""Small charts as SVG: no script, colors from the page's style sheet."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["Axis", "Line", "chart", "ticks"]

WIDTH, HEIGHT = 440, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 14, 24, 40


@dataclass(frozen=True)
class Axis:
    """The values along one side of a chart."""

    title: str
    low: float
    high: float

    def place(self, value: float) -> float:
        """Return the position of a value, from 0 to 1.

        >>> Axis("epoch", 0, 10).place(2.5)
        0.25
        """
        return (value - self.low) / ((self.high - self.low) or 1.0)


@dataclass(frozen=True)
class Line:
    """Connected points; `color` is a class of the style sheet."""

    name: str
    points: Sequence[tuple[float, float]]
    color: str
    dots: bool = False


def chart(
    x: Axis, y: Axis, lines: Sequence[Line], *, mark: tuple[float, str] | None = None,
    diagonal: bool = False,
) -> str:  # fmt: skip
    """Return a line chart; `mark` is a named vertical line at a value."""
    parts = [_grid(x, y)]
    if diagonal:
        parts.append(_path([(x.low, y.low), (x.high, y.high)], x, y, "guide"))
    if mark is not None:
        parts.append(_mark(mark[0], mark[1], x))
    for line in lines:
        parts.append(_path(line.points, x, y, line.color))
        if line.dots:
            parts += [_dot(point, x, y, line) for point in line.points]
    described = f"{y.title} by {x.title}: {', '.join(line.name for line in lines)}"
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(described)}">{"".join(parts)}</svg>'
    )


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Return round numbers between two values.

    >>> ticks(0, 1), ticks(0, 60)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0, 20, 40, 60])
    """
    span = (high - low) or 1.0
    rough = span / wanted
    power = 10.0 ** _exponent(rough)
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first = int(-(-low // step))
    count = int((high - first * step) / step + 1e-9) + 1
    marks = [round((first + place) * step, 10) for place in range(count)]
    return [int(mark) for mark in marks] if step >= 1 else marks


def _exponent(value: float) -> int:
    import math

    return math.floor(math.log10(value))


def _x(value: float, axis: Axis) -> float:
    return round(_LEFT + axis.place(value) * (WIDTH - _LEFT - _RIGHT), 1)


def _y(value: float, axis: Axis) -> float:
    return round(HEIGHT - _BOTTOM - axis.place(value) * (HEIGHT - _TOP - _BOTTOM), 1)


def _grid(x: Axis, y: Axis) -> str:
    base = HEIGHT - _BOTTOM
    parts = []
    for value in ticks(y.low, y.high):
        at = _y(value, y)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{at}" y2="{at}"/>')
        parts.append(
            f'<text class="tick" x="{_LEFT - 6}" y="{at + 4}" text-anchor="end">{value:g}</text>'
        )
    for value in ticks(x.low, x.high):
        at = _x(value, x)
        parts.append(
            f'<text class="tick" x="{at}" y="{base + 16}" text-anchor="middle">{value:g}</text>'
        )
    parts.append(f'<line class="axis" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{base}" y2="{base}"/>')
    middle, title = (_LEFT + WIDTH - _RIGHT) / 2, escape(x.title)
    parts.append(f'<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{title}</text>')
    return "".join(parts)


def _path(points: Sequence[tuple[float, float]], x: Axis, y: Axis, color: str) -> str:
    if not points:
        return ""
    steps = " L".join(f"{_x(px, x)} {_y(py, y)}" for px, py in points)
    return f'<path class="line {color}" d="M{steps}"/>'


def _dot(point: tuple[float, float], x: Axis, y: Axis, line: Line) -> str:
    tooltip = escape(f"{line.name}: {x.title} {point[0]:.3g}, {y.title} {point[1]:.3g}")
    return (
        f'<circle class="dot {line.color}" cx="{_x(point[0], x)}" cy="{_y(point[1], y)}" r="4">'
        f"<title>{tooltip}</title></circle>"
    )


def _mark(value: float, name: str, x: Axis) -> str:
    at = _x(value, x)
    anchor, shift = ("start", 5) if x.place(value) < 0.6 else ("end", -5)
    return (
        f'<line class="mark" x1="{at}" x2="{at}" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}"/>'
        f'<text class="tick" x="{at + shift}" y="{_TOP - 8}" text-anchor="{anchor}">'
        f"{escape(name)}</text>"
    )
