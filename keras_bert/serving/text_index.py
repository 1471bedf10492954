"""Search by meaning: texts whose vectors are nearest to that of a query, among all of them.

    texts --SentenceEncoder--> unit vectors [N, D] --product with queries [Q, D]--> cosines [Q, N]

Vectors of a model that learned to be compared by their products keep their lengths.

Every vector is compared, so nothing is missed: a million of 384 numbers takes 1.5 GB and about a
tenth of a second a query. For many more the vectors can be given to an approximate index.

Shapes: N texts, Q queries, D width of the vectors.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from keras_bert.checkpoints.sentence_prompts import COSINE, DOT, MODEL_FILE
from keras_bert.counts import needed_count
from keras_bert.models.finite_outputs import check_finite
from keras_bert.progress import Progress
from keras_bert.serving.sentence_encoder import SentenceEncoder
from keras_bert.storage.files import atomic_folder
from keras_bert.storage.paths import check_folder
from keras_bert.storage.text_lines import check_several, check_strings

VECTORS_FILE, TEXTS_FILE, INDEX_FILE = "vectors.npy", "texts.jsonl", "index.json"

# Texts between two moves of the progress line.
_TEXTS_PER_PART = 2048
# Products that are in memory at a time.
_PRODUCTS_PER_BLOCK = 1 << 26
# Texts that are encoded again when an index is opened, and by how much a number of their vectors
# may differ where the same model makes them on another machine.
_TEXTS_COMPARED = 8
_LONG_TEXTS_COMPARED = 4
_SAME_MODEL = 1e-3


class Hit(NamedTuple):
    """A text that was found.

    Attributes:
        number: its place among the texts, from 0.
        score: cosine of its vector and that of the query, from -1 to 1; of a model whose
            similarity is "dot" their product; or what a `CrossEncoder` gave it.
        text: the text.
    """

    number: int
    score: float
    text: str


class TextIndex:
    """Texts that can be searched by meaning.

    Args:
        encoder: makes vectors of queries; the one that made those of the texts.
        texts: N texts.
        vectors: those of the texts, float [N, D]; of any length but 0.

    Attributes:
        texts: see above.
        vectors: those of the texts, float32 [N, D]; of length 1 unless the model's similarity is
            "dot".

    Raises:
        ValueError: one string was given in place of a list, or a text is none, there are more or
            fewer vectors than texts, or of another width, or some are not finite, or the model
            compares them in another way than by cosines or products.

    Example:
        encoder = SentenceEncoder.from_preset("runs/search")
        index = TextIndex.build(encoder, manual)
        for hit in index.search(["How do I lock a mutex?"], top_k=3)[0]:
            print(f"{hit.score:.2f} {hit.text}")
    """

    def __init__(self, encoder: SentenceEncoder, texts: Sequence[str], vectors: np.ndarray):
        self.texts = check_strings(texts)
        vectors = np.asarray(vectors, np.float32)
        if vectors.shape != (len(self.texts), encoder.width):
            raise ValueError(
                f"the vectors have the shape {vectors.shape}, but there are {len(self.texts):,} "
                f"texts and the model makes {encoder.width} numbers of each: build the index anew"
            )
        self._encoder = encoder
        check_finite(vectors)
        self.vectors = _comparable(encoder, vectors)
        # [N]: where each text stands first. Vectors and products of equal texts may differ in the
        # last digit, by their place in a batch.
        first: dict[str, int] = {}
        places = [first.setdefault(text, place) for place, text in enumerate(self.texts)]
        self._first = np.array(places, np.int64)
        self._is_blank = np.array([not text.strip() for text in self.texts], bool)  # [N]

    def __len__(self) -> int:
        return len(self.texts)

    @classmethod
    def build(cls, encoder: SentenceEncoder, texts: Sequence[str], batch_size: int = 64) -> Self:
        """Makes the vectors of all texts, by `encoder.encode_document`.

        Args:
            encoder: turns texts into vectors.
            texts: N texts.
            batch_size: texts of a call of the model.

        Raises:
            ValueError: one string was given in place of a list, or a text is none.
        """
        texts = check_strings(texts)
        # A prompt or a similarity that cannot be reproduced is refused before the work.
        parts = [_comparable(encoder, encoder.encode_query([]))]
        with Progress(len(texts), "text", "encoding") as progress:
            for start in range(0, len(texts), _TEXTS_PER_PART):
                part = texts[start : start + _TEXTS_PER_PART]
                parts.append(encoder.encode_document(part, batch_size))
                progress.update(len(part))
        return cls(encoder, texts, np.concatenate(parts))

    def search(self, queries: Sequence[str], top_k: int = 10) -> list[list[Hit]]:
        """Returns the nearest texts of each query, the best first; empty texts are not found.

        Args:
            queries: Q queries.
            top_k: how many texts at most.

        Raises:
            ValueError: one string was given in place of a list, or `top_k` is below 1.
        """
        return self.nearest(self.query_vectors(queries), top_k)

    def query_vectors(self, queries: Sequence[str]) -> np.ndarray:
        """Returns vectors whose products with those of the texts are scores, float32 [Q, D].

        They are those of `encoder.encode_query`.

        Raises:
            ValueError: one string was given in place of a list.
        """
        check_several(queries)
        return _comparable(self._encoder, self._encoder.encode_query(queries))

    def nearest(self, vectors: np.ndarray, top_k: int = 10) -> list[list[Hit]]:
        """Returns the texts whose products with each vector [Q, D] are largest, the best first.

        Those that are empty, or blanks alone, are left out.

        Raises:
            ValueError: `top_k` is below 1, the vectors have another form or width, or are not
                finite.
        """
        needed_count("top_k", top_k)
        vectors = np.asarray(vectors, np.float32)
        if vectors.ndim != 2 or vectors.shape[1] != self._encoder.width:
            raise ValueError(
                f"the vectors have the shape {vectors.shape}: give an array "
                f"[queries, {self._encoder.width}]"
            )
        check_finite(vectors)
        block = max(1, _PRODUCTS_PER_BLOCK // max(1, len(self)))
        found = []
        for start in range(0, len(vectors), block):
            products = vectors[start : start + block] @ self.vectors.T  # [block, N]
            found += [self._hits(row, top_k) for row in products]
        return found

    def _hits(self, scores: np.ndarray, top_k: int) -> list[Hit]:
        scores = scores[self._first]  # [N]: equal texts have equal scores
        scores = np.where(self._is_blank, -np.inf, scores)
        count = min(top_k, len(scores) - int(self._is_blank.sum()))
        # All that are as good as the last of the best ones, in their order; of equal ones the first
        # goes before.
        least = np.partition(scores, -count)[-count] if count else np.inf
        best = np.flatnonzero(scores >= least)
        best = best[np.lexsort((best, -scores[best]))][:count]
        return [Hit(int(one), float(scores[one]), self.texts[one]) for one in best]

    def save(self, folder: str | os.PathLike) -> None:
        """Writes texts and vectors into a folder, whole or not at all.

        Args:
            folder: a new one, or one of an earlier index, which is replaced.

        Raises:
            ValueError: the folder holds something else, or is not local.
        """
        check_index_folder(folder)
        with atomic_folder(folder) as part:
            np.save(part / VECTORS_FILE, self.vectors)
            with open(part / TEXTS_FILE, "w", encoding="utf-8") as file:
                for text in self.texts:
                    file.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
            content = {
                "texts": len(self),
                "width": self._encoder.width,
                "similarity": self._encoder.similarity,
            }
            (part / INDEX_FILE).write_text(json.dumps(content) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: str | os.PathLike, encoder: SentenceEncoder) -> Self:
        """Opens what `save` wrote.

        Args:
            folder: the folder.
            encoder: the one that made its vectors.

        Raises:
            FileNotFoundError: the folder holds no index.
            ValueError: another model made the vectors, or a file is damaged.
        """
        path = Path(folder)
        if not (path / INDEX_FILE).is_file():
            raise FileNotFoundError(f"{path} holds no {INDEX_FILE}: build the index first")
        try:
            stored = json.loads((path / INDEX_FILE).read_text(encoding="utf-8"))
            made = stored["width"], stored.get("similarity", COSINE)
            vectors = np.load(path / VECTORS_FILE)
            if not isinstance(vectors, np.ndarray) or vectors.dtype.kind != "f":
                raise TypeError(f"{VECTORS_FILE} holds no array of numbers with a fraction")
            if not np.isfinite(vectors).all():
                raise ValueError(f"a number in {VECTORS_FILE} is not finite")
            with open(path / TEXTS_FILE, encoding="utf-8") as file:
                texts = check_strings(json.loads(line)["text"] for line in file)
        except (ValueError, KeyError, TypeError, OSError, EOFError) as error:
            raise ValueError(f"{path} holds a damaged index ({error}): build it anew") from None
        same = made == (encoder.width, encoder.similarity)
        if not same or not _made_by(encoder, texts, vectors):
            raise ValueError(
                f"{path} was made by another model, or with another pooling, prompt, truncate_dim "
                "or max_seq_length, so its vectors are not those of this one: give the same, or "
                "build the index anew"
            )
        return cls(encoder, texts, vectors)


def check_index_folder(folder: str | os.PathLike) -> None:
    """Checks before the work that an index may be written.

    Raises:
        ValueError: it is no folder of this machine, or one that holds something else.
    """
    check_folder("folder", folder)
    path = Path(folder)
    names = {one.name for one in path.iterdir()} if path.exists() else set()
    # Others write an index.json, too: the folder is replaced as a whole.
    if names and (INDEX_FILE not in names or names - {INDEX_FILE, TEXTS_FILE, VECTORS_FILE}):
        raise ValueError(f"{path} holds something else than an index: choose another folder")


def _made_by(encoder: SentenceEncoder, texts: Sequence[str], vectors: np.ndarray) -> bool:
    """Whether an encoder makes the vectors of some of the texts that stand there."""
    if not len(texts) or vectors.shape != (len(texts), encoder.width):
        return True  # nothing to compare; what does not fit is said elsewhere
    spread = np.linspace(0, len(texts) - 1, _TEXTS_COMPARED).astype(int)
    # Long texts tell what cuts them: a max_seq_length.
    long_ones = np.argsort([len(text) for text in texts])[-_LONG_TEXTS_COMPARED:]
    places = np.unique([*spread, *long_ones])
    found = _comparable(encoder, encoder.encode_document([texts[place] for place in places]))
    longest = max(1.0, float(np.linalg.norm(found, axis=-1).max()))
    return bool(np.abs(found - vectors[places]).max() < _SAME_MODEL * longest)


def _comparable(encoder: SentenceEncoder, vectors: np.ndarray) -> np.ndarray:
    """Returns vectors [N, D] whose products are the scores."""
    if encoder.similarity not in (COSINE, DOT):
        raise ValueError(
            f"the folder compares vectors by {encoder.similarity} (similarity_fn_name in "
            f"{MODEL_FILE}), and the search by {COSINE} or {DOT}: write one of them there if it "
            "will do"
        )
    vectors = np.asarray(vectors, np.float32)
    if encoder.similarity == DOT:
        return vectors
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)  # [N, 1]
    return vectors / np.maximum(lengths, np.float32(1e-12))
