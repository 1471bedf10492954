"""Folders of small models of every head, and their exports, made once."""

import pytest

from keras_bert.serving.saved_model import export_saved_model
from keras_bert.signatures.options import ExportOptions
from tests.export.tiny_models import write_model


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    """Returns a function: the folder of one of `MODELS`, written once."""
    root = tmp_path_factory.mktemp("heads")

    def folder(name):
        path = root / name
        return path if path.exists() else write_model(path, name)

    return folder


@pytest.fixture(scope="session")
def exported(model_folder, tmp_path_factory):
    """Returns a function: version 1 of one of `MODELS`, exported once in a dtype."""
    root = tmp_path_factory.mktemp("exports")

    def folder(name, dtype="float32"):
        base = root / dtype / name
        if not base.exists():
            export_saved_model(model_folder(name), base, options=ExportOptions(dtype))
        return base / "1"

    return folder
