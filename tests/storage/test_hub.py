"""`hf://org/name`: the Hub's own client, offline, on a cache as it lays it out."""

from pathlib import Path

import pytest

from keras_bert import BertConfig, BertEncoder
from keras_bert.checkpoints import folder as checkpoints
from keras_bert.models import preset
from keras_bert.storage import hub
from tests import command_process

REPOSITORY = Path(__file__).parents[2]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "##d")
CONFIG = BertConfig(
    vocab_size=9,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=10,
)


def test_folders_stay_as_they_are(tmp_path):
    assert hub.local_folder(tmp_path) == tmp_path
    assert hub.local_folder("some/folder") == Path("some/folder")


def test_what_cannot_be_fetched_is_told_in_one_line(monkeypatch):
    def fail(*_):
        raise OSError("no such host\n\n  (of several lines)")

    monkeypatch.setattr(hub, "_download", fail)
    sentence = r"^hf://a/b cannot be fetched: no such host \(of several lines"
    for name in ("hf://a/b", Path("hf://a/b")):  # which makes one slash of two
        with pytest.raises(ValueError, match=sentence):
            hub.local_folder(name)


def test_a_folder_in_a_repository_is_fetched_alone(monkeypatch, tmp_path):
    asked = []

    class Library:
        @staticmethod
        def snapshot_download(repository, allow_patterns):
            asked.append((repository, allow_patterns))
            return tmp_path

    monkeypatch.setattr(hub, "_library", lambda _: Library)
    (tmp_path / "adapters" / "news").mkdir(parents=True)
    (tmp_path / "adapters" / "news" / "adapter_model.safetensors").touch()
    assert hub.local_folder("hf://a/b/adapters/news") == tmp_path / "adapters" / "news"
    [(repository, patterns)] = asked
    assert repository == "a/b"
    assert "adapters/news/*.json" in patterns
    assert all(pattern.startswith("adapters/news/") for pattern in patterns)
    with pytest.raises(ValueError, match="^hf://a/b/c cannot be fetched: a/b has no folder c"):
        hub.local_folder("hf://a/b/c")
    with pytest.raises(ValueError, match="leads out of its repository"):
        hub.local_folder("hf://a/b/../c")


@pytest.mark.slow
def test_from_preset_opens_a_repository(tmp_path):
    repository = tmp_path / "models--someone--tiny-bert"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT, encoding="utf-8")
    snapshot = repository / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    checkpoints.write(preset.as_checkpoint(BertEncoder(CONFIG)), snapshot, "hf")
    (snapshot / "vocab.txt").write_text("\n".join(TOKENS) + "\n", encoding="utf-8")

    def run(name):
        code = (
            "from keras_bert import BertEncoder, BertTokenizer; "
            f"print(BertEncoder.from_preset('{name}').config); "
            f"print(BertTokenizer.from_preset('{name}').vocabulary.tokens)"
        )
        environment = {"HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1"}
        return command_process.run(["-c", code], environment=environment)

    done = run("hf://someone/tiny-bert")
    assert done.stdout.splitlines() == [str(CONFIG), str(TOKENS)], done.stderr
    done = run("hf://someone/other-bert")
    assert "ValueError: hf://someone/other-bert cannot be fetched: " in done.stderr
