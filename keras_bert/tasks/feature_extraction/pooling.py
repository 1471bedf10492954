"""How a model folder and the options of an export together say what a sentence's vector is."""

import dataclasses
from pathlib import Path

from keras_bert.checkpoints import sentence_modules
from keras_bert.checkpoints.m3 import folder as m3
from keras_bert.checkpoints.sentence_modules import Dense, Normalize, SentenceModules
from keras_bert.signatures.options import ExportOptions
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.loading import load_tokenizer
from keras_bert.text.tokenizer import BertTokenizer

_UNKNOWN = (
    "the folder does not tell how to make one vector of a sentence; for an output "
    "sentence_embedding export it with --pooling"
)


def sentence_settings(folder: Path, options: ExportOptions) -> tuple[SentenceModules | None, str]:
    """Returns how sentences become vectors, None where nobody says, and a sentence of who says it.

    Args:
        folder: a model folder; one of sentence-transformers says it in its files.
        options: `pooling` and `normalize` go before what the files say.

    Raises:
        ValueError: a file is damaged, something in it cannot be reproduced, or the options ask for
            a norm of nothing.
    """
    stored, source = None, sentence_modules.MODULES_FILE
    if sentence_modules.is_sentence_folder(folder):
        stored = sentence_modules.read(folder)
    elif m3.is_m3_folder(folder):
        stored, source = m3.DENSE, "the paper of BGE-M3"
    if stored is None and options.pooling is None:
        for name in ("normalize", "truncate_dim", "query_prompt", "document_prompt"):
            if getattr(options, name) is not None:
                raise ValueError(
                    f"--{name} needs --pooling: {folder} has no {sentence_modules.MODULES_FILE} "
                    "that says how to make one vector of a sentence"
                )
        return None, _UNKNOWN
    wanted = stored or SentenceModules(pooling=())
    if options.pooling is not None:
        # The folder's own way to pool is gone, and with it what it leaves out.
        wanted = dataclasses.replace(wanted, pooling=(options.pooling,), include_prompt=True)
    wanted = overridden(wanted, options)
    told = f"sentence_embedding is {_shown(wanted)}"
    if stored is None:
        return wanted, f"{told}, as you state"
    if _shown(stored) == _shown(wanted):
        return wanted, f"{told}, as {source} says"
    return wanted, (f"{told}, as you state; {source} says {_shown(stored)}, which was passed over")


def overridden(modules: SentenceModules, options: ExportOptions) -> SentenceModules:
    """Returns modules with the prompts, the norm and the width that are asked for, if any are."""
    given = {
        name: getattr(options, name) for name in ("truncate_dim", "query_prompt", "document_prompt")
    }
    given = {name: value for name, value in given.items() if value is not None}
    wanted = dataclasses.replace(modules, **given)
    if options.normalize is None:
        return wanted
    steps = wanted.steps
    if not options.normalize:
        steps = tuple(step for step in steps if not isinstance(step, Normalize))
    elif not steps or not isinstance(steps[-1], Normalize):
        steps = (*steps, Normalize())
    return dataclasses.replace(wanted, steps=steps)


def sentence_tokenizer(folder: Path, inner: Path, lowercase: bool) -> Tokenizer:
    """Returns the tokenizer of a folder of sentence-transformers, which has its own ways.

    Args:
        folder: the folder.
        inner: where its model lies, with the tokenizer.
        lowercase: whether texts are lower-cased, whatever the tokenizer does.

    Raises:
        ValueError: the tokenizer cannot be told to.
    """
    # There "[MASK]" in a text is that token.
    tokenizer = load_tokenizer(inner, keep_special_tokens=True)
    settings = tokenizer.settings
    if lowercase and not settings.get("lowercase"):
        if not isinstance(tokenizer, BertTokenizer):
            raise ValueError(
                f"{folder} lower-cases texts before a {type(tokenizer).__name__}, which cannot be "
                "told so: lower-case them yourself and remove do_lower_case from its settings"
            )
        # Texts are lower-cased before a cased tokenizer, whose accents stay.
        accents = settings["strip_accents"] or False
        settings |= {"lowercase": True, "strip_accents": accents}
        return BertTokenizer(tokenizer.vocabulary, **settings)
    return tokenizer


def check_no_pooling(options: ExportOptions, has_others: str = "") -> None:
    """Checks that nothing is said of sentence vectors or their windows, for models that have none.

    Args:
        options: settings of the export.
        has_others: what the model has in their place, with prompts, too; "" for nothing.

    Raises:
        ValueError: it is.
    """
    names = ["pooling", "normalize", "truncate_dim"]
    if has_others:
        for name in names:
            if getattr(options, name) is not None:
                raise ValueError(
                    f"--{name} is for one dense vector of a text, and the folder has {has_others}: "
                    "leave it out, or add --head=encoder"
                )
        return
    names += ["query_prompt", "document_prompt"]
    if any(getattr(options, name) is not None for name in names):
        flags = ", ".join(f"--{name}" for name in names[:-1])
        raise ValueError(
            f"{flags} and --{names[-1]} are for the vectors of an encoder: add --head=encoder, or "
            "leave them out"
        )
    if options.max_windows is not None:
        raise ValueError(
            "--max_windows and --doc_stride are for the vectors of an encoder: add --head=encoder, "
            "or leave them out (a model that was trained with --window_pooling reads long texts in "
            "the windows of its training, other heads as docs/serving.md says)"
        )


def _shown(modules: SentenceModules) -> str:
    parts = [f"{'+'.join(modules.pooling)} pooling"]
    for step in modules.steps:
        parts.append(f"Dense {step.activation}" if isinstance(step, Dense) else "Normalize")
    if modules.truncate_dim is not None:
        parts.append(f"of that the first {modules.truncate_dim} numbers")
    if modules.prompt:
        parts.append(f"of {modules.prompt!r} and the text")
    if modules.tells_texts_apart:
        prompts = f"{modules.query_prompt!r} before queries, {modules.document_prompt!r} before"
        left_out = "" if modules.include_prompt else " (not served: include_prompt is false)"
        parts.append(f"{prompts} documents{left_out}")
    return ", ".join(parts)
