"""Charts as inline SVG and HTML: no script, no other file; light and dark by the page's style.

Each chart is a <figure>: a caption, the picture, a legend where there is more than one series, and
the numbers as a table that opens, for those who cannot see the picture or want the digits. Points
show their numbers under the pointer (<title>). Colours come from classes c1, c2 ... of report.css,
which are told apart with any colour vision; lines differ by dashes or dots as well.

Units of the pictures are pixels at a width of 420, about that of a phone.
"""

import html
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

_WIDTH, _HEIGHT = 420, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 10, 40
_PLOT_WIDTH, _PLOT_HEIGHT = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
# More points than pixels cannot be seen: of each stretch the lowest and the highest are drawn.
_MOST_DRAWN = 400
# Points that answer to the pointer, and rows of the table, evenly spread over more.
_MOST_READ_OUT = 80
# Where names of bars end and bars begin, and what is left for the numbers behind them.
_BAR_LEFT, _BAR_RIGHT, _BAR_HEIGHT = 96, 84, 26

Point = tuple[float, float]
Format = Callable[[float], str]


class Series(NamedTuple):
    """One line of a chart.

    Attributes:
        name: in legend and table.
        points: x and y, by x; those that are not finite are left out of the picture.
        color: number of the colour, from 1.
        dots: whether each point is marked.
        thin: whether the line is thin; for what stands behind the others.
        dashed: whether the line is dashed; for what others are compared with.
        fixed: whether it is no measurement: not in the table and not under the pointer.
    """

    name: str
    points: Sequence[Point]
    color: int
    dots: bool = False
    thin: bool = False
    dashed: bool = False
    fixed: bool = False


class Axis(NamedTuple):
    """An axis.

    Attributes:
        label: below or beside it.
        log: whether it is logarithmic; values must be above 0 then.
        limits: its ends; None takes them from the data.
    """

    label: str
    log: bool = False
    limits: tuple[float, float] | None = None


def number(value: float) -> str:
    """Returns a number with four digits, thousands separated: 1,234,567 or 0.01235."""
    if isinstance(value, int) or (float(value).is_integer() and abs(value) < 1e15):
        return f"{value:,.0f}"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.4g}"


def line_chart(title: str, series: Sequence[Series], x: Axis, y: Axis) -> str:
    """Returns a line chart.

    Args:
        title: the caption.
        series: the lines; those without a point that can be drawn are left out.
        x: the horizontal axis.
        y: the vertical axis.
    """
    shown = [one._replace(points=_drawable(one.points, x, y)) for one in series]
    shown = [one for one in shown if one.points]
    if not shown:
        return ""
    columns = [one for one in shown if not one.fixed]
    to_x, x_ticks = _scale(x, [p[0] for one in shown for p in one.points], _LEFT, _PLOT_WIDTH)
    to_y, y_ticks = _scale(
        y, [p[1] for one in shown for p in one.points], _TOP + _PLOT_HEIGHT, -_PLOT_HEIGHT
    )
    bottom = _TOP + _PLOT_HEIGHT
    parts = []
    for tick in y_ticks:
        at = f"{to_y(tick):.1f}"
        parts.append(f'<path class="grid" d="M{_LEFT} {at}H{_WIDTH - _RIGHT}"/>')
        parts.append(_text(_LEFT - 6, to_y(tick) + 4, _tick(tick), "end"))
    for tick in x_ticks:
        parts.append(f'<path class="grid" d="M{to_x(tick):.1f} {_TOP}V{bottom}"/>')
        parts.append(_text(to_x(tick), bottom + 16, _tick(tick), "middle"))
    parts.append(_text(_LEFT + _PLOT_WIDTH / 2, _HEIGHT - 5, x.label, "middle"))
    for one in shown:
        path = "L".join(f"{to_x(a):.1f} {to_y(b):.1f}" for a, b in _thinned(one.points))
        parts.append(f'<path class="{_line_classes(one)}" d="M{path}"/>')
        for a, b in [] if one.fixed else _spread(one.points):
            words = html.escape(f"{one.name}: {number(b)} at {x.label} {number(a)}")
            kind = f"dot c{one.color}" if one.dots else "hit"
            radius = 3.5 if one.dots else 7
            parts.append(
                f'<circle class="{kind}" cx="{to_x(a):.1f}" cy="{to_y(b):.1f}" r="{radius}">'
                f"<title>{words}</title></circle>"
            )
    picture = _picture(f"{title}, {y.label} over {x.label}", _HEIGHT, parts)
    legend = _legend(shown) if len(shown) > 1 else ""
    return _figure(title, f"{picture}{legend}{_numbers(title, columns, x, y)}")


