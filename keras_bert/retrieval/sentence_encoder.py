"""Texts as vectors in Python, by the graph that an export serves.

    N texts --sort by length--> batches --tokenize, encode, pool--> [batch, D] --> float32 [N, D]

A vector does not depend on the batch that its text came in, rounding apart.
"""

import os
from collections.abc import Sequence
from typing import Self, TypeAlias, cast

import numpy as np
import tensorflow as tf

from keras_bert.models.finite_outputs import check_finite
from keras_bert.serving.served_folder import open_signatures
from keras_bert.signatures.length_batches import batches_by_length
from keras_bert.signatures.options import ExportOptions, PoolingChoice
from keras_bert.storage.text_lines import check_string, check_strings
from keras_bert.tasks.feature_extraction.signatures import SENTENCE_EMBEDDING, EncoderSignatures
from keras_bert.tasks.feature_extraction.static_signatures import StaticSignatures

_Signatures: TypeAlias = EncoderSignatures | StaticSignatures


class SentenceEncoder:
    """Turns texts into vectors, as `SentenceTransformer.encode` does with the same folder.

    Args:
        signatures: of an encoder whose pooling is known.

    Attributes:
        width: numbers of a vector, D.
        prompts: what the folder puts before texts, by name, such as "query" and "document".
        similarity: how vectors are to be compared, as the folder says it: "cosine" or "dot", or a
            distance.

    Raises:
        ValueError: it is not known how sentences become vectors.

    Example:
        encoder = SentenceEncoder.from_preset("hf://sentence-transformers/all-MiniLM-L6-v2")
        first, second = encoder.encode(["A man eats.", "Someone has lunch."])
    """

    def __init__(self, signatures: _Signatures):
        if signatures.tracked is None:
            raise ValueError(
                "the folder has no modules.json that says how to make one vector of a sentence: "
                'give pooling, for example pooling="mean"'
            )
        self.width: int = signatures.tracked.width
        self._modules = signatures.tracked.modules
        self.prompts: dict[str, str] = dict(self._modules.prompts)
        self.similarity: str = self._modules.similarity
        # Strings [N] in, vectors [N, D] out: tokenizer, encoder and pooling in one graph, traced
        # once for every N.
        self._answer = tf.function(
            lambda texts: signatures.vectors(texts)[SENTENCE_EMBEDDING],
            input_signature=[tf.TensorSpec([None], tf.string)],
            autograph=False,
        )

    @classmethod
    def from_preset(
        cls,
        folder: str | os.PathLike,
        pooling: PoolingChoice | None = None,
        normalize: bool | None = None,
        max_seq_length: int | None = None,
        max_windows: int | None = None,
        doc_stride: int | None = None,
        truncate_dim: int | None = None,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
    ) -> Self:
        """Opens a folder of sentence-transformers, or any model folder with a pooling of its own.

        A folder of static embeddings, also one of Model2Vec, is opened the same way.

        Args:
            folder: the folder, or `hf://org/name`.
            pooling: "cls", "mean", "max" or "pooler"; None takes what the folder says.
            normalize: whether vectors have length 1; None takes what the folder says.
            max_seq_length: the most positions of a row; None takes what the folder says.
            max_windows: read texts longer than a row in up to so many windows; None cuts them.
            doc_stride: by how many pieces the next window begins later; None takes half a window.
            truncate_dim: keep so many numbers of a vector, the first ones, of a model that was
                trained with `matryoshka_dims`; None keeps all.
            query_prompt: what `encode_query` puts before texts; None takes what the folder says.
            document_prompt: what `encode_document` puts before them; None takes the same.

        Raises:
            FileNotFoundError: it is no model folder.
            ValueError: nothing says how sentences become vectors, a module of the folder cannot be
                reproduced, or more numbers are to be kept than there are.
        """
        options = ExportOptions(
            max_seq_length=max_seq_length,
            pooling=pooling,
            normalize=normalize,
            max_windows=max_windows,
            doc_stride=doc_stride,
            truncate_dim=truncate_dim,
            query_prompt=query_prompt,
            document_prompt=document_prompt,
        )
        # What is opened with this head has signatures of no other family.
        return cls(cast(_Signatures, open_signatures(folder, options, head="encoder")))

    def encode(
        self,
        texts: Sequence[str],
        batch_size: int = 64,
        prompt_name: str | None = None,
        prompt: str | None = None,
    ) -> np.ndarray:
        """Returns the vector of each text, float32 [N, D].

        Args:
            texts: N texts.
            batch_size: texts of a call of the model.
            prompt_name: which of the `prompts` stands before each text; None takes the folder's
                default, which is mostly none.
            prompt: what stands before each text in place of that.

        Raises:
            ValueError: one string was given in place of a list, one of the texts is none, the batch
                size is below 1, there is no such prompt, the folder leaves the tokens of prompts
                out of the pooling, which cannot be reproduced, or a vector is not finite.
        """
        if prompt_name is not None:
            if prompt is not None:
                raise ValueError("prompt_name and prompt are given: leave out one of them")
            if prompt_name not in self.prompts:
                known = ", ".join(map(repr, self.prompts)) or "none"
                raise ValueError(f"there is no prompt {prompt_name!r}: the folder has {known}")
            prompt = self.prompts[prompt_name]
        return self._encode(texts, batch_size, self._modules.prompt if prompt is None else prompt)

    def encode_query(self, texts: Sequence[str], batch_size: int = 64) -> np.ndarray:
        """Returns vectors of texts to search with: `encode` with the prompt "query".

        A folder without such a prompt, or with an empty one, makes of them what it makes of all
        texts.
        """
        return self._encode(texts, batch_size, self._modules.query_prompt)

    def encode_document(self, texts: Sequence[str], batch_size: int = 64) -> np.ndarray:
        """Returns vectors of texts to be found: `encode` with the prompt "document".

        It may be called "passage" or "corpus", too. A folder without one makes of them what it
        makes of all texts, but for a default that is the prompt "query".
        """
        return self._encode(texts, batch_size, self._modules.document_prompt)

    def _encode(self, texts: Sequence[str], batch_size: int, prompt: str) -> np.ndarray:
        texts, prompt = check_strings(texts), check_string(prompt, "prompt")
        if prompt:
            if not self._modules.include_prompt:
                raise ValueError(
                    f"the folder leaves the tokens of the prompt {prompt!r} out of the pooling "
                    "(include_prompt is false), which cannot be reproduced: give another pooling, "
                    "or encode without a prompt"
                )
            texts = [prompt + text for text in texts]
        vectors = np.zeros([len(texts), self.width], np.float32)  # [N, D]
        for places in batches_by_length([len(text) for text in texts], batch_size):
            # [batch, D], back to the order in which the texts came.
            vectors[places] = self._answer(tf.constant([texts[place] for place in places])).numpy()
        check_finite(vectors)
        return vectors
