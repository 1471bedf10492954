"""The training step through TensorFlow's TPU kernels and the TPU compiler, without a TPU.

Runs in the environment of `make tpu-plan-env` only. A compilation takes about a minute.
"""

import dataclasses
import functools

import pytest
import tensorflow as tf

from keras_bert.config import BertConfig
from keras_bert.deberta_config import DebertaV2Config
from keras_bert.family_configs import (
    AlbertConfig,
    DistilBertConfig,
    ElectraConfig,
    LocalBertConfig,
    LongformerConfig,
    MPNetConfig,
    RobertaConfig,
)
from keras_bert.models.pretrainer import BertPretrainer
from keras_bert.modernbert_config import ModernBertConfig
from keras_bert.tpu import planning
from keras_bert.tpu.compilation import (
    OutOfMemoryError,
    bytes_summed,
    check_program,
    compile_for_tpu,
)
from keras_bert.tpu.lowering import StepOptions, check_operations, lower_step
from keras_bert.tpu.options import PlanOptions
from keras_bert.tpu.planning import compile_step, plan
from keras_bert.training.devices import package_versions

pytestmark = [pytest.mark.tpu_plan, pytest.mark.timeout(1800)]

BATCH, LENGTH, PREDICTIONS = 8, 128, 20
TWO_LAYERS = dataclasses.replace(BertConfig.from_name("bert_base"), num_hidden_layers=2)
OPTIONS = StepOptions(TWO_LAYERS, BATCH, LENGTH, PREDICTIONS)

# Independent of the code under test, and by hand. Weights of the matrices of one block of
# bert_base: 4 x 768 x 768 + 2 x 768 x 3072 = 7,077,888; of BERT's output layer for words:
# 768 x 768 + 768 x 30,522 = 24,030,720. A weight costs 6 operations a token (2 forward, 4 back),
# attention 12 x 768 x 128 a token and block (two products of that size, three times). The last
# block has keys, values and queries of all tokens, 3 x 768 x 768, and the rest of predicted ones
# and [CLS].
TOKENS = BATCH * LENGTH
READ = BATCH * (1 + PREDICTIONS)
BLOCK = (6 * 7_077_888 + 12 * 768 * 128) * TOKENS
LAST_BLOCK = 6 * 1_769_472 * TOKENS + (6 * 5_308_416 + 12 * 768 * 128) * READ
WORDS = 6 * 24_030_720 * BATCH * PREDICTIONS
# Weights and both moments in float32: two blocks of 7,087,872 numbers, embeddings of
# 30,522 + 512 + 2 rows, and about one and a half million of the pooler and the heads.
VARIABLES = 3 * 4 * (2 * 7_087_872 + 31_036 * 768)


@pytest.fixture(scope="module")
def lowered():
    """Returns a function: the step lowered, once."""
    return functools.cache(lambda remat: lower_step(dataclasses.replace(OPTIONS, remat=remat)))


def test_versions_are_known_where_tensorflow_is_tensorflow_tpu():
    assert package_versions()["tensorflow"] == "2.20.0"


@pytest.fixture(scope="module")
def compiled(lowered):
    """Returns a function: the step compiled for a topology, once."""

    def compile_once(topology, remat=False):
        step = lowered(remat)
        return compile_for_tpu(step.hlo, step.num_variables, topology)

    return functools.cache(compile_once)


# A minute of a core each. Two other tests compile steps without rematerialization.
@pytest.mark.parametrize(
    ("topology", "remat"),
    [
        ("v5e:2x2", True),
        pytest.param("v5e:2x2", False, marks=pytest.mark.long),
        pytest.param("v4:2x2x1", False, marks=pytest.mark.long),
        pytest.param("v6e:2x2", False, marks=pytest.mark.long),
    ],
)
def test_two_layers_of_base_width_compile(compiled, topology, remat):
    program = compiled(topology, remat)
    assert program.num_replicas == 4
    # What is computed again is the forward pass of the blocks, a third of their operations.
    blocks = (BLOCK + LAST_BLOCK) * (4 / 3 if remat else 1)
    assert program.flops == pytest.approx(blocks + WORDS, rel=0.1)
    assert program.variables == pytest.approx(VARIABLES, rel=0.05)
    assert program.variables < program.memory < 2 * program.variables


@pytest.mark.long
def test_rematerialization_costs_a_forward_pass_of_the_blocks_and_saves_memory(compiled):
    plain, remat = compiled("v5e:2x2", False), compiled("v5e:2x2", True)
    assert remat.flops - plain.flops == pytest.approx((BLOCK + LAST_BLOCK) / 3, rel=0.1)
    assert remat.memory < plain.memory


