"""What learns classes from a few texts of each (SetFit, Tunstall et al. 2022, arXiv:2209.11055).

A few labeled texts make many pairs: an encoder of sentences learns from them that texts of one
class are alike and those of two are not. Its vectors are then told apart by a logistic regression.

    texts, labels --labeled_pairs--> pairs with scores --the task similarity--> encoder
    vectors of the texts, labels --fit_logistic_regression--> kernel and bias
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keras_bert.choices import PairSampling, check_choice
from keras_bert.counts import check_count, check_number, needed_count
from keras_bert.progress import Progress
from keras_bert.tasks.classification.head import LabeledTexts
from keras_bert.tasks.sentence_embedding.examples import EmbeddingExample

# Newton's method needs about ten steps; these are for the worst data.
_MOST_STEPS = 100
_MOST_CONJUGATE_STEPS = 500
# The gradient where the fit ends, as a part of the number of examples times `c`.
_TOLERANCE = 1e-6
# Pairs of a kind, and all to choose from: so many fit into memory.
_MOST_PAIRS = 10_000_000


def labeled_pairs(
    examples: LabeledTexts,
    sampling: PairSampling = "oversampling",
    num_iterations: int | None = None,
    seed: int = 0,
) -> list[EmbeddingExample]:
    """Returns pairs of texts with the score 1 where both have one class, and 0 where they do not.

    As in the package setfit, a text is a pair with itself, too: dropout makes two vectors of it.
    Of N texts there are N (N + 1) / 2 pairs, which come in a drawn order, both kinds in turns.

    Args:
        examples: texts with a class each, without second texts.
        sampling: which pairs are taken. "oversampling": all, and the kind that is rarer again from
            its beginning until both are equally many. "undersampling": as many of each kind as
            there are of the rarer. "unique": each once.
        num_iterations: so many pairs of each kind for every text, in place of `sampling`; None
            leaves it to that.
        seed: of the order.

    Raises:
        ValueError: there are pairs of texts already, labels that are no classes, fewer than two
            classes, a class with one text, or more pairs than memory holds; or an argument is out
            of its range.
    """
    check_choice("sampling", sampling, PairSampling)
    check_count("num_iterations", num_iterations)
    check_count("seed", seed, 0)
    classes = _classes(examples)
    counts = _pair_counts(classes, sampling, num_iterations)
    first, second = np.triu_indices(len(classes))  # [N (N + 1) / 2] each
    order = np.random.default_rng(seed).permutation(len(first))
    alike = (classes[first] == classes[second])[order]
    kinds = order[alike], order[~alike]
    pairs: list[EmbeddingExample] = []
    for place in range(max(counts)):
        for kind, count, score in zip(kinds, counts, (1.0, 0.0), strict=True):
            if place < count:
                pair = kind[place % len(kind)]
                texts = examples.texts[first[pair]], examples.texts[second[pair]]
                pairs.append(EmbeddingExample(texts, score))
    return pairs


def _pair_counts(
    classes: np.ndarray, sampling: PairSampling, num_iterations: int | None
) -> tuple[int, int]:
    """Returns how many pairs of one class and of two are taken; refuses too many."""
    texts, sizes = len(classes), np.unique(classes, return_counts=True)[1]
    every = texts * (texts + 1) // 2
    alike = int((sizes * (sizes + 1) // 2).sum())
    counts = alike, every - alike
    if num_iterations is not None:
        counts = (num_iterations * texts,) * 2
    elif sampling == "oversampling":
        counts = (max(counts),) * 2
    elif sampling == "undersampling":
        counts = (min(counts),) * 2
    if (most := max(every, *counts)) > _MOST_PAIRS:
        raise ValueError(
            f"{texts:,} texts make {most:,} pairs, and at most {_MOST_PAIRS:,} can be handled: "
            "give fewer texts or a smaller num_iterations, or fine-tune on all with --task=csv"
        )
    return counts


def _classes(examples: LabeledTexts) -> np.ndarray:
    """Returns the class of each text, int32 [N]; refuses what makes no pairs."""
    if examples.text_pairs is not None:
        raise ValueError("the examples are pairs of texts (text_pairs): give texts of one column")
    classes = examples.labels
    if classes is None or classes.ndim != 1 or classes.dtype != np.int32:
        raise ValueError(
            "the texts have no class each: give labels that are indices of classes, one for a text"
        )
    found, counts = np.unique(classes, return_counts=True)
    if len(found) < 2:
        raise ValueError(
            f"all {len(classes)} texts have one class: give texts of two classes at least"
        )
    alone = found[counts == 1]
    if len(alone):
        raise ValueError(
            f"class {alone[0]} has one text, and no other that it could be alike to: give each "
            "class two texts at least"
        )
    return classes


class LogisticRegression(NamedTuple):
    """A layer that tells classes apart by vectors: softmax(vectors @ kernel + bias).

    Attributes:
        kernel: float32 [H, C].
        bias: float32 [C], of mean 0.
    """

    kernel: np.ndarray
    bias: np.ndarray


def fit_logistic_regression(
    vectors: np.ndarray, classes: Sequence[int], num_classes: int, c: float = 1.0
) -> LogisticRegression:
    """Fits a softmax with a penalty on the kernel by Newton's method.

    The loss is the sum of the cross-entropies times `c` plus half the sum of the squared weights of
    the kernel. With two classes it is the sum itself: then the two columns, each the negative of
    the other, tell the classes apart as one column of a sigmoid does under half its sum of squares.
    So both are `LogisticRegression(C=c)` of scikit-learn. The bias is not penalized.

    Args:
        vectors: float [N, H].
        classes: N indices of classes, integers. A class without texts becomes unlikely.
        num_classes: C.
        c: how much an example counts beside the penalty.

    Raises:
        ValueError: the vectors are not finite or not [N, H], there is not one class for each, a
            class is none of `num_classes`, or `c` is not above 0.
    """
    needed_count("num_classes", num_classes)
    if not 0 < check_number("c", c) < np.inf:
        raise ValueError(f"c is {c}: it must be above 0 and finite")
    vectors, indices = np.asarray(vectors, np.float64), np.asarray(classes)
    if vectors.ndim != 2 or not np.isfinite(vectors).all() or indices.shape != vectors.shape[:1]:
        raise ValueError(
            f"vectors has the shape {vectors.shape} and classes {indices.shape}: give finite "
            "numbers [N, H], and a class for each of N"
        )
    if (
        not len(indices)
        or indices.dtype.kind not in "iu"
        or indices.min() < 0
        or indices.max() >= num_classes
    ):
        raise ValueError(
            f"classes are {np.unique(indices).tolist()[:10]}: give indices from 0 to "
            f"{num_classes - 1}"
        )
    inputs = np.pad(vectors, [[0, 0], [0, 1]], constant_values=1.0)  # [N, H + 1]: the bias last
    right = np.eye(num_classes)[indices]  # [N, C]
    penalty = np.full([inputs.shape[1], 1], 2.0 if num_classes == 2 else 1.0)
    penalty[-1] = 0

    def loss(weights: np.ndarray) -> float:
        logits = inputs @ weights  # [N, C]
        top = logits.max(axis=1)
        entropies = np.log(np.exp(logits - top[:, None]).sum(axis=1)) + top
        errors = entropies - (right * logits).sum(axis=1)  # [N]
        return float(c * errors.sum() + 0.5 * (penalty * weights**2).sum())

    def probabilities(weights: np.ndarray) -> np.ndarray:
        logits = inputs @ weights
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)  # [N, C]

    weights = np.zeros([inputs.shape[1], num_classes])  # [H + 1, C]
    with Progress(None, "step", "logistic regression") as progress:
        for _ in range(_MOST_STEPS):
            likely = probabilities(weights)
            slope = c * inputs.T @ (likely - right) + penalty * weights
            if np.abs(slope).max() <= _TOLERANCE * c * len(indices):
                break
            direction = _newton_direction(inputs, likely, penalty, c, slope)
            # Halved until the loss falls by a part of what a straight line would (Armijo 1966).
            size, before, expected = 1.0, loss(weights), float((slope * direction).sum())
            while size > 1e-9 and loss(weights + size * direction) > before + (
                1e-4 * size * expected
            ):
                size /= 2
            weights = weights + size * direction
            progress.update(1)
    return LogisticRegression(weights[:-1].astype(np.float32), weights[-1].astype(np.float32))


def _newton_direction(
    inputs: np.ndarray, likely: np.ndarray, penalty: np.ndarray, c: float, slope: np.ndarray
) -> np.ndarray:
    """Solves Hessian @ direction = -slope by conjugate gradients (Hestenes and Stiefel 1952).

    One number for all biases changes no loss; the slope has none of it, nor has the direction.
    """
    direction = np.zeros_like(slope)
    rest = -slope
    search = rest.copy()
    square = float((rest**2).sum())
    least = 1e-8 * square
    for _ in range(_MOST_CONJUGATE_STEPS):
        changes = inputs @ search  # [N, C], of the logits
        changes = likely * (changes - (likely * changes).sum(axis=1, keepdims=True))
        product = c * inputs.T @ changes + penalty * search  # [H + 1, C]
        size = square / float((search * product).sum())
        direction += size * search
        rest -= size * product
        before, square = square, float((rest**2).sum())
        if square <= least:
            break
        search = rest + square / before * search
    return direction
