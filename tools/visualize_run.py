"""Writes a page of what a run did: curves, figures, mistakes, calibration, settings.

    python tools/visualize_run.py --model_dir=runs/reviews --output=run.html
    python tools/visualize_run.py --model_dir=runs/reviews --compare=runs/other --output=runs.html

It takes the --model_dir of run_pretraining.py or run_finetuning.py, also of a run that is still
going on. The page is one file without scripts.
"""

from collections.abc import Sequence

from absl import flags

from keras_bert import command_line

flags.DEFINE_string("model_dir", None, "Folder of a run of pretraining or fine-tuning.")
flags.DEFINE_string("compare", None, "Folder of another run of the same kind.")
flags.DEFINE_string("output", "run.html", "HTML file to write.")
flags.mark_flags_as_required(["model_dir"])


def main(_: Sequence[str]) -> None:
    """Reads the flags and writes the page."""
    from keras_bert import show_run
    from keras_bert.visualize import html_page

    values = flags.FLAGS
    html_page.check_name(values.output)
    report = show_run(values.model_dir, values.compare)
    report.save(values.output)
    curves = len({name for run in report.runs for name in run.curves})
    print(f"{values.output}: {' and '.join(report.names)}, {curves} curves")


if __name__ == "__main__":
    command_line.run(main)
