"""SavedModels with the interface of the BERT models on TF-Hub, for code written for those.

    strings [N] --preprocess--> input_word_ids, input_mask, input_type_ids, int32 [N, S] each
                                    |
    pooled_output [N, H], sequence_output [N, S, H], encoder_outputs L x [N, S, H] <--encoder

Shapes: N texts, S positions, H width, L layers.
"""

import json
import os
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_bert.checkpoints import tf_hub
from keras_bert.features import INPUT_IDS, INPUT_MASK, SEGMENT_IDS
from keras_bert.models.encoder import BertEncoder
from keras_bert.models.preset import CONFIG_FILE
from keras_bert.signatures.vocabulary_rows import check_rows
from keras_bert.storage.new_folder import check_nothing_there, new_folder
from keras_bert.text import packing, tokenizer_config, vocabulary
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.loading import load_tokenizer
from keras_bert.text.tokenizer import BertTokenizer

# Names of these models -> ours.
_INPUTS = {
    "input_word_ids": INPUT_IDS,
    "input_mask": INPUT_MASK,
    "input_type_ids": SEGMENT_IDS,
}
# What preprocessing models on TF-Hub pad to where nothing is said.
_DEFAULT_LENGTH = 128
# [CLS] a [SEP] b [SEP] with room for one piece of each text.
_SHORTEST = 5

PREPROCESS, ENCODER = "preprocess", "encoder"


