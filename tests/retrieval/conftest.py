"""Models that several modules of tests search with."""

import numpy as np
import pytest

from keras_bert import BertMultiVectorEmbedder, load_tokenizer


@pytest.fixture(scope="session")
def token_folder(model_folder, tmp_path_factory):
    """A folder as a run of multi_vector_retrieval leaves it: six numbers for each token."""
    path = tmp_path_factory.mktemp("tokens")
    model = BertMultiVectorEmbedder.from_preset(model_folder("encoder"), projection_dim=6)
    kernel = model.get_layer("projection").kernel
    kernel.assign(np.random.default_rng(4).normal(size=kernel.shape))
    model.save_to_preset(path, load_tokenizer(model_folder("encoder")))
    return path