def test_a_plan_with_lamb_micro_batches_and_the_sum_over_chips(monkeypatch):
    options = PlanOptions(
        **{"model": "bert_tiny", "max_seq_length": 64, "max_predictions_per_seq": 10},
        **{"batch_size": 64, "topology": "v5e:2x2", "optimizer": "lamb", "steps": 1000},
        **{"mixed_precision": "bfloat16", "accumulation_steps": 2, "remat": False},
        **{"largest_batch": False, "price_per_hour": 2.0, "utilisation": 0.4},
    )
    compiled = []

    def compile_and_keep(*arguments):  # the plan's own program, to look at more of its figures
        compiled.append(compile_step(*arguments))
        return compiled[-1]

    monkeypatch.setattr(planning, "compile_step", compile_and_keep)
    lines = list(plan(options))
    text = "\n".join(lines)
    assert "64 sequences a step, 16 on each of 4 chips of v5e:2x2" in text
    # By hand. Two blocks of 128: 4 x 128 x 129 + 128 x 513 + 512 x 129 + 4 x 128 = 198,272 each;
    # 30,522 + 512 + 2 rows of 128 and a norm; pooler and transform of words 128 x 129 each and a
    # norm; 30,522 biases; 2 x 129 for the pair. Each gradient is summed once a step, not once a
    # micro-batch, and so is the number of predictions, of examples, and the loss.
    weights = 2 * 198_272 + 31_036 * 128 + 256 + 2 * 128 * 129 + 256 + 30_522 + 258
    assert weights == BertPretrainer(BertConfig.from_name("bert_tiny")).count_params()
    (program,) = compiled
    assert 4 * weights <= program.summed <= 4 * weights + 64
    assert f"sum over 4 chips: {program.summed / 2**30:.3f} GiB" in text
    # A weight and its two moments stay, and the micro-batches' sum comes and goes.
    assert program.variables == pytest.approx(3 * 4 * weights, rel=0.05)
    # One micro-batch of 8, by hand as above: blocks of 4 x 128 x 128 + 2 x 128 x 512 weights, of
    # which the second has 3 x 128 x 128 for all tokens and the rest for 1 + 10 of a sequence.
    tokens, predictions = 8 * 64, 8 * 10
    block = (6 * 196_608 + 12 * 128 * 64) * tokens
    last = 6 * 49_152 * tokens + (6 * 147_456 + 12 * 128 * 64) * 8 * 11
    words = 6 * (128 * 128 + 128 * 30_522) * predictions
    # Beside matrices this small the update, softmax, gelu and norms are a seventh.
    assert 1.0 < program.flops / (block + last + words) < 1.2
    assert f"{program.flops / 1e12:.3f} TFLOP a micro-batch and the update on each chip" in text
    assert any(line.startswith("time: ") for line in lines)
    assert any(line.startswith("cost: ") for line in lines)


def test_bytes_that_chips_add_up_are_counted_where_the_sum_starts():
    assert bytes_summed("%a = f32[8]{0} add(%b, %c)") == 0
    both = "%s = (f32[8,2]{1,0:T(8,128)}, bf16[4]{0}, pred[]) all-reduce-start(%x), channel_id=1"
    assert bytes_summed(f"{both}\n%d = f32[8,2]{{1,0}} all-reduce-done(%s)") == 64 + 8 + 1


def test_memory_that_no_chip_has_is_reported():
    enormous = tf.function(lambda x: tf.reduce_sum(tf.sort(x * x)), jit_compile=True)
    spec = tf.TensorSpec((2**33,), tf.float32)
    hlo = enormous.experimental_get_compiler_ir(spec)("hlo_serialized", platform_name="TPU")
    with pytest.raises(OutOfMemoryError):
        compile_for_tpu(hlo, 0, "v5e:2x2")


def test_an_unknown_topology_is_refused(lowered):
    with pytest.raises(ValueError, match="'v5e:9x9' is unknown .* v5e:2x2"):
        compile_for_tpu(lowered(True).hlo, lowered(True).num_variables, "v5e:9x9")


def test_strings_and_prints_are_refused():
    @tf.function
    def split(text):
        return tf.strings.length(text)

    @tf.function
    def look(x):
        tf.print(x)
        return x

    @tf.function
    def outer(x):
        return look(x) + 1.0

    for function, spec, name in [
        (split, tf.TensorSpec((2,), tf.string), "StringLength"),
        (outer, tf.TensorSpec(()), "StringFormat"),
    ]:
        graph = function.get_concrete_function(spec).graph.as_graph_def()
        with pytest.raises(ValueError, match=f"holds {name} .* has no TPU version"):
            check_operations(graph)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("  %a = (f32[2]{0}, token[]) recv(%b), channel_id=1", "host transfer"),
        ("  ROOT %o = token[] outfeed(%x, %t)", "host transfer"),
        ("  %s = f32[<=8,4]{1,0} slice(%x)", "dynamic shape"),
    ],
)
def test_transfers_and_dynamic_shapes_are_refused(line, what):
    harmless = '  %r = f32[8]{0} fusion(%x), metadata={op_name="recv(x)/send"}'
    check_program(harmless)
    with pytest.raises(ValueError, match=what):
        check_program(f"{harmless}\n{line}\n")


