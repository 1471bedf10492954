import pytest
import tensorflow as tf

from keras_bert.training import precision, strategy
from keras_bert.training.precision import dtype_policy
from keras_bert.training.strategy import create_strategy

INTEL_AMX = "vendor_id\t: GenuineIntel\nflags\t\t: avx512_bf16 amx_bf16 amx_tile"
INTEL = "vendor_id\t: GenuineIntel\nflags\t\t: avx512f avx512_bf16"
AMD = "vendor_id\t: AuthenticAMD\nflags\t\t: avx512f avx512_bf16"
OLD = "vendor_id\t: AuthenticAMD\nflags\t\t: avx2"


@pytest.mark.skipif(
    bool(tf.config.list_physical_devices("GPU")), reason="a GPU is asked before the processor"
)
@pytest.mark.parametrize(
    ("processor", "limit", "policy"),
    [
        (INTEL_AMX, None, "mixed_bfloat16"),
        (INTEL_AMX, "AVX512_CORE_AMX", "mixed_bfloat16"),
        (INTEL_AMX, "AVX512_CORE_BF16", "float32"),
        (INTEL_AMX, "AVX2", "float32"),
        (INTEL, None, "float32"),
        (AMD, None, "mixed_bfloat16"),
        (AMD, "all", "mixed_bfloat16"),
        (AMD, "avx512_core", "float32"),
        (AMD, "AVX2", "float32"),
        (OLD, None, "float32"),
        (None, None, "float32"),  # not Linux
    ],
)
def test_auto_follows_from_the_processor_and_what_onednn_may_use(
    processor, limit, policy, tmp_path, monkeypatch
):
    if processor is not None:
        (tmp_path / "cpuinfo").write_text(processor)
    monkeypatch.setattr(precision, "_CPU_INFO", tmp_path / "cpuinfo")
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    if limit is not None:
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
    assert dtype_policy("auto") == policy


@pytest.mark.skipif(
    bool(tf.config.list_physical_devices("GPU")), reason="TensorFlow sees the GPU of this machine"
)
def test_a_gpu_that_tensorflow_does_not_see_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(strategy, "_NVIDIA_DRIVER", tmp_path / "version")
    create_strategy("auto")
    assert capsys.readouterr().err == ""
    (tmp_path / "version").write_text("NVRM version: 550.54")
    create_strategy("auto")
    assert "TensorFlow sees no GPU" in capsys.readouterr().err
    create_strategy("cpu")  # as one asks for it
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    create_strategy("auto")
    assert capsys.readouterr().err == ""
