"""A classifier from a few labeled texts (SetFit, Tunstall et al. 2022, arXiv:2209.11055).

encoder of sentences --pairs of the texts, the task similarity--> model_dir/encoder
vectors of the texts --logistic regression--> kernel and bias
both as one `BertClassifier`, which pools as the encoder does --> model_dir
"""

import dataclasses
import os
from pathlib import Path

import keras

from keras_bert.finetuning.finetune import finetune
from keras_bert.finetuning.inference import InferenceRunner
from keras_bert.finetuning.measurement import Measurement
from keras_bert.finetuning.options import FinetuningOptions
from keras_bert.finetuning.plan import check_splits
from keras_bert.finetuning.prediction_table import write_predictions
from keras_bert.finetuning.result import FinetuningResult
from keras_bert.finetuning.task import TRAIN, UNLABELED, TaskData
from keras_bert.models.embedders.sentence_embedder import trained_pooling
from keras_bert.storage import hub
from keras_bert.storage.paths import check_folder
from keras_bert.tasks.classification.delimited import csv_task
from keras_bert.tasks.classification.few_shot import fit_logistic_regression, labeled_pairs
from keras_bert.tasks.classification.few_shot_options import FewShotOptions
from keras_bert.tasks.finetuned_model import FinetunedModel
from keras_bert.tasks.kinds import load_description
from keras_bert.tasks.sentence_embedding.embedding_files import similarity_task
from keras_bert.training.run_folder import RUN_FILE
from keras_bert.training.termination import TerminatedError, Termination

ENCODER_FOLDER = "encoder"


def train_few_shot(
    data: TaskData,
    init_from: str | os.PathLike,
    model_dir: str | os.PathLike,
    options: FewShotOptions = FewShotOptions(),  # noqa: B008 (frozen)
) -> FinetuningResult | None:
    """Trains a classifier of texts on a few labeled ones, and writes it to `model_dir`.

    An encoder of sentences learns from pairs of the texts of `train` that those of one class are
    alike; it stays in `model_dir/encoder`, as a run of the task `similarity`. A logistic regression
    tells its vectors apart. The folder is that of a `BertClassifier` of both, with `task.json`,
    `metrics.json` and `predictions_<split>.csv` as `finetune` writes them. `validation` and all
    other splits are measured only: nothing is chosen by them.

    Args:
        data: what `create_task("csv").read` returned: single texts, one class for each.
        init_from: the model folder to start from, best an encoder of sentences. Prompts that it
            has for queries are not used.
        model_dir: the folder to write. A run that was stopped there goes on.
        options: settings.

    Returns:
        What was measured; its epochs are those of the encoder. None when SIGTERM ended the training
        early: the same call goes on with it.

    Raises:
        FileNotFoundError: `init_from` is not a model folder.
        ValueError: the texts make no pairs (see `labeled_pairs`), a split has no labels where it
            needs them or other ones, the folder has more behind its pooling than a norm, or
            `model_dir` holds something else.
    """
    check_folder("model_dir", model_dir)
    folder = Path(model_dir)
    began = (folder / ENCODER_FOLDER / RUN_FILE).is_file()
    # A run that was killed early has an encoder folder, in which a run is not yet described.
    if not began and folder.is_dir() and {*folder.iterdir()} - {folder / ENCODER_FOLDER}:
        raise ValueError(
            f"{folder} holds something else than a few-shot run: choose another --model_dir"
        )
    if TRAIN not in data.splits:
        there = ", ".join(data.splits) or "none"
        raise ValueError(f"the data has no split {TRAIN!r} (there are {there}): name one so")
    pooling = trained_pooling(hub.local_folder(init_from), options.pooling)
    task = csv_task(pooling=pooling)
    for split in data.splits.values():
        task.head.check_examples(split)
    check_splits(task.head.with_labels(data.labels), data)
    few = data.splits[TRAIN]

    # === Encoder: texts of one class become alike ===
    pairs = labeled_pairs(few, options.sampling, options.num_iterations, options.seed)
    result = finetune(
        similarity_task(pooling=pooling, query_prompt="", document_prompt=""),
        TaskData({TRAIN: pairs}),
        init_from,
        folder / ENCODER_FOLDER,
        FinetuningOptions(
            epochs=options.epochs,
            batch_size=options.batch_size,
            learning_rate=options.learning_rate,
            max_seq_length=options.max_seq_length,
            seed=options.seed,
            mixed_precision=options.mixed_precision,
        ),
        keep_finished=True,
    )
    if result is None:
        return None

    # === Classifier: its vectors are told apart ===
    length = load_description(folder / ENCODER_FOLDER).max_seq_length
    trained = FinetunedModel.from_task(
        task, data, folder / ENCODER_FOLDER, length, options.seed, "float32"
    )
    model, head = trained.model, trained.description.head
    rows = {
        name: head.encode(trained.tokenizer, split, length, f"tokenizing {name}")
        for name, split in data.splits.items()
        if name != UNLABELED
    }
    pooled = keras.Model(model.inputs, model.get_layer("sentence_pooling").output)
    run = InferenceRunner(pooled)
    vectors = run(rows[TRAIN], options.batch_size, description="vectors").outputs  # [N, H]
    regression = fit_logistic_regression(vectors, few.labels, len(data.labels), options.c)
    model.get_layer("classifier").set_weights([*regression])

    # === Files: the model first, what it was measured by last ===
    with Termination() as termination:
        resolved = FinetuningOptions(batch_size=options.batch_size).resolved({})
        measure = Measurement(task, head, data, rows, model, resolved, termination)
        try:
            _, metrics, predictions = measure.all_splits()
        except TerminatedError:
            return None
    model.save_to_preset(os.fspath(folder), trained.tokenizer)
    trained.description.save(folder)
    for name, found in predictions.items():
        write_predictions(folder / f"predictions_{name}.csv", head, data.splits[name], found)
    result = dataclasses.replace(
        result,
        metrics=metrics,
        confusion=measure.tables(predictions, head.confusion),
        calibration=measure.tables(predictions, head.calibration),
        collapsed=measure.collapse(predictions),
    )
    result.save(folder)
    return result
