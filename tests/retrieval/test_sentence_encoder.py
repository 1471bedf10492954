"""Vectors of sentences: arithmetic by hand, flags against files, and what is refused.

test_sentence_encoder_oracle.py compares with sentence-transformers.
"""

import json
import math

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import save_file

from keras_bert import BertTokenizer, SentenceEncoder, TextIndex
from keras_bert.checkpoints import hugging_face, sentence_modules, sentence_prompts
from keras_bert.checkpoints.sentence_modules import Dense, Normalize, SentenceModules
from keras_bert.models import preset
from keras_bert.serving.saved_model import export_saved_model
from keras_bert.serving.served_folder import open_signatures
from keras_bert.signatures.options import ExportOptions
from keras_bert.tasks.feature_extraction.sentence_vectors import SentenceVectors
from tests.signatures.tiny_models import random_texts
from tests.tolerances import REORDERED

TEXTS = random_texts(7, seed=3, longest=12)
# Two texts, of three tokens and of one.
STATES = tf.RaggedTensor.from_row_splits(
    tf.constant([[1.0, -2.0], [3.0, 0.0], [5.0, 8.0], [-7.0, 4.0]]), np.array([0, 3, 4])
)
POOLED = tf.constant([[0.5, 0.25], [0.75, 1.0]])


@pytest.mark.parametrize(
    ("mode", "first"),
    [
        ("cls", [1, -2]),
        ("lasttoken", [5, 8]),
        ("max", [5, 8]),
        ("mean", [3, 2]),
        ("mean_sqrt_len_tokens", [9 / 3**0.5, 6 / 3**0.5]),
        ("weightedmean", [(1 + 2 * 3 + 3 * 5) / 6, (-2 + 0 + 3 * 8) / 6]),
        ("pooler", [0.5, 0.25]),
    ],
)
def test_pooling_by_hand(mode, first):
    second = POOLED[1] if mode == "pooler" else [-7, 4]  # of one token all others are the same
    found = SentenceVectors(SentenceModules((mode,)), 2)(STATES, POOLED)
    np.testing.assert_allclose(found, np.array([first, second], np.float32), **REORDERED)


def test_steps_by_hand():
    kernel = np.array([[1, 0], [0, 1], [0, 0], [2, 0]], np.float32)
    steps = (Dense(kernel, np.array([0, 1], np.float32), "ReLU"), Normalize())
    vectors = SentenceVectors(SentenceModules(("cls", "mean"), steps), 2)
    assert vectors.width == 2
    # [1, -2, 3, 2] -> [1 + 4, -2 + 1] -> [5, 0] -> [1, 0]; [-7, 4, -7, 4] -> [1, 5] -> over sqrt 26
    expected = np.array([[1, 0], [1 / 26**0.5, 5 / 26**0.5]], np.float32)
    np.testing.assert_allclose(vectors(STATES, POOLED), expected, **REORDERED)


