"""Uploads to the Hub: huggingface_hub's own client against a server of the test's own.

The server is reached through HF_ENDPOINT. Oracle: what it received is what lies in the folder.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from keras_bert import BertEncoder, BertTokenizer
from keras_bert.models import preset
from keras_bert.models.conversion import model_card
from tests import command_process
from tests.storage.hub_server import INLINE, TOKEN, HubServer

REPOSITORY = Path(__file__).parents[2]
# Neither TensorFlow nor a model is needed to upload and download files.
PUSH = """
import sys
from keras_bert.storage import hub
folder, name, private = sys.argv[1:]
try:
    hub.check_can_push(name)
    print(*hub.push(folder, name, private == "True"))
    print(hub.local_folder(name))
except ValueError as error:
    print("refused:", error)
"""


@pytest.fixture
def server():
    with HubServer() as running:
        yield running


@pytest.fixture
def run_python(server, tmp_path):
    """Returns a function that runs Python with the server as its Hub, and returns its output."""

    def run(*arguments, **environment):
        environment = {
            "HF_ENDPOINT": server.url,
            "HF_HOME": str(tmp_path / "hub"),
            "HF_TOKEN": TOKEN,
            "HF_HUB_DISABLE_XET": "1",  # its protocol is not HTTP alone
            **environment,
        }
        return command_process.run(arguments, environment=environment)

    return run


@pytest.fixture
def folder(tmp_path):
    """Files that a repository takes in each of its ways."""
    folder = tmp_path / "model"
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(np.random.default_rng(0).bytes(3 * INLINE))
    (folder / "config.json").write_text('{"a": 1}', encoding="utf-8")
    (folder / "1_Pooling" / "config.json").write_text("{}", encoding="utf-8")
    (folder / "vocab.txt").write_text("Z\u00fcrich\n" * INLINE, encoding="utf-8")
    (folder / "README.md").write_text("---\ntags:\n- bert\n---\n# Card\n", encoding="utf-8")
    return folder


def contents(folder):
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_what_arrives_is_the_folder_and_reads_back(server, run_python, folder):
    done = run_python("-c", PUSH, folder, "hf://org/name", True)
    url, downloaded = done.stdout.splitlines()[-2:]
    assert url == f"{server.url}/org/name False", done.stderr
    stored = server.repositories["org/name"]
    assert stored == {"private": True, "files": contents(folder), "commits": 1}
    assert len(server.stored) == 2  # both ways of upload were taken
    found = contents(Path(downloaded))
    assert found == {name: data for name, data in contents(folder).items() if name != "README.md"}


def test_a_card_that_is_there_is_kept(server, run_python, folder):
    card = b"---\nlicense: mit\n---\nTheirs.\n"
    server.repositories["org/name"] = {"private": False, "files": {"README.md": card}, "commits": 1}
    done = run_python("-c", PUSH, folder, "hf://org/name", False)
    assert f"{server.url}/org/name True" in done.stdout, done.stderr
    stored = server.repositories["org/name"]
    assert stored["files"] == contents(folder) | {"README.md": card}
    assert not stored["private"]


@pytest.mark.parametrize(
    ("name", "environment", "sentence"),
    [
        ("hf://org/name", {"HF_TOKEN": ""}, "nobody is logged in to the Hugging Face Hub; run"),
        ("hf://org/name", {"HF_TOKEN": "hf_old"}, "the token is not valid: run `hf auth login`"),
        ("hf://others/name", {}, "the token may not write to others: give a namespace of yours"),
        ("hf://nobody/name", {}, "there is no user or organization nobody, or it is hidden"),
        ("hf://org", {}, "hf://org is no name of a repository: expected hf://org/name"),
        (
            "hf://org/name",
            {"HF_ENDPOINT": "http://127.0.0.1:9"},  # where nobody listens
            "cannot be written: http://127.0.0.1:9 gives no usable answer: ",
        ),
    ],
)
def test_refusals_say_why(name, environment, sentence, server, run_python, folder):
    done = run_python("-c", PUSH, folder, name, True, **environment)
    assert "refused: " in done.stdout and sentence in done.stdout, done.stdout + done.stderr
    assert server.repositories == {}


@pytest.mark.slow  # two processes with TensorFlow
def test_the_tool_uploads_a_model_that_opens_again(server, run_python, pretrained_folder, tmp_path):
    tool = REPOSITORY / "tools" / "convert_checkpoint.py"
    done = run_python(tool, f"--from={pretrained_folder}", "--to=hf://org/tiny")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"uploaded to {server.url}/org/tiny\n")
    stored = server.repositories["org/tiny"]
    assert stored["private"] and stored["commits"] == 1
    names = {"config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json", "README.md"}
    assert stored["files"].keys() == names
    values = json.loads(stored["files"]["config.json"])
    assert values["architectures"] == ["BertModel"]
    card = stored["files"]["README.md"].decode()
    assert 'model = BertEncoder.from_preset("hf://org/tiny")' in card
    assert "license" not in card and "base_model" not in card  # neither is known

    # Back into our format, by the name on the server.
    target = tmp_path / "back"
    done = run_python(tool, "--from=hf://org/tiny", f"--to={target}")
    assert done.returncode == 0, done.stderr
    ours, again = (preset.read_checkpoint(path) for path in (pretrained_folder, target))
    for path, value in ours.variables.items():
        np.testing.assert_array_equal(again.variables[path], value, err_msg=path)
    tokenizers = [BertTokenizer.from_preset(path) for path in (pretrained_folder, target)]
    assert tokenizers[0].vocabulary == tokenizers[1].vocabulary


def test_the_card_tells_base_labels_and_how_to_load(pretrained_folder):
    checkpoint = preset.as_checkpoint(BertEncoder.from_preset(pretrained_folder))
    checkpoint.head["labels"] = ["no", "yes"]
    card = model_card.model_card(checkpoint, "hf", "org/name", "them/base", "9 pieces, cased")
    assert card.startswith("---\nlibrary_name: transformers\npipeline_tag: feature-extraction\n")
    for line in ("base_model: them/base", "| layers | 1 |", "| labels | no, yes |"):
        assert line in card.splitlines()
    assert "from keras_bert import BertEncoder, load_tokenizer" in card.splitlines()
    assert 'tokenizer = load_tokenizer("hf://org/name")' in card.splitlines()
