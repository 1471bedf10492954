"""Vectors of three kinds of a BGE-M3, in Python and served.

Oracle: transformers' XLM-R, one text at a time (FlagEmbedding's batched scores count padding, which
are vectors of zeros), and the formulas of arXiv:2402.03216, section 3.2, written out in PyTorch;
ids are those of the sentencepiece library in fairseq's order.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import ExportOptions, M3Encoder, SentenceEncoder, export_saved_model, load_tokenizer
from keras_bert.serving.graph_operations import graph_operations
from keras_bert.serving.served_folder import open_signatures
from tests.checkpoints.test_multilingual_folders_oracle import TEXTS, xlm_roberta
from tests.tolerances import ORACLE, REORDERED

pytestmark = pytest.mark.oracle

# Pieces that repeat, a letter that is unknown, the mask, nothing, and a text that is cut.
MORE = ["The packages, the packages.", "free \u2603 free", "free <mask>", "", "packages " * 60]
ALL = [*TEXTS, *MORE]
LENGTH = 64
BOS, PAD, EOS, UNK = range(4)


@pytest.fixture(scope="module")
def m3(tmp_path_factory):
    """A folder, and what the formulas make of each text: dense, {id: weight}, vectors of tokens."""
    import sentencepiece
    import torch
    import transformers

    folder = tmp_path_factory.mktemp("m3")
    classifier, _ = xlm_roberta(folder)
    model = transformers.XLMRobertaModel(classifier.config).eval()  # with a pooler, as published
    model.load_state_dict(classifier.roberta.state_dict(), strict=False)
    model.save_pretrained(folder)
    processor = sentencepiece.SentencePieceProcessor(str(folder / "sentencepiece.bpe.model"))
    mask = model.config.vocab_size - 1
    torch.manual_seed(135)  # with it what is asserted below can be seen
    width = model.config.hidden_size
    sparse, colbert = torch.nn.Linear(width, 1), torch.nn.Linear(width, 6)
    torch.save(sparse.state_dict(), folder / "sparse_linear.pt")
    torch.save(colbert.state_dict(), folder / "colbert_linear.pt")
    expected = []
    for text in ALL:
        ids = []
        for number, part in enumerate(text.split("<mask>")):
            ids += [mask] * (number > 0) + [i + 1 if i else UNK for i in processor.encode(part)]
        ids = [BOS, *ids[: LENGTH - 2], EOS]
        with torch.no_grad():
            states = model(torch.tensor([ids])).last_hidden_state[0]
            dense = torch.nn.functional.normalize(states[0], dim=-1)
            weights = torch.relu(sparse(states))[:, 0]
            vectors = torch.nn.functional.normalize(colbert(states[1:]), dim=-1)
        words = {}
        for piece, weight in zip(ids, weights.tolist(), strict=True):
            if piece not in (BOS, PAD, EOS, UNK) and weight > 0:
                words[piece] = max(weight, words.get(piece, 0))
        assert (UNK in ids and weights[ids.index(UNK)] > 0) or "\u2603" not in text
        assert mask in words or "<mask>" not in text
        assert 0 in weights or text != ALL[0]
        assert (weights > 0).all() or text
        expected.append((dense.numpy(), words, vectors.numpy()))
    return folder, expected


def whole(words, vocab_size):
    row = np.zeros([vocab_size], np.float32)
    row[list(words)] = list(words.values())
    return row


def test_all_three_of_every_text(m3):
    folder, expected = m3
    encoder = M3Encoder.from_preset(folder)
    found = encoder.encode(ALL, batch_size=5)
    dense, words, vectors = zip(*expected, strict=True)
    np.testing.assert_allclose(found.dense, np.stack(dense), **ORACLE)
    weights = np.stack([whole(row, encoder.vocab_size) for row in words])
    np.testing.assert_allclose(found.sparse.to_dense(), weights, **ORACLE)
    for ours, theirs in zip(found.tokens, vectors, strict=True):
        np.testing.assert_allclose(ours, theirs, **ORACLE)
    assert found.tokens.counts[-2] == 1 and found.sparse.active_dims[-2] == 0  # </s> of no text
    assert found.tokens.counts[-1] == LENGTH - 1
    assert not found.sparse.to_dense()[:, UNK].any()  # of the letter that is unknown
    best = max(words[0], key=words[0].get)
    ((name, weight),) = encoder.decode(found.sparse[:1], top_k=1)[0]
    assert weight == pytest.approx(words[0][best], rel=1e-5)
    assert load_tokenizer(folder).vocabulary.id_of(name) == best
    empty = encoder.encode([])
    assert (len(empty), empty.dense.shape) == (0, (0, encoder.width))
    with pytest.raises(ValueError, match="one string"):
        encoder.encode("a text")


def test_scores(m3):
    folder, expected = m3
    encoder = M3Encoder.from_preset(folder)
    held = encoder.encode(ALL)
    queries = encoder.encode(ALL[1:5])
    parts = np.zeros([3, 4, len(ALL)])
    for row, (dense, words, vectors) in enumerate(expected[1:5]):
        for column, (other_dense, other_words, others) in enumerate(expected):
            parts[:, row, column] = (
                dense @ other_dense,
                sum(weight * other_words.get(piece, 0) for piece, weight in words.items()),
                (vectors @ others.T).max(axis=1).sum() / len(vectors),
            )
    for weights in ((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1), (0.4, 0.2, 0.4)):
        found = encoder.similarity(queries, held, weights)
        assert found.dtype == np.float32
        mean = np.tensordot(weights, parts, axes=1) / sum(weights)
        np.testing.assert_allclose(found, mean, **ORACLE, err_msg=str(weights))
    alone = encoder.similarity(queries[1:2], held)
    np.testing.assert_allclose(alone, encoder.similarity(queries, held)[1:2], **REORDERED)
    for weights in ((1, 1), (0, 0, 0), (1, -1, 1), (float("nan"), 1, 1)):
        with pytest.raises(ValueError, match="give three numbers of 0 and above"):
            encoder.similarity(queries, held, weights)
    with pytest.raises(ValueError, match="weights is 1: give three numbers"):
        encoder.similarity(queries, held, 1)


def test_an_export_answers_all_three(m3, tmp_path):
    folder, _ = m3
    live = M3Encoder.from_preset(folder).encode(ALL)
    export = export_saved_model(folder, tmp_path / "served", options=ExportOptions(max_batch=30))
    # Beside what other served graphs use: two of TensorFlow's own, and those of SentencePiece.
    operations = Path(__file__).parents[1] / "serving" / "served_operations.txt"
    listed = {line.split()[0] for line in operations.read_text().splitlines()}
    more = {"Sqrt", "LeftShift", "SentencepieceOp", "SentencepieceTokenizeWithOffsetsOp"}
    assert graph_operations(export) - listed == more
    served = tf.saved_model.load(str(export))
    assert {*served.signatures} == {
        *("serving_default", "serve_tokens", "serve_m3", "serve_examples", "serve_ids")
    }
    found = served.signatures["serve_m3"](text=tf.constant(ALL))
    found = {name: values.numpy() for name, values in found.items()}
    np.testing.assert_allclose(found["sentence_embedding"], live.dense, **REORDERED)
    default = served.signatures["serving_default"](text=tf.constant(ALL))
    np.testing.assert_allclose(default["sentence_embedding"], live.dense, **REORDERED)
    np.testing.assert_allclose(SentenceEncoder.from_preset(folder).encode(ALL), live.dense)
    decoded = M3Encoder.from_preset(folder).decode(live.sparse)
    pieces = load_tokenizer(folder).vocabulary
    for row, (words, vectors) in enumerate(zip(decoded, live.tokens, strict=True)):
        count = len(words)
        names = [name.decode() for name in found["lexical_tokens"][row]]
        assert {*names[:count]} == {name for name, _ in words} and not any(names[count:])
        ids = [pieces.id_of(name) for name in names[:count]]
        np.testing.assert_array_equal(found["lexical_ids"][row, :count], ids)
        weights = found["lexical_weights"][row]
        np.testing.assert_allclose(weights[:count], [w for _, w in words], **REORDERED)
        assert not weights[count:].any() and not found["lexical_ids"][row, count:].any()
        np.testing.assert_allclose(
            found["token_vectors"][row, : len(vectors)], vectors, **REORDERED
        )
        assert not found["token_vectors"][row, len(vectors) :].any()
        tokens = [name.decode() for name in found["tokens"][row]]
        assert tokens[len(vectors) - 1] == "</s>" and "<s>" not in tokens
        assert not any(tokens[len(vectors) :])
    nothing = served.signatures["serve_m3"](text=tf.constant([], tf.string))
    assert nothing["lexical_weights"].shape == [0, 0]
    # In windows there is one dense vector of a text, and no more.
    windows = open_signatures(folder, ExportOptions(max_windows=2))
    assert "serve_m3" not in windows.more_answers()


def test_what_is_missing_or_does_not_fit_is_refused(m3, tmp_path):
    import torch

    folder = shutil.copytree(m3[0], tmp_path / "m3")
    width = M3Encoder.from_preset(folder).width
    good = torch.load(folder / "sparse_linear.pt")
    for state, message in (
        ({"weight": torch.ones(2, width), "bias": torch.ones(2)}, r"expected weight \[1, "),
        ({"weight": torch.ones(1, 5), "bias": torch.ones(1)}, f"since the encoder is {width} wide"),
        ({"weight": torch.ones(1, width)}, "expected weight"),
        (good | {"bias": torch.tensor([float("nan")])}, "is not finite"),
    ):
        torch.save(state, folder / "sparse_linear.pt")
        with pytest.raises(ValueError, match=message):
            M3Encoder.from_preset(folder)
    torch.save(good, folder / "sparse_linear.pt")
    torch.save({"weight": torch.ones(width), "bias": torch.ones(2)}, folder / "colbert_linear.pt")
    with pytest.raises(ValueError, match=r"colbert_linear.pt holds .*: expected weight \["):
        M3Encoder.from_preset(folder)
    (folder / "colbert_linear.pt").unlink()
    with pytest.raises(ValueError, match="lacks colbert_linear.pt, without which"):
        M3Encoder.from_preset(folder)
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        M3Encoder.from_preset(tmp_path / "none")
