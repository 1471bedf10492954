r"""Predicts labels (or numbers, answers, tags) for the texts of a file.

    python tools/predict.py --model_dir=runs/reviews --input=new.csv --output=predictions.csv

Several --model_dir are an ensemble: --model_dir=runs/a --model_dir=runs/b.

The output is a CSV: the input's columns, then predicted_label (predicted_labels where a text has
several) and score_<label> for each label; for a regression predicted_value. A model of single texts
also takes a .txt with a text a line. A model that TF Serving runs is asked with --server instead:

    python tools/predict.py --server=localhost:8501 --served_model=reviews \
        --input=new.csv --output=predictions.csv

A server is asked with tables alone (.csv, .tsv, .jsonl), whose columns are named like its inputs:
text, text and text_pair, question and context, context and choice0, choice1, ..., or source.

A model that writes texts by Mask-Predict takes --iterations and --length_candidates.

With --candidate_labels a model of natural language inference classifies by labels that it was not
trained on, texts of the column text (docs/fine-tuning.md, "Without training"); its folder may be
one of another library:

    python tools/predict.py --model_dir=runs/mnli --candidate_labels='sport, politics' \
        --input=new.csv --output=predictions.csv

With --labels a model that was trained with --task=gliner, or a folder of GLiNER, finds entities of
these labels in texts of the column text; a row for each, with its first character and that behind
its last:

    python tools/predict.py --model_dir=runs/ner --labels='person, place' --threshold=0.5 \
        --input=new.csv --output=entities.csv

A server is asked about labels of both kinds as well, and writes the same:

    python tools/predict.py --server=localhost:8501 --served_model=mnli \
        --candidate_labels='sport, politics' --input=new.csv --output=predictions.csv

The template is in its graph (export_saved_model.py --hypothesis_template), and its entities do not
overlap and have one label each. Answers of a server are written as they come, to
predictions.csv.partial, which an error leaves.

--explain=explanations.jsonl tells for each prediction which words made it (integrated gradients).
"""

import csv
from collections.abc import Sequence
from typing import TYPE_CHECKING

from absl import flags

from keras_bert import command_line
from keras_bert.storage.paths import check_ending, check_output

if TYPE_CHECKING:
    from keras_bert.serving.client import Client
    from keras_bert.tasks.named_labels import NamedLabels

# Not a list: commas stand in names of folders, such as those of a grid.
flags.DEFINE_multi_string(
    "model_dir", None, "Folder of a run of run_finetuning.py; several are an ensemble."
)
flags.DEFINE_string(
    "server", None, "host:port of TF Serving's REST interface, or grpc://host:port."
)
flags.DEFINE_string("served_model", None, "With --server: the name of the model there.")
flags.DEFINE_multi_string(
    "column", [], "With --server: what a column is sent as, --column=text=body; may be repeated."
)
flags.DEFINE_float("timeout", 60.0, "With --server: seconds that a request may take.")
flags.DEFINE_string(
    "input",
    None,
    "Table (.csv, .tsv, .jsonl); without --server also SQuAD .json, a column file (.conll, ...), "
    "or .txt with a text a line for classes, numbers and tags. With --candidate_labels and "
    "--labels a table or .txt.",
)
flags.DEFINE_string("output", None, "Table to write: .csv.")
flags.DEFINE_string("explain", None, "File to write: .jsonl, which words made each prediction.")
flags.DEFINE_integer("batch_size", 32, "Texts per call of the model.", lower_bound=1)
flags.DEFINE_integer(
    "iterations", None, "Passes over a text (Mask-Predict; unset: those of the run).", lower_bound=1
)
flags.DEFINE_integer(
    "length_candidates",
    None,
    "Lengths of a text that are tried (Mask-Predict; unset: those of the run).",
    lower_bound=1,
)
flags.DEFINE_multi_string(
    "candidate_labels",
    None,
    "Labels to classify by without training, separated by commas; one with a comma in it stands in "
    "double quotes; may be repeated.",
)
flags.DEFINE_string(
    "hypothesis_template",
    None,
    "With --candidate_labels: the sentence that says of a text that it has a label, which stands "
    "for its {} (unset: This example is {}.); not with --server.",
)
flags.DEFINE_multi_string(
    "labels",
    None,
    "Labels of entities to look for, separated by commas; one with a comma in it stands in double "
    "quotes; may be repeated (models of --task=gliner; unset: those of its training data, in files "
    "of words).",
)
flags.DEFINE_float("threshold", 0.5, "With --labels: probability above which a span is an entity.")
flags.DEFINE_bool(
    "nested", False, "With --labels: an entity may lie inside another; not with --server."
)
flags.DEFINE_bool(
    "multi_label",
    False,
    "With --candidate_labels: a text may have several of them, or none; with --labels, but not "
    "with --server: an entity may have several.",
)
flags.mark_flags_as_required(["input", "output"])


