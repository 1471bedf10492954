"""convert_checkpoint as a command: the report, the tokenizer's files, targets left alone."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from keras_bert import (
    BertClassifier,
    BertConfig,
    BertMaskedLM,
    BertTokenizer,
    DistilBertConfig,
    load_encoder,
)
from tests import command_process

REPOSITORY = Path(__file__).parents[2]
ROWS = 64  # of the embeddings: 8 pieces and padding to a multiple of 64
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "Zürich", "##s", "is"]


def convert(**arguments):
    flags = [f"--{name}={value}" for name, value in arguments.items()]
    tool = REPOSITORY / "tools" / "convert_checkpoint.py"
    return command_process.run([tool, *flags], environment={"KERAS_BERT_TRACEBACK": ""})


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    config = BertConfig(
        vocab_size=ROWS,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=12,
        max_position_embeddings=10,
        hidden_act="gelu_tanh",
    )
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    tokenizer = BertTokenizer.from_vocab(folder / "vocab.txt", lowercase=False, split_cjk=False)
    BertMaskedLM(config).save_to_preset(folder, tokenizer)
    return folder


def test_to_google_and_back(source, tmp_path):
    done = convert(**{"from": source, "to": tmp_path / "google", "format": "google"})
    assert done.returncode == 0, done.stderr
    # Embeddings 5, each of two layers 12, pooler 2, head 5; Google's layers have 16, as query, key
    # and value are three there.
    assert "tensors read:    36\n" in done.stdout
    assert "arrays equal:    36 of 36\n" in done.stdout
    padded = "tokenizer:       8 pieces, cased; the embeddings have 56 rows of padding\n"
    assert padded in done.stdout
    values = json.loads((tmp_path / "google" / "bert_config.json").read_text(encoding="utf-8"))
    assert (values["hidden_act"], values["vocab_size"]) == ("gelu", ROWS)

    values["colour"] = "red"
    (tmp_path / "google" / "bert_config.json").write_text(json.dumps(values), encoding="utf-8")
    arguments = {"from": tmp_path / "google", "to": tmp_path / "back"}
    done = convert(**arguments, ignore_config_keys="shape,colour")
    assert done.returncode == 0, done.stderr
    assert "tensors read:    44\ntensors mapped:  44 -> 36 variables\n" in done.stdout
    model, again = (BertMaskedLM.from_preset(folder) for folder in (source, tmp_path / "back"))
    assert again.config == model.config
    for ours, theirs in zip(again.weights, model.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    settings = BertTokenizer.from_preset(tmp_path / "back").settings
    assert settings == BertTokenizer.from_preset(source).settings


def test_weights_of_half_the_size(source, tmp_path):
    arguments = {"from": source, "to": tmp_path / "half", "dtype": "bfloat16"}
    done = convert(**arguments)
    assert done.returncode == 1
    assert "weights in bfloat16 are for the format hf, not keras: " in done.stderr
    assert not (tmp_path / "half").exists()

    done = convert(**arguments, format="hf")
    assert done.returncode == 0, done.stderr
    model, half = (BertMaskedLM.from_preset(path) for path in (source, tmp_path / "half"))
    modes = {path.stat().st_mode for path in (tmp_path / "half").iterdir()}
    assert len(modes) == 1  # readable for whoever may read the config, as under a server
    file = (tmp_path / "half" / "model.safetensors").read_bytes()
    header = json.loads(file[8 : 8 + int.from_bytes(file[:8], "little")])
    tensors = [tensor for name, tensor in header.items() if name != "__metadata__"]
    assert {tensor["dtype"] for tensor in tensors} == {"BF16"}
    changes = []
    for ours, whole in zip(half.weights, model.weights, strict=True):
        # Bits of float32 to the nearest bfloat16: the upper half, ties to even.
        bits = np.asarray(whole).view(np.uint32)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
        np.testing.assert_array_equal(ours, bits.astype(np.uint32).view(np.float32))
        changes.append(np.abs(ours - whole).max())
    told = f"weights:         bfloat16, rounding changed them by at most {max(changes):.1e}\n"
    assert told in done.stdout


def test_a_weight_that_the_dtype_cannot_hold(source, tmp_path):
    model = BertMaskedLM.from_preset(source)
    bias = next(weight for weight in model.weights if weight.shape == (12,))
    bias.assign(np.full(12, 65600.0))  # the largest number of float16 is 65504
    model.save_to_preset(tmp_path / "large", BertTokenizer.from_preset(source))
    arguments = {"from": tmp_path / "large", "to": tmp_path / "half", "format": "hf"}
    done = convert(**arguments, dtype="float16")
    assert done.returncode == 1
    assert "holds 6.56e+04, which float16 cannot hold: give another dtype" in done.stderr
    assert not (tmp_path / "half").exists()


@pytest.mark.slow
def test_refusals_leave_everything_as_it_was(source, tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    (target / "mine").write_text("precious", encoding="utf-8")
    done = convert(**{"from": source, "to": target})
    assert done.returncode == 1
    assert done.stderr.strip().endswith(
        f"error: {target} exists: give a new folder to --to, or remove it first"
    )
    assert [path.name for path in target.iterdir()] == ["mine"]

    broken = tmp_path / "broken"
    broken.mkdir()
    for path in source.iterdir():
        (broken / path.name).write_bytes(path.read_bytes())
    with (broken / "vocab.txt").open("a", encoding="utf-8") as file:
        file.writelines(f"more{index}\n" for index in range(ROWS))
    done = convert(**{"from": broken, "to": tmp_path / "result", "format": "hf"})
    assert done.returncode == 1
    assert "error: vocab.txt has 72 entries but config.vocab_size is 64" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken", "target"]


@pytest.mark.slow
def test_padded_embeddings_go_through_every_format(source, tmp_path):
    folder = source
    for format in ("hf", "garden", "google", "keras"):
        done = convert(**{"from": folder, "to": tmp_path / format, "format": format})
        assert done.returncode == 0, done.stderr
        assert "56 rows of padding" in done.stdout
        folder = tmp_path / format
    model, again = (BertMaskedLM.from_preset(folder) for folder in (source, folder))
    for ours, theirs in zip(again.weights, model.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert len(BertTokenizer.from_preset(folder).vocabulary) == len(PIECES)


@pytest.mark.slow
def test_tokenizers_of_models_without_segments_give_none(source, tmp_path):
    vocabulary = BertTokenizer.from_preset(source).vocabulary
    config = DistilBertConfig(
        vocab_size=ROWS, hidden_size=8, num_hidden_layers=1, num_attention_heads=2
    )
    BertMaskedLM(config).save_to_preset(tmp_path / "distil", BertTokenizer(vocabulary))
    for folder, names in ((tmp_path / "distil", ["input_ids", "attention_mask"]), (source, None)):
        target = tmp_path / f"{folder.name}_hf"
        assert convert(**{"from": folder, "to": target, "format": "hf"}).returncode == 0
        stored = json.loads((target / "tokenizer_config.json").read_text(encoding="utf-8"))
        assert stored.get("model_input_names") == names


@pytest.mark.slow
def test_what_stands_beside_the_weights_comes_along_or_is_told(source, tmp_path):
    """Of a fine-tuned model the length of rows, the task, and labels, which Google cannot hold."""
    tokenizer = BertTokenizer.from_preset(source)
    model = BertClassifier(BertConfig.from_file(source), num_classes=2, labels=["no", "yes"])
    model.save_to_preset(tmp_path / "run", tokenizer)
    (tmp_path / "run" / "task.json").write_text("{}")
    stored = json.loads((tmp_path / "run" / "tokenizer_config.json").read_text())
    (tmp_path / "run" / "tokenizer_config.json").write_text(
        json.dumps(stored | {"model_max_length": 7})
    )
    for format in ("hf", "keras", "google"):
        target = tmp_path / format
        done = convert(**{"from": tmp_path / "run", "to": target, "format": format})
        assert done.returncode == 0, done.stderr
        assert ("labels:" in done.stdout) == (format == "google")
        assert (target / "task.json").exists() == (format == "keras")
        settings = json.loads((target / "tokenizer_config.json").read_text())
        assert settings["model_max_length"] == 7
    # Where nothing was said, transformers is told what the table of positions has.
    assert convert(**{"from": source, "to": tmp_path / "plain", "format": "hf"}).returncode == 0
    settings = json.loads((tmp_path / "plain" / "tokenizer_config.json").read_text())
    assert settings["model_max_length"] == 10


@pytest.mark.slow
def test_folders_of_sentence_transformers_are_converted(source, tmp_path):
    """An encoder in 0_Transformer with its modules, and what a cross-encoder says of scores."""
    nested = tmp_path / "nested"
    inner = nested / "0_Transformer"
    nested.mkdir()
    assert convert(**{"from": source, "to": inner, "format": "hf"}).returncode == 0
    kinds = (("0_Transformer", "Transformer"), ("1_Pooling", "Pooling"))
    entries = [
        {
            "idx": number,
            "name": str(number),
            "path": path,
            "type": f"sentence_transformers.models.{k}",
        }
        for number, (path, k) in enumerate(kinds)
    ]
    (nested / "modules.json").write_text(json.dumps(entries))
    (nested / "1_Pooling").mkdir()
    (nested / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    for name in (
        "sparse_linear.pt",
        "colbert_linear.pt",
    ):  # a BGE-M3, whose files are not read here
        (nested / name).write_text(name)
    done = convert(**{"from": nested, "to": tmp_path / "flat"})
    assert done.returncode == 0, done.stderr
    assert "modules.json and what it lists were copied" in done.stdout
    assert json.loads((tmp_path / "flat" / "modules.json").read_text())[0]["path"] == ""
    assert (tmp_path / "flat" / "1_Pooling" / "config.json").is_file()
    assert "sparse_linear.pt and colbert_linear.pt were copied" in done.stdout
    assert (tmp_path / "flat" / "colbert_linear.pt").read_text() == "colbert_linear.pt"
    for ours, theirs in zip(
        load_encoder(nested).weights, load_encoder(tmp_path / "flat").weights, strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    # A damaged list of modules is no reason not to convert the encoder.
    plain = shutil.copytree(inner, tmp_path / "plain")
    (plain / "modules.json").write_text('[{"type": "sentence_transformers.models.Transformer"}]')
    done = convert(**{"from": plain, "to": tmp_path / "again", "format": "hf"})
    assert done.returncode == 0, done.stderr
    assert "sentences:       the encoder alone: " in done.stdout
    # Cross-encoders, as sentence-transformers 4 and 6 write them.
    (plain / "modules.json").write_text(json.dumps([{**entries[0], "path": ""}]))
    config = json.loads((plain / "config.json").read_text())
    said = {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}}
    (plain / "config.json").write_text(json.dumps(config | said))
    (plain / "config_sentence_transformers.json").write_text('{"model_type": "CrossEncoder"}')
    assert convert(**{"from": plain, "to": tmp_path / "cross", "format": "hf"}).returncode == 0
    kept = json.loads((tmp_path / "cross" / "config.json").read_text())
    assert kept.items() >= said.items()
    for name in ("modules.json", "config_sentence_transformers.json"):
        assert (tmp_path / "cross" / name).read_text() == (plain / name).read_text()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "told"), [("number", True), ("classes", False)])
def test_scores_of_a_run_stay_numbers_in_sentence_transformers(name, told, model_folder, tmp_path):
    """Where it is told nothing it makes probabilities of a single score."""
    done = convert(**{"from": model_folder(name), "to": tmp_path / "hf", "format": "hf"})
    assert done.returncode == 0, done.stderr
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    expected = {"activation_fn": "torch.nn.modules.linear.Identity"} if told else None
    assert config.get("sentence_transformers") == expected


@pytest.mark.slow
def test_a_longer_table_of_positions(source, tmp_path):
    done = convert(**{"from": source, "to": tmp_path / "no", "position_extension": "copy"})
    assert done.returncode == 1
    assert "give --max_position_embeddings, too, or leave it out" in done.stderr
    done = convert(**{"from": source, "to": tmp_path / "long", "max_position_embeddings": 25})
    assert done.returncode == 0, done.stderr
    assert "positions:       10 -> 25\n" in done.stdout
    table = [
        np.array(
            BertMaskedLM.from_preset(folder).encoder.get_layer("embeddings").position_embeddings
        )
        for folder in (source, tmp_path / "long")
    ]
    np.testing.assert_array_equal(table[1], np.concatenate([*table[:1] * 2, table[0][:5]]))


@pytest.mark.slow
def test_an_unknown_key_is_named_with_the_flag_that_passes_it_over(source, tmp_path):
    done = convert(**{"from": source, "to": tmp_path / "hf", "format": "hf"})
    assert done.returncode == 0, done.stderr
    path = tmp_path / "hf" / "config.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(values | {"colour": "red"}), encoding="utf-8")
    done = convert(**{"from": tmp_path / "hf", "to": tmp_path / "back"})
    assert done.returncode == 1
    assert "unknown config key 'colour'" in done.stderr
    assert "ignore_config_keys=colour" in done.stderr
    assert not (tmp_path / "back").exists()


@pytest.mark.slow
def test_a_model_with_another_tokenizer_is_converted_without_it(source, tmp_path):
    folder = shutil.copytree(source, tmp_path / "other")
    path = folder / "tokenizer_config.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(stored | {"tokenizer_class": "BertJapaneseTokenizer"}))
    done = convert(**{"from": folder, "to": tmp_path / "hf", "format": "hf"})
    assert done.returncode == 1
    assert "'BertJapaneseTokenizer', which is none of the package's" in done.stderr
    assert "--notokenizer converts the model alone" in done.stderr
    done = convert(**{"from": folder, "to": tmp_path / "hf", "format": "hf", "tokenizer": False})
    assert done.returncode == 0, done.stderr
    assert "tokenizer:       none: --notokenizer" in done.stdout
    names = {path.name for path in (tmp_path / "hf").iterdir()}
    assert "model.safetensors" in names and "tokenizer_config.json" not in names