def stacked_bars(
    title: str,
    bars: Sequence[tuple[str, Sequence[tuple[str, float]]]],
    formats: Sequence[Format],
) -> str:
    """Returns bars of one length, each divided by the rates of its parts.

    Args:
        title: the caption.
        bars: name of each bar and its parts: name and amount. Parts of one name have one colour.
        formats: how the amounts of each bar are written.
    """
    names = list(dict.fromkeys(part for _, parts in bars for part, amount in parts if amount))
    width = _WIDTH - _BAR_LEFT - _BAR_RIGHT
    drawn, rows = [], []
    for index, ((bar, parts), form) in enumerate(zip(bars, formats, strict=True)):
        total = sum(amount for _, amount in parts) or 1
        top, at = index * (_BAR_HEIGHT + 12) + 4, float(_BAR_LEFT)
        drawn.append(_text(_BAR_LEFT - 6, top + 17, bar, "end"))
        for part, amount in parts:
            if not amount:
                continue
            share, length = amount / total, width * amount / total
            words = html.escape(f"{bar}, {part}: {form(amount)} ({100 * share:.1f} %)")
            drawn.append(
                f'<rect class="part c{names.index(part) + 1}" x="{at:.1f}" y="{top}" '
                f'width="{length:.1f}" height="{_BAR_HEIGHT}"><title>{words}</title></rect>'
            )
            at += length
            rows.append([bar, part, form(amount), f"{100 * share:.1f} %"])
        drawn.append(_text(_WIDTH - _BAR_RIGHT + 6, top + 17, form(total), "start"))
    picture = _picture(title, len(bars) * (_BAR_HEIGHT + 12), drawn)
    swatches = "".join(
        f'<span><i class="swatch c{number + 1}"></i>{html.escape(name)}</span>'
        for number, name in enumerate(names)
    )
    told = table(["Bar", "Part", "Amount", "Share"], rows, f"{title}: numbers")
    return _figure(title, f'{picture}<p class="legend">{swatches}</p>{folded("Numbers", told)}')


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], label: str, kind: str = "plain"
) -> str:
    """Returns a table; the first column names the rows. A wide one scrolls in itself.

    Args:
        head: names of the columns.
        rows: as text, one for each column; that of the name "total" stands out.
        label: what screen readers call it.
        kind: a class of report.css.
    """
    columns = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in head)
    body = "\n".join(
        f"<tr{' class=total' if first == 'total' else ''}>"
        f'<th scope="row">{html.escape(first)}</th>'
        + "".join(f"<td>{html.escape(value)}</td>" for value in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return scrolling(
        f'<table class="{kind}"><thead><tr>{columns}</tr></thead><tbody>\n{body}</tbody></table>',
        label,
    )


def bar_table(head: Sequence[str], rows: Sequence[tuple[str, float, str]], label: str) -> str:
    """Returns a table of amounts, each with a bar as long as its part of the largest.

    Args:
        head: names of the first two columns.
        rows: name, amount, and the amount as text.
        label: what screen readers call it.
    """
    largest = max((amount for _, amount, _ in rows), default=0) or 1
    columns = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in head)
    body = "\n".join(
        f'<tr><th scope="row">{html.escape(name)}</th><td>{html.escape(text)}</td>'
        f'<td><span class="bar" style="--s:{amount / largest:.4f}"></span></td></tr>'
        for name, amount, text in rows
    )
    return scrolling(
        f'<table class="bars"><thead><tr>{columns}<td></td></tr></thead><tbody>\n{body}'
        "</tbody></table>",
        label,
    )


def scrolling(content: str, label: str) -> str:
    """Returns content that scrolls sideways where it is too wide, also by keyboard."""
    return (
        f'<div class="scrolls" role="region" aria-label="{html.escape(label)}" tabindex="0">'
        f"{content}</div>"
    )


def folded(summary: str, content: str) -> str:
    """Returns content that is shown when its summary is opened."""
    return f"<details><summary>{html.escape(summary)}</summary>\n{content}</details>"


def _figure(title: str, content: str) -> str:
    return f"<figure><figcaption>{html.escape(title)}</figcaption>\n{content}</figure>"


def _picture(label: str, height: int, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{html.escape(label)}">\n'
        + "\n".join(parts)
        + "</svg>"
    )


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(words)}</text>'


