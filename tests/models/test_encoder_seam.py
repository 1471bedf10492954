"""A variant of the encoder from pretraining to serving, without a line in the package.

All that it takes is here: a config with a further number, an embeddings layer with a further
variable, a block with its norms first, and `register_encoder`.
"""

import dataclasses
import json
from typing import Any, ClassVar

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import (
    BertClassifier,
    BertConfig,
    BertEncoder,
    BertMaskedLM,
    BertMultipleChoice,
    BertPretrainer,
    BertSpanLabeler,
    BertTokenClassifier,
    BertTokenizer,
    create_optimizer,
    grow_vocabulary,
)
from keras_bert.checkpoints import folder as checkpoints
from keras_bert.finetuning.finetune import finetune
from keras_bert.finetuning.options import FinetuningOptions
from keras_bert.layers.embeddings import EmbeddingPostprocessor
from keras_bert.layers.encoder_block import EncoderBlock
from keras_bert.layers.self_attention import SelfAttention
from keras_bert.models import preset
from keras_bert.models.bilstm_tagger import BertBiLSTMTagger
from keras_bert.models.conversion.convert import convert
from keras_bert.models.encoder import create_encoder
from keras_bert.models.registry import register_encoder
from keras_bert.serving.saved_model import export_saved_model
from keras_bert.signatures.unpadded_encoder import UnpaddedEncoder
from keras_bert.tasks.classification.delimited import csv_task
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from keras_bert.training.checkpointing import TrainingCheckpoint
from keras_bert.training.rematerialization import rematerialize
from tests.conftest import WORDS
from tests.tolerances import REORDERED


@dataclasses.dataclass(frozen=True)
class ToyConfig(BertConfig):
    model_type: ClassVar[str] = "toy"
    embedding_scale: float = 1.0


class ScaledEmbeddings(EmbeddingPostprocessor):
    """BERT's embeddings times one learned number."""

    def __init__(self, *arguments: Any, scale: float, **kwargs: Any):
        super().__init__(*arguments, **kwargs)
        self.first_scale = scale

    def build(
        self,
        word_embeddings_shape: Any,
        segment_ids_shape: Any = None,
        position_ids_shape: Any = None,
    ) -> None:
        super().build(word_embeddings_shape)
        first = keras.initializers.Constant(self.first_scale)
        self.scale = self.add_weight(name="scale", shape=(), initializer=first)

    def embed(self, *arguments: Any, **kwargs: Any) -> Any:
        hidden = super().embed(*arguments, **kwargs)
        return hidden * keras.ops.cast(self.scale, hidden.dtype)


class NormFirstAttention(SelfAttention):
    def build(self, hidden_shape: Any, input_mask_shape: Any = None) -> None:
        super().build(hidden_shape)
        self.norm = keras.layers.LayerNormalization(dtype=self.dtype_policy, name="input_norm")
        self.norm.build(hidden_shape)

    def project(self, hidden: Any) -> Any:
        return super().project(self.norm(hidden))


class NormFirstBlock(EncoderBlock):
    """A pre-layer-norm block, which adds to hidden states what is computed of their norm."""

    def create_attention(self) -> SelfAttention:
        return NormFirstAttention(
            self.num_attention_heads, self.attention_probs_dropout_prob, name="attention"
        )

    def attention_half(self, hidden: Any, attended: Any, training: bool = False) -> Any:
        return hidden + self.attention_dropout(attended, training=training)

    def feed_forward_half(self, hidden: Any, training: bool = False) -> Any:
        inner = self.activation(self.intermediate(self.feed_forward_norm(hidden)))
        return hidden + self.feed_forward_dropout(self.output_dense(inner), training=training)


@register_encoder(ToyConfig)
class ToyEncoder(BertEncoder):
    @staticmethod
    def create_embeddings(config: Any, seed: int | None, dtype: Any) -> ScaledEmbeddings:
        return ScaledEmbeddings(
            config.max_position_embeddings,
            config.type_vocab_size,
            config.hidden_dropout_prob,
            config.initializer_range,
            config.layer_norm_eps,
            seed=seed,
            position_initializer=config.position_initializer,
            dtype=dtype,
            name="embeddings",
            scale=config.embedding_scale,
        )

    @staticmethod
    def create_block(config: Any, index: int, seed: int | None, dtype: Any) -> EncoderBlock:
        return NormFirstBlock(
            config.num_attention_heads,
            config.intermediate_size,
            hidden_dropout_prob=config.hidden_dropout_prob,
            dtype=dtype,
            name=f"layer_{index}",
        )