class HubPreprocessor(tf.Module):
    """Called with strings [N] it returns the encoder's inputs, int32 [N, `seq_length`] each.

    `tokenize` takes strings [N] and returns ids int32 [N, words, pieces]; `bert_pack_inputs` takes
    one or two of such in a list, and a length.

    Args:
        tokenizer: splits the texts.
        seq_length: what a call pads and cuts to.
    """

    def __init__(self, tokenizer: Tokenizer, seq_length: int = _DEFAULT_LENGTH):
        super().__init__(name="preprocess")
        self._tokenizer = tokenizer
        self._is_continuation = tf.constant(tokenizer.vocabulary.continuation_mask)
        strings = tf.TensorSpec([None], tf.string, name="inputs")
        words = tf.RaggedTensorSpec([None, None, None], tf.int32, ragged_rank=2)
        length = tf.TensorSpec([], tf.int32)
        self.tokenize = tf.function(self._words, input_signature=[strings], autograph=False)
        self.bert_pack_inputs = tf.function(self._pack, autograph=False)
        for count in (1, 2):
            self.bert_pack_inputs.get_concrete_function([words] * count, length)
        self.__call__ = tf.function(
            lambda inputs: self._pack([self._words(inputs)], tf.constant(seq_length)),
            input_signature=[strings],
            autograph=False,
        )

    def _words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        pieces = self._tokenizer(texts)  # [N, pieces]
        # A word begins at every piece without "##", and at the first piece of a text in any case:
        # "play ##ing ##s" "!" in two texts: begins 1 0 0 1, starts 0 3, edges 0 3 4.
        begins = ~tf.gather(self._is_continuation, pieces.values)
        begins |= tf.equal(
            tf.range(tf.size(begins, tf.int64)),
            tf.gather(pieces.row_starts(), pieces.value_rowids()),
        )
        starts = tf.where(begins)[:, 0]  # [words]: the index of the first piece of each
        edges = tf.concat([starts, tf.size(begins, tf.int64)[None]], axis=0)  # [words + 1]
        words = tf.RaggedTensor.from_row_splits(pieces.values, edges)  # [words, pieces]
        # [N + 1]: how many words begin before each text begins.
        splits = tf.searchsorted(starts, pieces.row_splits, out_type=tf.int64)
        return tf.RaggedTensor.from_row_splits(words, splits)  # [N, words, pieces]

    def _pack(
        self, texts: Sequence[tf.RaggedTensor], seq_length: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        pieces = [text.merge_dims(1, 2) for text in texts]  # [N, pieces]
        packed = packing.pack(
            pieces[0],
            pieces[1] if len(pieces) == 2 else None,
            self._tokenizer.vocabulary,
            tf.cast(seq_length, tf.int64),
            pad_to_max=False,
        )
        # Packed to the longest row first: the length is a tensor here, which `pack` cannot pad to.
        missing = seq_length - tf.shape(packed[INPUT_IDS])[1]
        pad = {INPUT_IDS: self._tokenizer.vocabulary.pad_id}
        return {
            # [N, seq_length]
            name: tf.pad(packed[ours], [[0, 0], [0, missing]], constant_values=pad.get(ours, 0))
            for name, ours in _INPUTS.items()
        }


class HubEncoder(tf.train.Checkpoint):
    """Called with the inputs of TF-Hub's BERT it returns its outputs, float32.

    `pooled_output` and `default`, [N, H]; `sequence_output` [N, S, H]; `encoder_outputs`, those of
    all layers, L of [N, S, H]. It can be trained on: `training` turns dropout on, and
    `trainable_variables` are its weights. `vocab_file` and `do_lower_case` are there as in those
    models; `config_file` and `named_weights` are what `BertEncoder.from_preset` reads.

    Args:
        encoder: made with `output_hidden_states`.
        tokenizer: the tokenizer of the encoder, saved beside it.
        scratch: a folder to write the files of both into, which must exist until this is saved.
    """

    def __init__(self, encoder: BertEncoder, tokenizer: Tokenizer, scratch: Path):
        # A tf.Module would have properties of the names that users of TF-Hub's models expect.
        super().__init__()
        self._encoder_call = lambda inputs, training: encoder(inputs, training=training)
        # The states of dropouts are variables too.
        self.variables = [variable.value for variable in encoder.variables]
        self.trainable_variables = [variable.value for variable in encoder.trainable_weights]
        self.regularization_losses: list[Any] = []
        setattr(self, tf_hub.WEIGHTS, {weight.path: weight.value for weight in encoder.weights})
        # The files beside the weights.
        tokenizer.save(scratch)
        content = {"architecture": "BertEncoder", "config": encoder.config.to_dict(), "head": {}}
        (scratch / CONFIG_FILE).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        for name, file in (
            (tf_hub.CONFIG, CONFIG_FILE),
            (tf_hub.VOCABULARY, vocabulary.FILE_NAME),
            ("tokenizer_config_file", tokenizer_config.FILE_NAME),
        ):
            setattr(self, name, tf.saved_model.Asset(str(scratch / file)))
        lowercase = tf.Variable(tokenizer.settings["lowercase"], trainable=False)
        setattr(self, tf_hub.LOWERCASE, lowercase)
        self.__call__ = tf.function(self._call, autograph=False)
        inputs = {name: tf.TensorSpec([None, None], tf.int32, name=name) for name in _INPUTS}
        # A SavedModel holds the graphs that were traced: one of each, for inference and training.
        for training in (False, True):
            self.__call__.get_concrete_function(inputs, training=training)

    def _call(
        self, inputs: dict[str, tf.Tensor], training: bool = False, mask: None = None
    ) -> dict[str, Any]:
        # int32 [N, S] each, under the names of our encoder.
        ours = {_INPUTS[name]: values for name, values in inputs.items()}
        outputs = self._encoder_call(ours, training)
        return {
            "default": outputs["pooled_output"],  # [N, H], as in the first format of TF-Hub
            "pooled_output": outputs["pooled_output"],
            "sequence_output": outputs["sequence_output"],  # [N, S, H]
            # L of [N, S, H]: without the embeddings, which come first in ours.
            "encoder_outputs": outputs["hidden_states"][1:],
        }


def export_hub_form(
    model_dir: str | os.PathLike,
    export_dir: str | os.PathLike,
    seq_length: int | None = None,
    ignore_config_keys: Collection[str] = (),
) -> Path:
    """Writes `<export_dir>/preprocess` and `<export_dir>/encoder`.

    Args:
        model_dir: any model folder.
        export_dir: the folder to write.
        seq_length: what the preprocessing model pads to; None takes 128, or all of the model's
            positions where these are fewer.
        ignore_config_keys: unknown keys of the model's config to pass over.

    Raises:
        FileNotFoundError: there is no model.
        FileExistsError: there is something at `export_dir`.
        ValueError: the length is below 5 or longer than the model, or the vocabulary has more
            pieces than the embedding has rows.
    """
    check_nothing_there(export_dir)
    encoder = BertEncoder.from_preset(
        os.fspath(model_dir), ignore_config_keys, output_hidden_states=True, dtype="float32"
    )
    most = encoder.config.max_position_embeddings
    length = min(_DEFAULT_LENGTH, most) if seq_length is None else seq_length
    if length < _SHORTEST:
        raise ValueError(f"max_seq_length is {length}: it must be at least {_SHORTEST}")
    if length > most:
        raise ValueError(f"max_seq_length is {length}: the model has {most} positions")
    tokenizer = load_tokenizer(model_dir)
    if not isinstance(tokenizer, BertTokenizer):
        raise ValueError(
            f"{model_dir} has a {type(tokenizer).__name__}: TF-Hub's form knows WordPiece alone; "
            "export a SavedModel for TF Serving, with --format=serving"
        )
    check_rows(tokenizer.vocabulary, encoder.config)
    preprocessor = HubPreprocessor(tokenizer, length)
    with new_folder(export_dir) as folder, tempfile.TemporaryDirectory() as scratch:
        tf.saved_model.save(preprocessor, str(folder / PREPROCESS))
        tf.saved_model.save(HubEncoder(encoder, tokenizer, Path(scratch)), str(folder / ENCODER))
    return Path(export_dir)
