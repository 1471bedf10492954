"""A new word from the vocabulary to the model and back from disk."""

import numpy as np

from keras_bert import BertEncoder, BertPreprocessor, BertTokenizer, grow_vocabulary
from tests.tolerances import FORMULA


def test_a_new_word_becomes_one_token_that_starts_near_its_pieces(pretrained_folder, tmp_path):
    tokenizer = BertTokenizer.from_preset(pretrained_folder)
    model = BertEncoder.from_preset(pretrained_folder)
    pieces_apart = tokenizer.vocabulary.add_tokens(["##book"])
    tokenizer = BertTokenizer(pieces_apart, **tokenizer.settings)
    book = pieces_apart.id_of("book")
    model = grow_vocabulary(model, {pieces_apart.id_of("##book"): (book,)}, len(pieces_apart))

    grown = tokenizer.vocabulary.add_tokens(["goodbook"])
    pieces = tokenizer.pieces_of_new_tokens(grown)
    assert pieces == {grown.id_of("goodbook"): (grown.id_of("good"), grown.id_of("##book"))}
    model = grow_vocabulary(model, pieces, len(grown))
    model.save_to_preset(tmp_path, BertTokenizer(grown, **tokenizer.settings))

    again = BertTokenizer.from_preset(tmp_path)
    assert again(["A Goodbook"]).to_list() == [[grown.id_of("a"), grown.id_of("goodbook")]]
    opened = BertEncoder.from_preset(tmp_path)
    rows = opened.word_embeddings.weights[0].numpy()
    mean = (rows[grown.id_of("good")] + rows[grown.id_of("##book")]) / 2
    np.testing.assert_allclose(rows[grown.id_of("goodbook")], mean, **FORMULA)
    batch = BertPreprocessor(again, 8)(["a goodbook"])
    assert np.isfinite(opened(batch)["pooled_output"].numpy()).all()
