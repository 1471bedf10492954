"""Folders of late-interaction encoders: three formats read, one written, and what is refused.

Oracle: `MultiVectorEncoder` of sentence-transformers on tiny folders of each format, and BERT of
transformers with the ids of markers put behind [CLS] by hand.
"""

import dataclasses
import json
import os
import shutil
import string

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_bert import MultiVectorEncoder, load_encoder, load_tokenizer
from keras_bert.checkpoints import (
    hugging_face,
    multi_vector_modules,
    sentence_modules,
    sparse_modules,
)
from keras_bert.checkpoints.multi_vector_modules import MultiVectorModules, QueryExpansion
from keras_bert.checkpoints.sentence_prompts import Prompts
from keras_bert.models import preset
from tests.markers import some_long
from tests.signatures.tiny_models import PIECES, write_model
from tests.tolerances import ORACLE

HIDDEN, NUMBERS = 16, 6
UNUSED = ["[unused0]", "[unused1]"]
KERNEL = np.random.default_rng(0).normal(size=(HIDDEN, NUMBERS)).astype(np.float32)
TEXTS = ["the film, a.", "", "B.C. x y (the film)", "the " * 30]
PUNCTUATION = tuple(string.punctuation)
FULL = MultiVectorModules(
    KERNEL,
    query_length=14,
    max_seq_length=18,
    prompts=Prompts("", {"query": "the ", "document": "film "}, "the ", "film ", "maxsim"),
    query_marker="[unused0]",
    document_marker="[unused1]",
    expansion=QueryExpansion(12, True, "x"),
    skiplist=(",", "."),
)
MODEL_FILE = "config_sentence_transformers.json"
TRANSFORMER_FILE = "sentence_bert_config.json"


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory):
    """An encoder alone, as Hugging Face has it."""
    folder = tmp_path_factory.mktemp("encoder")
    size = len(PIECES) + 5 + len(UNUSED)
    sizes = {"vocab_size": size, "max_position_embeddings": 40}
    write_model(folder / "ours", "encoder", pieces=[*PIECES, *UNUSED], **sizes)
    (folder / "theirs").mkdir()
    hugging_face.write(preset.read_checkpoint(folder / "ours"), folder / "theirs")
    load_tokenizer(folder / "ours").save(folder / "theirs")
    return folder / "theirs"


def written(encoder_folder, folder, modules=FULL):
    shutil.copytree(encoder_folder, folder)
    multi_vector_modules.write(folder, modules)
    return folder


def put(folder, files):
    """Writes JSON files, with the keys that were there where they hold objects."""
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        if file.is_file() and isinstance(content, dict):
            content = {**json.loads(file.read_text()), **content}
        file.write_text(json.dumps(content))
    return folder


def modules_json(*kinds):
    paths = ["", *(f"{n}_{kind.rpartition('.')[2]}" for n, kind in enumerate(kinds[1:], 1))]
    return [
        {"idx": n, "name": str(n), "path": path, "type": kind}
        for n, (path, kind) in enumerate(zip(paths, kinds, strict=True))
    ]


def pylate_folder(encoder_folder, folder, dense="pylate.models.Dense.Dense", **settings):
    """A folder as PyLate saves it."""
    shutil.copytree(encoder_folder, folder)
    put(
        folder,
        {
            "modules.json": modules_json("sentence_transformers.models.Transformer", dense),
            TRANSFORMER_FILE: {"max_seq_length": 17, "do_lower_case": False},
            MODEL_FILE: {"prompts": {}, "default_prompt_name": None, **settings},
            "1_Dense/config.json": {
                "in_features": HIDDEN,
                "out_features": NUMBERS,
                "bias": False,
                "activation_function": "torch.nn.modules.linear.Identity",
            },
        },
    )
    weights = {"linear.weight": np.ascontiguousarray(KERNEL.T)}
    save_file(weights, folder / "1_Dense" / "model.safetensors", metadata={"format": "pt"})
    return folder


def stanford_folder(encoder_folder, folder, metadata):
    """A folder as Stanford's ColBERT saves it."""
    shutil.copytree(encoder_folder, folder)
    tensors = load_file(folder / "model.safetensors")
    tensors = {f"bert.{name}": value for name, value in tensors.items()}
    tensors["linear.weight"] = np.ascontiguousarray(KERNEL.T)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    put(folder, {"config.json": {"architectures": ["HF_ColBERT"]}})
    if metadata is not None:
        put(folder, {"artifact.metadata": metadata})
    return folder


def open_theirs(folder):
    from sentence_transformers import MultiVectorEncoder

    return MultiVectorEncoder(os.fspath(folder), device="cpu")


