import pytest
import tensorflow as tf

from keras_bert.training import precision
from keras_bert.training.precision import dtype_policy

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
