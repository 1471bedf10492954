"""The training step through TensorFlow's TPU kernels and the TPU compiler, without a TPU.

Runs in the environment of `make tpu-plan-env` only. A compilation takes about a minute.
"""

import dataclasses
import functools

import pytest
import tensorflow as tf

from keras_bert.config import BertConfig
from keras_bert.training.devices import package_versions
from keras_bert.training.tpu_compilation import OutOfMemoryError, check_program, compile_for_tpu
from keras_bert.training.tpu_lowering import StepOptions, check_operations, lower_step

pytestmark = [pytest.mark.tpu_plan, pytest.mark.timeout(1800)]

BATCH, LENGTH, PREDICTIONS = 8, 128, 20
TWO_LAYERS = dataclasses.replace(BertConfig.from_name("bert_base"), num_hidden_layers=2)
OPTIONS = StepOptions(TWO_LAYERS, BATCH, LENGTH, PREDICTIONS)

# Independent of the code under test, and by hand. Weights of the matrices of one block of
# bert_base: 4 x 768 x 768 + 2 x 768 x 3072 = 7,077,888; of BERT's output layer for words:
# 768 x 768 + 768 x 30,522 = 24,030,720. A weight costs 6 operations a token (2 forward, 4 back),
# attention 12 x 768 x 128 a token and block (two products of that size, three times).
TOKENS = BATCH * LENGTH
BLOCK = (6 * 7_077_888 + 12 * 768 * 128) * TOKENS
WORDS = 6 * 24_030_720 * BATCH * PREDICTIONS
# Weights and both moments in float32: two blocks of 7,087,872 numbers, embeddings of
# 30,522 + 512 + 2 rows, and about one and a half million of the pooler and the heads.
VARIABLES = 3 * 4 * (2 * 7_087_872 + 31_036 * 768)


@pytest.fixture(scope="module")
def lowered():
    return lower_step(OPTIONS)


def test_versions_are_known_where_tensorflow_is_tensorflow_tpu():
    assert package_versions()["tensorflow"] == "2.20.0"


@pytest.fixture(scope="module")
def compiled(lowered):
    """Returns a function: the step compiled for a topology, once."""
    return functools.cache(
        lambda topology: compile_for_tpu(lowered.hlo, lowered.num_variables, topology)
    )


@pytest.mark.parametrize("topology", ["v5e:2x2", "v4:2x2x1", "v6e:2x2"])
def test_two_layers_of_base_width_compile(compiled, topology):
    program = compiled(topology)
    assert program.num_replicas == 4
    assert program.flops == pytest.approx(2 * BLOCK + WORDS, rel=0.1)
    assert program.variables == pytest.approx(VARIABLES, rel=0.05)
    assert program.variables < program.memory < 2 * program.variables


def test_rematerialization_costs_a_forward_pass_of_the_blocks_and_saves_memory(compiled):
    plain = compiled("v5e:2x2")
    again = lower_step(dataclasses.replace(OPTIONS, remat=True))
    remat = compile_for_tpu(again.hlo, again.num_variables, "v5e:2x2")
    assert remat.flops - plain.flops == pytest.approx(2 * BLOCK / 3, rel=0.1)
    assert remat.memory < plain.memory


def test_memory_that_no_chip_has_is_reported():
    enormous = tf.function(lambda x: tf.reduce_sum(tf.sort(x * x)), jit_compile=True)
    spec = tf.TensorSpec((2**33,), tf.float32)
    hlo = enormous.experimental_get_compiler_ir(spec)("hlo_serialized", platform_name="TPU")
    with pytest.raises(OutOfMemoryError):
        compile_for_tpu(hlo, 0, "v5e:2x2")


def test_an_unknown_topology_is_refused(lowered):
    with pytest.raises(ValueError, match="'v5e:9x9' is unknown .* v5e:2x2"):
        compile_for_tpu(lowered.hlo, lowered.num_variables, "v5e:9x9")


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
