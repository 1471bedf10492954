"""The page of a run, or of two runs side by side.

Colours tell runs apart (blue the first, orange the second), dots and plain lines the splits. Of one
run the splits have the colours, too. Settings that differ are marked and come first.
"""

import functools
import html
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from keras_bert.finetuning.metrics import expected_calibration_error, goodness
from keras_bert.training.run_folder import FINETUNING
from keras_bert.visualize import charts, report_page
from keras_bert.visualize.curves import BASELINES, curve_title
from keras_bert.visualize.runs.record import SPLITS, RunRecord

if TYPE_CHECKING:
    from keras_bert.visualize.runs.view import RunReport

_MOST_EVENTS = 200
# More classes than this are no matrix that fits a page; their commonest mistakes are listed.
_MOST_CLASSES = 20
_MOST_MISTAKES = 40
# Counts and rates of which neither more nor less is better.
_NEUTRAL = frozenset({"step", "learning_rate", "epoch", "skipped_steps", "replaced_token_rate"}) | {
    key for key, _ in BASELINES.values()
}


def run_page(report: "RunReport") -> str:
    """Returns the page of one or two runs."""
    names, runs = report.names, report.runs
    first = runs[0]
    heading = f"{first.kind.capitalize()}: {' and '.join(names)}"
    return report_page.page(
        report.title,
        heading,
        [
            *(_introduction(name, run) for name, run in zip(names, runs, strict=True)),
            report_page.section("Figures", *_figures(names, runs)),
            report_page.section("Curves", _curves(names, runs)),
            report_page.section("Mistakes", *_confusions(names, runs)),
            report_page.section("Calibration", *_calibrations(names, runs)),
            report_page.section("Runs of the search", *_searches(names, runs)),
            report_page.section("Settings", *_settings(names, runs)),
            report_page.section("Events", *_events(names, runs)),
            report_page.section("Starts", *_starts(names, runs)),
        ],
    )


def _introduction(name: str, run: RunRecord) -> str:
    settings, told = run.settings, [f"{name}: {run.path}"]
    if run.kind == FINETUNING:
        told.append(f"task {settings.get('task.task')}, from {settings.get('init_from')}")
    else:
        width = settings.get("config.hidden_size")
        told.append(f"{settings.get('config.num_hidden_layers')} layers of {width}")
    if run.seconds is not None:
        told.append(f"{run.seconds:,.0f} s of training")
    if run.speed is not None:
        told.append(f"{run.speed:,.0f} real tokens per second")
    warnings = (report_page.paragraph(f"{name}: {one}", "warning") for one in run.warnings)
    return "\n".join([report_page.paragraph("; ".join(told) + ".", "note"), *warnings])


def _figures(names: Sequence[str], runs: Sequence[RunRecord]) -> Iterator[str]:
    """Yields a table of the last numbers; of two runs beside each other, with the difference."""
    columns = list(dict.fromkeys(column for run in runs for column in run.figures))
    if len(runs) == 1:
        metrics = list(dict.fromkeys(name for line in runs[0].figures.values() for name in line))
        rows = [
            [_words(name), *(_number(runs[0].figures[column].get(name)) for column in columns)]
            for name in metrics
        ]
        if rows:
            yield charts.table(["metric", *columns], rows, "Figures", "compared")
        return
    blocks = []
    for column in columns:
        lines = [run.figures.get(column, {}) for run in runs]
        rows_of_pair = "\n".join(
            _compared(name, [line.get(name) for line in lines])
            for name in dict.fromkeys(name for line in lines for name in line)
        )
        head = "".join(f'<th scope="col">{html.escape(n)}</th>' for n in [column, *names])
        blocks.append(
            charts.scrolling(
                f'<table class="compared"><thead><tr>{head}<th scope="col">difference</th></tr>'
                f"</thead><tbody>\n{rows_of_pair}</tbody></table>",
                f"Figures, {column}",
            )
        )
    if blocks:
        yield report_page.columns(blocks, "columns wide")
        yield report_page.paragraph("The better of two numbers is bold.", "note")


def _compared(name: str, values: Sequence[float | None]) -> str:
    """Returns the row of a metric: both numbers, the better one bold, and their difference."""
    difference, best = "", None
    if None not in values:
        one, other = (float(value) for value in values if value is not None)
        difference = f"{other - one:+,.4g}"
        if one != other and name not in _NEUTRAL:
            best = max(one, other, key=functools.partial(goodness, name))
    cells = "".join(
        f"<td{' class=best' if best is not None and value == best else ''}>{_number(value)}</td>"
        for value in values
    )
    return f'<tr><th scope="row">{html.escape(_words(name))}</th>{cells}<td>{difference}</td></tr>'