def main(_: Sequence[str]) -> None:
    """Reads the flags and predicts."""
    values = flags.FLAGS
    if (values.model_dir is None) == (values.server is None):
        raise ValueError("give either --model_dir or --server")
    if (values.server is None) != (values.served_model is None):
        raise ValueError("--server and --served_model belong together: give both or neither")
    if values.server is None and values.column:
        raise ValueError("--column is for --server: a run knows its columns")
    if values.server is None and values["timeout"].present:
        raise ValueError("--timeout is for --server: leave it out")
    for name in ("iterations", "length_candidates", "hypothesis_template"):
        if values.server is not None and values[name].present:
            raise ValueError(
                f"--{name} is in the graph that a server runs: give it to export_saved_model.py"
            )
    if values.server is not None and values.explain is not None:
        raise ValueError("--explain takes gradients, which a server does not give: use --model_dir")
    if values.explain is not None and len(values.model_dir) > 1:
        raise ValueError(
            f"--explain explains one model, but --model_dir names {len(values.model_dir)}: leave "
            "out --explain, or ask for each model by itself"
        )
    command_line.check_companions("candidate_labels", "hypothesis_template")
    command_line.check_companions("labels", "threshold", "nested")
    for name in ("nested", "multi_label"):
        if values.server is not None and values.labels is not None and values[name].value:
            raise ValueError(
                f"--{name} is not in the graph that a server runs, whose entities do not overlap "
                "and have one label each: leave it out, or use --model_dir"
            )
    for name in ("candidate_labels", "labels"):
        if values[name].value is not None:
            _check_named_labels(values, name)
    if values["multi_label"].present and values.candidate_labels is values.labels is None:
        raise ValueError("--multi_label is for --candidate_labels and --labels: give one of them")
    check_ending("--output", values.output, ".csv")
    if values.explain is not None:
        from keras_bert.tasks.kinds import load_description
        from keras_bert.visualize.attributions.view import check_explained

        check_output(values.explain, values.output, values.input, name="--explain")
        check_ending("--explain", values.explain, ".jsonl")
        check_explained(load_description(values.model_dir[0]).head.model_class)
    if values.candidate_labels is not None:
        count = _classify(values)
    elif values.labels is not None:
        count = _recognize(values)
    else:
        count = _predict_here(values) if values.server is None else _predict_there(values)
    print(f"{count:,} predictions: {values.output}")
    if values.explain is not None:
        from keras_bert.visualize.attributions.predictions import explain_file

        count = explain_file(values.model_dir[0], values.input, values.explain)
        print(f"{count:,} explanations: {values.explain}")


def _predict_here(values: flags.FlagValues) -> int:
    from keras_bert import predict_file

    return predict_file(
        values.model_dir,
        values.input,
        values.output,
        values.batch_size,
        values.iterations,
        values.length_candidates,
    )


def _check_named_labels(values: flags.FlagValues, flag: str) -> None:
    other = "labels" if flag == "candidate_labels" else "candidate_labels"
    for name in ("explain", "iterations", "length_candidates", other):
        if values[name].present:
            raise ValueError(f"--{name} does not go with --{flag}: leave one of them out")
    if values.server is None and len(values.model_dir) > 1:
        raise ValueError(
            f"--{flag} asks one model, but --model_dir names {len(values.model_dir)}: give one of "
            "them"
        )


def _classify(values: flags.FlagValues) -> int:
    labels = _separated_all("candidate_labels", values.candidate_labels)
    if values.server is not None:
        from keras_bert.tasks.named_labels import CandidateLabels

        return _predict_labels_there(values, CandidateLabels(labels, values.multi_label))
    from keras_bert.signatures.hypotheses import DEFAULT_TEMPLATE
    from keras_bert.zero_shot import classify_file

    template = values.hypothesis_template
    return classify_file(
        values.model_dir[0],
        values.input,
        values.output,
        labels,
        DEFAULT_TEMPLATE if template is None else template,
        values.multi_label,
        values.batch_size,
    )


def _recognize(values: flags.FlagValues) -> int:
    labels = _separated_all("labels", values.labels)
    if values.server is not None:
        from keras_bert.tasks.named_labels import EntityLabels

        return _predict_labels_there(values, EntityLabels(labels, values.threshold))
    from keras_bert.entity_recognizer import recognize_file

    return recognize_file(
        values.model_dir[0],
        values.input,
        values.output,
        labels,
        values.threshold,
        not values.nested,
        values.multi_label,
        values.batch_size,
    )


def _separated_all(flag: str, given: Sequence[str]) -> list[str]:
    """Returns the labels of a flag, which may be repeated: `a, "b, c"` are two."""
    found = []
    for part in given:
        try:
            (labels,) = csv.reader([part], skipinitialspace=True, strict=True)
        except csv.Error as error:
            raise ValueError(
                f"--{flag} is {part!r} ({error}): separate labels by commas, with double quotes "
                "around a label that has one"
            ) from None
        found += [label.strip() for label in labels]
    return found


def _predict_there(values: flags.FlagValues) -> int:
    from keras_bert.serving.remote_prediction import predict_remotely

    columns = _columns(values)
    return predict_remotely(
        _client(values), values.input, values.output, values.batch_size, columns
    )


def _predict_labels_there(values: flags.FlagValues, named: "NamedLabels") -> int:
    from keras_bert.serving.remote_prediction import predict_labels_remotely

    columns = _columns(values)
    return predict_labels_remotely(
        _client(values), named, values.input, values.output, values.batch_size, columns
    )


def _client(values: flags.FlagValues) -> "Client":
    from keras_bert.serving.client import connect

    return connect(values.server, values.served_model, timeout=values.timeout)


def _columns(values: flags.FlagValues) -> dict[str, str]:
    """Returns what --column says: the columns by the names of the inputs that they are sent as."""
    columns = {}
    for named in values.column:
        name, equals, column = named.partition("=")
        if not equals or name in columns:
            raise ValueError(
                f"--column is {named!r}: give the name of an input, once, and that of its column, "
                "as in --column=text=body"
            )
        columns[name] = column
    return columns


if __name__ == "__main__":
    command_line.run(main)
