"""SavedModels that take strings: tokenizer, model and answer in one graph.

Shapes: N texts, C labels, S positions.
"""

import os
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_bert.features import ENCODER_FEATURES, INPUT_IDS
from keras_bert.files import atomic_folder
from keras_bert.text.preprocessor import TEXT, TEXT_PAIR
from keras_bert.training.finetuned_model import FinetunedModel
from keras_bert.training.task import TaskDescription

SERVING_DEFAULT = "serving_default"
SERVE_IDS = "serve_ids"


class ServingModule(tf.Module):
    """The signatures of a fine-tuned classifier or regressor.

    `serving_default` takes `text`, string [N], and for models of pairs `text_pair`, string [N].
    Classes: `label`, string [N], the likeliest; `scores`, float32 [N, C], all probabilities;
    `labels`, string [N, C], whose they are (repeated in each row, because row-wise clients such as
    TF Serving's REST interface want one first axis). Regression: `score`, float32 [N]. Texts are
    cut at the length of training and padded to the longest of the batch.

    `serve_ids` takes `input_ids`, `input_mask`, `segment_ids`, int32 [N, S], and returns `logits`,
    float32 [N, C].

    Args:
        finetuned: the model, its tokenizer and its task.
    """

    def __init__(self, finetuned: FinetunedModel):
        super().__init__(name="keras_bert")
        # Plain variables, not the Keras model: what loads the export needs TensorFlow alone.
        self.weights = [variable.value for variable in finetuned.model.weights]
        self.tokenizer = finetuned.tokenizer
        pairs = finetuned.description.takes_pairs
        texts = {
            name: tf.TensorSpec([None], tf.string, name=name)
            for name in ([TEXT, TEXT_PAIR] if pairs else [TEXT])
        }
        ids = {
            feature.name: tf.TensorSpec([None, None], feature.dtype, name=feature.name)
            for feature in ENCODER_FEATURES
        }
        preprocess = finetuned.preprocessor()

        def logits(inputs: dict[str, tf.Tensor]) -> tf.Tensor:
            return finetuned.model(inputs, training=False)

        def answer(**texts: tf.Tensor) -> dict[str, tf.Tensor]:
            return _answers(finetuned.description, logits(_with_a_column(preprocess(texts))))

        def serve_ids(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"logits": logits(inputs)}

        self.serving_signatures = {
            SERVING_DEFAULT: tf.function(answer).get_concrete_function(**texts),
            SERVE_IDS: tf.function(serve_ids).get_concrete_function(**ids),
        }


def export_saved_model(
    model_dir: str | os.PathLike, export_dir: str | os.PathLike, version: int | None = None
) -> Path:
    """Writes `<export_dir>/<version>/saved_model.pb` from a fine-tuned model.

    Args:
        model_dir: the folder of a fine-tuning run.
        export_dir: holds one folder for each version, as TF Serving wants it.
        version: its number; None takes the next free one.

    Returns:
        The folder of the version.

    Raises:
        FileNotFoundError: there is no fine-tuned model.
        ValueError: the version exists or is below 1.
    """
    folder = Path(export_dir) / str(_checked_version(Path(export_dir), version))
    module = ServingModule(FinetunedModel.load(model_dir))
    with atomic_folder(folder) as temporary:
        tf.saved_model.save(module, str(temporary), signatures=module.serving_signatures)
    return folder


def _checked_version(export_dir: Path, version: int | None) -> int:
    names = [path.name for path in export_dir.glob("*")] if export_dir.is_dir() else []
    taken = [int(name) for name in names if name.isdecimal()]
    if version is None:
        return max(taken, default=0) + 1
    if version < 1:
        raise ValueError(f"version is {version}: it must be at least 1")
    if version in taken:
        raise ValueError(
            f"{export_dir} holds version {version}: give another --version or leave it out for the "
            "next one"
        )
    return version


def _with_a_column(inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    # The longest of no texts is 0 positions long, but the model reads the one of [CLS].
    missing = tf.maximum(0, 1 - tf.shape(inputs[INPUT_IDS])[1])
    return {name: tf.pad(rows, [[0, 0], [0, missing]]) for name, rows in inputs.items()}


def _answers(description: TaskDescription, logits: Any) -> dict[str, tf.Tensor]:
    values = description.head.postprocess(logits)
    if description.head.label_type == "regression":
        return {"score": values}
    labels = tf.constant(description.labels)
    return {
        "label": tf.gather(labels, tf.argmax(logits, axis=-1)),
        "scores": values,
        "labels": tf.tile(labels[None], [tf.shape(values)[0], 1]),
    }
