"""Files cut short, wherever they are cut, and indexes that point out of their folder."""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_bert.models import preset
from keras_bert.models.conversion import convert as conversion

# What a reader needs; a file that was cut anywhere must not be read as if it were whole.
WEIGHTS = {
    "keras": ["model.weights.h5", "config.json"],
    "google": ["bert_model.ckpt.data-00000-of-00001", "bert_model.ckpt.index", "bert_config.json"],
    "hf": ["model.safetensors", "config.json"],
    "garden": ["bert_model.ckpt.data-00000-of-00001", "bert_model.ckpt.index"],
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory, pretrained_folder):
    """The same model in each format."""
    parent = tmp_path_factory.mktemp("formats")
    for name in WEIGHTS:
        (parent / name).mkdir()
        conversion.convert(pretrained_folder, parent / name, name)
    return parent


@pytest.mark.parametrize("form", WEIGHTS)
def test_a_file_cut_at_any_tenth_is_refused_by_name(folders, tmp_path, form):
    for name in WEIGHTS[form]:
        folder = tmp_path / name
        shutil.copytree(folders / form, folder)
        whole = (folder / name).read_bytes()
        for tenth in range(10):
            (folder / name).write_bytes(whole[: len(whole) * tenth // 10])
            with pytest.raises((ValueError, OSError)) as caught:
                preset.read_checkpoint(folder)
            prefix = name.split(".data-")[0].removesuffix(".index")
            assert prefix in str(caught.value), f"{name}, {tenth}/10: {caught.value}"
            assert "\n" not in str(caught.value).strip(), caught.value


def sharded(folder, target, places):
    """Copies a Hugging Face folder with its weights behind an index."""
    target.mkdir()
    shutil.copy(folder / "config.json", target)
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors, target / "part-1.safetensors")
    index = {"weight_map": dict.fromkeys(tensors, "part-1.safetensors") | places}
    (target / "model.safetensors.index.json").write_text(json.dumps(index))
    return next(iter(tensors)), tensors


@pytest.mark.parametrize(
    "place", ["../../../etc/passwd", "/etc/passwd", "sub/part-1.safetensors", "..", "", 7, None]
)
def test_a_shard_outside_the_folder_is_refused(folders, tmp_path, place):
    name, _ = sharded(folders / "hf", tmp_path / "probe", {})
    assert preset.read_checkpoint(tmp_path / "probe").variables  # as long as the index is right
    shutil.rmtree(tmp_path / "probe")
    sharded(folders / "hf", tmp_path / "probe", {name: place})
    with pytest.raises(ValueError, match="index.json places a tensor in .* a file beside it"):
        preset.read_checkpoint(tmp_path / "probe")


def test_shards_beside_the_index_are_read(folders, tmp_path):
    name, tensors = sharded(folders / "hf", tmp_path / "two", {})
    save_file({name: tensors.pop(name)}, tmp_path / "two" / "part-2.safetensors")
    save_file(tensors, tmp_path / "two" / "part-1.safetensors")
    index = json.loads((tmp_path / "two" / "model.safetensors.index.json").read_text())
    index["weight_map"][name] = "part-2.safetensors"
    (tmp_path / "two" / "model.safetensors.index.json").write_text(json.dumps(index))
    whole = preset.read_checkpoint(folders / "hf").variables
    found = preset.read_checkpoint(tmp_path / "two").variables
    assert found.keys() == whole.keys()
    for path, value in whole.items():
        np.testing.assert_array_equal(found[path], value)
