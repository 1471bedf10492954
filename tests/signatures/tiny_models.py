"""Small models of every head, with weights large enough that answers differ."""

import functools
import random

import keras
import tensorflow as tf

from keras_bert import BertConfig, BertTokenizer
from keras_bert.finetuning.task import TaskDescription
from keras_bert.models.bilstm_tagger import BertBiLSTMTagger
from keras_bert.models.classifier import BertClassifier
from keras_bert.models.document_classifier import BertDocumentClassifier
from keras_bert.models.encoder import BertEncoder
from keras_bert.models.masked_lm import BertMaskedLM
from keras_bert.models.multiple_choice import BertMultipleChoice
from keras_bert.models.pretrainer import BertPretrainer
from keras_bert.models.span_labeler import BertSpanLabeler
from keras_bert.models.token_classifier import BertTokenClassifier
from keras_bert.serving.served_folder import open_signatures
from keras_bert.signatures.options import ExportOptions
from keras_bert.tasks.classification.head import TextHead
from keras_bert.tasks.multiple_choice.head import ChoiceHead
from keras_bert.tasks.question_answering.head import SpanHead
from keras_bert.tasks.tagging.head import TagHead
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary

LETTERS = "abcdefghijklmnopqrstuvwxyz"
PIECES = [*LETTERS, *(f"##{letter}" for letter in LETTERS), *".,!?-'()[]$", "the", "film", "\u4e2d"]
TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC", "E-LOC", "S-PER")
MAX_SEQ_LENGTH = 24

SPAN = dict(doc_stride=5, max_query_length=6, max_answer_length=4, n_best_size=7)
WINDOWS = dict(window_pooling="attention", doc_stride=8, max_windows=3)
# Name -> model class, its arguments, the head of the run and its labels.
MODELS = {
    "classes": (BertClassifier, TextHead(), ("bad", "fine", "good")),
    "several": (BertClassifier, TextHead("multi_label"), ("bad", "fine", "good")),
    "number": (BertClassifier, TextHead("regression"), ()),
    "pairs": (BertClassifier, TextHead(), ("no", "yes")),
    "windows": (BertDocumentClassifier, TextHead(**WINDOWS), ("bad", "fine", "good")),
    "tags": (BertTokenClassifier, TagHead(), TAGS),
    "plain_tags": (BertTokenClassifier, TagHead(), ("NOUN", "VERB", "X")),
    "bilstm": (BertBiLSTMTagger, TagHead(features_from="last", lstm_width=8), TAGS),
    "spans": (BertSpanLabeler, SpanHead(**SPAN), ()),
    "spans_or_none": (
        BertSpanLabeler,
        SpanHead(has_unanswerable=True, null_threshold=-3.0, **SPAN),
        (),
    ),
    "choices": (BertMultipleChoice, ChoiceHead(), ()),
    "encoder": (BertEncoder, None, ()),
    "masked_lm": (BertMaskedLM, None, ()),
    "pretrainer": (BertPretrainer, None, ()),
}
# What CI asks exports of: one of each form of request and answer, and those whose graphs hold more
# than these. The long tests ask all `MODELS`; tests/serving/test_fresh_environment.py asks for
# pairs and for spans that may be absent in CI, too.
FORMS = ("classes", "several", "number", "tags", "spans", "choices", "encoder", "masked_lm")
EXPORTED = (*FORMS, "windows", "bilstm")
_TEXT_COLUMNS = {"pairs": {"text": "text", "text_pair": "text_pair"}}


def tiny_config(**changes):
    numbers = dict(
        vocab_size=len(SPECIAL_TOKENS) + len(PIECES),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=MAX_SEQ_LENGTH,
        initializer_range=0.6,
    )
    return BertConfig.from_dict(numbers | changes)


def write_model(folder, name, seed=0, labels=None, pieces=PIECES, head=None, **config):
    """Writes the model folder of one of `MODELS`, or of a model like it."""
    model_class, usual_head, usual_labels = MODELS[name]
    head, labels = head or usual_head, labels or usual_labels
    tokenizer = BertTokenizer(Vocabulary([*SPECIAL_TOKENS, *pieces]))
    keras.utils.set_random_seed(sum(map(ord, name)) + seed)
    arguments = {} if head is None else head.with_labels(labels).model_arguments()
    model_class(tiny_config(**config), **arguments).save_to_preset(folder, tokenizer)
    if head is not None:
        columns = _TEXT_COLUMNS.get(name, {"text": "text"})
        TaskDescription(name, head.with_labels(labels), columns, MAX_SEQ_LENGTH).save(folder)
    return folder


def random_texts(count, seed, longest=60):
    """Texts of words and punctuation of the tiny vocabulary, short and long, some empty."""
    draw = random.Random(seed)
    words = [
        "the",
        "film",
        "ab",
        "b.c.",
        "d's",
        "(e)",
        "\u4e2d\u4e2d",
        "f-g",
        "",
        "Zo\u00eb",
        "!?",
        "\u65e5",
    ]
    words += [letter * n for letter in "xyz" for n in (1, 5, 30)]
    return ["", *(" ".join(draw.choices(words, k=draw.randint(0, longest))) for _ in range(count))]


@functools.cache
def graph(folder):
    """The serving_default of a model folder as a function of strings."""
    family = open_signatures(folder, ExportOptions())
    function = tf.function(family.guarded(family.answer), autograph=False)
    return function.get_concrete_function(**family.string_inputs())


def ask(folder, **texts):
    """What a model folder answers."""
    found = graph(folder)(**{name: tf.constant(text) for name, text in texts.items()})
    return {name: value.numpy() for name, value in found.items()}
