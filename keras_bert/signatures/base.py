"""What the signatures of every kind of model share.

    serving_default   strings [N] ----------------+--> guards --> preprocess --> unpadded encoder
    serve_examples    serialized tf.Example [N] --+                                   |
                                                        answers, [N, ...] <-- head <--+
    serve_ids         int32 [N, S] --> guards --> the Keras model --> logits

A family (one subclass for each kind of task) says what strings it takes and makes the answers of
them; this module makes the other signatures from that. All of them take any N, also 0, and what is
answered for a text does not depend on the texts beside it, rounding apart. Guards are assertions in
the graph: a request over a limit, or with texts that lack their partners, is refused in words
before anything is computed. A family may
stand for an ensemble: then it asks all `members` and makes its answers of their joined logits.

Shapes: N examples of a request, S positions.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import keras
import tensorflow as tf

from keras_bert.features import (
    ENCODER_FEATURES,
    INPUT_IDS,
    INPUT_MASK,
    MASKED_LM_POSITIONS,
    SEGMENT_IDS,
)
from keras_bert.signatures.options import ExportOptions
from keras_bert.signatures.unpadded_encoder import UnpaddedEncoder
from keras_bert.signatures.vocabulary_rows import check_rows
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.preprocessor import BertPreprocessor

SERVING_DEFAULT = "serving_default"
SERVE_IDS = "serve_ids"
SERVE_EXAMPLES = "serve_examples"
EXAMPLES = "examples"

Tensors = dict[str, tf.Tensor]


class SignatureFamily(abc.ABC):
    """The signatures of one kind of model.

    Args:
        model: the Keras model that answers.
        tokenizer: the tokenizer with which the model was trained.
        max_seq_length: the most positions of a row.
        options: settings of the export.

    Attributes:
        sample: values of an example, ASCII; `example` gives those that are asked for.
        labels: names of the classes, where there are classes.
        joins_members: whether all that it answers comes from the joined logits of its `members`.
        has_portable_ids: whether files of LiteRT and ONNX can hold what answers ids.
        tracked: what its graphs hold besides model and tokenizer.
        reason: why it takes and answers what it does, for the user of an export.

    Raises:
        ValueError: the vocabulary has more pieces than the embedding has rows.
    """

    sample: Mapping[str, Any]
    labels: tuple[str, ...] = ()
    tracked: tf.Module | None = None
    reason: str = "as the head asks"
    joins_members: ClassVar[bool] = False
    has_portable_ids: ClassVar[bool] = True
    # Of an ensemble, see `add_members`.
    _others: tuple[Self, ...] = ()
    _join: Callable[[Sequence[tf.Tensor]], tf.Tensor] | None = None

    def __init__(
        self, model: Any, tokenizer: Tokenizer, max_seq_length: int, options: ExportOptions
    ):
        check_rows(tokenizer.vocabulary, model.config)
        for layer in model._flatten_layers():
            if isinstance(layer, keras.layers.LSTM):
                # A graph with cuDNN's runs on no other machine, and refuses rows of padding alone.
                layer.use_cudnn = False
        self.model = model
        self.tokenizer = tokenizer
        self.max_seq_length = max_seq_length
        self.options = options
        # A head has its encoder inside; a bare encoder is one itself.
        self.encoder = UnpaddedEncoder(
            getattr(model, "encoder", model),
            onednn=options.dtype == "bfloat16_onednn",
            full_length=max_seq_length,
        )
        self.preprocess = BertPreprocessor(tokenizer, max_seq_length, pad_to="longest")

    def add_members(
        self, others: Sequence[Self], join: Callable[[Sequence[tf.Tensor]], tf.Tensor]
    ) -> None:
        """Makes these the signatures of an ensemble, of which the model given is the first member.

        Args:
            others: signatures of the other members.
            join: makes the logits of the ensemble of those of its members, in their order.

        Raises:
            ValueError: models of this kind cannot be joined.
        """
        if not self.joins_members:
            raise ValueError(
                f"{type(self).__name__} cannot join several models: export one at a time"
            )
        self._others, self._join = tuple(others), join

    @property
    def members(self) -> "tuple[Self, ...]":
        """The signatures of all models: of an ensemble its members, else this one alone."""
        return (self, *self._others)

    @property
    def shares_rows(self) -> bool:
        """Whether all members read the same rows of token ids."""
        return all(
            (member.tokenizer, member.max_seq_length) == (self.tokenizer, self.max_seq_length)
            for member in self._others
        )

    def joined(self, logits: Sequence[tf.Tensor]) -> tf.Tensor:
        """Joins the logits of all members, which stand in the order of `members`."""
        return logits[0] if self._join is None else self._join(logits)

    @abc.abstractmethod
    def string_inputs(self) -> dict[str, tf.TensorSpec]:
        """Returns what `answer` takes: strings [N], or [N, any]."""

    @abc.abstractmethod
    def answer(self, *texts: Any, **texts_by_name: Any) -> Tensors:
        """Returns the outputs of `serving_default`, each with a first axis of N.

        Each family takes the names of its own `string_inputs`, in their order.
        """

    def more_answers(self) -> dict[str, Callable[..., Tensors]]:
        """Returns further signatures by their names."""
        return {}

    def more_inputs(self) -> dict[str, dict[str, tf.TensorSpec]]:
        """Returns what further signatures take, [N, ...] each, by their names.

        Those that are left out take the strings of `string_inputs`.
        """
        return {}

    def example(self) -> dict[str, Any]:
        """Returns values of one example by the names of `string_inputs`, within the limits."""
        most = self.options.max_text_bytes  # of ASCII samples a byte is a character
        texts = {name: self.sample[name] for name in self.string_inputs()}
        return {  # a text, or a list of texts
            name: value[:most] if isinstance(value, str) else [text[:most] for text in value]
            for name, value in texts.items()
        }

    def id_inputs(self) -> dict[str, tf.TensorSpec]:
        """Returns what `ids` takes: int32 [N, S] each."""
        return {
            feature.name: tf.TensorSpec([None, None], feature.dtype, name=feature.name)
            for feature in ENCODER_FEATURES
        }

    def ids(self, **inputs: tf.Tensor) -> Tensors:
        """Returns the outputs of `serve_ids`: what the Keras model says."""
        return {"logits": self.joined([m.model(inputs, training=False) for m in self.members])}

    def ids_model(self) -> Any:
        """Returns the Keras model that answers as `ids` does, for formats that hold such a one."""
        return self.model

    def functions(self) -> dict[str, Any]:
        """Returns all signatures as concrete functions."""
        strings, ids, more = self.string_inputs(), self.id_inputs(), self.more_inputs()
        examples = tf.TensorSpec([None], tf.string, name=EXAMPLES)
        traced = {
            name: _traced(self.guarded(answer), more.get(name, strings))
            for name, answer in {SERVING_DEFAULT: self.answer, **self.more_answers()}.items()
        }
        traced[SERVE_EXAMPLES] = _traced(self._answer_examples, {EXAMPLES: examples})
        if self.shares_rows:  # else members have no ids in common
            traced[SERVE_IDS] = _traced(self.guarded(self.ids), ids)
        return traced

    def _answer_examples(self, examples: tf.Tensor) -> Tensors:
        features = {
            name: tf.io.FixedLenFeature([], tf.string)
            if spec.shape.rank == 1
            # Lists of strings (choices) of any length, padded with empty ones: [N, any].
            else tf.io.FixedLenSequenceFeature([], tf.string, allow_missing=True)
            for name, spec in self.string_inputs().items()
        }
        return self.guarded(self.answer)(**tf.io.parse_example(examples, features))

    def guarded(self, answer: Callable[..., Tensors]) -> Callable[..., Tensors]:
        """Returns `answer` for graphs, behind the checks of what a request may hold.

        It takes the inputs of a signature by their names. In a graph a request that they refuse
        ends in `tf.errors.InvalidArgumentError`.
        """

        def checked(**inputs: tf.Tensor) -> Tensors:
            with tf.control_dependencies(self._checks(inputs)):
                # The copies are made after the checks: nothing runs on inputs that are refused.
                return answer(**{name: tf.identity(values) for name, values in inputs.items()})

        return checked

    def _checks(self, inputs: Tensors) -> list[tf.Operation]:
        batch, size = self.options.max_batch, self.options.max_text_bytes
        # A concrete function hands them over sorted by name; the first here is the one that a
        # request is about.
        known = [*self.string_inputs(), *self.id_inputs()]
        first, *others = dict.fromkeys([name for name in known if name in inputs] + list(inputs))
        examples = tf.shape(inputs[first])[0]  # N
        checks = [
            tf.debugging.assert_equal(
                tf.shape(inputs[name])[0],
                examples,
                f"every {first} needs its {name}: the request holds different numbers of them",
            )
            for name in others
        ]
        if batch is not None:
            checks.append(
                tf.debugging.assert_less_equal(
                    examples,
                    batch,
                    f"the request holds more than {batch} examples: send fewer at a time",
                )
            )
        for name, values in inputs.items():
            if values.dtype == tf.string and size is not None:
                checks.append(
                    tf.debugging.assert_less_equal(
                        # The empty string is for requests of no texts, which have no maximum.
                        tf.reduce_max(
                            tf.strings.length(tf.concat([tf.reshape(values, [-1]), [""]], 0))
                        ),
                        size,
                        f"a {name} is longer than {size} bytes: send shorter ones",
                    )
                )
            if values.dtype != tf.string and values.shape.rank != 1:  # but a number for each text
                checks.append(
                    tf.debugging.assert_less_equal(
                        tf.shape(values)[-1],
                        self.max_seq_length,
                        f"{name} has more than {self.max_seq_length} positions: cut the rows",
                    )
                )
        return checks + self._id_checks(inputs)

    def _id_checks(self, inputs: Tensors) -> list[tf.Operation]:
        """Returns the checks of rows of ids, which would answer all the same in part."""
        if INPUT_IDS not in inputs:
            return []
        shape = tf.shape(inputs[INPUT_IDS])
        # A mask of one position would count for all of them.
        checks = [
            tf.debugging.assert_equal(
                tf.shape(inputs[name])[1:],
                shape[1:],
                f"a row of {name} has another length than that of {INPUT_IDS}: pad both alike",
            )
            for name in (INPUT_MASK, SEGMENT_IDS)
        ]
        configs = [member.model.config for member in self.members]
        counts = {INPUT_IDS: min(config.vocab_size for config in configs)}
        if all(config.has_segments for config in configs):
            counts[SEGMENT_IDS] = min(config.type_vocab_size for config in configs)
        if MASKED_LM_POSITIONS in inputs:
            counts[MASKED_LM_POSITIONS] = shape[-1]
        for name, count in counts.items():
            # The 0 is for requests of no rows, and the 1 for rows of no positions.
            values = tf.concat([tf.reshape(inputs[name], [-1]), [0]], 0)
            limit = "the length of the rows" if name == MASKED_LM_POSITIONS else count
            checks += [
                tf.debugging.assert_less(
                    tf.reduce_max(values),
                    tf.maximum(count, 1),
                    f"{name} has numbers of {limit} or above: give lower ones",
                ),
                tf.debugging.assert_less_equal(
                    tf.reduce_max(-values), 0, f"{name} has numbers below 0: give 0 and above"
                ),
            ]
        return checks


def string_vector(name: str) -> tf.TensorSpec:
    """Returns the specification of strings [N]."""
    return tf.TensorSpec([None], tf.string, name=name)


def with_a_column(inputs: Mapping[str, tf.Tensor]) -> Tensors:
    """Gives rows of no texts one position: the longest of none is 0 positions long."""
    missing = tf.maximum(0, 1 - tf.shape(inputs[INPUT_IDS])[1])
    return {name: tf.pad(rows, [[0, 0], [0, missing]]) for name, rows in inputs.items()}


def _traced(function: Callable[..., Tensors], inputs: Mapping[str, tf.TensorSpec]) -> Any:
    return tf.function(function, autograph=False).get_concrete_function(**inputs)
