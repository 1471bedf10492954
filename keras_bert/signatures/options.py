"""What an export is asked for."""

import dataclasses
import math
from typing import Literal

from keras_bert.choices import check_choice
from keras_bert.counts import check_count, check_number, check_temperature, needed_count
from keras_bert.signatures.hypotheses import check_template
from keras_bert.storage.text_lines import check_string

ServingDtype = Literal["float32", "bfloat16", "bfloat16_onednn", "int8", "int8_onednn"]
PoolingChoice = Literal["cls", "mean", "max", "pooler"]
# Which head of a model folder is served; "auto" is the one that it holds.
Head = Literal["auto", "encoder", "masked_lm"]
# [CLS] a [SEP] b [SEP] with room for one piece of each text.
_SHORTEST = 5


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """Settings of an export.

    Attributes:
        dtype: number format of weights and arithmetic. bfloat16 halves the file and is faster on
            processors that have it; scores move in the third digit. bfloat16_onednn is the same
            with norms and softmaxes of oneDNN, faster still on x86 processors with bfloat16; where
            TensorFlow does not compute by oneDNN, as on a GPU, requests fail. int8_onednn has the
            dense layers in 8-bit integers, which oneDNN multiplies: batches are faster than in
            float32 on x86 processors without bfloat16, too; refused where TensorFlow lacks it, and
            scores move in the second digit. int8 is Keras's quantization of them, which runs
            everywhere: a smaller file, but slower. What signatures return is float32 always.
        max_seq_length: the most positions of a row, longer texts are cut (long contexts of
            questions and long texts of a tagger are read in several rows); None takes what the
            model was trained with, for pretrained models all its positions.
        max_batch: the most examples of a request; None sets no limit.
        max_text_bytes: the most bytes of a text; None sets no limit.
        max_choices: the most choices of an example, of multiple choice; None sets no limit.
        top_k: how many guesses a masked language model gives for each mask; None is 5.
        generate_sweeps: sweeps of Gibbs sampling of a signature `generate`, which a masked language
            model then has, too; None leaves it out.
        generate_top_k: `generate` draws from so many of the likeliest pieces in the second half of
            its sweeps: 1 takes the likeliest, 0 draws from all.
        generate_temperature: divides the logits that `generate` draws from.
        text_pair: whether a classifier of another library reads pairs of texts, which its folder
            does not tell; None takes what the model was trained on, else single texts.
        hypothesis_template: the sentence that says of a text that it has a label, which stands for
            its {}: in the signature `serve_zero_shot` of a model of natural language inference.
            None takes "This example is {}."
        max_labels: the most labels of an example of that signature; None sets no limit.
        null_threshold: the null score above which a question has no answer, in place of the one
            that was chosen in training; None takes that, and for models of another library none:
            every question gets an answer.
        iterations: passes over a text of a model that is decoded by Mask-Predict, in place of those
            of the run; None takes these.
        length_candidates: lengths that Mask-Predict tries, in place of those of the run; None takes
            these.
        ignore_config_keys: unknown keys of the config to pass over. See `BertConfig.from_dict`.
        pooling: how an encoder's vectors of tokens become one vector of the sentence: that of
            [CLS], mean or maximum over all tokens, or the pooled output; None takes what a folder
            of sentence-transformers says.
        normalize: whether the vector of the sentence is divided by its length; None takes what the
            folder says.
        truncate_dim: only so many numbers of that vector are kept, the first ones, for models that
            were trained so (Matryoshka, arXiv:2205.13147); a vector of length 1 has it again
            afterwards. None keeps all.
        query_prompt: stands before texts to search with, in the signature `serve_query`; None takes
            what the folder says.
        document_prompt: the same of texts to be found, in `serve_document`.
        max_windows: an encoder reads texts longer than a row in up to so many windows; None cuts
            them.
        doc_stride: by how many pieces the next of these windows begins later; None takes half a
            window.
        max_active_dims: the most weights of a sparse vector, the largest ones; None takes what a
            folder of sentence-transformers says, mostly all.

    Raises:
        ValueError: the dtype or the pooling is unknown, a number is out of its range, it is for a
            signature that is not asked for, or the template has not one {}.
    """

    dtype: ServingDtype = "float32"
    max_seq_length: int | None = None
    max_batch: int | None = None
    max_text_bytes: int | None = None
    max_choices: int | None = None
    top_k: int | None = None
    generate_sweeps: int | None = None
    generate_top_k: int = 0
    generate_temperature: float = 1.0
    text_pair: bool | None = None
    hypothesis_template: str | None = None
    max_labels: int | None = None
    null_threshold: float | None = None
    iterations: int | None = None
    length_candidates: int | None = None
    ignore_config_keys: tuple[str, ...] = ()
    pooling: PoolingChoice | None = None
    normalize: bool | None = None
    truncate_dim: int | None = None
    query_prompt: str | None = None
    document_prompt: str | None = None
    max_windows: int | None = None
    doc_stride: int | None = None
    max_active_dims: int | None = None

    def __post_init__(self) -> None:
        check_choice("dtype", self.dtype, ServingDtype)
        if self.pooling is not None:
            check_choice("pooling", self.pooling, PoolingChoice)
        for name in (
            *("max_batch", "max_text_bytes", "max_choices", "top_k", "generate_sweeps"),
            *("truncate_dim", "max_windows", "doc_stride", "iterations", "length_candidates"),
            *("max_active_dims", "max_labels"),
        ):
            check_count(name, getattr(self, name))
        check_count("max_seq_length", self.max_seq_length, least=_SHORTEST)
        needed_count("generate_top_k", self.generate_top_k, least=0)
        for name in ("text_pair", "normalize"):
            if not isinstance(getattr(self, name), bool | None):
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}: it must be True or False, or None where "
                    "the folder tells"
                )
        for name in ("query_prompt", "document_prompt"):
            if getattr(self, name) is not None:
                check_string(getattr(self, name), name)
        if self.hypothesis_template is not None:
            check_template(self.hypothesis_template)
        check_temperature("generate_temperature", self.generate_temperature)
        if self.generate_sweeps is None and (self.generate_top_k, self.generate_temperature) != (
            0,
            1.0,
        ):
            raise ValueError(
                "generate_top_k and generate_temperature are for the signature generate: give "
                "generate_sweeps, too, or leave them out"
            )
        if self.doc_stride is not None and self.max_windows is None:
            raise ValueError(
                f"doc_stride is {self.doc_stride}, but texts are read in one row each: give "
                "max_windows, too, or leave it out"
            )
        if self.null_threshold is not None and not math.isfinite(
            check_number("null_threshold", self.null_threshold)
        ):
            raise ValueError(f"null_threshold is {self.null_threshold}: it must be a number")
