"""A sentence encoder as a table of static embeddings: Model2Vec's recipe.

    [CLS] piece [SEP] --encoder--> [V, D] --PCA--> [V, W] --times the weight of each--> table

A piece weighs a / (a + p), p how probable it is (smooth inverse frequency, Arora et al. 2017,
https://openreview.net/forum?id=SyK00v5xx): what stands in every text says little about one.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_bert.checkpoints.static_embeddings import folders
from keras_bert.counts import check_count, check_number, needed_count
from keras_bert.models.finite_outputs import check_finite
from keras_bert.progress import Progress
from keras_bert.serving.served_folder import open_signatures
from keras_bert.signatures.options import ExportOptions, PoolingChoice
from keras_bert.storage import hub
from keras_bert.storage.new_folder import check_nothing_there, new_folder
from keras_bert.storage.text_lines import check_strings
from keras_bert.tasks.feature_extraction.pooling import sentence_settings
from keras_bert.tasks.feature_extraction.signatures import SENTENCE_EMBEDDING, EncoderSignatures
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.packing import pack
from keras_bert.text.wordpiece.tokenizer_json import tokenizer_json

_TEXTS_AT_A_TIME = 1000


def distill_static_embeddings(
    folder: str | os.PathLike,
    output_dir: str | os.PathLike,
    width: int | None = 256,
    sif_coefficient: float | None = 1e-4,
    texts: Sequence[str] | None = None,
    model2vec: bool = False,
    float16: bool = False,
    batch_size: int = 256,
    pooling: PoolingChoice | None = None,
) -> Path:
    """Writes static embeddings of a sentence encoder, which `SentenceEncoder` opens.

    Args:
        folder: a folder of sentence-transformers, or `hf://org/name`.
        output_dir: folder to write, new or empty.
        width: the most numbers of a vector, W: the directions in which pieces differ most. None
            keeps all, turned so that the first ones say most.
        sif_coefficient: a of the weights; larger ones are more alike. None weighs all pieces alike.
        texts: those whose pieces are counted for p. None takes Zipf's law, and for the rank of a
            piece its place in the vocabulary, as where that is sorted by frequency.
        model2vec: whether the form of the folder is that of Model2Vec, else that of
            sentence-transformers.
        float16: whether the table is stored in half the room.
        batch_size: pieces of a call of the encoder.
        pooling: how the encoder pools; None takes what its folder says.

    Returns:
        `output_dir`.

    Raises:
        FileExistsError: there is something in `output_dir`.
        FileNotFoundError: there is no model folder.
        ValueError: it is none of a sentence encoder, a tokenizer.json alone does not hold its
            tokenizer, a number is out of its range, or a vector is not finite.

    Example:
        distill_static_embeddings("hf://sentence-transformers/all-MiniLM-L6-v2", "static")
        vectors = SentenceEncoder.from_preset("static").encode(["A man eats."])
    """
    check_nothing_there(output_dir, "output_dir")
    check_count("width", width)
    needed_count("batch_size", batch_size)
    if sif_coefficient is not None and not 0 < check_number("sif_coefficient", sif_coefficient) < 1:
        raise ValueError(f"sif_coefficient is {sif_coefficient}: it must be above 0 and below 1")
    if sif_coefficient is None and texts is not None:
        raise ValueError(
            "texts are counted for the weights, and sif_coefficient is None, which weighs all "
            "pieces alike: leave out the texts, or give a coefficient"
        )
    local = hub.local_folder(folder)
    if not local.is_dir():
        raise hub.missing_folder(local)
    sentences, _ = sentence_settings(local, ExportOptions(pooling=pooling))
    if sentences is None:
        raise ValueError(
            f"{folder} is no sentence encoder with a pooling in modules.json: give such a folder, "
            'or pooling="mean" with another encoder'
        )
    # Without the norm: PCA makes use of lengths that differ from piece to piece.
    options = ExportOptions(normalize=False, pooling=pooling)
    family = open_signatures(local, options, head="encoder")
    assert isinstance(family, EncoderSignatures)
    # "[MASK]" in a text is that token, as in every folder of static embeddings.
    tokenizer = family.tokenizer.with_settings(keep_special_tokens=True)
    stored = tokenizer_json(local, tokenizer)
    weights = np.ones(len(tokenizer.vocabulary))
    if sif_coefficient is not None:
        weights = sif_coefficient / (sif_coefficient + _probabilities(tokenizer, texts))
    vectors = _vectors_of_pieces(family, batch_size)  # [V, D]
    table = _principal(vectors, width) * weights[:, None]  # [V, W]
    with new_folder(output_dir, "output_dir") as written:
        rows = table.astype(np.float16 if float16 else np.float32)
        folders.write(written, rows, stored, normalize=True, model2vec=model2vec)
    return Path(output_dir)


def _vectors_of_pieces(family: EncoderSignatures, batch_size: int) -> np.ndarray:
    """Returns the vector of each piece as a text of its own, float64 [V, D]."""
    vocabulary, length = family.tokenizer.vocabulary, family.max_seq_length

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)], autograph=False)
    def encode(ids: tf.Tensor) -> tf.Tensor:
        pieces = tf.RaggedTensor.from_tensor(ids[:, None])  # [batch, 1]
        rows = pack(pieces, None, vocabulary, length, pad_to_max=False)
        return family.vectors_of_rows(rows)[SENTENCE_EMBEDDING]

    found = []
    with Progress(len(vocabulary), "piece", "encoding") as progress:
        for start in range(0, len(vocabulary), batch_size):
            end = min(start + batch_size, len(vocabulary))
            found.append(encode(tf.range(start, end)).numpy())
            progress.update(end - start)
    vectors = np.concatenate(found)
    check_finite(vectors)
    return vectors.astype(np.float64)


def _principal(vectors: np.ndarray, width: int | None) -> np.ndarray:
    """Returns vectors [V, D] less their mean, by their W principal components: [V, W]."""
    centered = vectors - vectors.mean(axis=0)
    _, directions = np.linalg.eigh(centered.T @ centered)  # [D, D], the smallest variance first
    return centered @ directions[:, ::-1][:, :width]


def _probabilities(tokenizer: Tokenizer, texts: Sequence[str] | None) -> np.ndarray:
    """Returns how probable each piece is, [V]."""
    size = len(tokenizer.vocabulary)
    if texts is None:
        counts = 1 / np.arange(2, size + 2)
    else:
        texts = check_strings(texts)
        counts = np.zeros(size)
        with Progress(len(texts), "text", "counting pieces") as progress:
            for start in range(0, len(texts), _TEXTS_AT_A_TIME):
                part = texts[start : start + _TEXTS_AT_A_TIME]
                counts += np.bincount(tokenizer(tf.constant(part)).values.numpy(), minlength=size)
                progress.update(len(part))
        if not counts.any():
            raise ValueError("texts hold no piece of the vocabulary: give texts to count in")
    return counts / counts.sum()
