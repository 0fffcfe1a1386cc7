"""The charts of a report, each a figure; charts with several lines have a legend."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import numpy as np

from wiesel.analysis.table import UNKNOWN
from wiesel.evaluation import Report, ThresholdCurve
from wiesel.evaluation.report import score_text
from wiesel.report.contents import Curve

__all__ = [
    "Axis",
    "Line",
    "TableColumn",
    "bar",
    "calibration",
    "chart",
    "confusion",
    "coverage",
    "epochs",
    "figure",
    "filter_field",
    "heat_map",
    "intervals",
    "percent_text",
    "shares_table",
    "sortable_table",
    "threshold_figure",
    "ticks",
]

_COLORS = ("one", "two", "three")
_FEW_CLASSES = 4
_FEW_LETTERS = 30
_FEW_ITEMS = 5
_FEW = 20
"""Up to this many voters, the cells can be larger."""
WIDTH, HEIGHT = 440, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 14, 24, 40
Row = Mapping[str, Any]


class TableColumn(NamedTuple):
    """One column of a table: its title, its cells, and its sort key."""

    header: str
    cell: Callable[[Row], str]
    """The content of a cell, as HTML."""
    key: Callable[[Row], float | None] | None = None
    """The sort key of numbers; text is sorted as shown."""
    style: str = ""


def sortable_table(
    name: str, columns: Sequence[TableColumn], rows: Sequence[Row], n_rows: int = 0
) -> str:
    """Return a table; `n_rows` is the total number of rows if not all are shown.

    >>> column = TableColumn("class", lambda row: row["name"])
    >>> '<th scope="col"' in sortable_table("classes", [column], [{"name": "ham"}])
    True
    """
    if not rows:
        return "<p>None.</p>"
    head = "".join(
        f'<th scope="col" class="{column.style}"><button type="button">{column.header}</button>'
        "</th>"
        for column in columns
    )
    body = "\n".join(
        "<tr>" + "".join(_cell(column, row, place == 0) for place, column in enumerate(columns))
        + "</tr>"
        for row in rows
    )  # fmt: skip
    more = f"<p>The first {len(rows):,} of {n_rows:,}.</p>" if n_rows > len(rows) else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(name)}">'
        f'<table id="{name}" class="voters sortable"><thead><tr>{head}</tr></thead>'
        f"<tbody>\n{body}\n</tbody></table></div>{more}"
    )


def filter_field(table: str, what: str) -> str:
    """Return an input field that filters the rows of a table by the typed text."""
    return (
        f'<p class="filter"><input type="search" data-filters="{table}" '
        f'aria-label="Filter {escape(what)}" placeholder="Filter: {escape(what)}">'
        f'<output data-counts="{table}"></output></p>'
    )


def bar(share: float | None, text: str) -> str:
    """Return a text after a bar whose length is a share."""
    width = 100 * min(max(share or 0.0, 0.0), 1.0)
    return f'<span class="bar"><i style="width:{width:.0f}%"></i></span><span>{escape(text)}</span>'


def percent_text(share: float | None, digits: int = 1) -> str:
    """Return a share in percent; a dash if unknown."""
    return UNKNOWN if share is None else f"{100 * share:.{digits}f} %"


def _cell(column: TableColumn, row: Row, first: bool) -> str:
    key = ""
    if column.key is not None:
        value = column.key(row)
        key = f' data-key="{"" if value is None else f"{value:.6g}"}"'
    # On a phone a row is a card, and each cell says what it is.
    title = "" if first else f' data-title="{escape(column.header)}"'
    opening, closing = ('<th scope="row"', "</th>") if first else ("<td", "</td>")
    return f'{opening} class="{column.style}"{key}{title}>{column.cell(row)}{closing}'


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


def figure(
    title: str, body: str, names: Sequence[str] = (), note: str = "", *, wide: bool = False
) -> str:
    """Return a chart with its title, a legend and a sentence; a wide chart fills a whole row."""
    legend = "".join(
        f'<span><i class="{color}"></i>{escape(name)}</span>'
        for name, color in zip(names, _COLORS, strict=False)
    )
    shown = f'<div class="legend">{legend}</div>' if len(names) > 1 else ""
    caption = f"<p>{escape(note)}</p>" if note else ""
    opening = '<figure class="wide">' if wide else "<figure>"
    return f"{opening}<figcaption>{escape(title)}</figcaption>{shown}{body}{caption}</figure>"


def epochs(title: str, curves: Sequence[Curve], kept: int | None, note: str = "") -> str:
    """Return a chart of quantities over epochs that marks the selected epoch."""
    known = [value for curve in curves for value in curve.values if math.isfinite(value)]
    if not known:
        return ""
    n_epochs = max(len(curve.values) for curve in curves)
    low, high = _rounded_range(min(known), max(known))
    x = Axis("epoch", 1 if n_epochs > 1 else 0, max(n_epochs, 1))
    lines = [
        Line(curve.name, _points(curve.values), color)
        for curve, color in zip(curves, _COLORS, strict=False)
    ]
    mark = None if kept is None else (float(kept), f"kept: epoch {kept}")
    body = chart(x, Axis(title.lower(), low, high), lines, mark=mark)
    return figure(title, body, [curve.name for curve in curves], note)


def calibration(report: Report) -> str:
    """Return a chart of accuracy by confidence."""
    bins = report.calibration
    groups = list(zip(bins.confidence, bins.accuracy, bins.n_items, strict=True))
    # The accuracy of two or three items means nothing, but looks significant.
    least = _FEW_ITEMS if sum(n_items >= _FEW_ITEMS for _, _, n_items in groups) > 1 else 1
    points = [(float(sure), float(right)) for sure, right, n in groups if n >= least]
    low = 1 / len(report.labels)
    low = math.floor(10 * min(low, *(min(point) for point in points))) / 10
    axes = Axis("confidence", low, 1.0), Axis("share that is right", low, 1.0)
    line = Line("predictions", points, "one", dots=True)
    note = (
        "On the diagonal, predictions with 80 % confidence are right in 80 % of cases. The "
        f"calibration error is {100 * report.calibration_error:.1f} %."
    )
    return figure("Calibration", chart(*axes, [line], diagonal=True), note=note)


def threshold_figure(curve: ThresholdCurve, threshold: float | None, name: str) -> str:
    """Return a chart of the results of each decision threshold."""
    rows = np.linspace(0, len(curve.threshold) - 1, min(200, len(curve.threshold))).astype(int)
    parts = {"precision": curve.precision, "recall": curve.recall, "F1": curve.f1}
    lines = [
        Line(title, [(float(curve.threshold[row]), float(values[row])) for row in rows], color)
        for (title, values), color in zip(parts.items(), _COLORS, strict=True)
    ]
    mark = (0.5 if threshold is None else threshold, "threshold in use")
    title = f"predict {name} if P({name}) is at least"
    ends = _rounded_range(*(float(curve.threshold[row]) for row in (0, -1)))
    x = Axis(title, min(ends[0], mark[0]), max(ends[1], mark[0]))
    body = chart(x, Axis("share", 0.0, 1.0), lines, mark=mark)
    return figure("Decision threshold", body, list(parts))


def confusion(report: Report) -> str:
    """Return the confusion matrix as a shaded table."""
    counts = report.confusion
    rows = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, rows, out=np.zeros(counts.shape), where=rows > 0)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in report.labels)
    many = len(report.labels) > _FEW_CLASSES
    body = ""
    for place, name in enumerate(report.labels):
        cells = "".join(
            _confusion_cell(int(count), 100 * float(share), many)
            for count, share in zip(counts[place], shares[place], strict=True)
        )
        body += f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>'
    kind = "confusion compact" if many else "confusion"
    table = (
        f'<div class="scroll"><table class="{kind}"><thead><tr>'
        f'<th scope="col">true \\ predicted</th>{head}'
        f"</tr></thead><tbody>{body}</tbody></table></div>"
    )
    note = (
        f"Rows are the true classes. {'Shades' if many else 'Percentages'} are shares of the row."
    )
    wide = many and sum(len(name) for name in report.labels) > _FEW_LETTERS
    return figure("Confusion", table, note=note, wide=wide)


def shares_table(names: Sequence[str], shares: Sequence[Sequence[float]]) -> str:
    """Return the shares of a confusion matrix as a table of shaded cells."""
    many = len(names) > _FEW_CLASSES
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = ""
    for name, row in zip(names, shares, strict=True):
        cells = "".join(
            f'<td style="--share:{100 * share:.0f}%" class="shade" title="{100 * share:.0f} %">'
            f"{'' if many and share < 0.005 else f'{100 * share:.0f}'}</td>"
            for share in row
        )
        body += f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>'
    kind = "confusion compact" if many else "confusion"
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>'
        f'<th scope="col">true \\ answered, %</th>{head}</tr></thead><tbody>{body}</tbody></table>'
        "</div>"
    )


def intervals(reports: Mapping[str, Report], figure_name: str, title: str) -> str:
    """Return one dot with its 95 % interval per method."""
    scores = {name: getattr(report, figure_name) for name, report in reports.items()}
    known = {name: score for name, score in scores.items() if not math.isnan(score)}
    if not known:
        return ""
    ends = [end for score in known.values() for end in (score.low, score.high, float(score))]
    finite = [end for end in ends if math.isfinite(end)]
    low, high = min(finite), max(finite)
    span = (high - low) or 1.0
    rows = "".join(_interval_row(name, score, low, span) for name, score in known.items())
    return figure(title, f'<div class="intervals">{rows}</div>')


def coverage(report: Report) -> str:
    """Return the metrics on items with and without a vote, side by side."""
    parts = {"with a vote": report.covered, "without a vote": report.uncovered}
    known = {name: part for name, part in parts.items() if part is not None}
    if len(known) < 2:
        return ""
    figures = {"accuracy": "accuracy", "f1": "F1", "auc": "ROC-AUC"}
    head = "".join(
        f'<th scope="col" class="number">{name} ({part.n_items:,})</th>'
        for name, part in known.items()
    )
    body = "".join(
        f'<tr><th scope="row">{title}</th>'
        + "".join(
            f"<td class='number'>{score_text(getattr(part, key))}</td>" for part in known.values()
        )
        + "</tr>"
        for key, title in figures.items()
    )
    table = (
        f'<div class="scroll"><table class="coverage"><thead><tr><td></td>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
    note = "Items without votes show what the end model learned beyond the voters."
    return figure("Items with and without votes", table, note=note)


def heat_map(names: Sequence[str], shares: Any) -> str:
    """Return how often each pair of voters agrees, as a table of colored cells."""
    size = "large" if len(names) <= _FEW else "small"
    # Small cells have no room for every number.
    step = 1 if size == "large" else 5
    numbers = [place + 1 for place in range(len(names))]
    head = "".join(f'<th scope="col">{n if n % step == 0 or n == 1 else ""}</th>' for n in numbers)
    body = ""
    for place, name in enumerate(names):
        cells = "".join(
            _pair_cell(name, names[other], float(shares[place, other]), place == other)
            for other in range(len(names))
        )
        label = f'<th scope="row" class="name">{escape(name)} <small>{place + 1}</small></th>'
        body += f"<tr>{label}{cells}</tr>"
    return (
        f'<div class="scroll"><table class="heat {size}"><thead><tr><td></td>'
        f"{head}</tr></thead><tbody>{body}</tbody></table></div>"
        '<div class="legend"><span><i class="agree"></i>same vote</span>'
        '<span><i class="differ"></i>different votes</span>'
        '<span><i class="apart"></i>no common items, or cannot agree</span></div>'
    )


def _rounded_range(low: float, high: float) -> tuple[float, float]:
    """Return axis limits slightly beyond the values, at round numbers."""
    step = 10.0 ** math.floor(math.log10(max(high - low, 0.05)))
    return math.floor(low / step) * step, math.ceil(high / step - 1e-9) * step


def _points(values: Sequence[float]) -> list[tuple[float, float]]:
    numbered = enumerate(values, start=1)
    return [(float(epoch), value) for epoch, value in numbered if math.isfinite(value)]


def _confusion_cell(count: int, share: float, many: bool) -> str:
    """Return a cell with count and share; for many classes the count alone, and zero as empty."""
    opening = f'<td style="--share:{share:.0f}%" class="shade"'
    if many:
        return f'{opening} title="{share:.0f} %">{f"{count:,}" if count else ""}</td>'
    return f"{opening}>{count:,}<small>{share:.0f} %</small></td>"


def _interval_row(name: str, score: Any, low: float, span: float) -> str:
    def percent(value: float) -> float:
        return round(100 * (value - low) / span, 1)

    bar = ""
    if math.isfinite(score.low):
        width = percent(score.high) - percent(score.low)
        bar = f'<b style="left:{percent(score.low)}%;width:{width:.1f}%"></b>'
    value = f"{score:.3f}"
    if math.isfinite(score.low):
        value += f" <small>({score.low:.3f} to {score.high:.3f})</small>"
    return (
        f'<div class="row"><div class="name">{escape(name)}</div><div class="value">{value}</div>'
        f'<div class="track"><div>{bar}<i style="left:{percent(float(score))}%"></i></div></div>'
        "</div>"
    )


def _pair_cell(first: str, second: str, share: float, same: bool) -> str:
    if same or math.isnan(share):
        kind = "self" if same else "apart"
        return f'<td class="{kind}"></td>'
    # One half is neutral: as many equal votes as different ones.
    strength = round(200 * abs(share - 0.5))
    side = "agree" if share >= 0.5 else "differ"
    tooltip = escape(f"{first} and {second}: {100 * share:.0f} % the same", quote=True)
    return f'<td class="{side}" style="--share:{strength}%" title="{tooltip}"></td>'
