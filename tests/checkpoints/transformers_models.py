"""Models of transformers and ours on the same batch."""

import numpy as np

from keras_bert import (
    BertClassifier,
    BertEncoder,
    BertMaskedLM,
    BertMultipleChoice,
    BertPretrainer,
    BertSpanLabeler,
    BertTokenClassifier,
)

# Their classes and ours.
HEADS = {
    "BertModel": BertEncoder,
    "BertForPreTraining": BertPretrainer,
    "BertForMaskedLM": BertMaskedLM,
    "BertForSequenceClassification": BertClassifier,
    "BertForTokenClassification": BertTokenClassifier,
    "BertForMultipleChoice": BertMultipleChoice,
    "BertForQuestionAnswering": BertSpanLabeler,
}
_POSITIONS = np.array([[0, 3, 6], [2, 1, 2]])


def random_features(name, vocab_size=31, segments=2):
    shape = (2, 4, 7) if name == "BertForMultipleChoice" else (2, 7)
    random = np.random.default_rng(0)
    return {
        "input_ids": random.integers(0, vocab_size, shape),
        "input_mask": np.ones(shape, int),
        "segment_ids": random.integers(0, segments, shape),
    }


def their_outputs(model, name, features=None):
    import torch

    features = features or random_features(name)
    features = {key: torch.tensor(value) for key, value in features.items()}
    with torch.no_grad():
        out = model(
            input_ids=features["input_ids"],
            attention_mask=features["input_mask"],
            token_type_ids=features["segment_ids"],
        )
    rows = np.arange(2)[:, None]
    if name == "BertModel":
        return {
            "sequence_output": out.last_hidden_state.numpy(),
            "pooled_output": out.pooler_output.numpy(),
        }
    if name == "BertForPreTraining":
        return {
            "mlm_logits": out.prediction_logits.numpy()[rows, _POSITIONS],
            "nsp_logits": out.seq_relationship_logits.numpy(),
        }
    if name == "BertForMaskedLM":
        return {"logits": out.logits.numpy()[rows, _POSITIONS]}
    if name == "BertForQuestionAnswering":
        return {
            "start_logits": out.start_logits.numpy(),
            "end_logits": out.end_logits.numpy(),
        }
    return {"logits": out.logits.numpy()}


def our_outputs(model, name, features=None):
    features = features or random_features(name)
    if name in ("BertForPreTraining", "BertForMaskedLM"):
        features = features | {"masked_lm_positions": _POSITIONS}
    outputs = model(features)
    outputs = outputs if isinstance(outputs, dict) else {"logits": outputs}
    return {key: np.asarray(value) for key, value in outputs.items()}