def _legend(series: Sequence[Series]) -> str:
    entries = []
    for one in series:
        dot = f'<circle class="dot c{one.color}" cx="14" cy="7" r="3.5"/>' if one.dots else ""
        entries.append(
            f'<span><svg class="key" viewBox="0 0 28 14" aria-hidden="true">'
            f'<path class="{_line_classes(one)}" d="M1 7H27"/>{dot}</svg>'
            f"{html.escape(one.name)}</span>"
        )
    return f'<p class="legend">{"".join(entries)}</p>'


def _line_classes(one: Series) -> str:
    styles = (" thin" if one.thin else "") + (" dashed" if one.dashed else "")
    return f"line c{one.color}{styles}"


def _numbers(title: str, series: Sequence[Series], x: Axis, y: Axis) -> str:
    """Returns the folded table: a row for each x, a column for each series."""
    values = [dict(_spread(one.points)) for one in series]
    rows = [
        [number(at), *(number(column[at]) if at in column else "" for column in values)]
        for at in sorted({at for column in values for at in column})
    ]
    head = [x.label, *(one.name or y.label for one in series)]
    longest = max((len(one.points) for one in series), default=0)
    note = f" ({_MOST_READ_OUT} of {longest:,} points)" if longest > _MOST_READ_OUT else ""
    return folded(f"Numbers{note}", table(head, rows, f"{title}: numbers"))


def _drawable(points: Sequence[Point], x: Axis, y: Axis) -> list[Point]:
    return [
        (a, b)
        for a, b in points
        if math.isfinite(a) and math.isfinite(b) and (a > 0 or not x.log) and (b > 0 or not y.log)
    ]


def _thinned(points: Sequence[Point]) -> Sequence[Point]:
    """Returns what is drawn of a line: of each stretch of many points its lowest and highest."""
    if len(points) <= _MOST_DRAWN:
        return points
    drawn: list[Point] = [points[0]]
    stretches = _MOST_DRAWN // 2
    for index in range(stretches):
        first, end = (len(points) * i // stretches for i in (index, index + 1))
        stretch = points[first:end]
        ends = {min(stretch, key=lambda p: p[1]), max(stretch, key=lambda p: p[1])}
        drawn += sorted(ends)
    return [*drawn, points[-1]]


def _spread(points: Sequence[Point]) -> Sequence[Point]:
    """Returns points that are evenly spread, the first and the last among them."""
    if len(points) <= _MOST_READ_OUT:
        return points
    last = len(points) - 1
    return [points[round(last * index / (_MOST_READ_OUT - 1))] for index in range(_MOST_READ_OUT)]


def _scale(
    axis: Axis, values: Sequence[float], start: float, length: float
) -> tuple[Callable[[float], float], list[float]]:
    """Returns what turns a value into a position, and where the ticks are."""
    low, high = axis.limits or (min(values), max(values))
    if axis.log:
        low, high = math.floor(math.log10(low)), math.ceil(math.log10(high))
        high = max(high, low + 1)
        every = -(-(high - low) // 6)
        ticks = [10.0**power for power in range(low, high + 1, every)]
        return lambda value: start + length * (math.log10(value) - low) / (high - low), ticks
    if low == high:
        margin = abs(low) / 10 or 1.0
        low, high = low - margin, high + margin
    elif axis.limits is None:
        if 0 < low < 0.35 * high:
            low = 0.0  # near enough to 0 to begin there
        margin = 0.04 * (high - low)
        low, high = (low - margin if low else low), high + margin
    step = _step((high - low) / 5)
    first = math.ceil(low / step - 1e-9)
    ticks = [tick * step for tick in range(first, math.floor(high / step + 1e-9) + 1)]
    return lambda value: start + length * (value - low) / (high - low), ticks


def _step(least: float) -> float:
    """Returns the first of 1, 2, 5, 10, 20 ... that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * 0.999)


def _tick(value: float) -> str:
    """Returns a number as short as a tick must be: 20k, 1.5M, 0.05, 1e-4."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            unit = 1e3 if letter == "k" else size
            return f"{value / unit:g}{letter}"
    if value and abs(value) < 1e-3:
        mantissa, _, power = f"{value:.1e}".partition("e")
        return f"{mantissa.removesuffix('.0')}e{int(power)}"
    return f"{value:.6g}"
