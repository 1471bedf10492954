"""probe_layers and head_statistics as commands."""

import csv
import json

import pytest

from keras_bert import ProbingOptions, create_task, head_statistics, probe_layers
from tests.probing.probed import knowing_encoder, tiny_tokenizer, write_data
from tests.tools.test_faults import run_tools

pytestmark = pytest.mark.slow
TEXTS = ["aa ba ca", "", "ab ab ab bc"]
PROBE = ["probe_layers.py", "--init_from=model", "--max_epochs=3", "--max_train_words=200"]
PLAIN = [*PROBE, "--data=data", "--scheme=plain"]
HEADS = ["head_statistics.py", "--init_from=model", "--input=texts.txt"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which all commands were run, and what they printed by name."""
    folder = tmp_path_factory.mktemp("probing_tools")
    knowing_encoder().save_to_preset(folder / "model", tiny_tokenizer())
    write_data(folder / "data")
    (folder / "texts.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    with open(folder / "texts.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "text"), *enumerate(TEXTS)])
    (folder / "empty.txt").write_text("\n", encoding="utf-8")
    commands = {
        "probe": [*PLAIN, "--output=new/probes", "--weight_decays=1e-4,1e-2"],
        "seen": [*PROBE, "--data=data", "--output=seen"],
        "decays": [*PLAIN, "--weight_decays=much"],
        "width": [*PLAIN, "--noedge_probe", "--projection_size=8"],
        "no data": [*PROBE, "--data=none", "--scheme=plain"],
        "task": [*PROBE, "--data=data", "--task=csv", "--output=no"],
        "heads": [*HEADS, "--output=new/heads", "--show=1"],
        "table": [*HEADS[:2], "--input=texts.csv", "--output=table"],
        "one text": [*HEADS, "--output=one", "--max_texts=1", "--max_seq_length=4"],
        "nothing": [*HEADS[:2], "--input=empty.txt", "--output=nothing"],
    }
    runs = run_tools([{"command": command} for command in commands.values()], folder)
    return folder, dict(zip(commands, runs, strict=True))


def test_probes_are_printed_and_written(folder):
    path, ran = folder
    printed = ran["probe"]["printed"]
    assert ran["probe"]["status"] == 0, printed
    options = ProbingOptions(max_epochs=3, max_train_words=200, weight_decays=(1e-4, 1e-2))
    data = create_task("conll", scheme="plain").read(path / "data")
    expected = probe_layers(path / "model", data, options)
    found = json.loads((path / "new/probes/probe.json").read_text(encoding="utf-8"))
    assert found["layers"][0]["accuracy"] == pytest.approx(expected.layers[0].accuracy, abs=0.01)
    assert found["words"] == expected.words == {"train": 200, "development": 300, "measured": 300}
    assert found["options"]["weight_decays"] == [1e-4, 1e-2]
    assert "linear probe    accuracy  control  selectivity  random weights  weight decay" in printed
    assert "most frequent tag of the word  100.0 %" in printed
    assert "edge probe: 200 words of 3 labels to learn from" in printed
    for name in ("probe.png", "probe.svg"):
        assert (path / "new/probes" / name).stat().st_size > 5000


def test_heads_are_printed_and_written(folder):
    path, ran = folder
    printed = ran["heads"]["printed"]
    assert ran["heads"]["status"] == 0, printed
    expected = head_statistics(path / "model", TEXTS)
    assert "model: 1 layers of 2 heads over 2 texts of 11 tokens" in printed
    with open(path / "new/heads/heads.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    entropies = [float(row["entropy"]) for row in rows]
    assert entropies == pytest.approx(expected.values["entropy"].ravel(), rel=1e-4)
    assert f"{len(expected.sentences())} heads give half of their weight or more" in printed
    assert (path / "new/heads/heads.png").stat().st_size > 5000
    assert (path / "new/heads/heads.svg").is_file()
    heads = [path / name / "heads.csv" for name in ("table", "new/heads")]
    assert heads[0].read_bytes() == heads[1].read_bytes()
    assert "over 1 texts of 4 tokens" in ran["one text"]["printed"]
    assert "1 texts were cut" in ran["one text"]["printed"]


@pytest.mark.parametrize(
    ("name", "sentence", "output"),
    [
        ("seen", "is neither O nor begins with B-, I-, E- or S-", "seen"),
        ("decays", "error: weight_decays are much: give numbers of 0 or more", "probes"),
        ("width", "error: --projection_size is for --edge_probe: give that, too", "probes"),
        ("no data", "error: none is not a folder: give the folder of the data", "probes"),
        ("task", "error: ", "no"),
        ("nothing", "error: no text has a piece that the model reads", "nothing"),
    ],
)
def test_bad_input_ends_with_a_sentence(name, sentence, output, folder):
    path, ran = folder
    assert ran[name]["status"] == 1
    assert sentence in ran[name]["printed"]
    assert "Traceback" not in ran[name]["printed"]
    assert not (path / output).exists()
