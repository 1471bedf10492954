import pytest

from keras_bert.data.corpus.documents import Document
from keras_bert.data.creation.chunk_processing import ChunkSettings
from keras_bert.data.creation.chunks import Chunk
from keras_bert.data.creation.options import CreationOptions
from keras_bert.data.creation.workers import process_chunks
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary


@pytest.mark.parametrize("workers", [1, 2])
def test_what_keeps_a_worker_from_starting_is_told(tmp_path, workers):
    Vocabulary(SPECIAL_TOKENS).save(tmp_path / "vocab.txt")
    vocab = str(tmp_path / "vocab.txt")
    options = CreationOptions(("a.txt",), vocab, str(tmp_path), static_masking=True)
    chunks = [Chunk(0, number, [Document(0, ["One. Two."])], 1, 10) for number in range(2)]
    with pytest.raises(ValueError, match="special tokens only: there is nothing to mask"):
        list(process_chunks(chunks, ChunkSettings.of(options), tmp_path, workers))