def check_held(model, modules):
    """What is read against what the model of sentence-transformers holds."""
    words, dense, mask, _ = model
    expected = words.document_length or words.max_seq_length
    assert (modules.max_seq_length or 40) == expected  # or all positions of the encoder
    if words.query_expansion is None:
        expected = words.query_length or words.max_seq_length
        assert (modules.query_length or modules.max_seq_length or 40) == expected
    else:
        assert modules.query_length == words.query_length
    expansion = modules.expansion and {"strategy": "fixed", **dataclasses.asdict(modules.expansion)}
    assert words.query_expansion == expansion
    assert list(modules.skiplist) == mask.skiplist_words
    np.testing.assert_array_equal(modules.projection, dense.linear.weight.detach().numpy().T)


def check_encodings(expected, found):
    """Token by token, of queries and of texts to be found."""
    for method in ("encode_query", "encode_document"):
        theirs = getattr(expected, method)(TEXTS, convert_to_numpy=True)
        ours = getattr(found, method)(TEXTS, convert_to_numpy=True)
        for one, other in zip(theirs, ours, strict=True):
            np.testing.assert_allclose(one, other, **ORACLE, err_msg=method)


def check_ours(folder, model):
    """What we make of a folder, against what sentence-transformers does, token by token."""
    encoder = MultiVectorEncoder.from_preset(folder)
    for method in ("encode_query", "encode_document"):
        found = getattr(encoder, method)(TEXTS)
        expected = getattr(model, method)(TEXTS, convert_to_numpy=True)
        assert found.counts.tolist() == [len(rows) for rows in expected], method
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, **ORACLE, err_msg=method)
    queries = encoder.encode_query(TEXTS), model.encode_query(TEXTS)
    texts = encoder.encode_document(TEXTS), model.encode_document(TEXTS)
    ours, theirs = (
        one.similarity(*vectors)
        for one, vectors in zip((encoder, model), zip(queries, texts, strict=True), strict=True)
    )
    np.testing.assert_allclose(ours, theirs.numpy(), **ORACLE)


def check_copy(source, encoder_folder, target, model):
    """A copy behind the encoder alone, opened by sentence-transformers."""
    shutil.copytree(encoder_folder, target)
    multi_vector_modules.copy(source, target)
    check_encodings(model, open_theirs(target))
    again = multi_vector_modules.read(target)
    first = multi_vector_modules.read(source)
    for field in dataclasses.fields(first):
        one, other = getattr(first, field.name), getattr(again, field.name)
        np.testing.assert_equal(other, one, err_msg=field.name)


