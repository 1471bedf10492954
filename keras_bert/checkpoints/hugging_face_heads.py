"""Which head a folder of transformers holds: by its tensors, and by the class its config names."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_bert.checkpoints.checkpoint import PROBLEM_TYPES
from keras_bert.checkpoints.hugging_face_families import (
    DEBERTA,
    ELECTRA,
    NEWER_HEAD,
    Family,
)
from keras_bert.checkpoints.model_classes import ENCODER, MASKED_LM
from keras_bert.checkpoints.name_table import Tensors
from keras_bert.checkpoints.variables import OUTPUT_EMBEDDINGS

# Heads that may call their output layer "classifier": the config says which of them it is.
_CLASSIFIERS = ("BertClassifier", "BertTokenClassifier", "BertMultipleChoice", "BertSpanLabeler")
# How that layer is called.
OUTPUTS = ("classifier.weight", "classifier.out_proj.weight", "out_proj.weight")
# Tensors that only this head has; the first whose are there counts.
_TELLING = (
    ("BertSpanLabeler", {"qa_outputs.weight"}),
    ("BertReplacedTokenDetector", {"discriminator_predictions.dense.weight"}),
    ("BertPretrainer", {"cls.predictions.bias", "cls.seq_relationship.weight"}),
    ("BertMaskedLM", {"cls.predictions.bias"}),
    ("BertMaskedLM", {"vocab_projector.bias"}),
    ("BertMaskedLM", {"generator_lm_head.bias"}),
    ("BertPretrainer", {"predictions.bias", "sop_classifier.classifier.weight"}),
    ("BertMaskedLM", {"predictions.bias"}),
    ("BertMaskedLM", {"lm_head.bias"}),
    ("BertMaskedLM", {"head.dense.weight", "decoder.bias"}),
    ("BertMaskedLM", {"lm_head.dense.weight", "lm_head.decoder.bias"}),
    ("BertMaskedLM", {"lm_head.weight"}),
)


def find_head(
    tensors: Tensors, values: Mapping[str, Any], family: Family, config_file: Path
) -> tuple[str, dict[str, Any]]:
    """Returns the class of ours that a folder holds, and the numbers of its head.

    Args:
        tensors: of the folder, under the names that `family` has.
        values: of its config.
        family: what transformers calls the tensors and classes.
        config_file: the file of the config, for messages.

    Returns:
        The class's name, and `num_classes`, `labels` and `problem_type` where it has them.

    Raises:
        ValueError: nothing says which of several heads it is, or what the config says of it does
            not fit the tensors.
    """
    outputs = [name for name in OUTPUTS if name in tensors.shapes]
    if not outputs:
        return _by_tensors(tensors, values, family), {}
    architecture = _by_class(outputs[0], tensors.source, values, family, config_file)
    if architecture == "BertMultipleChoice" and family is ELECTRA:
        _check_summary(tensors, values)
    if architecture in ("BertMultipleChoice", "BertSpanLabeler"):
        return architecture, {}
    num_classes = tensors.shapes[outputs[0]][0]
    names = values.get("id2label")
    labels = _labels(names, num_classes, outputs[0], tensors.source, config_file) if names else None
    head: dict[str, Any] = {"num_classes": num_classes, "labels": labels}
    if architecture == "BertClassifier" and values.get("problem_type") in PROBLEM_TYPES:
        head["problem_type"] = values["problem_type"]
    return architecture, head


def placeholder_labels(num_classes: int) -> list[str]:
    """Returns what transformers calls classes that nobody named."""
    return [f"LABEL_{index}" for index in range(num_classes)]


def _by_tensors(tensors: Tensors, values: Mapping[str, Any], family: Family) -> str:
    if family is DEBERTA and values.get("legacy") is False:
        if NEWER_HEAD["cls.predictions.bias"] in tensors.shapes:
            return MASKED_LM
    for architecture, names in _TELLING:
        if names <= tensors.shapes.keys() and architecture in family.heads:
            return architecture
    # A head that is the word embedding alone has no tensor to tell it.
    rows = [row.ours for row in family.heads.get(MASKED_LM, ())]
    named = values.get("architectures")
    is_named = isinstance(named, list) and family.model_class(MASKED_LM) in named
    if rows == [OUTPUT_EMBEDDINGS] and values.get("tie_word_embeddings") is True and is_named:
        return MASKED_LM
    return ENCODER


def _by_class(
    output: str, source: str, values: Mapping[str, Any], family: Family, config_file: Path
) -> str:
    """Returns the class of ours, of those whose output is a classifier, whose like is named."""
    named = values.get("architectures") or []
    if not isinstance(named, (list, str)):
        raise ValueError(
            f"{config_file}: architectures is {named!r}: it must be a list of names, such as "
            f'["{family.model_class(_CLASSIFIERS[0])}"]'
        )
    classes = {
        name: family.model_classes(name)
        for name in _CLASSIFIERS
        if any(theirs in row.theirs for theirs in OUTPUTS for row in family.heads.get(name, []))
    }
    for name, all_theirs in classes.items():
        if any(theirs in named for theirs in all_theirs):
            return name
    *others, last = (theirs for theirs, *_ in classes.values())
    raise ValueError(
        f"{source} holds {output}, but the config's architectures {named} do not say of what: "
        f"expected {', '.join(others)} or {last}"
    )


def _labels(
    names: Any, num_classes: int, output: str, source: str, config_file: Path
) -> list[str] | None:
    """Returns the names of the classes in their order, None where nobody named them."""
    if not isinstance(names, dict) or not all(map(str.isdecimal, names)):
        raise ValueError(
            f"{config_file}: id2label is {names!r}: it must be an object with the numbers "
            'of the classes as keys, such as {"0": "bad", "1": "good"}'
        )
    by_number = {int(number): label for number, label in names.items()}
    if sorted(by_number) != list(range(num_classes)):
        raise ValueError(
            f"{source}: {output} has {num_classes} rows, but the config's id2label names the "
            f"classes {', '.join(names)}"
        )
    labels = []
    for index in range(num_classes):
        label = by_number[index]
        if not isinstance(label, (str, int, float)):
            raise ValueError(
                f"{config_file}: id2label calls class {index} {label!r}: give it a name, "
                'such as "good"'
            )
        # Numbers, true and false as the file spells them.
        labels.append(label if isinstance(label, str) else json.dumps(label))
    return None if labels == placeholder_labels(num_classes) else labels


def _check_summary(tensors: Tensors, values: Mapping[str, Any]) -> None:
    """Refuses a summary of choices other than a dense layer with GELU on [CLS], the default."""
    for key, default in (
        ("summary_type", "first"),
        ("summary_use_proj", True),
        ("summary_activation", "gelu"),
    ):
        if values.get(key, default) != default:
            raise ValueError(
                f"{tensors.source}: {key} is {values[key]!r}: only {default!r} is supported in a "
                "multiple choice model of ELECTRA"
            )