def test_electra_compiles():
    config = ElectraConfig(
        vocab_size=30_522,
        embedding_size=64,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=512,
        generator_size=0.5,
    )
    program = compile_step(
        StepOptions(config, BATCH, LENGTH, PREDICTIONS, num_chips=4, objective="electra"), "v5e:2x2"
    )
    # By hand: blocks of 196,608 weights in matrices and of 49,152 in the generator, projections of
    # 64 x 128 and 64 x 64 weights (the generator is as wide as the embeddings: none), the
    # generator's words 64 x 64 + 64 x 30,522, the discriminator's head 128 x 128 + 128. Of the
    # generator's second block 3 x 64 x 64 for all tokens, the rest for 1 + 20 of a sequence.
    blocks = 2 * (6 * 196_608 + 12 * 128 * LENGTH) * TOKENS
    blocks += (6 * (49_152 + 12_288) + 12 * 64 * LENGTH) * TOKENS
    blocks += (6 * 36_864 + 12 * 64 * LENGTH) * READ
    words = 6 * (64 * 64 + 64 * 30_522) * BATCH * PREDICTIONS
    others = 6 * (64 * 128 + 128 * 128 + 128) * TOKENS
    # Beside matrices this small the draws, the update, softmax, gelu and norms are a quarter.
    assert 1.0 < program.flops / (blocks + words + others) < 1.3


@pytest.mark.long  # minutes of a core each
@pytest.mark.parametrize(
    ("config_class", "length"),
    [(LocalBertConfig, 512), (LocalBertConfig, 4096), (LongformerConfig, 512)],
)
def test_local_attention_compiles(config_class, length):
    """Eight windows and more: blocks with neighbours, and rows of the first position."""
    numbers = dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=2)
    config = config_class(**numbers, intermediate_size=512, attention_window=64)
    step = StepOptions(config, BATCH, length, PREDICTIONS, num_chips=4)
    program = compile_step(step, "v5e:2x2")
    # The arithmetic minimum; beside matrices this small the rest of the step is large.
    assert 1.0 < program.flops / planning.least_flops(step) < 2.0
    # By hand: of S x S pairs S x (3 x 64 + 1) + S are computed.
    assert config.attention_pairs(length) == length * 194


@pytest.mark.long  # minutes of a core each
@pytest.mark.parametrize(
    ("config_class", "width", "weights"),
    [
        # 4 x 128 x 128 + 2 x 128 x 512; with a gate 128 x 512 more.
        (functools.partial(AlbertConfig, embedding_size=64), 64, 196_608),
        (RobertaConfig, 128, 196_608),
        (MPNetConfig, 128, 196_608),
        (DistilBertConfig, 128, 196_608),
        (functools.partial(ModernBertConfig, attention_window=64), 128, 262_144),
        (DebertaV2Config, 128, 196_608),
    ],
)
def test_families_compile(config_class, width, weights):
    """Masked LM of what differs from BERT: shared blocks and narrow embeddings, positions."""
    numbers = dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=2)
    step = StepOptions(
        config_class(**numbers, intermediate_size=512), BATCH, LENGTH, PREDICTIONS, num_chips=4
    )
    program = compile_step(step, "v5e:2x2")
    # By hand: two blocks of so many weights in matrices, shared or not, the second with 3 x 128 x
    # 128 for all tokens and the rest for what is read; words from embeddings of that width, which
    # ALBERT alone projects.
    blocks = (6 * (weights + 49_152) + 12 * 128 * LENGTH) * TOKENS
    blocks += (6 * (weights - 49_152) + 12 * 128 * LENGTH) * READ
    blocks += 6 * 64 * 128 * TOKENS * (width == 64)
    words = 6 * width * (128 + step.config.vocab_size) * BATCH * PREDICTIONS
    # Beside matrices this small the update, softmax, gelu and norms are a part of the step.
    assert 1.0 < program.flops / (blocks + words) < 1.3


@pytest.fixture(scope="module")
def distillation():
    """A step of a student of one layer, and it lowered."""
    student = dataclasses.replace(
        BertConfig.from_name("bert_tiny"), num_hidden_layers=1, hidden_size=64
    )
    teacher = BertConfig.from_name("bert_tiny")
    step = StepOptions(
        student, BATCH, LENGTH, PREDICTIONS, num_chips=4, objective="distillation", teacher=teacher
    )
    return step, lower_step(step)


def test_distillation_is_lowered(distillation):
    """Every operation has a TPU version; the weights of the teacher are among the variables."""
    _, lowered = distillation
    # A block: query, key and value in one, what follows them, two dense layers, two norms.
    embeddings, block, words = 3 + 2, 2 + 2 + 2 * 2 + 2 * 2, 2 + 2 + 1
    # What the student learns, with both moments: itself, and a projection to the teacher's width.
    learned = 3 * (embeddings + block + words + 1)
    teacher = embeddings + 2 * block + words
    # Both have a pooler that nothing trains; and there is the number of the step.
    assert lowered.num_variables == learned + teacher + 2 * 2 + 1


@pytest.mark.long  # minutes of a core
def test_distillation_compiles(distillation):
    step, lowered = distillation
    program = compile_for_tpu(lowered.hlo, lowered.num_variables, "v5e:2x2")
    # The arithmetic minimum; beside matrices this small the rest of the step is large.
    assert 1.0 < program.flops / planning.least_flops(step) < 2.0