VOCABULARY = Vocabulary([*SPECIAL_TOKENS, *WORDS])
CONFIG = ToyConfig(
    vocab_size=len(VOCABULARY),
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=24,
    max_position_embeddings=32,
    initializer_range=0.3,  # large enough for two models to differ
    embedding_scale=1.75,
)
HEADS = [
    (BertPretrainer, {}),
    (BertMaskedLM, {}),
    (BertClassifier, {"num_classes": 3}),
    (BertMultipleChoice, {}),
    (BertTokenClassifier, {"num_classes": 2}),
    (BertSpanLabeler, {}),
    (BertBiLSTMTagger, {"num_classes": 2, "lstm_width": 3, "features_from": "last"}),
]
SCALE = "embeddings/scale"


def features(model, rows=3):
    """Inputs of any head, the second row shorter than the others."""
    draw = np.random.default_rng(0)
    shape = (rows, 2, 7) if isinstance(model, BertMultipleChoice) else (rows, 7)
    mask = np.ones(shape, "int32")
    mask[1, ..., 4:] = 0
    inputs = {
        "input_ids": draw.integers(1, CONFIG.vocab_size, shape).astype("int32"),
        "input_mask": mask,
        "segment_ids": draw.integers(0, 2, shape).astype("int32"),
    }
    if "masked_lm_positions" in model.input:
        inputs["masked_lm_positions"] = np.tile(np.array([[1, 2]], "int32"), (rows, 1))
    return inputs


def assert_same_answers(model, again):
    answers = (again(features(model), training=False), model(features(model), training=False))
    keras.tree.map_structure(np.testing.assert_array_equal, *answers)


def scale_of(model):
    encoder = getattr(model, "encoder", model)
    return float(encoder.get_layer("embeddings").scale.value)


def ten_steps(model, optimizer):
    inputs = {name: tf.constant(value) for name, value in features(model).items()}
    follows = tf.constant([0, 1, 1])
    targets = tf.gather(inputs["input_ids"], inputs["masked_lm_positions"], batch_dims=1)

    def loss(labels, logits):
        return tf.reduce_mean(
            keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
        )

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            logits = model(inputs, training=True)
            total = loss(targets, logits["mlm_logits"]) + loss(follows, logits["nsp_logits"])
        weights = model.trainable_weights
        optimizer.apply(tape.gradient(total, weights), weights)
        return total

    return [float(step()) for _ in range(10)]


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """A pretrainer of the variant after ten steps, its optimizer and its preset."""
    model = BertPretrainer(CONFIG, seed=1)
    optimizer = create_optimizer(1e-2, train_steps=10, warmup_steps=0)
    optimizer.build(model.trainable_weights)
    losses = ten_steps(model, optimizer)
    assert losses[-1] < 0.7 * losses[0]
    folder = tmp_path_factory.mktemp("toy") / "preset"
    model.save_to_preset(folder, BertTokenizer(VOCABULARY))
    return model, optimizer, folder


def test_a_config_makes_its_encoder_and_files_keep_which(pretrained):
    model, _, folder = pretrained
    assert type(model.encoder) is ToyEncoder
    assert scale_of(model) != CONFIG.embedding_scale  # it learned
    stored = json.loads((folder / "config.json").read_text())
    assert stored["architecture"] == "BertPretrainer"
    fields = dataclasses.asdict(CONFIG)
    del fields["position_initializer"]  # Named only where it is not the paper's.
    assert stored["config"] == {**fields, "model_type": "toy"}
    assert preset.read_config(folder) == BertConfig.from_file(folder) == CONFIG
    assert_same_answers(model, BertPretrainer.from_preset(folder))
    encoder = BertEncoder.from_preset(folder)
    assert type(encoder) is type(create_encoder(CONFIG)) is ToyEncoder
    assert_same_answers(model.encoder, encoder)


def test_training_goes_on_from_a_checkpoint(pretrained, tmp_path):
    model, optimizer, _ = pretrained
    TrainingCheckpoint(tmp_path, model, optimizer, {"seen": tf.Variable(3)}).save()
    again = BertPretrainer(CONFIG, seed=1)
    restored = create_optimizer(1e-2, train_steps=10, warmup_steps=0)
    restored.build(again.trainable_weights)
    checkpoint = TrainingCheckpoint(tmp_path, again, restored, {"seen": tf.Variable(0)})
    assert checkpoint.restore() == (True, [])
    assert checkpoint.step == 10
    assert_same_answers(model, again)


@pytest.mark.parametrize(("head", "arguments"), HEADS, ids=[head.__name__ for head, _ in HEADS])
def test_every_head_takes_the_variant(head, arguments, pretrained, tmp_path):
    pretrainer, _, folder = pretrained
    model = head.from_preset(folder, **arguments)
    assert type(model.encoder) is ToyEncoder
    assert scale_of(model) == scale_of(pretrainer)
    model.save_to_preset(tmp_path / "preset")
    assert_same_answers(model, head.from_preset(tmp_path / "preset"))
    model.save(tmp_path / "model.keras")
    assert_same_answers(model, keras.saving.load_model(tmp_path / "model.keras"))


