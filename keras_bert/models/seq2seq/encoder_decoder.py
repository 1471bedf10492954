"""BertEncoderDecoder: text to text, both halves started from one BERT.

    input_ids, input_mask, segment_ids --> encoder --> encoder_output [B, S, H]
    [B, S]                                                  |
    decoder_input_ids [B, T] ----------> decoder -----------+--> hidden [B, T, H]
                                                                    |
         logits [B, T, V] <-- decoder's word embeddings^T <-- masked LM head's transform

A conditional masked language model (Ghazvininejad et al. 2019, arXiv:1904.09324) is the same with a
decoder that sees both ways and fills the gaps of a target, and a classifier of the target's length:

    encoder_output [B, S, H] --[CLS]--> length_logits [B, M]
    decoder_input_ids, decoder_input_mask, decoder_masked [B, T] --> decoder --> logits [B, T, V]

Paths of the decoder's variables begin with "decoder/"; behind that they are those of the encoder
("decoder/layer_0/intermediate/kernel"), which is how they start from its weights. The output layer
is BERT's masked LM head with the decoder's word embeddings, as in `BertLMHeadModel` of
transformers.

Shapes: B texts, S positions of the encoder, T positions of the decoder, H width, V vocabulary,
M pieces of a target at most.
"""

import dataclasses
import math
from collections.abc import Mapping
from numbers import Integral
from typing import Any, Literal

import keras
import numpy as np
from keras import ops

from keras_bert.checkpoints.checkpoint import Checkpoint
from keras_bert.checkpoints.variables import POOLER
from keras_bert.choices import check_choice
from keras_bert.config import BertConfig
from keras_bert.counts import check_count
from keras_bert.features import INPUT_MASK
from keras_bert.layers.decoder_block import KeysAndValues
from keras_bert.layers.masked_lm import MaskedLanguageModelTransform, OutputBias
from keras_bert.models.encoder import BertEncoder, as_encoder, encoder_inputs
from keras_bert.models.seq2seq.decoder import (
    DECODER_INPUT_IDS,
    DECODER_INPUT_MASK,
    BertDecoder,
    Memory,
)
from keras_bert.models.seq2seq.mask_predict import MaskPredictOptions, mask_predict
from keras_bert.models.seq2seq.sequence_search import Cache, SearchOptions, Sequences, search
from keras_bert.models.task_model import TaskModel, output_layer

DecoderStart = Literal["bert2bert", "bertshare", "random"]
Decoding = Literal["autoregressive", "mask_predict"]

# 1 where a piece of the target is hidden from a conditional masked language model.
DECODER_MASKED = "decoder_masked"
# Its outputs.
PIECE_LOGITS, LENGTH_LOGITS = "logits", "length_logits"

_DECODER = "decoder/"
_OUTPUT = "masked_lm_"


