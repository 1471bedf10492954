r"""Fine-tunes a pretrained BERT on a task.

    python tools/run_finetuning.py --task=csv --data=reviews --init_from=runs/mini/preset \
        --model_dir=runs/reviews --epochs=3 --batch_size=32 --learning_rate=3e-5 --seeds=5

--data is a folder with train, validation (or dev, valid, val) and test files in the task's own
format, or tfds:name/config. The folder it writes holds the model, its metrics, predictions and
pictures.
--task=my_module:my_task takes a task of your own: a function in my_module.py of the working
directory that returns a Task (docs/fine-tuning.md).

The same command goes on from the last checkpoint of a run that was stopped; SIGTERM saves first and
ends with exit status 143, so that whoever started the run knows that it is not done.
"""

import itertools
import os
import signal
import sys
from collections.abc import Sequence

from absl import flags

from keras_bert import FinetuningOptions, command_line

# Arguments of tasks; what is not given is left to the task.
_TEXT_FLAGS = {
    "text_column": "Column of the text (csv, retrieval, sparse_retrieval, multi_vector_retrieval, "
    "reranking, similarity; unset: text).",
    "text_pair_column": "Column of the second text (csv, retrieval, similarity; unset: text_pair, "
    "if any).",
    "label_column": "Column of the label (csv; unset: label).",
    "scheme": "BIO, IOB1, BIOES or plain (conll, gliner; unset: seen in the tags).",
    "label_feature": "Feature of a TFDS set that holds the tags (conll, gliner; unset: ner).",
    "window_pooling": "Read long texts in windows and pool them: mean, max, attention (csv).",
    "features_from": "Train a BiLSTM on frozen features: concat_last_4, ... (conll).",
}
_INTEGER_FLAGS = {
    "word_index": "Column of the word, from 0 (conll, gliner; unset: 0).",
    "label_index": "Column of the tag; negative counts from the last (conll, gliner; unset: -1).",
    "doc_stride": "Pieces from window to window of a long text (squad; unset: 128. csv with "
    "--window_pooling; unset: half a window).",
    "max_windows": "Most windows of a text (csv with --window_pooling; unset: 8).",
    "max_query_length": "Most pieces of a question (squad; unset: 64).",
    "max_answer_length": "Most pieces of an answer (squad; unset: 30).",
    "max_target_length": "Most pieces of a target with its end (seq2seq; unset: 64).",
    "beam_size": "Beams of the search; 1 is greedy search (seq2seq; unset: 4).",
    "iterations": "Passes over a text (seq2seq with --decoding=mask_predict; unset: 10).",
    "length_candidates": "Lengths that are tried (seq2seq with --decoding=mask_predict; unset: 5).",
    "initial_active_dims": "Words of a text before training, in the mean; 0: as the model has them "
    "(sparse_retrieval; unset: 128, or 0 from a sparse encoder).",
    "static_width": "Numbers of a vector of a fresh table of static embeddings for the pieces of "
    "--init_from, with --from_scratch (retrieval, similarity; unset: what --init_from holds).",
    "projection_dim": "Numbers of a token's vector (multi_vector_retrieval; unset: as the model "
    "folder says, else 128 or the width of a narrower encoder).",
    "query_length": "Most positions of a text to search with (multi_vector_retrieval; unset: as "
    "the model folder says, else 32).",
    "max_types": "Most labels of a row (gliner; unset: 25).",
    "max_width": "Most words of an entity (gliner; unset: as the model folder says, else 12).",
    "span_hidden_size": "Width behind the encoder (gliner; unset: as the model folder says, else "
    "the encoder's).",
    "num_rnn_layers": "LSTMs on the words, 0 for none (gliner; unset: as the model folder says, "
    "else 1).",
    "lstm_width": "Width of each direction's LSTM (conll with --features_from; unset: 768).",
}
_TARGET_FLAGS = {
    "source_column": "Column of the text to read (seq2seq; unset: source).",
    "target_column": "Column of the text to write (seq2seq; unset: target).",
    "decoder": "bert2bert, bertshare or random: the decoder's start (seq2seq; unset: bert2bert).",
    "decoding": "autoregressive or mask_predict: how texts are written (seq2seq; unset: "
    "autoregressive).",
}
_VECTOR_FLAGS = {
    "positive_column": "Column of what is to be found (retrieval, sparse_retrieval, "
    "multi_vector_retrieval, reranking, similarity; unset: positive).",
    "score_column": "Column of the score of two texts (retrieval, similarity; unset: score).",
    "pooling": "mean, cls or max of the vectors of a text's pieces (retrieval, similarity; unset: "
    "as the model folder says, else mean; csv; unset: that of a classifier that has one, else the "
    "pooled output).",
    "activation": "relu or log1p_relu: how scores become weights of words (sparse_retrieval; "
    "unset: as the model folder says, else relu).",
    "query_prompt": "Stands before each text to search with (retrieval, sparse_retrieval, "
    "multi_vector_retrieval, similarity; unset: as the model folder says, mostly nothing).",
    "document_prompt": "Stands before each text to be found, or to be compared with (the same).",
}
_FLOAT_FLAGS = {
    "temperature": "Divides products that are learned as logits (retrieval, similarity; unset: "
    "0.05; sparse_retrieval: 1; multi_vector_retrieval: 0.3).",
    "query_regularizer_weight": "How much it counts that queries have few words (sparse_retrieval; "
    "unset: 5e-5).",
    "document_regularizer_weight": "The same of texts to be found (sparse_retrieval; unset: 3e-5).",
    "teacher_weight": "Part of a teacher's scores in the loss (retrieval, sparse_retrieval and "
    "multi_vector_retrieval with positive_score and negative0_score; unset: 0.5).",
    "teacher_temperature": "Divides a teacher's scores (the same; unset: 1).",
    "max_score": "Score of two texts that are alike in all (retrieval, similarity; unset: 1).",
    "label_dropout": "How often a row is not asked for a label that it has (gliner; unset: 0.1).",
    "focal_alpha": "Weight of entities in the loss, others 1 minus it (gliner; unset: alike).",
    "focal_gamma": "Exponent of the focal loss (gliner; unset: 0).",
    "length_penalty": "Prefers longer texts, the more the larger (seq2seq; unset: 0.6).",
}
_BOOL_FLAGS = {
    "document_context": "Fill the window with neighbouring sentences (conll).",
}

