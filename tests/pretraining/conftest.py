"""A corpus with a simple grammar, as records with a vocabulary."""

import numpy as np
import pytest

from keras_bert.data.creation.create import CreationOptions, create_pretraining_data
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.pretraining.pretraining_runs import WORDS


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """Returns a folder with `records/` and `vocab.txt`."""
    folder = tmp_path_factory.mktemp("corpus")
    random = np.random.default_rng(0)
    sentences = [
        f"the {random.choice(['cat', 'dog', 'bird'])} {random.choice(['sat', 'ran', 'flew'])} "
        f"{random.choice(['on', 'under', 'over'])} the {random.choice(['mat', 'tree', 'house'])}"
        for _ in range(600)
    ]
    documents = ["\n".join(sentences[i : i + 20]) for i in range(0, 600, 20)]
    (folder / "text.txt").write_text("\n\n".join(documents))
    tokenizer = BertTokenizer(Vocabulary([*SPECIAL_TOKENS, *WORDS]))
    tokenizer.save(folder)
    create_pretraining_data(
        CreationOptions(
            inputs=(str(folder / "text.txt"),),
            vocab=str(folder / "vocab.txt"),
            output_dir=str(folder / "records"),
            max_seq_length=24,
            dupe_factor=2,
            num_shards=2,
        )
    )
    return folder