@pytest.mark.parametrize(("head", "arguments"), HEADS[:-1], ids=[h.__name__ for h, _ in HEADS[:-1]])
def test_every_head_takes_an_encoder(head, arguments):
    encoder = create_encoder(CONFIG, seed=3, name="shared")
    first, second = head(encoder, **arguments), head(encoder, **arguments)
    assert first.encoder is second.encoder is encoder
    assert first.config == CONFIG
    again = head.from_config(first.get_config())
    again.set_weights(first.get_weights())
    assert_same_answers(first, again)
    with pytest.raises(ValueError, match=r"belong to the encoder shared"):
        head(encoder, seed=1, **arguments)


def test_a_packed_encoder_makes_a_packed_head():
    model = BertPretrainer(create_encoder(CONFIG, packed=True))
    assert "pack_ids" in model.input
    assert model.get_config()["packed"] is True


def test_features_come_from_an_encoder_without_dropout():
    still = CONFIG.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    encoder = create_encoder(still, output_hidden_states=True)
    model = BertBiLSTMTagger(encoder, num_classes=2, lstm_width=3, features_from="last")
    assert model.encoder is encoder
    assert not encoder.trainable_weights
    for config, arguments, message in (
        (still, {}, "returns no hidden states"),
        (CONFIG, {"output_hidden_states": True}, "has dropout"),
    ):
        encoder = create_encoder(config, **arguments)
        with pytest.raises(ValueError, match=message):
            BertBiLSTMTagger(encoder, num_classes=2, features_from="last")


def test_other_tools_of_the_package_take_the_variant(pretrained, tmp_path):
    model, _, folder = pretrained
    grown = grow_vocabulary(model, {len(VOCABULARY): [5, 6]}, len(VOCABULARY) + 1)
    assert type(grown.encoder) is ToyEncoder
    (tmp_path / "copy").mkdir()
    report = convert(folder, tmp_path / "copy", "keras")
    assert report.equal_arrays == len(model.weights)
    # Other formats know nothing of it, even where all names fit.
    with pytest.raises(ValueError, match=r"model_type is 'toy'|no name for the variable"):
        checkpoints.write(preset.as_checkpoint(model), tmp_path, "hf")
    with pytest.raises(ValueError, match=r"model_type is 'toy'|no name for the variable"):
        convert(folder, tmp_path, "hf")
    assert not list(tmp_path.glob("*.safetensors"))


@pytest.mark.slow
def test_the_variant_is_finetuned_and_served(pretrained, sentiment_folder, tmp_path):
    _, _, folder = pretrained
    task, run = csv_task(), tmp_path / "run"
    options = FinetuningOptions(
        epochs=2, batch_size=32, learning_rate=3e-3, mixed_precision="float32"
    )
    finetune(task, task.read(sentiment_folder), folder, run, options)
    model = BertClassifier.from_preset(run, dtype="float32")
    assert type(model.encoder) is ToyEncoder
    texts = ["a good film", "bad", "it was very sad and the book was awful", ""]
    served = tf.saved_model.load(export_saved_model(run, tmp_path / "export"))
    found = served.signatures["serving_default"](text=tf.constant(texts))
    inputs = {
        name: np.zeros((len(texts), 12), "int32")
        for name in ("input_ids", "input_mask", "segment_ids")
    }
    tokenizer = BertTokenizer.from_preset(run)
    for row, ids in enumerate(tokenizer(texts).to_list()):
        ids = [VOCABULARY.cls_id, *ids, VOCABULARY.sep_id]
        inputs["input_ids"][row, : len(ids)] = ids
        inputs["input_mask"][row, : len(ids)] = 1
    expected = keras.ops.softmax(model(inputs, training=False))
    np.testing.assert_allclose(found["scores"], expected, **REORDERED)


def test_a_config_of_another_encoder_is_refused(pretrained, tmp_path):
    _, _, folder = pretrained
    BertEncoder(BertConfig.from_name("tiny", vocab_size=30)).save_to_preset(tmp_path)
    with pytest.raises(ValueError, match=r"describes a BertEncoder .*, no ToyEncoder"):
        ToyEncoder.from_preset(tmp_path)
    with pytest.raises(ValueError, match=r"describes a ToyEncoder, not a BertEncoder"):
        BertEncoder(CONFIG)
    with pytest.raises(ValueError, match=r"model_type is 'unheard': expected one of bert, .*toy"):
        BertConfig.from_dict({"model_type": "unheard"})
    with pytest.raises(ValueError, match=r"'toy' belongs to ToyConfig"):
        register_encoder(type("Other", (BertConfig,), {"model_type": "toy"}))


