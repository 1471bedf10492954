"""Folders of small models of every head."""

import pytest

from tests.export.tiny_models import write_model


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    """Returns a function: the folder of one of `MODELS`, written once."""
    root = tmp_path_factory.mktemp("heads")

    def folder(name):
        path = root / name
        return path if path.exists() else write_model(path, name)

    return folder