@keras.saving.register_keras_serializable("keras_bert")
class BertEncoderDecoder(TaskModel):
    """An encoder and a decoder of the same size (Rothe et al. 2020, arXiv:1907.12461).

    Inputs: those of the encoder, int32 [B, S] each, and `decoder_input_ids` int32 [B, T]: what
    stands before each piece that is predicted, the first of them the start. Output: logits
    [B, T, V], float32. In training that is teacher forcing; `generate` searches for the text.

    With `decoding="mask_predict"`: `decoder_input_ids` are whole targets, [CLS] pieces [SEP], with
    `decoder_input_mask`, 1 for real pieces, and `decoder_masked`, 1 for pieces that are replaced by
    [MASK] before the decoder sees them, int32 [B, T] each. Outputs: `logits` [B, T, V], of the
    pieces at these positions themselves, and `length_logits` [B, M], of 1 to M pieces, both
    float32. The length is read from the encoder's first position, [CLS], which BERT has for what is
    said of a whole text; the paper adds a token LENGTH to the source for it, which no vocabulary
    of a pretrained model has.

    Args:
        config: the numbers of both, a `BertConfig` or its dict; or the encoder itself.
        decoder: how the decoder starts where a folder holds an encoder alone. "bert2bert": its
            embeddings, blocks and output layer with the encoder's weights, which then go their own
            ways; "bertshare": encoder and decoder are one set of weights; "random": all of it
            fresh. Cross-attention starts fresh in each.
        start_token_id: the id of what stands before the first piece, [CLS]; `generate` needs it.
        end_token_id: the id of what ends a text, [SEP].
        decoding: how texts are written: piece by piece, "autoregressive", or all pieces at once,
            some of them again and again, "mask_predict".
        mask_token_id: the id of [MASK]; of Mask-Predict alone.
        max_target_length: the most pieces of a target, its end among them, M + 1; of Mask-Predict
            alone, which has a class for each length.
        seed: seed of all dropouts; None draws one.
        dtype: a Keras dtype policy; None takes the global one.

    Attributes:
        decoder: the `BertDecoder`.

    Raises:
        ValueError: the config is of another family than BERT, `decoder` or `decoding` is unknown,
            an id is none of the vocabulary, or Mask-Predict lacks an id or its lengths, has too
            few positions for them, or an encoder that reads from left to right.
    """

    # No loss reaches it, and weight decay alone would wear it down.
    frozen_layers = ("encoder/pooler",)

    def __init__(
        self,
        config: BertConfig | Mapping[str, Any] | BertEncoder,
        decoder: DecoderStart = "bert2bert",
        start_token_id: int | None = None,
        end_token_id: int | None = None,
        decoding: Decoding = "autoregressive",
        mask_token_id: int | None = None,
        max_target_length: int | None = None,
        seed: int | None = None,
        dtype: Any = None,
        name: str = "bert_encoder_decoder",
        **kwargs: Any,
    ):
        check_choice("decoder", decoder, DecoderStart)
        check_choice("decoding", decoding, Decoding)
        encoder = as_encoder(config, seed=seed, dtype=dtype)
        numbers = encoder.config
        if numbers.model_type != BertConfig.model_type or encoder.packed:
            what = "packed" if encoder.packed else f"of the model_type {numbers.model_type!r}"
            raise ValueError(
                f"the encoder is {what}: the decoder is that of BERT, so give a BERT encoder that "
                "is not packed"
            )
        pieces = {"start": start_token_id, "end": end_token_id, "mask": mask_token_id}
        for of, piece in pieces.items():
            check_count(f"{of}_token_id", piece, 0, numbers.vocab_size - 1)
        check_count("max_target_length", max_target_length)
        fills_gaps, lengths = decoding == "mask_predict", 0
        if fills_gaps:
            if mask_token_id is None or max_target_length is None or max_target_length < 2:
                raise ValueError(
                    f"decoding is 'mask_predict', mask_token_id is {mask_token_id} and "
                    f"max_target_length is {max_target_length}: give the id of [MASK] and a length "
                    "of at least 2"
                )
            if numbers.left_to_right:
                raise ValueError(
                    "decoding is 'mask_predict', which reads the length of a target from [CLS], "
                    "but the encoder reads from left to right, so [CLS] sees nothing of the "
                    "source: give a BERT that was pretrained with masked words"
                )
            check_target_positions(decoding, max_target_length, numbers.max_position_embeddings)
            lengths = max_target_length - 1
        # === Layers ===
        transform = MaskedLanguageModelTransform(
            numbers.transform_act,
            numbers.initializer_range,
            numbers.layer_norm_eps,
            numbers.embedding_width,
            dtype=encoder.policy,
            name="masked_lm_transform",
        )
        bias = OutputBias(dtype=encoder.policy, name="masked_lm_bias")
        # === Functional model ===
        inputs = encoder_inputs()  # int32 [B, S] each
        encoded = encoder(inputs)["sequence_output"]  # [B, S, H]
        ids = keras.Input((None,), dtype="int32", name=DECODER_INPUT_IDS)  # [B, T]
        with keras.name_scope(_DECODER.rstrip("/")):
            decoder_model = BertDecoder(
                encoder, shares_weights=decoder == "bertshare", causal=not fills_gaps
            )
        read = {"encoder_output": encoded, "encoder_mask": inputs[INPUT_MASK]}
        inputs = {**inputs, DECODER_INPUT_IDS: ids}
        if fills_gaps:
            for feature in (DECODER_INPUT_MASK, DECODER_MASKED):
                inputs[feature] = keras.Input((None,), dtype="int32", name=feature)  # [B, T]
        shown = _shown(inputs, mask_token_id if fills_gaps else None)  # [B, T] each
        hidden = decoder_model({**read, **shown})  # [B, T, H]
        logits = bias(decoder_model.word_embeddings(transform(hidden), reverse=True))  # [B, T, V]
        outputs, length = logits, None
        if fills_gaps:
            length = output_layer(encoder, lengths, "length")
            outputs = {PIECE_LOGITS: logits, LENGTH_LOGITS: length(encoded[:, 0])}  # [B, M]
        super().__init__(encoder, inputs=inputs, outputs=outputs, name=name, **kwargs)
        # === Config ===
        self.decoder = decoder_model
        self.decoder_start = decoder
        self.start_token_id = start_token_id
        self.end_token_id = end_token_id
        self.decoding = decoding
        self.mask_token_id = mask_token_id if fills_gaps else None
        self.max_target_length = max_target_length if fills_gaps else None
        self.length: Any = length
        self.masked_lm_transform = transform
        self.masked_lm_bias = bias

    def head_config(self) -> dict[str, Any]:
        """Returns how the decoder started, the ids of start and end, and what Mask-Predict has."""
        config: dict[str, Any] = {
            "decoder": self.decoder_start,
            "start_token_id": self.start_token_id,
            "end_token_id": self.end_token_id,
        }
        if self.decoding == "mask_predict":
            config |= {
                "decoding": self.decoding,
                "mask_token_id": self.mask_token_id,
                "max_target_length": self.max_target_length,
            }
        return config

    def initial_variables(self, checkpoint: Checkpoint) -> Mapping[str, np.ndarray]:
        """Returns the encoder's weights, and the same for the decoder, as `decoder` says.

        Raises:
            ValueError: encoder and decoder of the checkpoint differ and shall be one; it holds a
                decoder, and a fresh one is asked for; or its output layer is not tied to the word
                embeddings.
        """
        held = dict(checkpoint.variables)
        if self.length is not None and "length/bias" in held:
            held |= _of_lengths(held["length/kernel"], held["length/bias"], self.length.units)
        # What started at random is opened as it is.
        random = self.decoder_start == "random" and checkpoint.head.get("decoder") != "random"
        if random and any(path.startswith(_DECODER) for path in held):
            raise ValueError(
                "the checkpoint holds a decoder, but 'random' is a fresh one: give 'bert2bert' to "
                "go on with it, or start from a folder with an encoder alone"
            )
        if any(path.startswith(f"{_DECODER}word_embeddings") for path in held):
            if self.decoder_start == "bertshare":
                raise ValueError(
                    "the checkpoint holds an encoder and a decoder with weights of their own: "
                    "'bertshare' is one set of weights; give 'bert2bert'"
                )
            return held
        if self.decoder_start == "random":
            return {path: value for path, value in held.items() if not path.startswith(_OUTPUT)}
        checkpoint.check_masked_lm()
        copies = {
            f"{_DECODER}{path}": value
            for path, value in held.items()
            if path not in POOLER and not path.startswith((_DECODER, _OUTPUT))
        }
        return copies | held

    def output_logits(self, hidden: Any) -> Any:
        """Returns logits [..., V], float32, of hidden states of the decoder [..., H]."""
        words = self.decoder.word_embeddings(self.masked_lm_transform(hidden), reverse=True)
        return self.masked_lm_bias(words)

    def length_logits(self, encoder_output: Any) -> Any:
        """Returns logits of 1 to M pieces, float32 [B, M], of an encoder's output [B, S, H]."""
        # Not [:, 0]: where a request has no texts, their longest has no positions.
        return self.length(ops.sum(encoder_output[:, :1], axis=1))

    def decoder_inputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what the decoder reads of the model's inputs: ids, perhaps with a mask.

        Args:
            inputs: those of the model, int32 [B, T] each where they are the decoder's.
        """
        return _shown(inputs, self.mask_token_id)

    def generate(
        self, inputs: Mapping[str, Any], options: SearchOptions | MaskPredictOptions
    ) -> Sequences:
        """Returns the likeliest texts for the encoder's inputs, see `generate_from`.

        Args:
            inputs: those of the encoder, int32 [B, S] each: tensors, arrays or lists.
            options: length, beams and penalty, or iterations and candidates of Mask-Predict.
        """
        inputs = {name: ops.convert_to_tensor(inputs[name]) for name in self.encoder.input}
        mask = inputs[INPUT_MASK]
        if mask.shape[0] == 0:  # a batch of no texts, which no encoder computes eagerly
            return self.generate_from(ops.zeros((0, 1, self.config.hidden_size)), mask, options)
        encoded = self.encoder(inputs, training=False)
        return self.generate_from(encoded["sequence_output"], mask, options)

    def generate_from(
        self, encoder_output: Any, encoder_mask: Any, options: SearchOptions | MaskPredictOptions
    ) -> Sequences:
        """Writes the likeliest texts, in graph: what does not change in the loop is computed once.

        Args:
            encoder_output: [B, S, H].
            encoder_mask: 1 for real pieces, int32 [B, S].
            options: length, beams and penalty, or iterations and candidates of Mask-Predict; and
                what is not generated: by default padding and start, with Mask-Predict also end and
                mask.

        Returns:
            The best `beam_size` sequences of each text, or its `length_candidates`.

        Raises:
            ValueError: the model does not know its start and its end, has too few positions or
                lengths, or the options are for another decoding.
        """
        if self.start_token_id is None or self.end_token_id is None:
            raise ValueError(
                "the model does not know how a text starts and ends: give it start_token_id and "
                "end_token_id, those of [CLS] and [SEP]"
            )
        fills_gaps = self.decoding == "mask_predict"
        if not isinstance(options, MaskPredictOptions if fills_gaps else SearchOptions):
            raise ValueError(
                f"the decoding of the model is {self.decoding!r}, but the options are "
                f"{type(options).__name__}: give SearchOptions to an autoregressive model and "
                "MaskPredictOptions to one of Mask-Predict"
            )
        never: set[Any] = {self.config.pad_token_id, self.start_token_id} - {self.end_token_id}
        given, vocab_size = options.suppressed_ids, self.config.vocab_size
        if given is not None and not hasattr(given, "__iter__"):
            raise ValueError(f"suppressed_ids is {given!r}: give a list of ids")
        for piece in () if given is None else given:
            is_id = isinstance(piece, Integral) and not isinstance(piece, bool)
            if not is_id or not 0 <= piece < vocab_size:
                raise ValueError(
                    f"suppressed_ids has {piece}: expected ids from 0 to below the vocabulary's "
                    f"{vocab_size}"
                )
        no_text = never if given is None else set(given)
        if isinstance(options, MaskPredictOptions):
            # The length is known: no piece ends the text.
            no_text |= never | {self.end_token_id, self.mask_token_id}
            options = dataclasses.replace(options, suppressed_ids=tuple(sorted(no_text)))
            return self._mask_predict(encoder_output, encoder_mask, options)
        options = dataclasses.replace(options, suppressed_ids=tuple(sorted(no_text)))
        length, positions = options.max_target_length, self.config.max_position_embeddings
        check_target_positions(self.decoding, length, positions)
        if encoder_output.shape[0] == 0:
            return Sequences.of_no_texts(options.beam_size, length)
        memory = self.decoder.memory(encoder_output, encoder_mask)
        batch = ops.shape(encoder_output)[0]

        def step(ids: Any, position: Any, flat: Cache) -> tuple[Any, Cache]:
            return self.step_logits(ids, position, flat, memory)

        cache = self.decoder.empty_cache(batch * options.beam_size, length)
        return search(
            step,
            _flat(cache),
            batch,
            self.start_token_id,
            self.end_token_id,
            self.config.pad_token_id,
            options,
        )

    def _mask_predict(
        self, encoder_output: Any, encoder_mask: Any, options: MaskPredictOptions
    ) -> Sequences:
        # `generate_from` and the constructor refuse a model without them.
        assert self.start_token_id is not None and self.end_token_id is not None
        assert self.mask_token_id is not None
        lengths = self.length.units
        if options.length_candidates > lengths:
            raise ValueError(
                f"length_candidates is {options.length_candidates} but the model has lengths of 1 "
                f"to {lengths} pieces (max_target_length without the end): give at most {lengths}"
            )
        if encoder_output.shape[0] == 0:
            return Sequences.of_no_texts(options.length_candidates, lengths + 1)
        memory = self.decoder.memory(encoder_output, encoder_mask)
        return mask_predict(
            lambda ids, visible: self.decoder.look_again(ids, visible, memory),
            self.output_logits,
            self.length_logits(encoder_output),
            self.start_token_id,
            self.end_token_id,
            self.config.pad_token_id,
            self.mask_token_id,
            options,
        )

    def step_logits(
        self, ids: Any, position: Any, cache: Cache, memory: Memory
    ) -> tuple[Any, Cache]:
        """Returns the logits behind one position, [B, K, V], and the cache with it.

        Args:
            ids: the pieces at the position, int32 [B, K].
            position: from 0, an int32 scalar.
            cache: keys and values of each block one behind the other, [B * K, A, T, D] each.
            memory: what `BertDecoder.memory` returned.
        """
        pairs = [KeysAndValues(*cache[i : i + 2]) for i in range(0, len(cache), 2)]
        hidden, after = self.decoder.step(ids, position, pairs, memory)  # [B, K, H]
        return self.output_logits(hidden), _flat(after)


def _shown(inputs: Mapping[str, Any], mask_token_id: int | None) -> dict[str, Any]:
    ids = inputs[DECODER_INPUT_IDS]
    if mask_token_id is None:
        return {DECODER_INPUT_IDS: ids}
    shown = ops.where(ops.equal(inputs[DECODER_MASKED], 1), mask_token_id, ids)
    return {DECODER_INPUT_IDS: shown, DECODER_INPUT_MASK: inputs[DECODER_INPUT_MASK]}


def _flat(cache: list[KeysAndValues]) -> Cache:
    return [values for pair in cache for values in pair]


def check_target_positions(decoding: Decoding, max_target_length: int, positions: int) -> None:
    """Refuses targets that are longer than the decoder.

    Args:
        decoding: Mask-Predict reads whole targets: [CLS], which stands before them, takes a
            position that the end does not take elsewhere.
        max_target_length: the most pieces, the end among them.
        positions: those of the decoder.

    Raises:
        ValueError: they are.
    """
    most = positions - 1 if decoding == "mask_predict" else positions
    if max_target_length > most:
        why = "" if most == positions else ", one of which is for [CLS]"
        raise ValueError(
            f"max_target_length is {max_target_length} but the model has {positions} positions "
            f"(max_position_embeddings){why}: use at most {most}"
        )


def _of_lengths(kernel: np.ndarray, bias: np.ndarray, lengths: int) -> dict[str, np.ndarray]:
    """Returns the classifier of lengths for another number of them: a class means the same length.

    Args:
        kernel: [H, M].
        bias: [M].
        lengths: M'. Further lengths together are a hundredth as likely as the longest known one,
            for every text.

    Returns:
        Kernel [H, M'] and bias [M'] by their paths.
    """
    more = max(0, lengths - len(bias))
    # With the kernel of a known length: a bias alone, beside logits that vary by many nats from
    # text to text, would be the likeliest of some.
    further = bias[-1] - math.log(100 * max(1, more))
    return {
        "length/kernel": np.pad(kernel[:, :lengths], [(0, 0), (0, more)], mode="edge"),
        "length/bias": np.pad(bias[:lengths], (0, more), constant_values=further),
    }
