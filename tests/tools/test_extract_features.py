"""extract_features as a command."""

from pathlib import Path

import numpy as np
import pytest

from tests import command_process

REPOSITORY = Path(__file__).parents[2]


def call(**arguments):
    flags = [f"--{name}={value}" for name, value in arguments.items()]
    return command_process.run([REPOSITORY / "tools" / "extract_features.py", *flags])


@pytest.mark.slow
def test_texts_to_vectors_of_words(pretrained_folder, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("the film was good\n\n" + "very bad book " * 40 + "\n")
    output = tmp_path / "features.npz"
    made = call(
        init_from=pretrained_folder, input=texts, output=output, layers="sum_all", level="word"
    )
    assert made.returncode == 0, made.stderr
    assert f"3 texts, 124 vectors of 32 numbers, one for each word: {output}" in made.stdout
    assert "1 long texts were read in windows" in made.stdout
    with np.load(output) as arrays:
        assert arrays["values"].shape == (124, 32)
        assert arrays["row_splits"].tolist() == [0, 4, 4, 124]


def test_a_wrong_flag_is_one_sentence(pretrained_folder, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("good\n")
    # The default of the paper needs four layers; this model has one.
    made = call(init_from=pretrained_folder, input=texts, output=tmp_path / "features.npz")
    assert made.returncode == 1
    assert made.stderr.startswith("error: concat_last_4 takes 4 layers but the model has 1")
    assert not (tmp_path / "features.npz").exists()
    made = call(
        init_from=pretrained_folder, input=texts, output=tmp_path / "folder", dtype="float32"
    )
    assert made.stderr.startswith("error: --dtype is for .npz and .tfrecord: a projector's table")
    made = call(init_from=pretrained_folder, input="texts.csv.gz", output=tmp_path / "a.npz")
    assert made.stderr.startswith("error: texts.csv.gz is a packed table: unpack it first")
