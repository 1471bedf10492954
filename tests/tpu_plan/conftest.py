"""These tests need the environment of `make tpu-plan-env` and are collected only there."""

import importlib.util

collect_ignore = []
if importlib.util.find_spec("libtpu"):
    import keras_bert.tpu.environment  # noqa: F401
else:
    collect_ignore.append("test_tpu_compilation.py")


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "tpu_plan: compiles for TPUs; run by `make test-tpu-plan` (minutes)"
    )
