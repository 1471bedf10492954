"""A fine-tuned model with its tokenizer: texts in, probabilities or numbers out."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Self

import keras
import numpy as np
import tensorflow as tf

from keras_bert.models.classifier import BertClassifier
from keras_bert.progress import Progress
from keras_bert.text.preprocessor import BertPreprocessor
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.training.encoded_texts import EncodedTexts
from keras_bert.training.task import TaskDescription


@dataclasses.dataclass(frozen=True)
class FinetunedModel:
    """What a fine-tuning run leaves behind.

    Attributes:
        model: the classifier or regressor.
        tokenizer: the tokenizer it was trained with.
        description: its task.
    """

    model: BertClassifier
    tokenizer: BertTokenizer
    description: TaskDescription

    @classmethod
    def load(cls, folder: str | os.PathLike) -> Self:
        """Opens the `--model_dir` of a fine-tuning run, in float32.

        Raises:
            FileNotFoundError: the folder is not that of a complete run.
            ValueError: a file in it is damaged.
        """
        description = TaskDescription.load(folder)
        model = BertClassifier.from_preset(os.fspath(folder), dtype="float32")
        return cls(model, BertTokenizer.from_preset(folder), description)

    def preprocessor(self) -> BertPreprocessor:
        """Returns what turns strings into the model's inputs, padded to the longest."""
        return BertPreprocessor(self.tokenizer, self.description.max_seq_length, pad_to="longest")

    def predict(
        self, texts: Sequence[str], text_pairs: Sequence[str] | None = None, batch_size: int = 32
    ) -> np.ndarray:
        """Returns probabilities float32 [N, C], or the numbers of a regression float32 [N].

        Args:
            texts: N texts.
            text_pairs: N second texts, where the model was trained on pairs.
            batch_size: texts per call of the model.
        """
        if not len(texts):
            return self.postprocess(tf.zeros([0, self.model.num_classes])).numpy()
        encoded = EncodedTexts(self.preprocessor(), texts, text_pairs)
        return self.postprocess(predict_logits(self.model, encoded, batch_size)).numpy()

    def postprocess(self, logits: tf.Tensor) -> tf.Tensor:
        """Turns logits [N, C] into probabilities [N, C], or a regression's into numbers [N]."""
        if self.description.label_type == "regression":
            return tf.convert_to_tensor(logits)[:, 0]
        return tf.nn.softmax(logits)


def predict_logits(
    model: keras.Model, encoded: EncodedTexts, batch_size: int, description: str = "predicting"
) -> np.ndarray:
    """Returns the logits of all texts in their order, float32 [N, C].

    Args:
        model: takes the inputs of an encoder.
        encoded: the N texts, at least one.
        batch_size: texts per call of the model.
        description: what the progress line says.
    """
    batches, places = encoded.inference_batches(batch_size)
    with Progress(len(batches), "batch", description) as progress:
        report = keras.callbacks.LambdaCallback(
            on_predict_batch_end=lambda batch, logs: progress.update()
        )
        return model.predict(batches, verbose=0, callbacks=[report])[places]