flags.DEFINE_string(
    "task",
    "csv",
    "What is learned; an unknown name lists all. module:function: a task of your own.",
)
flags.DEFINE_string("data", None, "Folder of train, validation and test files, or tfds:name.")
flags.DEFINE_string("init_from", None, "Model folder to start from.")
flags.DEFINE_string("model_dir", None, "Folder to write: a model folder with metrics.json.")
flags.DEFINE_integer("seeds", 1, "Runs with different seeds; the best one is kept.")
flags.DEFINE_string(
    "grid", None, "Options to search: 'paper', or learning_rate=2e-5,5e-5;epochs=2,3."
)
command_line.define_flags(FinetuningOptions)
for _define, _flags in (
    (flags.DEFINE_string, _TEXT_FLAGS | _TARGET_FLAGS | _VECTOR_FLAGS),
    (flags.DEFINE_float, _FLOAT_FLAGS),
    (flags.DEFINE_integer, _INTEGER_FLAGS),
    (flags.DEFINE_bool, _BOOL_FLAGS),
):
    for _name, _help in _flags.items():
        _define(_name, None, _help)
flags.DEFINE_bool("regression", False, "The labels are numbers, not classes (csv).")
flags.DEFINE_bool("multi_label", False, "A text has any number of labels, parted by | (csv).")
flags.DEFINE_list("labels", None, "All classes, comma-separated; unset: those of the train file.")
flags.DEFINE_list(
    "matryoshka_dims",
    None,
    "The first so many numbers of a vector are learned as vectors, too, such as 64,128 (retrieval, "
    "similarity).",
)
flags.mark_flags_as_required(["data", "init_from", "model_dir"])


def main(_: Sequence[str]) -> None:
    """Reads the flags, fine-tunes and prints a table of the metrics."""
    from keras_bert import create_task
    from keras_bert.finetuning import search
    from keras_bert.training.cluster import is_chief
    from keras_bert.training.strategy import create_strategy
    from keras_bert.visualize.finetuning_report import results_table, write_report

    values = flags.FLAGS.flag_values_dict()
    class_weights = _class_weights(values["class_weights"])
    options = command_line.options_from_flags(FinetuningOptions, class_weights=class_weights)
    given = command_line.given_flags()
    grid = search.parse_grid(values["grid"], given) if values["grid"] else None
    # Workers meet before TensorFlow computes anything, the reading of data included.
    strategy = create_strategy(options.strategy)
    if ":" in values["task"]:
        sys.path.insert(0, os.getcwd())  # as `python -m` does
    task = create_task(values["task"], **_task_arguments(values))
    data = task.read(values["data"])
    result = search.search(
        task,
        data,
        values["init_from"],
        values["model_dir"],
        options,
        values["seeds"],
        grid,
    )
    if result is None:
        sys.exit(128 + signal.SIGTERM)  # as of any process that it ended: this run is not done
    if not is_chief(strategy):
        return
    write_report(values["model_dir"], task, result, values["data"], data)
    print(results_table(task, result))
    print(f"model folder: {values['model_dir']}")


def _class_weights(given: list[str] | None) -> str | tuple[float, ...] | None:
    if given is None:
        return None
    if given == ["balanced"]:
        return "balanced"
    try:
        return tuple(map(float, given))
    except ValueError:
        raise ValueError(
            f"class_weights is {','.join(given)!r}: give 'balanced' or one number for each label"
        ) from None


def _whole_numbers(name: str, given: list[str]) -> tuple[int, ...]:
    try:
        return tuple(map(int, given))
    except ValueError:
        raise ValueError(f"{name} is {','.join(given)!r}: give whole numbers") from None


def _task_arguments(values: dict) -> dict:
    """Returns the arguments of the task that were given by flags."""
    if values["regression"] and values["multi_label"]:
        raise ValueError("--regression and --multi_label exclude each other: leave out one")
    flag_groups = (_TEXT_FLAGS, _TARGET_FLAGS, _VECTOR_FLAGS)
    names = [*itertools.chain(*flag_groups), *_INTEGER_FLAGS, *_FLOAT_FLAGS, *_BOOL_FLAGS, "labels"]
    arguments = {name: values[name] for name in names}
    if values["matryoshka_dims"]:
        arguments["matryoshka_dims"] = _whole_numbers("matryoshka_dims", values["matryoshka_dims"])
    for label_type in ("regression", "multi_label"):
        if values[label_type]:
            arguments["label_type"] = label_type
    return {name: value for name, value in arguments.items() if value is not None}


if __name__ == "__main__":
    command_line.run(main)