NATIVE = {
    "nothing is set": ({}, (), {}),
    "all is set": (
        {
            "query_length": 16,
            "document_length": 11,
            "query_expansion": {"strategy": "fixed", "attend": True, "length": 12, "token": "x"},
        },
        (",", ".", "no piece"),
        {"query": "the ", "document": "film "},
    ),
    "a query may fill the encoder": ({"document_length": 9}, PUNCTUATION, {"query": "[unused0] "}),
    "queries are short": ({"query_length": 5}, (), {"document": "a: "}),
    "masks see nothing": (
        {"query_expansion": {"strategy": "fixed", "attend": False, "length": 10}},
        (),
        {},
    ),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", some_long(NATIVE, ("nothing is set", "all is set")))
def test_a_folder_of_sentence_transformers(name, encoder_folder, tmp_path):
    import torch
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    settings, skiplist, prompts = NATIVE[name]
    dense = Dense(
        HIDDEN,
        NUMBERS,
        False,
        torch.nn.Identity(),
        torch.tensor(KERNEL.T.copy()),
        None,
        "token_embeddings",
    )
    behind = [MultiVectorMask(list(skiplist)), Normalize("token_embeddings")]
    if skiplist:  # in either order
        behind.reverse()
    modules = [Transformer(os.fspath(encoder_folder), **settings), dense, *behind]
    MultiVectorEncoder(modules=modules, device="cpu", prompts=prompts or None).save(
        os.fspath(tmp_path / "theirs")
    )
    model = open_theirs(tmp_path / "theirs")
    found = multi_vector_modules.read(tmp_path / "theirs")
    if skiplist:
        words, dense, norm, mask = model
        check_held((words, dense, mask, norm), found)
    else:
        check_held(model, found)
    assert (found.prompts.query, found.prompts.document) == tuple(
        prompts.get(name, "") for name in ("query", "document")
    )
    assert (found.query_marker, found.document_marker) == ("", "")
    check_copy(tmp_path / "theirs", encoder_folder, tmp_path / "copy", model)
    check_ours(tmp_path / "theirs", model)


PYLATE = {
    "release 1": (
        {
            "similarity_fn_name": None,
            "query_prefix": "[unused0] ",
            "document_prefix": "[unused1] ",
            "query_length": 12,
            "document_length": 15,
            "attend_to_expansion_tokens": False,
            "skiplist_words": [",", "!"],
        },
        "pylate.models.Dense.Dense",
    ),
    "release 3": (
        {
            "model_type": "ColBERT",
            "similarity_fn_name": "MaxSim",
            "query_prefix": "[unused0] ",
            "document_prefix": "[unused1] ",
            "query_length": 13,
            "document_length": 19,
            "attend_to_expansion_tokens": True,
            "do_query_expansion": True,
            "prompts": {"query": "the film ", "document": "a "},
        },
        "pylate.models.Dense.Dense",
    ),
    "without expansion": (
        {
            "model_type": "ColBERT",
            "query_prefix": "",
            "document_prefix": None,
            "query_length": 9,
            "do_query_expansion": False,
            "skiplist_words": [],
        },
        "sentence_transformers.models.Dense",
    ),
    "prefixes are text": (
        {"query_prefix": "[Q] ", "document_prefix": "the"},
        "pylate.models.Dense.Dense",
    ),
    "null means none of an expansion alone": (
        {"query_prefix": "a ", "query_expansion": None, "query_length": None},
        "pylate.models.Dense.Dense",
    ),
    "an expansion as in release 6": (
        {"query_expansion": {"strategy": "fixed", "length": 9}, "document_length": None},
        "pylate.models.Dense.Dense",
    ),
    "a type and nothing else": ({"model_type": "ColBERT"}, "sentence_transformers.models.Dense"),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", some_long(PYLATE, ("release 1", "prefixes are text")))
def test_a_folder_of_pylate(name, encoder_folder, tmp_path):
    settings, dense = PYLATE[name]
    folder = pylate_folder(encoder_folder, tmp_path / "theirs", dense, **settings)
    model = open_theirs(folder)
    found = multi_vector_modules.read(folder)
    check_held(model, found)
    for marker, role in ((found.query_marker, "query"), (found.document_marker, "document")):
        is_marker = (settings.get(f"{role}_prefix") or "").startswith("[unused")
        assert bool(marker) == is_marker
        blank = " " if marker else ""
        assert marker + blank + getattr(found.prompts, role) == (model.prompts[role] or "")
    check_copy(folder, encoder_folder, tmp_path / "copy", model)
    check_ours(folder, model)


STANFORD = {
    "all is set": {
        "query_token_id": "[unused1]",
        "doc_token_id": "[unused0]",
        "query_maxlen": 11,
        "doc_maxlen": 20,
        "mask_punctuation": False,
        "attend_to_mask_tokens": True,
    },
    "little is set": {"doc_maxlen": 12, "query_maxlen": 20},
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", some_long(STANFORD, ("all is set",)))
def test_a_folder_of_stanford(name, encoder_folder, tmp_path):
    folder = stanford_folder(encoder_folder, tmp_path / "theirs", STANFORD[name])
    model = open_theirs(folder)
    found = multi_vector_modules.read(folder)
    check_held(model, found)
    assert f"{found.query_marker} " == model.prompts["query"]
    assert f"{found.document_marker} " == model.prompts["document"]
    check_copy(folder, encoder_folder, tmp_path / "copy", model)
    check_ours(folder, model)


@pytest.mark.oracle
def test_markers_are_ids_behind_cls(encoder_folder, tmp_path):
    """What is written, opened by sentence-transformers, against BERT with the ids by hand."""
    import torch
    from transformers import AutoTokenizer, BertModel

    folder = written(encoder_folder, tmp_path / "ours", dataclasses.replace(FULL, expansion=None))
    model, bert = open_theirs(folder), BertModel.from_pretrained(encoder_folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(encoder_folder)
    for method, marker, prompt, length, skiplist in (
        ("encode_query", "[unused0]", "the ", 14, ()),
        ("encode_document", "[unused1]", "film ", 18, FULL.skiplist),
    ):
        found = getattr(model, method)(TEXTS, convert_to_numpy=True)
        for text, vectors in zip(TEXTS, found, strict=True):
            cls, *pieces, sep = tokenizer(prompt + text)["input_ids"]
            marker_id = tokenizer.convert_tokens_to_ids(marker)
            ids = [cls, marker_id, *pieces[: length - 3], sep]
            with torch.no_grad():
                hidden = bert(torch.tensor([ids])).last_hidden_state[0].numpy()  # [T, H]
            kept = [i not in tokenizer.convert_tokens_to_ids(list(skiplist)) for i in ids]
            expected = (hidden @ KERNEL)[kept]  # [K, D]
            expected /= np.linalg.norm(expected, axis=-1, keepdims=True)
            np.testing.assert_allclose(vectors, expected, **ORACLE, err_msg=text)


@pytest.mark.oracle
def test_markers_that_pylate_adds_to_the_vocabulary(encoder_folder, tmp_path):
    """ "[Q] " and "[D] " behind the pieces of vocab.txt: in the tokenizer, too."""
    from transformers import AutoTokenizer, BertModel

    settings = {"query_prefix": "[Q] ", "document_prefix": "[D] ", "query_length": 9}
    folder = pylate_folder(encoder_folder, tmp_path / "theirs", **settings)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["[Q] ", "[D] "])
    tokenizer.save_pretrained(folder)
    bert = BertModel.from_pretrained(encoder_folder)
    bert.resize_token_embeddings(len(tokenizer))
    bert.save_pretrained(folder)
    model = open_theirs(folder)
    model.save(os.fspath(tmp_path / "saved"))  # in the format of release 6
    (folder / "vocab.txt").rename(tmp_path / "vocab.txt")
    for again in (False, True):  # without and with vocab.txt
        if again:
            shutil.copy(tmp_path / "vocab.txt", folder)
        for one in (folder, tmp_path / "saved"):
            found = multi_vector_modules.read(one)
            assert (found.query_marker, found.document_marker) == ("[Q]", "[D]")
            assert (found.prompts.query, found.prompts.document) == ("", "")
            ours = load_tokenizer(one)
            assert len(ours.vocabulary) == len(tokenizer)
            ids = model.preprocess(["the film"], prompt="[Q] ", task="query")["input_ids"][0]
            assert ids[1] == ours.vocabulary.id_of("[Q]")
    shutil.rmtree(tmp_path / "ours", ignore_errors=True)
    (tmp_path / "ours").mkdir()
    hugging_face.write(preset.read_checkpoint(folder), tmp_path / "ours")
    load_tokenizer(folder).save(tmp_path / "ours")
    multi_vector_modules.copy(folder, tmp_path / "ours")
    check_encodings(model, open_theirs(tmp_path / "ours"))


def test_what_is_written_is_read(encoder_folder, tmp_path):
    for number, modules in enumerate((FULL, MultiVectorModules(KERNEL))):
        folder = written(encoder_folder, tmp_path / str(number), modules)
        multi_vector_modules.write(folder, modules)  # over itself
        found = multi_vector_modules.read(folder)
        for field in dataclasses.fields(found):
            expected = getattr(modules, field.name)
            if field.name == "prompts":
                names = {"query": "", "document": ""}
                expected = expected._replace(by_name={**names, **expected.by_name})
            if field.name in ("query_length", "projection"):
                np.testing.assert_equal(getattr(found, field.name), expected)
            else:
                assert getattr(found, field.name) == expected, field.name
    assert found.projection.dtype == np.float32
    stored = json.loads((tmp_path / "0" / TRANSFORMER_FILE).read_text())
    expansion = {"strategy": "fixed", "length": 12, "attend": True, "token": "x"}
    assert stored == {
        "max_seq_length": 18,
        "do_lower_case": False,
        "query_length": 14,
        "document_length": 18,
        "query_expansion": expansion,
    }


def test_a_list_of_modules_counts_more_than_the_class_of_stanford(encoder_folder, tmp_path):
    """A model of Stanford's that was saved again with a folder for the projection."""
    folder = written(encoder_folder, tmp_path / "f")
    put(folder, {"config.json": {"architectures": ["HF_ColBERT"]}})
    found = multi_vector_modules.read(folder)
    np.testing.assert_array_equal(found.projection, KERNEL)
    assert found.expansion == FULL.expansion


def test_prompts_of_other_names_and_a_default_are_copied(encoder_folder, tmp_path):
    prompts = {"query": "[unused0] the ", "topic": "b "}
    source = written(encoder_folder, tmp_path / "source")
    put(source, {MODEL_FILE: {"prompts": prompts, "default_prompt_name": "topic"}})
    shutil.copytree(encoder_folder, tmp_path / "target")
    multi_vector_modules.copy(source, tmp_path / "target")
    found = multi_vector_modules.read(tmp_path / "target").prompts
    # As in sentence-transformers neither queries nor texts to be found begin with the default.
    assert found == Prompts(
        "b ", {"query": "the ", "topic": "b ", "document": ""}, "the ", "", "maxsim"
    )


@pytest.mark.oracle
@pytest.mark.parametrize("settings", [{}, {"document_length": 9}])
def test_a_tokenizer_without_a_limit(settings, encoder_folder, tmp_path):
    """1e30, as transformers writes it, is no length; queries may fill the encoder."""
    folder = written(encoder_folder, tmp_path / "f", MultiVectorModules(KERNEL))
    put(folder, {"tokenizer_config.json": {"model_max_length": int(1e30)}})
    put(folder, {TRANSFORMER_FILE: settings})
    found = multi_vector_modules.read(folder)
    assert found.max_seq_length == settings.get("document_length")
    assert found.query_length == (40 if settings else None)
    check_held(open_theirs(folder), found)
    check_copy(folder, encoder_folder, tmp_path / "copy", open_theirs(folder))


def test_which_folders_are_of_late_interaction(encoder_folder, tmp_path):
    pylate = pylate_folder(encoder_folder, tmp_path / "pylate")
    folders = [
        written(encoder_folder, tmp_path / "native"),
        pylate,
        pylate_folder(
            encoder_folder, tmp_path / "st", "sentence_transformers.models.Dense", query_prefix="a "
        ),
        stanford_folder(encoder_folder, tmp_path / "stanford", None),
    ]
    for folder in folders:
        assert multi_vector_modules.is_multi_vector_folder(folder), folder
        assert multi_vector_modules.model_folder(folder) == folder
        assert not sentence_modules.is_sentence_folder(folder)
        assert not sparse_modules.is_sparse_folder(folder)
        assert sentence_modules.encoder_source(folder) == os.fspath(folder)
        weights = load_encoder(folder).get_weights()
        expected = load_encoder(encoder_folder).get_weights()
        assert all(map(np.array_equal, weights, expected))
    assert not multi_vector_modules.is_multi_vector_folder(encoder_folder)
    assert not multi_vector_modules.is_multi_vector_folder(tmp_path / "nowhere")
    assert multi_vector_modules.model_folder(encoder_folder) == encoder_folder
    # A vector of a sentence, and one in a folder of its own.
    package = "sentence_transformers.models."
    kinds = [f"{package}{name}" for name in ("Transformer", "Pooling", "Dense")]
    dense = put(tmp_path / "st", {"modules.json": modules_json(*kinds)})
    assert not multi_vector_modules.is_multi_vector_folder(dense)
    (pylate / "0_Transformer").mkdir()
    entries = modules_json(kinds[0], "pylate.models.Dense.Dense")
    entries[0]["path"] = "0_Transformer"
    put(pylate, {"modules.json": entries})
    for file in encoder_folder.iterdir():
        (pylate / file.name).rename(pylate / "0_Transformer" / file.name)
    assert multi_vector_modules.model_folder(pylate) == pylate / "0_Transformer"
    assert sentence_modules.encoder_source(pylate) == os.fspath(pylate / "0_Transformer")
    np.testing.assert_array_equal(multi_vector_modules.read(pylate).projection, KERNEL)


def test_settings_that_a_folder_of_stanford_leaves_out(encoder_folder, tmp_path):
    folder = stanford_folder(encoder_folder, tmp_path / "stanford", None)
    found = multi_vector_modules.read(folder)
    np.testing.assert_array_equal(found.projection, KERNEL)
    expected = MultiVectorModules(
        found.projection,
        prompts=Prompts("", {"query": "", "document": ""}, "", "", "maxsim"),
        query_marker="[unused0]",
        document_marker="[unused1]",
        expansion=QueryExpansion(32, False, None),
        skiplist=PUNCTUATION,
    )
    for field in dataclasses.fields(found):
        if field.name != "projection":
            assert getattr(found, field.name) == getattr(expected, field.name)


@pytest.mark.parametrize(
    ("prefix", "marker", "text"),
    [
        ("[unused0] ", "[unused0]", ""),
        ("[unused0]", "[unused0]", ""),
        ("[unused0] the film: ", "[unused0]", "the film: "),
        ("the ", "", "the "),  # the same piece as text
        ("[Q] ", "", "[Q] "),  # no piece
        (" [unused0] ", "", " [unused0] "),
        ("", "", ""),
    ],
)
def test_which_prefix_is_a_marker(prefix, marker, text, encoder_folder, tmp_path):
    folder = pylate_folder(encoder_folder, tmp_path / "f", query_prefix=prefix)
    found = multi_vector_modules.read(folder)
    assert (found.query_marker, found.prompts.query) == (marker, text)


def test_a_prompt_of_the_newest_format_is_text_but_for_added_tokens(encoder_folder, tmp_path):
    folder = written(encoder_folder, tmp_path / "f", MultiVectorModules(KERNEL))
    put(folder, {MODEL_FILE: {"prompts": {"query": "[unused0] a ", "document": "[D] b "}}})
    found = multi_vector_modules.read(folder)
    assert (found.query_marker, found.prompts.query) == ("", "[unused0] a ")
    assert (found.document_marker, found.prompts.document) == ("", "[D] b ")
    put(folder, {"tokenizer_config.json": {"extra_special_tokens": ["[unused0]"]}})
    put(folder, {"added_tokens.json": {"[D] ": len(PIECES) + 7}})
    found = multi_vector_modules.read(folder)
    assert (found.query_marker, found.prompts.query) == ("[unused0]", "a ")
    assert (found.document_marker, found.prompts.document) == ("[D]", "b ")
    vocabulary = load_tokenizer(folder).vocabulary
    assert vocabulary.tokens[-3:] == (*UNUSED, "[D]")
    # Any other added token is refused as before, and so is a gap in the ids.
    put(folder, {"added_tokens.json": {"[E] ": len(PIECES) + 8}})
    with pytest.raises(ValueError, match=r"'\[E\] ' is an added token"):
        load_tokenizer(folder)
    (folder / "added_tokens.json").write_text(json.dumps({"[D] ": 99}))
    with pytest.raises(ValueError, match=r"the marker '\[D\]' has the id 99, but \d+ is the next"):
        load_tokenizer(folder)


def test_of_bytes_a_blank_behind_a_marker_is_text(encoder_folder, tmp_path):
    """A vocabulary of byte-level BPE, whose words begin with their blank."""
    folder = pylate_folder(
        encoder_folder, tmp_path / "f", query_prefix="[Q] ", document_prefix="[unused0] "
    )
    (folder / "vocab.txt").unlink()
    added = [{"content": "[Q] ", "id": 2}]
    vocab = {"[unused0]": 0, "a": 1}
    put(
        folder,
        {"tokenizer.json": {"model": {"type": "BPE", "vocab": vocab}, "added_tokens": added}},
    )
    found = multi_vector_modules.read(folder)
    assert (found.query_marker, found.prompts.query) == ("[Q] ", "")
    assert (found.document_marker, found.prompts.document) == ("[unused0]", " ")
    multi_vector_modules.copy(folder, folder)
    stored = json.loads((folder / MODEL_FILE).read_text())
    assert stored["query_prefix"] == stored["prompts"]["query"] == "[Q] "
    assert (stored["document_prefix"], stored["prompts"]["document"]) == ("[unused0]", "[unused0] ")


ST = "sentence_transformers.models."
DENSE_FILE, MASK_FILE = "1_Dense/config.json", "2_MultiVectorMask/config.json"
NORM_FILE = "3_Normalize/config.json"
EXPANSION = {"strategy": "fixed", "length": 12}


def _expansion(**values):
    return {"query_expansion": {**EXPANSION, **values}}


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        (
            "modules.json",
            modules_json(*(f"{ST}{name}" for name in ("Transformer", "Dense", "Dense"))),
            "modules.json lists 2 Dense modules: several projections in a row cannot be reproduced",
        ),
        (
            "modules.json",
            modules_json(*(f"{ST}{name}" for name in ("Transformer", "MultiVectorMask", "Dense"))),
            "has MultiVectorMask, Dense behind the Transformer, which cannot be reproduced: "
            "expected Dense, MultiVectorMask, Normalize",
        ),
        (
            "modules.json",
            modules_json(*(f"{ST}{name}" for name in ("Transformer", "Dense", "MultiVectorMask"))),
            "has Dense, MultiVectorMask behind the Transformer",
        ),
        (
            "modules.json",
            modules_json(f"{ST}Transformer"),
            "has nothing behind the Transformer, which cannot be reproduced",
        ),
        (
            "modules.json",
            modules_json(*(f"{ST}{name}" for name in ("Transformer", "HierarchicalTokenPooling"))),
            "modules.json lists the module HierarchicalTokenPooling, which cannot be reproduced",
        ),
        ("modules.json", modules_json(f"{ST}Router"), "does not begin with a Transformer"),
        (
            "modules.json",
            modules_json(f"{ST}Transformer", "pylate.models.Other.Other"),
            "lists pylate.models.Other.Other, code that is not part of sentence-transformers",
        ),
        (  # only beside the adapters of jina-embeddings-v3, whose code it is
            "modules.json",
            modules_json("custom_st.Transformer", f"{ST}Dense"),
            "lists custom_st.Transformer, code that is not part of sentence-transformers",
        ),
        ("modules.json", [7], "modules.json is no list of modules"),
        (DENSE_FILE, {"bias": True}, "1_Dense/config.json: bias is True, which cannot be reprod"),
        (DENSE_FILE, {"use_residual": True}, "config.json: use_residual is True, which cannot be"),
        (
            DENSE_FILE,
            {"activation_function": "torch.nn.modules.activation.Tanh"},
            "activation_function is torch.nn.modules.activation.Tanh, which cannot be reproduced: "
            "expected torch.nn.modules.linear.Identity",
        ),
        (DENSE_FILE, {"activation_function": "mine.Identity"}, "is mine.Identity, which cannot"),
        (
            DENSE_FILE,
            {"module_input_name": "sentence_embedding"},
            "module_input_name is 'sentence_embedding', which cannot be reproduced: expected "
            "'token_embeddings'",
        ),
        (DENSE_FILE, {"module_output_name": "other"}, "module_output_name is 'other', which"),
        (DENSE_FILE, {"out_features": 7}, r"holds {'linear.weight': \(6, 16\)}: expected {'lin"),
        (
            NORM_FILE,
            {"module_input_name": "sentence_embedding", "module_output_name": None},
            "3_Normalize/config.json: module_input_name is 'sentence_embedding'",
        ),
        (
            MASK_FILE,
            {"skiplist_tasks": ["query", "document"]},
            r"skiplist_tasks is \['query', 'document'\], which cannot be reproduced: expected "
            r"\['document'\]",
        ),
        (MASK_FILE, {"skiplist_tasks": []}, r"skiplist_tasks is \[\], which cannot be reproduced"),
        (MASK_FILE, {"keep_only_token_ids": [5]}, r"keep_only_token_ids is \[5\], which cannot"),
        (
            MASK_FILE,
            {"skiplist_words": "!?"},
            "skiplist_words is '!\\?': expected a list of pieces",
        ),
        (MASK_FILE, {"skiplist_words": [3]}, r"skiplist_words is \[3\]: expected a list of pieces"),
        (
            MODEL_FILE,
            {"similarity_fn_name": "meanmaxsim"},
            f"{MODEL_FILE}: similarity_fn_name is 'meanmaxsim', which cannot be reproduced: write "
            "'maxsim' there",
        ),
        (MODEL_FILE, {"query_prefix": 3}, "what stands before a query is 3: expected text such as"),
        (MODEL_FILE, {"prompts": [3]}, r"prompts is \[3\]: expected texts by their names"),
        (
            TRANSFORMER_FILE,
            _expansion(strategy="min"),
            f"{TRANSFORMER_FILE}: query_expansion has the strategy 'min', which cannot be "
            "reproduced: expected 'fixed'",
        ),
        (TRANSFORMER_FILE, _expansion(extra=1), "query_expansion sets extra, which cannot be repr"),
        (TRANSFORMER_FILE, _expansion(length=0), "the length of query_expansion is 0: expected a"),
        (TRANSFORMER_FILE, _expansion(length=None), "query_expansion has no length: expected"),
        (TRANSFORMER_FILE, _expansion(attend=1), "attend of query_expansion is 1: expected true"),
        (TRANSFORMER_FILE, _expansion(token=4), "token of query_expansion is 4: expected a token"),
        (TRANSFORMER_FILE, {"query_expansion": 32}, "query_expansion is 32: expected an object"),
        (
            TRANSFORMER_FILE,
            {"query_length": 8},
            f"{TRANSFORMER_FILE}: query_length is 8, but queries are filled up to 12 positions",
        ),
        (TRANSFORMER_FILE, {"query_length": True}, "query_length is True: expected a whole number"),
        (TRANSFORMER_FILE, {"document_length": 1.5}, "document_length is 1.5: expected a whole"),
        (
            TRANSFORMER_FILE,
            {"transformer_task": "fill-mask"},
            "sets transformer_task, which cannot",
        ),
        (
            "tokenizer_config.json",
            {"added_tokens_decoder": [3]},
            "tokenizer_config.json is damaged",
        ),
        ("tokenizer.json", {"added_tokens": [3]}, "tokenizer.json or .* is damaged"),
    ],
)
def test_refusals(file, content, sentence, encoder_folder, tmp_path):
    folder = put(written(encoder_folder, tmp_path / "f"), {file: content})
    with pytest.raises(ValueError, match=sentence) as caught:
        multi_vector_modules.read(folder)
    assert file in str(caught.value) or "1_Dense" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_tasks_of_an_empty_skiplist_make_no_difference(encoder_folder, tmp_path):
    folder = written(encoder_folder, tmp_path / "f", MultiVectorModules(KERNEL))
    put(folder, {MASK_FILE: {"skiplist_tasks": ["query"]}})
    assert multi_vector_modules.read(folder).skiplist == ()


def test_what_a_dense_module_says_nothing_of(encoder_folder, tmp_path):
    """sentence-transformers takes a bias and Tanh, then."""
    folder = pylate_folder(encoder_folder, tmp_path / "f")
    config = json.loads((folder / DENSE_FILE).read_text())
    for key, sentence in (("bias", "bias is True"), ("activation_function", "is .*Tanh")):
        left = {name: value for name, value in config.items() if name != key}
        (folder / DENSE_FILE).write_text(json.dumps(left))
        with pytest.raises(ValueError, match=sentence):
            multi_vector_modules.read(folder)


@pytest.mark.parametrize("settings", [{}, {"model_type": "ColBERT"}])
def test_pylate_has_no_more_modules(settings, encoder_folder, tmp_path):
    folder = pylate_folder(encoder_folder, tmp_path / "f", **settings)
    kinds = (f"{ST}Transformer", "pylate.models.Dense.Dense", f"{ST}Normalize")
    put(folder, {"modules.json": modules_json(*kinds)})
    with pytest.raises(ValueError, match="has Dense, Normalize behind the .* expected Dense$"):
        multi_vector_modules.read(folder)


def test_damaged_files(encoder_folder, tmp_path):
    whole = written(encoder_folder, tmp_path / "whole")
    for name in (*(DENSE_FILE, MASK_FILE, NORM_FILE), MODEL_FILE, TRANSFORMER_FILE, "modules.json"):
        folder = tmp_path / name.replace("/", "_")
        shutil.copytree(whole, folder)
        (folder / name).write_text((folder / name).read_text()[:-4])
        with pytest.raises(ValueError, match=name):
            multi_vector_modules.read(folder)
    (whole / "1_Dense/model.safetensors").write_bytes(b"8 bytes.")
    with pytest.raises(ValueError, match="1_Dense/model.safetensors is not a readable"):
        multi_vector_modules.read(whole)
    weights = np.full((NUMBERS, HIDDEN), np.nan, np.float32)
    save_file({"linear.weight": weights}, whole / "1_Dense/model.safetensors")
    with pytest.raises(ValueError, match="has a weight that is not finite"):
        multi_vector_modules.read(whole)
    (whole / "1_Dense/model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="1_Dense holds none of model.safetensors"):
        multi_vector_modules.read(whole)
    (whole / "modules.json").unlink()  # the type still says what it is
    assert multi_vector_modules.is_multi_vector_folder(whole)
    with pytest.raises(FileNotFoundError, match="modules.json"):
        multi_vector_modules.read(whole)


def test_damaged_folders_of_stanford(encoder_folder, tmp_path):
    folder = stanford_folder(encoder_folder, tmp_path / "f", {"doc_maxlen": "long"})
    with pytest.raises(ValueError, match="artifact.metadata: document_length is 'long': expected"):
        multi_vector_modules.read(folder)
    put(folder, {"artifact.metadata": {"doc_maxlen": 9, "query_token_id": 7}})
    with pytest.raises(ValueError, match="artifact.metadata: what stands before a query is 7"):
        multi_vector_modules.read(folder)
    (folder / "artifact.metadata").write_text("{")
    with pytest.raises(ValueError, match="artifact.metadata"):
        multi_vector_modules.read(folder)
    (folder / "artifact.metadata").unlink()
    tensors = load_file(folder / "model.safetensors")
    for change, told in (
        ({"linear.bias": np.zeros(NUMBERS, np.float32)}, "linear.bias"),
        ({"linear.weight": np.zeros(NUMBERS, np.float32)}, r"\(6,\)"),
    ):
        save_file({**tensors, **change}, folder / "model.safetensors")
        with pytest.raises(ValueError, match=rf"safetensors holds .*{told}.*: expected the matrix"):
            multi_vector_modules.read(folder)
    tensors.pop("linear.weight")
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ValueError, match="holds no projection of tokens: expected the matrix lin"):
        multi_vector_modules.read(folder)


def test_only_a_colbert_may_have_a_projection_among_its_weights(encoder_folder, tmp_path):
    folder = stanford_folder(encoder_folder, tmp_path / "f", None)
    put(folder, {"config.json": {"architectures": ["BertModel"]}})
    assert not multi_vector_modules.is_multi_vector_folder(folder)
    with pytest.raises(ValueError, match="linear.weight"):
        load_encoder(folder)


def test_a_damaged_list_of_modules_does_not_keep_a_tokenizer_closed(encoder_folder, tmp_path):
    shutil.copytree(encoder_folder, tmp_path / "f")
    (tmp_path / "f" / "modules.json").write_text("[")
    assert len(load_tokenizer(tmp_path / "f").vocabulary) == len(PIECES) + 7