def write_json(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


@pytest.fixture
def sentence_folder(model_folder, tmp_path):
    """Returns a function: a folder of sentence-transformers with maximum pooling and a norm."""

    def folder(modules=("Transformer", "Pooling", "Normalize"), **settings):
        target = tmp_path / "sentences"
        target.mkdir()
        hugging_face.write(preset.read_checkpoint(model_folder("encoder")), target)
        BertTokenizer.from_preset(model_folder("encoder")).save(target)
        paths = ["", *(f"{place}_{name}" for place, name in enumerate(modules) if place)]
        entries = [
            {"path": path, "type": name if "." in name else f"sentence_transformers.models.{name}"}
            for path, name in zip(paths, modules, strict=True)
        ]
        write_json(target / "modules.json", entries)
        pooling = settings.get("pooling", {"pooling_mode_max_tokens": True})
        write_json(target / "1_Pooling" / "config.json", pooling)
        write_json(target / "sentence_bert_config.json", settings.get("transformer", {}))
        write_json(target / "2_Dense" / "config.json", settings.get("dense", {}))
        write_json(target / "config_sentence_transformers.json", settings.get("model", {}))
        return target

    return folder


def vectors_and_reason(folder, **options):
    family = open_signatures(folder, ExportOptions(**options))
    return family.answer(text=tf.constant(TEXTS)), family.reason


def test_a_flag_goes_before_the_files_and_is_told(sentence_folder):
    folder = sentence_folder()
    stored, told = vectors_and_reason(folder)
    assert told == "sentence_embedding is max pooling, Normalize, as modules.json says"
    lengths = np.linalg.norm(stored["sentence_embedding"], axis=-1)
    np.testing.assert_allclose(lengths, np.ones(len(TEXTS)), **REORDERED)

    stated, told = vectors_and_reason(folder, pooling="mean", normalize=False)
    assert told == (
        "sentence_embedding is mean pooling, as you state; modules.json says max pooling, "
        "Normalize, which was passed over"
    )
    np.testing.assert_array_equal(stated["sentence_embedding"], stated["mean_pooled"])


def test_without_files_nothing_is_guessed(model_folder):
    folder = model_folder("encoder")
    answer, told = vectors_and_reason(folder)
    assert "sentence_embedding" not in answer and "export it with --pooling" in told
    with pytest.raises(ValueError, match='give pooling, for example pooling="mean"'):
        SentenceEncoder.from_preset(folder)
    for name, value in {"normalize": True, "truncate_dim": 4, "query_prompt": "q: "}.items():
        with pytest.raises(ValueError, match=f"--{name} needs --pooling"):
            SentenceEncoder.from_preset(folder, **{name: value})
    encoder = SentenceEncoder.from_preset(folder, pooling="pooler")
    found = encoder.encode(TEXTS, batch_size=3)  # the order of the texts is that of their vectors
    np.testing.assert_allclose(found, answer["pooled_output"], **REORDERED)
    assert encoder.encode([]).shape == (0, 16)


class DataFrame:
    """Is looped over as that of pandas: by the names of its columns."""

    columns = ("text",)

    def __iter__(self):
        return iter(self.columns)


def test_one_string_is_no_list_of_texts(sentence_folder):
    encoder = SentenceEncoder.from_preset(sentence_folder())
    with pytest.raises(ValueError, match=r"texts is one string, .*: give \[text\]"):
        encoder.encode("A man eats.")
    for texts in ({"text": ["A man eats."]}, DataFrame()):
        with pytest.raises(ValueError, match="the names of its columns would be read: give one of"):
            encoder.encode(texts)
    with pytest.raises(ValueError, match="texts is a set, which has no order"):
        encoder.encode({"A man eats."})
    with pytest.raises(ValueError, match="text 1 .* is a float: give strings"):
        encoder.encode(["A man eats.", float("nan")])
    with pytest.raises(ValueError, match="batch_size is -1: it must be at least 1"):
        encoder.encode(["A man eats."], batch_size=-1)


PROMPTS = {"query": "the film: ", "document": "a book. ", "topic": "it was "}


def test_prompts_stand_before_the_texts(sentence_folder):
    folder = sentence_folder(model={"prompts": PROMPTS, "default_prompt_name": "topic"})
    encoder = SentenceEncoder.from_preset(folder)
    assert encoder.prompts == PROMPTS

    def with_prompt(prompt):
        return encoder.encode([prompt + text for text in TEXTS], prompt="")

    for found, prompt in (
        (encoder.encode(TEXTS), PROMPTS["topic"]),
        (encoder.encode(TEXTS, prompt_name="query"), PROMPTS["query"]),
        (encoder.encode([text.encode() for text in TEXTS], prompt="bad "), "bad "),
        (encoder.encode_query(TEXTS), PROMPTS["query"]),
        (encoder.encode_document(TEXTS), PROMPTS["document"]),
    ):
        np.testing.assert_allclose(found, with_prompt(prompt), **REORDERED)
    family = open_signatures(folder, ExportOptions())
    answers = {"serving_default": family.answer, **family.more_answers()}
    for name, prompt in (
        ("serving_default", PROMPTS["topic"]),
        ("serve_tokens", PROMPTS["topic"]),
        ("serve_query", PROMPTS["query"]),
        ("serve_document", PROMPTS["document"]),
    ):
        found = answers[name](text=tf.constant(TEXTS))["sentence_embedding"]
        np.testing.assert_allclose(found, with_prompt(prompt), **REORDERED)
    with pytest.raises(ValueError, match="no prompt 'q': the folder has 'query', 'document', 'to"):
        encoder.encode(TEXTS, prompt_name="q")
    with pytest.raises(ValueError, match="prompt_name and prompt are given: leave out one"):
        encoder.encode(TEXTS, prompt_name="query", prompt="")


def test_an_index_has_texts_and_queries_read_with_their_prompts(sentence_folder, tmp_path):
    """As folders call them that speak of passages; what searches has no prompt there."""
    folder = sentence_folder(model={"prompts": {"passage": "a book. "}})
    encoder = SentenceEncoder.from_preset(folder)
    np.testing.assert_allclose(encoder.encode_query(TEXTS), encoder.encode(TEXTS), **REORDERED)
    index = TextIndex.build(encoder, TEXTS)
    np.testing.assert_allclose(
        index.vectors, encoder.encode(["a book. " + text for text in TEXTS]), **REORDERED
    )
    np.testing.assert_allclose(index.query_vectors(TEXTS), encoder.encode(TEXTS), **REORDERED)
    index.save(tmp_path / "index")
    TextIndex.load(tmp_path / "index", encoder)
    assert {"serve_query", "serve_document"} <= open_signatures(
        folder, ExportOptions()
    ).more_answers().keys()
    # Without the prompt its vectors are others.
    write_json(folder / "config_sentence_transformers.json", {})
    plain = SentenceEncoder.from_preset(folder)
    assert "serve_query" not in open_signatures(folder, ExportOptions()).more_answers()
    with pytest.raises(ValueError, match="was made by another model"):
        TextIndex.load(tmp_path / "index", plain)
    same = SentenceEncoder.from_preset(folder, document_prompt="a book. ")
    assert len(TextIndex.load(tmp_path / "index", same)) == len(TEXTS)


@pytest.mark.parametrize(
    ("prompts", "default", "query", "document"),
    [
        ({}, None, "", ""),
        ({"query": None, "document": None}, None, "", ""),
        ({"query": "q ", "document": ""}, None, "q ", ""),
        # sentence-transformers writes the first two into every folder.
        ({"query": "", "document": "", "all": "a "}, "all", "a ", "a "),
        ({"query": "q ", "document": "", "all": "a "}, "all", "q ", "a "),
        ({"query": "q ", "document": "", "corpus": "c "}, None, "q ", "c "),
        ({"query": "q "}, "query", "q ", ""),
        ({"passage": "p "}, "passage", "", "p "),
    ],
    ids=str,
)
def test_which_prompt_a_text_of_a_search_gets(prompts, default, query, document, tmp_path):
    content = {"prompts": prompts, "default_prompt_name": default}
    write_json(tmp_path / "config_sentence_transformers.json", content)
    found = sentence_prompts.read(tmp_path)
    assert (found.query, found.document) == (query, document)
    assert found.default == (prompts[default] if default else "")


def test_prompts_that_are_left_out_of_the_pooling_are_refused_where_they_are_used(sentence_folder):
    pooling = {"pooling_mode_max_tokens": True, "include_prompt": False}
    folder = sentence_folder(pooling=pooling, model={"prompts": {"query": "q: "}})
    encoder = SentenceEncoder.from_preset(folder)
    assert len(encoder.encode(TEXTS)) == len(encoder.encode_document(TEXTS)) == len(TEXTS)
    for ask in (
        encoder.encode_query,
        lambda texts: encoder.encode(texts, prompt="now: "),
        lambda texts: TextIndex.build(encoder, texts),  # before the work
    ):
        with pytest.raises(
            ValueError, match="include_prompt is false.*give another pooling, or enc"
        ):
            ask(TEXTS)
    family = open_signatures(folder, ExportOptions())
    assert "serve_query" not in family.more_answers()
    assert "'q: ' before queries, '' before documents (not served: include" in family.reason
    other = SentenceEncoder.from_preset(folder, pooling="max")
    np.testing.assert_allclose(
        other.encode_query(TEXTS), encoder.encode(["q: " + text for text in TEXTS]), **REORDERED
    )
    own = SentenceEncoder.from_preset(folder, query_prompt="")
    np.testing.assert_allclose(own.encode_query(TEXTS), encoder.encode(TEXTS), **REORDERED)


def test_prompts_that_a_folder_does_not_name(sentence_folder):
    folder = sentence_folder()
    options = {"query_prompt": "nice ", "document_prompt": "sad "}
    encoder = SentenceEncoder.from_preset(folder, **options)
    vectors = encoder.encode(["nice " + text for text in TEXTS])
    np.testing.assert_allclose(encoder.encode_query(TEXTS), vectors, **REORDERED)
    vectors = encoder.encode(["sad " + text for text in TEXTS])
    np.testing.assert_allclose(encoder.encode_document(TEXTS), vectors, **REORDERED)
    family = open_signatures(folder, ExportOptions(**options))
    served = family.more_answers()["serve_document"](text=tf.constant(TEXTS))
    np.testing.assert_allclose(served["sentence_embedding"], vectors, **REORDERED)


def test_vectors_are_cut_and_of_length_1_again(sentence_folder):
    folder = sentence_folder()
    whole = SentenceEncoder.from_preset(folder).encode(TEXTS)  # [N, 16]
    short = SentenceEncoder.from_preset(folder, truncate_dim=5)
    expected = whole[:, :5] / np.linalg.norm(whole[:, :5], axis=-1, keepdims=True)
    assert short.width == 5
    np.testing.assert_allclose(short.encode(TEXTS), expected, **REORDERED)
    as_they_are = SentenceEncoder.from_preset(folder, normalize=False, truncate_dim=5)
    whole = SentenceEncoder.from_preset(folder, normalize=False).encode(TEXTS)
    np.testing.assert_allclose(as_they_are.encode(TEXTS), whole[:, :5], **REORDERED)
    answer, told = vectors_and_reason(folder, truncate_dim=5)
    assert answer["sentence_embedding"].shape == (len(TEXTS), 5)
    assert told.startswith("sentence_embedding is max pooling, Normalize, of that the first 5 num")
    with pytest.raises(ValueError, match="truncate_dim is 17, but the vectors have 16 numbers"):
        SentenceEncoder.from_preset(folder, truncate_dim=17)


def test_other_heads_have_no_sentence_vectors(model_folder):
    for name in ("classes", "masked_lm"):
        with pytest.raises(
            ValueError, match="--query_prompt and --document_prompt are for .* --head=encoder"
        ):
            open_signatures(model_folder(name), ExportOptions(pooling="cls"))
    with pytest.raises(ValueError, match="pooling is 'sum': choose one of cls, mean, max, pooler"):
        ExportOptions(pooling="sum")
    family = open_signatures(model_folder("masked_lm"), ExportOptions(pooling="cls"), "encoder")
    assert "sentence_embedding" in family.answer(text=tf.constant(TEXTS))


def dense_settings(**changes):
    return {"in_features": 16, "out_features": 4, "bias": False} | changes


_WITH_DENSE = ("Transformer", "Pooling", "Dense")


@pytest.mark.parametrize(
    ("modules", "settings", "sentence"),
    [
        (("Transformer", "Pooling", "LSTM"), {}, "lists the module LSTM, which cannot be reprod"),
        (("Transformer", "CNN", "Pooling"), {}, "has CNN behind the Transformer: expected Pooling"),
        (("WordEmbeddings", "Pooling"), {}, "does not begin with a Transformer"),
        (("Transformer", "Pooling", "mine.Head"), {}, "lists mine.Head, code that is not part of"),
        (("Transformer", "Pooling"), {"pooling": {"pooling_mode": "sum"}}, "pooling_mode is 'sum'"),
        (
            ("Transformer", "Pooling"),
            {
                "pooling": {"include_prompt": False},
                "model": {"prompts": {"q": "q: "}, "default_prompt_name": "q"},
            },
            "include_prompt is false",
        ),
        (("Transformer", "Pooling"), {"model": {"default_prompt_name": "q"}}, "prompts does not"),
        (("Transformer", "Pooling"), {"model": {"prompts": ["q: "]}}, "prompts is .'q: '.: expect"),
        (
            ("Transformer", "Pooling"),
            {"transformer": {"tokenizer_args": {"padding_side": "left"}}},
            "sets padding_side, which cannot be reproduced",
        ),
        (("Transformer", "Pooling"), {"transformer": {"max_seq_length": 0}}, "length of rows is 0"),
        (
            _WITH_DENSE,
            {"dense": dense_settings(activation_function="torch.nn.modules.activation.GLU")},
            "activation_function is torch.nn.modules.activation.GLU: expected one of",
        ),
        (_WITH_DENSE, {"dense": dense_settings(use_residual=True)}, "use_residual is true"),
        (
            _WITH_DENSE,
            {"dense": dense_settings(module_input_name="token_embeddings")},
            "module_input_name is 'token_embeddings'",
        ),
        (_WITH_DENSE, {"dense": dense_settings(out_features=5)}, r"holds .*\(4, 16\).*: expected"),
    ],
)
def test_what_cannot_be_reproduced_is_refused_by_name(modules, settings, sentence, sentence_folder):
    folder = sentence_folder(modules, **settings)
    kernel = np.zeros([4, 16], np.float32)
    save_file({"linear.weight": kernel}, folder / "2_Dense" / "model.safetensors")
    with pytest.raises(ValueError, match=sentence):
        open_signatures(folder, ExportOptions())


def test_a_pooling_that_does_not_fit_the_projection(sentence_folder):
    folder = sentence_folder(_WITH_DENSE, dense=dense_settings(in_features=32))
    kernel = np.ones([4, 32], np.float32)
    save_file({"linear.weight": kernel}, folder / "2_Dense" / "model.safetensors")
    with pytest.raises(
        ValueError, match="max gives vectors of width 16, but the Dense .* takes 32"
    ):
        open_signatures(folder, ExportOptions())


@pytest.mark.parametrize("text", ["{", "[1]", '[{"type": "a.Pooling", "path": 1}]'])
def test_damaged_lists_of_modules(text, sentence_folder):
    folder = sentence_folder()
    (folder / "modules.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="modules.json is no list of modules with type and path"):
        open_signatures(folder, ExportOptions())


def test_paths_do_not_lead_out_of_the_folder(sentence_folder):
    folder = sentence_folder()
    text = (folder / "modules.json").read_text().replace("1_Pooling", "../1_Pooling")
    (folder / "modules.json").write_text(text)
    with pytest.raises(ValueError, match="has the path '../1_Pooling': expected a folder inside"):
        open_signatures(folder, ExportOptions())


def test_modules_are_copied_into_other_formats(sentence_folder, tmp_path):
    folder = sentence_folder(
        _WITH_DENSE, dense=dense_settings(), pooling={"pooling_mode": ["max", "cls"]}
    )
    # As releases from 5 on say the length: where our own tokenizer's file does not keep it.
    write_json(folder / "tokenizer_config.json", {"model_max_length": 9})
    kernel = np.ones([4, 16], np.float32)
    save_file({"linear.weight": kernel}, folder / "2_Dense" / "model.safetensors")
    target = tmp_path / "ours"
    BertTokenizer.from_preset(folder).save(target)
    sentence_modules.copy(folder, target)
    stored, copied = sentence_modules.read(folder), sentence_modules.read(target)
    assert copied.max_seq_length == stored.max_seq_length == 9
    assert copied.pooling == stored.pooling == ("max", "cls")
    np.testing.assert_array_equal(copied.steps[0].kernel, kernel.T)
    # Written out, no limit would be one to sentence-transformers, above what the encoder takes.
    for number, limit in enumerate((1e30, math.inf)):
        write_json(folder / "tokenizer_config.json", {"model_max_length": limit})
        (other := tmp_path / f"other_{number}").mkdir()
        sentence_modules.copy(folder, other)
        stored = json.loads((other / "sentence_bert_config.json").read_text())
        assert stored["max_seq_length"] is None


@pytest.mark.slow  # an export
def test_an_export_holds_the_projection(sentence_folder, tmp_path, capsys):
    folder = sentence_folder(
        _WITH_DENSE,
        dense=dense_settings(activation_function="torch.nn.modules.linear.Identity"),
        transformer={"max_seq_length": 8},
    )
    kernel = np.eye(4, 16, dtype=np.float32)
    save_file({"linear.weight": kernel}, folder / "2_Dense" / "model.safetensors")
    export = export_saved_model(folder, tmp_path / "served")
    assert "sentence_embedding is max pooling, Dense Identity" in capsys.readouterr().err
    loaded = tf.saved_model.load(str(export)).signatures
    answer = loaded["serve_tokens"](text=tf.constant(TEXTS))
    assert answer["tokens"].shape[1] == 8  # texts are cut where the folder says
    real = (answer["tokens"].numpy() != b"")[..., None]
    states = np.where(real, answer["token_vectors"], -np.inf)
    np.testing.assert_array_equal(answer["sentence_embedding"], states.max(1)[:, :4])
