"""One row for each model class: all that other modules ask about a class by its name.

Names only, no models: `checkpoints/` stands below `models/` and may not import it, and a name is
what files hold. `keras_bert.models.registry` turns a name into the class.
"""

import dataclasses
from collections.abc import Mapping

# Variable path -> shape; a size is a number, an attribute of the config or an argument of
# the head.
HeadVariables = Mapping[str, tuple[str | int, ...]]

_MASKED_LM: HeadVariables = {
    "masked_lm_transform/dense/kernel": ("hidden_size", "output_width"),
    "masked_lm_transform/dense/bias": ("output_width",),
    "masked_lm_transform/layer_norm/gamma": ("output_width",),
    "masked_lm_transform/layer_norm/beta": ("output_width",),
    # Where there are any, see `BertConfig.further_output_width`.
    "masked_lm_columns/embeddings": ("vocab_size", "further_output_width"),
    "masked_lm_bias/bias": ("vocab_size",),
}


def _output(layer: str, units: str | int) -> HeadVariables:
    return {f"{layer}/kernel": ("hidden_size", units), f"{layer}/bias": (units,)}


@dataclasses.dataclass(frozen=True)
class ModelClass:
    """What is known of a model class.

    Attributes:
        module: where it is defined, in `keras_bert.models`.
        hugging_face: what transformers calls the like, None where it has none.
        pipeline: the task of such models on the Hugging Face Hub.
        head_variables: variables besides the encoder's; None where no format but ours has the head.
        uses_pooler: whether it reads the encoder's pooled output, so that a checkpoint without a
            pooler leaves something to be trained.
        predicts_words: whether it scores the vocabulary with the word embeddings.
    """

    module: str
    hugging_face: str | None
    pipeline: str | None
    head_variables: HeadVariables | None
    uses_pooler: bool
    predicts_words: bool = False


# A preset names one of these as its architecture. An encoder without a head is "BertEncoder", of
# whatever variant: which one, `model_type` in its config says, as for the encoder inside a head.
ENCODER = "BertEncoder"
PRETRAINER = "BertPretrainer"
MASKED_LM = "BertMaskedLM"
ENCODER_DECODER = "BertEncoderDecoder"
ENTITY_MATCHER = "BertEntityMatcher"
MODEL_CLASSES: Mapping[str, ModelClass] = {
    ENCODER: ModelClass("encoder", "BertModel", "feature-extraction", {}, uses_pooler=True),
    PRETRAINER: ModelClass(
        "pretrainer",
        "BertForPreTraining",
        "fill-mask",
        {**_MASKED_LM, **_output("next_sentence", 2)},
        uses_pooler=True,
        predicts_words=True,
    ),
    MASKED_LM: ModelClass(
        "masked_lm",
        "BertForMaskedLM",
        "fill-mask",
        _MASKED_LM,
        uses_pooler=False,
        predicts_words=True,
    ),
    "BertClassifier": ModelClass(
        "classifier",
        "BertForSequenceClassification",
        "text-classification",
        _output("classifier", "num_classes"),
        uses_pooler=True,
    ),
    # Windows of long texts: what others would read of it is the first window alone.
    "BertDocumentClassifier": ModelClass(
        "document_classifier", None, "text-classification", None, uses_pooler=True
    ),
    "BertMultipleChoice": ModelClass(
        "multiple_choice",
        "BertForMultipleChoice",
        "multiple-choice",
        _output("classifier", 1),
        uses_pooler=True,
    ),
    "BertTokenClassifier": ModelClass(
        "token_classifier",
        "BertForTokenClassification",
        "token-classification",
        _output("classifier", "num_classes"),
        uses_pooler=False,
    ),
    "BertSpanLabeler": ModelClass(
        "span_labeler",
        "BertForQuestionAnswering",
        "question-answering",
        _output("span", 2),
        uses_pooler=False,
    ),
    # Variables of its decoder depend on what it shares with the encoder: see `variable_shapes`.
    ENCODER_DECODER: ModelClass(
        "seq2seq.encoder_decoder",
        "EncoderDecoderModel",
        None,  # translation, summarization, ...: the folder does not tell
        _MASKED_LM,
        uses_pooler=False,
    ),
    "BertReplacedTokenDetector": ModelClass(
        "replaced_token_detector",
        None,  # ElectraForPreTraining, of ELECTRA alone
        None,
        {
            "replaced_token/dense/kernel": ("hidden_size", "hidden_size"),
            "replaced_token/dense/bias": ("hidden_size",),
            "replaced_token/prediction/kernel": ("hidden_size", 1),
            "replaced_token/prediction/bias": (1,),
        },
        uses_pooler=False,
    ),
    "BertBiLSTMTagger": ModelClass("bilstm_tagger", None, None, None, uses_pooler=False),
    # Its format is GLiNER's: `checkpoints/gliner/`.
    ENTITY_MATCHER: ModelClass(
        "entities.entity_matcher", None, "token-classification", None, uses_pooler=False
    ),
}
# Those whose output layer reads tokens of an encoder that is trained with it.
TOKEN_LABELERS = ("BertTokenClassifier", "BertSpanLabeler")
# Those that score the vocabulary.
WORD_PREDICTORS = tuple(name for name, row in MODEL_CLASSES.items() if row.predicts_words)
