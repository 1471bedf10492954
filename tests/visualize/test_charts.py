"""Charts as a reader of the SVG sees them: where points lie, what ticks say, what is read out."""

import re
import xml.etree.ElementTree as ET

import pytest

from keras_bert.visualize.charts import Axis, Series, bar_table, line_chart, number, stacked_bars

UNIT = Axis("x", limits=(0.0, 1.0))


def parsed(figure):
    """The first picture of a figure, as XML."""
    return ET.fromstring(re.search("<svg.*?</svg>", figure, re.S)[0])


def test_points_lie_where_their_numbers_are():
    chart = line_chart("a <b>", [Series("one", [(0, 0), (0.5, 1)], 1, dots=True)], UNIT, UNIT)
    dots = [
        (float(dot.get("cx")), float(dot.get("cy")), dot[0].text)
        for dot in parsed(chart).iter("circle")
    ]
    # The plot is 352 wide from 56 on, and 200 high from 10 on; y goes up.
    assert dots == [(56.0, 210.0, "one: 0 at x 0"), (232.0, 10.0, "one: 1 at x 0.5")]
    texts = [text.text for text in parsed(chart).iter("text")]
    assert texts == [*("0", "0.2", "0.4", "0.6", "0.8", "1") * 2, "x"]
    assert "<figcaption>a &lt;b&gt;</figcaption>" in chart
    assert '<tr><th scope="row">0.5</th><td>1</td></tr>' in chart


def test_logarithms():
    axis = Axis("rank", log=True)
    points = [(1, 1000.0), (10, 100.0), (100, 0.0), (1000, 1.0)]
    chart = line_chart("Zipf", [Series("words", points, 1)], axis, axis)
    line = next(path for path in parsed(chart).iter("path") if "line" in path.get("class"))
    found = re.findall(r"[\d.]+", line.get("d"))
    # Three powers of ten each way; zero has no logarithm.
    assert found == ["56.0", "10.0", "173.3", "76.7", "408.0", "210.0"]


def test_what_cannot_be_drawn_is_left_out():
    nan = float("nan")
    chart = line_chart(
        "a", [Series("s", [(1, nan), (2, 3.0), (3, float("inf"))], 1)], UNIT, Axis("y")
    )
    assert chart.count("<title>") == 1
    assert line_chart("a", [Series("s", [(1, nan)], 1)], UNIT, UNIT) == ""
    assert line_chart("a", [], UNIT, UNIT) == ""


def test_many_points_keep_their_extremes_and_are_read_out_in_part():
    points = [(float(step), float(step % 7)) for step in range(10_000)]
    points[5003] = (5003.0, 99.0)
    axis = Axis("y", limits=(0.0, 100.0))
    chart = line_chart("long", [Series("s", points, 1)], Axis("step"), axis)
    line = next(path for path in parsed(chart).iter("path") if path.get("class") == "line c1")
    heights = [float(point.split()[1]) for point in line.get("d")[1:].split("L")]
    assert len(heights) <= 402
    assert min(heights) == 12.0  # 99 of 100: the one high point
    assert chart.count("<title>") == 80
    assert "Numbers (80 of 10,000 points)" in chart


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 20_000, ["0", "5000", "10k", "15k", "20k"]),
        (1e-5, 5e-5, ["0", "2e-5", "4e-5"]),
        (-1, 1, ["-1", "-0.5", "0", "0.5", "1"]),
        (2_000_000, 4_000_000, ["2M", "2.5M", "3M", "3.5M", "4M"]),
    ],
)
def test_ticks_are_short(low, high, ticks):
    chart = line_chart("a", [Series("s", [(low, 0), (high, 1)], 1)], Axis("x"), UNIT)
    texts = [text.text for text in parsed(chart).iter("text")]
    assert texts[6:-1] == ticks


def test_a_constant_has_a_scale_of_its_own():
    chart = line_chart("a", [Series("s", [(1, 5.0), (2, 5.0)], 1)], Axis("x"), Axis("y"))
    heights = {dot.get("cy") for dot in parsed(chart).iter("circle")}
    assert heights == {"110.0"}  # the middle


def test_bars_are_as_long_as_their_parts():
    bars = [("one", [("a", 1.0), ("b", 3.0), ("c", 0.0)]), ("two", [("b", 2.0)])]
    chart = stacked_bars("title", bars, [number, number])
    found = [
        (part.get("class"), float(part.get("width")), part[0].text)
        for part in parsed(chart).iter("rect")
    ]
    assert found == [
        ("part c1", 60.0, "one, a: 1 (25.0 %)"),
        ("part c2", 180.0, "one, b: 3 (75.0 %)"),
        ("part c2", 240.0, "two, b: 2 (100.0 %)"),
    ]
    table = bar_table(["kind", "number"], [("<x>", 2.0, "two"), ("y", 1.0, "one")], "label")
    assert re.findall(r"--s:([\d.]+)", table) == ["1.0000", "0.5000"]
    assert "<x>" not in table


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1234567, "1,234,567"), (0.012345678, "0.01235"), (12345.6, "12,346"), (3.0, "3")],
)
def test_numbers(value, text):
    assert number(value) == text