@pytest.mark.parametrize(("head", "arguments"), HEADS, ids=[head.__name__ for head, _ in HEADS])
def test_a_head_refuses_an_encoder_that_its_config_does_not_describe(head, arguments):
    class Unregistered(ToyEncoder):
        """Its model folder would open as a ToyEncoder."""

    still = CONFIG.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    encoder = Unregistered(still, output_hidden_states=True)
    expected = r"is a Unregistered, but its config describes a ToyEncoder .*with register_encoder"
    with pytest.raises(ValueError, match=expected):
        head(encoder, **arguments)


def two_encoders(scope):
    """A model that holds two encoders: the second in a name scope, or not."""
    first = create_encoder(CONFIG)
    if scope:
        with keras.name_scope("second"):
            second = create_encoder(CONFIG, name="second")
    else:
        second = create_encoder(CONFIG, name="second")
    inputs = first.input
    outputs = [encoder(inputs)["pooled_output"] for encoder in (first, second)]
    model = keras.Model(inputs, outputs)
    model.encoder, model.config = first, CONFIG
    return model, second


def test_two_variables_of_one_path_are_refused(tmp_path):
    model, _ = two_encoders(scope=False)
    optimizer = create_optimizer(1e-2, train_steps=10, warmup_steps=0)
    with pytest.raises(ValueError, match=r"path .*embeddings.*name_scope"):
        TrainingCheckpoint(tmp_path, model, optimizer, {})
    with pytest.raises(ValueError, match=r"path .*embeddings.*name_scope"):
        preset.as_checkpoint(model)


def test_in_a_name_scope_nothing_is_lost(tmp_path):
    model, second = two_encoders(scope=True)
    own = [weight.path for weight in model.encoder.weights]
    assert own == [weight.path for weight in create_encoder(CONFIG).weights]
    assert [weight.path for weight in second.weights] == [f"second/{path}" for path in own]
    optimizer = create_optimizer(1e-2, train_steps=10, warmup_steps=0)
    optimizer.build(model.trainable_weights)
    TrainingCheckpoint(tmp_path / "run", model, optimizer, {"seen": tf.Variable(3)}).save()
    again, _ = two_encoders(scope=True)
    optimizer = create_optimizer(1e-2, train_steps=10, warmup_steps=0)
    optimizer.build(again.trainable_weights)
    assert TrainingCheckpoint(
        tmp_path / "run", again, optimizer, {"seen": tf.Variable(0)}
    ).restore() == (True, [])
    assert_same_answers(model, again)
    # A preset knows the second by the usual paths, and opens inside a scope, too.
    second.save_to_preset(tmp_path / "preset")
    assert list(preset.as_checkpoint(second).variables) == own
    assert SCALE in own
    with keras.name_scope("third"):
        third = preset.from_checkpoint(ToyEncoder, preset.as_checkpoint(second), {})
    assert third.weights[0].path.startswith("third/")
    assert_same_answers(second, third)
    assert_same_answers(second, BertEncoder.from_preset(tmp_path / "preset"))


def test_layers_that_serving_would_not_run_are_refused():
    class OwnCall(EncoderBlock):
        def call(self, hidden, input_mask, training=False, return_probs=False):
            return 2 * super().call(hidden, input_mask, training, return_probs)

    class OwnConfig(BertConfig):
        model_type: ClassVar[str] = "own_call"

    @register_encoder(OwnConfig)
    class OwnEncoder(BertEncoder):
        @staticmethod
        def create_block(config, index, seed, dtype):
            return OwnCall(config.num_attention_heads, 24, dtype=dtype, name=f"layer_{index}")

    encoder = OwnEncoder(OwnConfig.from_name("bert_tiny", vocab_size=30, num_hidden_layers=1))
    with pytest.raises(ValueError, match="OwnCall overrides call, which serving does not run"):
        UnpaddedEncoder(encoder)


def test_blocks_that_cannot_be_rematerialized_are_refused():
    encoder = BertEncoder(BertConfig.from_name("bert_tiny", vocab_size=30, num_hidden_layers=1))
    encoder.encoder_blocks = lambda: [keras.layers.Dense(4, name="layer_0")]
    with pytest.raises(ValueError, match="layer_0 is a Dense, which cannot be rematerialized"):
        rematerialize(encoder)


def test_a_head_of_ones_own_opens_by_its_own_class(tmp_path):
    class Doubled(BertClassifier):
        """A classifier with a class of its own."""

    model = Doubled(CONFIG, num_classes=3, seed=1)
    model.save_to_preset(tmp_path)
    opened = Doubled.from_preset(str(tmp_path))
    assert type(opened) is Doubled and opened.head_config() == model.head_config()
    for mine, theirs in zip(opened.weights, model.weights, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    with pytest.raises(ValueError, match="'Doubled': expected one of .*by from_preset of that cl"):
        BertClassifier.from_preset(str(tmp_path))
