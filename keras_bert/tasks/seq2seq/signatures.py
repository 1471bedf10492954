"""Signatures of text to text: the search runs in the graph.

Shapes: N texts, S positions, T pieces of a generated text at most, H width.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

import tensorflow as tf

from keras_bert.config import BertConfig
from keras_bert.features import INPUT_MASK
from keras_bert.finetuning.task import TaskDescription
from keras_bert.models.seq2seq.sequence_search import Sequences
from keras_bert.signatures.base import SignatureFamily, Tensors, string_vector, with_a_column
from keras_bert.signatures.options import ExportOptions
from keras_bert.tasks.seq2seq.answer_table import GENERATED_TEXT
from keras_bert.tasks.seq2seq.head import SOURCE, Seq2SeqHead
from keras_bert.tasks.seq2seq.rows import written_text
from keras_bert.text.tokenizer import BertTokenizer


class Seq2SeqSignatures(SignatureFamily):
    """`source`, string [N] -> the text that the decoder writes for it.

    `generated_text`, string [N]; `score`, float32 [N], its log probability by the length penalty,
    with Mask-Predict the mean of those of its pieces.
    `serve_ids` answers the encoder's ids with `generated_ids`, int32 [N, T], and `score`.

    Args:
        description: the task.
        *arguments: see `SignatureFamily`.
    """

    sample: Mapping[str, Any] = {SOURCE: "One text."}

    def __init__(self, description: TaskDescription, *arguments: Any):
        super().__init__(*arguments)
        # The one that `KINDS` has beside this. The folder of another library does not tell which
        # pieces are no text, nor how long targets are.
        head = cast(Seq2SeqHead, description.head).for_tokenizer(self.tokenizer)
        positions = self.model.config.max_position_embeddings
        self._head = dataclasses.replace(
            head, max_target_length=min(head.max_target_length, positions)
        )
        if self.model.start_token_id is None or self.model.end_token_id is None:
            self.model.start_token_id = head.start_token_id
            self.model.end_token_id = head.end_token_id

    def string_inputs(self) -> dict[str, tf.TensorSpec]:
        """Returns the source."""
        return {SOURCE: string_vector(SOURCE)}

    def answer(self, source: tf.Tensor) -> Tensors:
        """Returns texts and their scores."""
        inputs = with_a_column(self.preprocess(source))
        states = self.encoder.sequence_output(inputs)  # [N, tokens, H]
        hidden = states.to_tensor(shape=[None, None, self.model.config.hidden_size])  # [N, S, H]
        mask = tf.sequence_mask(states.row_lengths(), tf.shape(hidden)[1], dtype=tf.int32)
        found = self._generated(hidden, mask)
        tokenizer = cast(BertTokenizer, self.tokenizer)  # `for_tokenizer` refuses others
        return {
            GENERATED_TEXT: written_text(tokenizer, found.ids[:, 0], self.model.end_token_id),
            "score": found.scores[:, 0],
        }

    def ids(self, **inputs: tf.Tensor) -> Tensors:
        """Returns the generated pieces and their scores."""
        hidden = self.model.encoder(inputs, training=False)["sequence_output"]
        found = self._generated(hidden, inputs[INPUT_MASK])
        return {"generated_ids": found.ids[:, 0], "score": found.scores[:, 0]}

    def _generated(self, hidden: tf.Tensor, mask: tf.Tensor) -> Sequences:
        rows = self.model.config.vocab_size
        return self.model.generate_from(hidden, mask, self._head.search_options(rows))


def with_iterations(
    description: TaskDescription, options: ExportOptions, config: BertConfig
) -> TaskDescription:
    """Returns a description with the iterations and lengths of Mask-Predict that are stated."""
    head = cast(Seq2SeqHead, description.head)  # the one that `KINDS` has beside this
    head = head.with_search(options.iterations, options.length_candidates)
    return dataclasses.replace(description, head=head)
