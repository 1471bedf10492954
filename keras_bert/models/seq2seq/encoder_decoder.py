"""BertEncoderDecoder: text to text, both halves started from one BERT.

    input_ids, input_mask, segment_ids --> encoder --> encoder_output [B, S, H]
    [B, S]                                                  |
    decoder_input_ids [B, T] ----------> decoder -----------+--> hidden [B, T, H]
                                                                    |
         logits [B, T, V] <-- decoder's word embeddings^T <-- masked LM head's transform

Paths of the decoder's variables begin with "decoder/"; behind that they are those of the encoder
("decoder/layer_0/intermediate/kernel"), which is how they start from its weights. The output layer
is BERT's masked LM head with the decoder's word embeddings, as in `BertLMHeadModel` of
transformers.

Shapes: B texts, S positions of the encoder, T positions of the decoder, H width, V vocabulary.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import keras
import numpy as np
from keras import ops

from keras_bert.checkpoints.checkpoint import Checkpoint
from keras_bert.checkpoints.variables import POOLER
from keras_bert.choices import check_choice
from keras_bert.config import BertConfig
from keras_bert.features import INPUT_MASK
from keras_bert.layers.decoder_block import KeysAndValues
from keras_bert.layers.masked_lm import MaskedLanguageModelTransform, OutputBias
from keras_bert.models.encoder import BertEncoder, as_encoder, encoder_inputs
from keras_bert.models.seq2seq.decoder import DECODER_INPUT_IDS, BertDecoder, Memory
from keras_bert.models.seq2seq.sequence_search import Cache, SearchOptions, Sequences, search
from keras_bert.models.task_model import TaskModel

DecoderStart = Literal["bert2bert", "bertshare", "random"]

_DECODER = "decoder/"
_OUTPUT = "masked_lm_"


@keras.saving.register_keras_serializable("keras_bert")
class BertEncoderDecoder(TaskModel):
    """An encoder and a decoder of the same size (Rothe et al. 2020, arXiv:1907.12461).

    Inputs: those of the encoder, int32 [B, S] each, and `decoder_input_ids` int32 [B, T]: what
    stands before each piece that is predicted, the first of them the start. Output: logits
    [B, T, V], float32. In training that is teacher forcing; `generate` searches for the text.

    Args:
        config: the numbers of both, a `BertConfig` or its dict; or the encoder itself.
        decoder: how the decoder starts where a folder holds an encoder alone. "bert2bert": its
            embeddings, blocks and output layer with the encoder's weights, which then go their own
            ways; "bertshare": encoder and decoder are one set of weights; "random": all of it
            fresh. Cross-attention starts fresh in each.
        start_token_id: the id of what stands before the first piece, [CLS]; `generate` needs it.
        end_token_id: the id of what ends a text, [SEP].
        seed: seed of all dropouts; None draws one.
        dtype: a Keras dtype policy; None takes the global one.

    Attributes:
        decoder: the `BertDecoder`.

    Raises:
        ValueError: the config is of another family than BERT, or `decoder` is unknown.
    """

    def __init__(
        self,
        config: BertConfig | Mapping[str, Any] | BertEncoder,
        decoder: DecoderStart = "bert2bert",
        start_token_id: int | None = None,
        end_token_id: int | None = None,
        seed: int | None = None,
        dtype: Any = None,
        name: str = "bert_encoder_decoder",
        **kwargs: Any,
    ):
        check_choice("decoder", decoder, DecoderStart)
        encoder = as_encoder(config, seed=seed, dtype=dtype)
        numbers = encoder.config
        if numbers.model_type != BertConfig.model_type or encoder.packed:
            what = "packed" if encoder.packed else f"of the model_type {numbers.model_type!r}"
            raise ValueError(
                f"the encoder is {what}: the decoder is that of BERT, so give a BERT encoder that "
                "is not packed"
            )
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
            decoder_model = BertDecoder(encoder, shares_weights=decoder == "bertshare")
        hidden = decoder_model(  # [B, T, H]
            {DECODER_INPUT_IDS: ids, "encoder_output": encoded, "encoder_mask": inputs[INPUT_MASK]}
        )
        logits = bias(decoder_model.word_embeddings(transform(hidden), reverse=True))  # [B, T, V]
        inputs = {**inputs, DECODER_INPUT_IDS: ids}
        super().__init__(encoder, inputs=inputs, outputs=logits, name=name, **kwargs)
        # === Config ===
        self.decoder = decoder_model
        self.decoder_start = decoder
        self.start_token_id = start_token_id
        self.end_token_id = end_token_id
        self.masked_lm_transform = transform
        self.masked_lm_bias = bias
        # No loss reaches it, and weight decay alone would wear it down.
        encoder.get_layer("pooler").trainable = False

    def head_config(self) -> dict[str, Any]:
        """Returns how the decoder started and the ids of start and end."""
        return {
            "decoder": self.decoder_start,
            "start_token_id": self.start_token_id,
            "end_token_id": self.end_token_id,
        }

    def initial_variables(self, checkpoint: Checkpoint) -> Mapping[str, np.ndarray]:
        """Returns the encoder's weights, and the same for the decoder, as `decoder` says.

        Raises:
            ValueError: encoder and decoder of the checkpoint differ and shall be one; it holds a
                decoder, and a fresh one is asked for; or its output layer is not tied to the word
                embeddings.
        """
        held = dict(checkpoint.variables)
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

    def generate(self, inputs: Mapping[str, Any], options: SearchOptions) -> Sequences:
        """Returns the likeliest texts for the encoder's inputs, see `generate_from`.

        Args:
            inputs: those of the encoder, int32 [B, S] each.
            options: length, beams and penalty.
        """
        encoded = self.encoder({name: inputs[name] for name in self.encoder.input}, training=False)
        return self.generate_from(encoded["sequence_output"], inputs[INPUT_MASK], options)

    def generate_from(
        self, encoder_output: Any, encoder_mask: Any, options: SearchOptions
    ) -> Sequences:
        """Searches for the likeliest texts, with keys and values cached, in graph.

        Args:
            encoder_output: [B, S, H].
            encoder_mask: 1 for real pieces, int32 [B, S].
            options: length, beams, penalty and what is not generated: by default padding and start.

        Returns:
            The best `beam_size` sequences of each text.

        Raises:
            ValueError: the model does not know its start and its end, or has too few positions.
        """
        if self.start_token_id is None or self.end_token_id is None:
            raise ValueError(
                "the model does not know how a text starts and ends: give it start_token_id and "
                "end_token_id, those of [CLS] and [SEP]"
            )
        length, positions = options.max_target_length, self.config.max_position_embeddings
        if length > positions:
            raise ValueError(
                f"max_target_length is {length} but the model has {positions} positions "
                f"(max_position_embeddings): give at most {positions}"
            )
        if options.suppressed_ids is None:
            no_text = {self.config.pad_token_id, self.start_token_id} - {self.end_token_id}
            options = dataclasses.replace(options, suppressed_ids=tuple(no_text))
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


def _flat(cache: list[KeysAndValues]) -> Cache:
    return [values for pair in cache for values in pair]
