"""Zero-shot classification: scores of `ZeroShotClassificationPipeline` of transformers."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertTokenizer, ExportOptions, ZeroShotClassifier
from keras_bert.serving.served_folder import open_signatures
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.signatures.tiny_models import PIECES, random_texts
from tests.text.family_tokenizers import byte_level_files, sentencepiece_files
from tests.tolerances import ORACLE

pytestmark = pytest.mark.oracle

LENGTH = 40
# Some texts fill a row, most do not, and one has words of which no piece is known.
TEXTS = [
    "the film",
    *filter(None, random_texts(6, seed=3, longest=8)),
    "the film d's " * 30,
    "Zo\u00eb \u65e5!",
]
# The last one takes more than half of a row.
LABELS = ["sport", "a film", "the {x}, b", "a b c d e f g h"]
THREE = ("contradiction", "neutral", "entailment")
# Places that the name of a class decides, and that of the others the rule of the pipeline.
NAMES = {
    "bert": ("ENTAILMENT", "neutral", "contradiction"),
    "roberta": THREE,
    "deberta-v2": ("entailment", "not_entailment"),
}
TEMPLATES = ["This example is {}.", "film: {}, the b!"]


def published(family, folder):
    """Writes a model of inference as its authors do."""
    import torch
    import transformers

    torch.manual_seed(5)
    sizes = {"max_position_embeddings": LENGTH, "num_hidden_layers": 2, "num_attention_heads": 2}
    sizes |= {"hidden_size": 16, "intermediate_size": 32}
    if family == "bert":
        BertTokenizer(Vocabulary([*SPECIAL_TOKENS, *PIECES])).save(folder)
        sizes["vocab_size"] = len(SPECIAL_TOKENS) + len(PIECES)
    elif family == "roberta":
        files = byte_level_files()
        files.save(folder)
        sizes |= {"vocab_size": len(files.vocabulary), "type_vocab_size": 1, "pad_token_id": 1}
        sizes["max_position_embeddings"] += 2
    else:
        files = sentencepiece_files("deberta")
        files.save(folder)
        sizes |= {
            "vocab_size": len(files.vocabulary),
            "type_vocab_size": 0,
            "pooler_hidden_size": 16,
        }
        sizes |= {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "share_att_key": True}
        sizes |= {"position_biased_input": False, "norm_rel_ebd": "layer_norm"}
    names = dict(enumerate(NAMES[family]))
    config = transformers.AutoConfig.for_model(
        family,
        **sizes,
        initializer_range=0.7,
        id2label=names,
        label2id={name: place for place, name in names.items()},
    )
    model = transformers.AutoModelForSequenceClassification.from_config(config)
    model.save_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, model_max_length=LENGTH)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("family", NAMES)
def test_scores_are_those_of_the_pipeline(family, tmp_path):
    import transformers

    folder = published(family, tmp_path)
    pipeline = transformers.pipeline("zero-shot-classification", str(folder), device="cpu")

    def theirs(texts, labels, **arguments):
        answers = pipeline(texts, labels, **arguments)
        by_label = [dict(zip(one["labels"], one["scores"], strict=True)) for one in answers]
        return np.array([[scores[label] for label in labels] for scores in by_label])

    classifier = ZeroShotClassifier.from_preset(folder)
    for template in TEMPLATES:
        for multi_label in (False, True):
            expected = theirs(TEXTS, LABELS, hypothesis_template=template, multi_label=multi_label)
            found = classifier.classify(TEXTS, LABELS, template, multi_label)
            assert np.ptp(expected, axis=0).min() > 0.02
            np.testing.assert_allclose(found.scores, expected, **ORACLE)
    # A single label is not one of several.
    expected = theirs(TEXTS, LABELS[:1])
    np.testing.assert_allclose(classifier.classify(TEXTS, LABELS[:1]).scores, expected, **ORACLE)
    assert np.ptp(expected) > 0.1
    if family != "bert":  # what is served shares the rest
        return
    options = ExportOptions(hypothesis_template=TEMPLATES[1])
    serve = tf.function(open_signatures(folder, options).more_answers()["serve_zero_shot"])
    served = serve(tf.constant(TEXTS), tf.constant([LABELS] * len(TEXTS)))
    for output, multi_label in (("scores", False), ("multi_label_scores", True)):
        expected = theirs(TEXTS, LABELS, hypothesis_template=TEMPLATES[1], multi_label=multi_label)
        np.testing.assert_allclose(served[output], expected, **ORACLE)