def _curves(names: Sequence[str], runs: Sequence[RunRecord]) -> str:
    blocks = []
    for metric in dict.fromkeys(metric for run in runs for metric in run.curves):
        series: list[charts.Series] = []
        for index, (name, run) in enumerate(zip(names, runs, strict=True)):
            for split, points in run.curves.get(metric, {}).items():
                if split == "baseline":
                    line = _baseline(run.curves[metric])
                    # Of equal records one is enough.
                    shared = all(
                        points == other.curves.get(metric, {}).get("baseline", points)
                        for other in runs
                    )
                    words, color = BASELINES[metric][1], 7
                    if not shared:
                        words, color = _called(words, name, len(runs)), index + 1
                    if all(one.points != line for one in series):
                        series.append(charts.Series(words, line, color, dashed=True, fixed=True))
                    continue
                measured = split != "train"
                # One run: a colour for each split. Two: a colour for each run.
                color = (2 if measured else 1) if len(runs) == 1 else index + 1
                words = _called(SPLITS[split], name, len(runs))
                # Of one run the lines differ by colour and dots, of two by thickness and dots.
                dots = measured or len(points) == 1
                thin = not measured and len(runs) > 1
                series.append(charts.Series(words, points, color, dots, thin))
        axis = charts.Axis(curve_title(metric))
        blocks.append(charts.line_chart(curve_title(metric), series, charts.Axis("step"), axis))
    return report_page.columns(blocks)


def _baseline(curves: Mapping[str, Sequence[charts.Point]]) -> Sequence[charts.Point]:
    """Returns the baseline among the curves of a metric; where it is constant, as wide as they."""
    points = curves["baseline"]
    level = points[-1][1]
    if any(other != level for _, other in points):
        return points
    steps = [step for curve in curves.values() for step, _ in curve]
    return [(min(steps), level), (max(steps), level)]


def _called(words: str, name: str, runs: int) -> str:
    return words if runs == 1 else f"{name}, {words}"


def _confusions(names: Sequence[str], runs: Sequence[RunRecord]) -> Iterator[str]:
    blocks = [
        _confusion(_called(split, name, len(runs)), run.confusion[split], run.labels)
        for split in dict.fromkeys(split for run in runs for split in run.confusion)
        for name, run in zip(names, runs, strict=True)
        if split in run.confusion
    ]
    if blocks:
        yield report_page.columns(blocks)
        yield report_page.paragraph(
            "Rows are the true classes, columns the predicted ones; the shade is the rate within "
            "the true class.",
            "note",
        )


def _confusion(title: str, matrix: Sequence[Sequence[int]], labels: Sequence[str]) -> str:
    caption = f"<figcaption>{html.escape(title)}</figcaption>"
    if len(matrix) > _MOST_CLASSES:
        mistakes = [
            (count, labels[row], labels[column])
            for row, counts in enumerate(matrix)
            for column, count in enumerate(counts)
            if row != column and count
        ]
        mistakes.sort(key=lambda mistake: -mistake[0])
        rows = [
            [true, predicted, f"{count:,}"] for count, true, predicted in mistakes[:_MOST_MISTAKES]
        ]
        told = charts.table(["true class", "predicted as", "times"], rows, f"Mistakes, {title}")
        return f"<figure>{caption}{told}</figure>"
    head = "".join(f'<th scope="col">{html.escape(label)}</th>' for label in labels)
    body = []
    for label, counts in zip(labels, matrix, strict=True):
        total = sum(counts) or 1
        cells = "".join(
            f'<td class="cell" style="--s:{count / total:.3f}" title="{html.escape(label)} '
            f"predicted as {html.escape(predicted)}: {count:,} ({100 * count / total:.1f} %)"
            f'">{count:,}</td>'
            for predicted, count in zip(labels, counts, strict=True)
        )
        body.append(f'<tr><th scope="row">{html.escape(label)}</th>{cells}</tr>')
    told = charts.scrolling(
        f'<table class="matrix"><thead><tr><td></td>{head}</tr></thead><tbody>{"".join(body)}'
        "</tbody></table>",
        f"Confusion matrix, {title}",
    )
    return f"<figure>{caption}{told}</figure>"


