"""How well targets are predicted: piece by piece with the target before it, and as whole texts.

Loss and token accuracy are those of teacher forcing: every piece is predicted from the source and
the pieces of the target before it; those of a conditional masked language model are of the hidden
pieces, predicted from the source, the length and the other pieces. BLEU (Papineni et al. 2002) and
chrF (Popović 2015) compare generated texts with the targets; both are those of sacrebleu (Post
2018), from 0 to 100, of texts as the tokenizer writes them: without capitals where it has none, a
space beside each mark.
"""

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from keras_bert.finetuning.task import Metric


class GeneratedText(NamedTuple):
    """What a model makes of a source.

    Attributes:
        text: what it wrote, as the tokenizer writes it; None where it was not asked to.
        score: log probability of the text by its length penalty, with Mask-Predict the mean of its
            pieces; None like the text.
        target: the target as the tokenizer writes it; None where there is none, or no text.
        right: pieces of the target that are the likeliest behind those before them, or of those
            that Mask-Predict hides, in their places.
        pieces: pieces of the target, its end among them; with Mask-Predict those that are hidden.
        loss: the negative log probabilities of these, summed, in nats.
        length_right: whether the likeliest length is that of the target; None for models that do
            not predict it.
    """

    text: str | None
    score: float | None
    target: str | None
    right: int
    pieces: int
    loss: float
    length_right: bool | None = None


Predictions = Sequence[GeneratedText]


def token_accuracy(predictions: Predictions, references: Any) -> float:
    """Returns the fraction of pieces that are the likeliest; 0 where there are none."""
    return sum(one.right for one in predictions) / _pieces(predictions)


def token_loss(predictions: Predictions, references: Any) -> float:
    """Returns the mean negative log probability of a piece, in nats; 0 where there are none."""
    return sum(one.loss for one in predictions) / _pieces(predictions)


def _pieces(predictions: Predictions) -> int:
    # Targets of characters that the tokenizer drops alone have nothing to hide.
    return max(1, sum(one.pieces for one in predictions))


def length_accuracy(predictions: Predictions, references: Any) -> float | None:
    """Returns the fraction of targets whose length is the likeliest; None without such guesses."""
    known = [one.length_right for one in predictions if one.length_right is not None]
    return sum(known) / len(known) if known else None


def bleu(predictions: Predictions, references: Any) -> float | None:
    """Returns the BLEU of a split, 0 to 100; None where no texts were generated."""
    import sacrebleu

    return _of_texts(predictions, sacrebleu.corpus_bleu)


def chrf(predictions: Predictions, references: Any) -> float | None:
    """Returns the chrF (chrF2, n-grams of up to 6 characters), 0 to 100; None without texts."""
    import sacrebleu

    return _of_texts(predictions, sacrebleu.corpus_chrf)


def _of_texts(predictions: Predictions, score: Callable[..., Any]) -> float | None:
    pairs = [(one.text, one.target) for one in predictions if one.text is not None]
    if not pairs:
        return None
    texts, targets = zip(*pairs, strict=True)
    return float(score(list(texts), [list(targets)]).score)


def seq2seq_metrics(predicts_lengths: bool = False) -> Mapping[str, Metric]:
    """Returns the metrics of the task; those of texts where sacrebleu is installed.

    Args:
        predicts_lengths: whether the model does.
    """
    metrics: dict[str, Metric] = {"token_accuracy": token_accuracy, "loss": token_loss}
    if predicts_lengths:
        metrics["length_accuracy"] = length_accuracy
    if importlib.util.find_spec("sacrebleu") is not None:
        metrics |= {"chrf": chrf, "bleu": bleu}
    return metrics
