import os
import subprocess
import sys
from pathlib import Path

import pytest

from keras_bert.data.corpus.documents import Document
from keras_bert.data.creation.chunk_processing import ChunkSettings
from keras_bert.data.creation.chunks import Chunk
from keras_bert.data.creation.options import CreationOptions
from keras_bert.data.creation.workers import process_chunks
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("workers", [1, 2])
def test_what_keeps_a_worker_from_starting_is_told(tmp_path, workers):
    Vocabulary(SPECIAL_TOKENS).save(tmp_path / "vocab.txt")
    vocab = str(tmp_path / "vocab.txt")
    options = CreationOptions(("a.txt",), vocab, str(tmp_path), static_masking=True)
    chunks = [Chunk(0, number, [Document(0, ["One. Two."])], 1, 10) for number in range(2)]
    with pytest.raises(ValueError, match="special tokens only: there is nothing to mask"):
        list(process_chunks(chunks, ChunkSettings.of(options), tmp_path, workers))


# Without `if __name__ == "__main__":` each worker runs all of it.
SCRIPT = """
from keras_bert.data.creation.create import create_pretraining_data
from keras_bert.data.creation.options import CreationOptions
options = CreationOptions(("text.txt",), "vocab.txt", "records", num_workers=2, dupe_factor=1)
create_pretraining_data(options)
"""


@pytest.mark.slow
def test_a_script_that_workers_run_anew_ends(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "text.txt").write_text("One. Two.\n\nThree. Four.\n")
    # More than the 64 KiB that a pipe holds.
    Vocabulary([*SPECIAL_TOKENS, *(f"word{n}" for n in range(20_000))]).save(tmp_path / "vocab.txt")
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert "RuntimeError: num_workers is 2, and each worker runs this script" in done.stderr
    assert "another process is writing" not in done.stderr
    assert 'or a script starts this without `if __name__ == "__main__":`' in done.stderr