def _calibrations(names: Sequence[str], runs: Sequence[RunRecord]) -> Iterator[str]:
    """Yields a reliability diagram for each split, both runs in one."""
    blocks, errors = [], []
    for split in dict.fromkeys(split for run in runs for split in run.calibration):
        series = [
            charts.Series("as sure as right", [(0.0, 0.0), (1.0, 1.0)], 7, dashed=True, fixed=True)
        ]
        counts: list[list[str]] = []
        for index, (name, run) in enumerate(zip(names, runs, strict=True)):
            if split not in run.calibration:
                continue
            bins = run.calibration[split]
            error = expected_calibration_error(bins)
            errors.append(f"{_called(split, name, len(runs))} {error:.3f}")
            words = _called(f"error {error:.3f}", name, len(runs))
            points = [(confidence, rate) for count, confidence, rate in bins if count]
            series.append(charts.Series(words, points, index + 1, dots=True))
            counts += [
                [
                    f"{name}, {lower / len(bins):.1f} to {(lower + 1) / len(bins):.1f}",
                    *(_number(value) for value in (int(count), confidence, rate)),
                ]
                for lower, (count, confidence, rate) in enumerate(bins)
                if count
            ]
        unit = (0.0, 1.0)
        chart = charts.line_chart(
            f"Accuracy over confidence, {split}",
            series,
            charts.Axis("mean confidence", limits=unit),
            charts.Axis("accuracy", limits=unit),
        )
        head = ["confidence", "predictions", "mean confidence", "accuracy"]
        bins_table = charts.table(head, counts, f"Bins of confidence, {split}")
        blocks.append(f"<div>{chart}{charts.folded('Predictions in each bin', bins_table)}</div>")
    if blocks:
        yield report_page.columns(blocks)
        yield report_page.paragraph(
            f"Expected calibration error: {'; '.join(errors)}. It is the mean gap between the "
            "probability of the predicted class and how often it is right, in ten bins (Naeini et "
            "al. 2015; Guo et al. 2017). Points below the dashed line: surer than right.",
            "note",
        )


def _searches(names: Sequence[str], runs: Sequence[RunRecord]) -> Iterator[str]:
    for name, run in zip(names, runs, strict=True):
        if not run.searched:
            continue
        columns = list(
            dict.fromkeys(
                (split, metric)
                for splits in run.searched.values()
                for split, metrics in (splits or {}).items()
                for metric in metrics
            )
        )
        rows = [
            [one, *(_number((splits or {}).get(s, {}).get(m)) for s, m in columns)]
            for one, splits in run.searched.items()
        ]
        head = ["run", *(f"{split} {_words(metric)}" for split, metric in columns)]
        yield charts.table(head, rows, f"Runs of the search, {name}")


def _settings(names: Sequence[str], runs: Sequence[RunRecord]) -> Iterator[str]:
    keys = list(dict.fromkeys(key for run in runs for key in run.settings))
    values = {key: [_value(run.settings, key) for run in runs] for key in keys}
    differing = [key for key in keys if len(set(values[key])) > 1]
    same = [key for key in keys if key not in differing]
    if len(runs) == 1:
        rows = [[key, *values[key]] for key in same]
        yield charts.table(["setting", "value"], rows, "Settings", "settings")
        return
    if differing:
        head = "".join(f'<th scope="col">{html.escape(n)}</th>' for n in ["setting", *names])
        body = "\n".join(
            f'<tr class="differs"><th scope="row">{html.escape(key)}</th>'
            + "".join(f"<td>{html.escape(value)}</td>" for value in values[key])
            + "</tr>"
            for key in differing
        )
        yield charts.scrolling(
            f'<table class="settings"><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody>'
            "</table>",
            "Settings that differ",
        )
    else:
        yield report_page.paragraph("All settings are equal.")
    rows = [[key, values[key][0]] for key in same]
    equal = charts.table(["setting", "value"], rows, "Settings that are equal", "settings")
    yield charts.folded(f"Settings that are equal ({len(same)})", equal)


def _value(settings: Mapping[str, Any], key: str) -> str:
    if key not in settings:
        return "(not there)"
    value = settings[key]
    if value is None:
        return "unset"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _events(names: Sequence[str], runs: Sequence[RunRecord]) -> Iterator[str]:
    for name, run in zip(names, runs, strict=True):
        rows = [[f"{step:,}", message] for step, message in run.events[-_MOST_EVENTS:]]
        if rows:
            yield charts.table(["step", _called("event", name, len(runs))], rows, f"Events, {name}")


def _starts(names: Sequence[str], runs: Sequence[RunRecord]) -> Iterator[str]:
    for name, run in zip(names, runs, strict=True):
        for start in run.starts:
            versions = ", ".join(f"{key} {version}" for key, version in start["versions"].items())
            when = f"{start['time']}, at step {start['step']}"
            yield (
                f"<p>{html.escape(_called(when, name, len(runs)))}: "
                f"<code>{html.escape(start['command'])}</code></p>"
            )
            yield report_page.paragraph(f"{versions}; {start['machine']}", "note")


def _words(name: str) -> str:
    return name.replace("_", " ")


def _number(value: float | None) -> str:
    return "" if value is None else charts.number(value)
