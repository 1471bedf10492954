from keras_bert.training.precision import dtype_policy


def test_auto_keeps_to_the_instructions_that_onednn_may_use(monkeypatch):
    # On a processor with AVX512-BF16 or AMX; others compute in float32 anyway.
    for limit in ("AVX2", "avx512_core"):
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
        assert dtype_policy("auto") == "float32"
