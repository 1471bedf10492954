"""Probes every layer of a frozen encoder on a tagging task: what can be read off where."""

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_bert.finetuning.task import TEST, TRAIN, VALIDATION, TaskData
from keras_bert.models.encoder import BertEncoder
from keras_bert.probing.baselines import control_tags, most_frequent_tags_of_words
from keras_bert.probing.edge_probe import Spans, edge_probes
from keras_bert.probing.layer_vectors import LayerVectors, hidden_state_function, layer_vectors
from keras_bert.probing.linear_probe import LinearProbes, Scale, linear_probes, measure_scale
from keras_bert.probing.options import DEFAULT_BATCH, ProbingOptions
from keras_bert.probing.result import EdgeScores, LayerScore, ProbingResult
from keras_bert.storage.paths import short_name
from keras_bert.tasks.opened_encoder import open_encoder
from keras_bert.tasks.tagging.entities import are_entity_tags, entities
from keras_bert.tasks.tagging.head import TagHead, TagPrediction
from keras_bert.tasks.tagging.metrics import count_entities
from keras_bert.tasks.tagging.sentences import TaggedData, TaggedSentence
from keras_bert.text.base_tokenizer import Tokenizer

_DEFAULT_LENGTH = 128
# Few words are learned in smaller batches, so that an epoch has so many steps.
_STEPS, _LEAST_BATCH = 32, 16
# Of the training sentences, one in so many tells when to stop where there are no others.
_HELD_OUT = 10
_DEVELOPMENT, _MEASURED = "development", "measured"


class _Split(NamedTuple):
    """Sentences that were drawn, and their words.

    Attributes:
        sentences: all of them with tags.
        words: W words as the model reads them: in small letters where it does.
        tags: int32 [W].
    """

    sentences: Sequence[TaggedSentence]
    words: Sequence[str]
    tags: np.ndarray


def probe_layers(
    model: Any,
    data: TaskData,
    options: ProbingOptions = ProbingOptions(),  # noqa: B008 (frozen)
    *,
    tokenizer: Tokenizer | None = None,
    ignore_config_keys: Collection[str] = (),
) -> ProbingResult:
    """Tells what linear probes and edge probes read off each layer of a frozen encoder.

    A word is represented by its first piece, as taggers do; words without a piece are left out.
    Each layer gets a multinomial logistic regression on its standardized vectors, and the same on
    a control task (Hewitt and Liang 2019, arXiv:1909.03368). Spans are whole entities, or single
    words where tags are plain ones; they are classified from a learned mix of layers (Tenney et al.
    2019, arXiv:1905.05950). The same data, options and processor give the same numbers. Random
    weights are drawn with the global seed of Keras, which is set to that of the options.

    Args:
        model: a model folder of any format, a `BertEncoder`, a model with a head, or a
            `FinetunedModel`. It is computed in float32.
        data: what a tagging task reads: `create_task("conll").read(folder)`; tags of other
            `TaskData` are of entities where they look like it. Without validation data a tenth of
            the training sentences takes their place; without tags to test, numbers are those of the
            validation data.
        options: how.
        tokenizer: that of a model that is given as an object; a folder brings its own.
        ignore_config_keys: unknown keys of a folder's config to pass over.

    Raises:
        FileNotFoundError: there is no such folder.
        ValueError: it is no model of this package, or the data are of another task or too few, or
            have no tag for a word, or one that is none of their labels.

    Example:
        data = create_task("conll", scheme="plain").read("brown")
        print(probe_layers("runs/mini/preset", data).table())
    """
    splits, measured_on = _sentences(data)
    encoder, tokenizer = open_encoder(
        model, "hidden_states", tokenizer, ignore_config_keys, dtype="float32"
    )
    positions = encoder.config.max_position_embeddings
    length = options.max_seq_length
    if length is None:
        length = min(_DEFAULT_LENGTH, positions)
    if length > positions:
        raise ValueError(
            f"max_seq_length is {length} but the model has {positions} positions: give no more"
        )
    options = dataclasses.replace(options, max_seq_length=length)
    drawn = _drawn(splits, data.labels, tokenizer, options)
    are_plain = isinstance(data, TaggedData) and data.plain
    are_entities = not are_plain and "O" in data.labels and are_entity_tags(data.labels)

    # === The encoder as it is: linear probes, the control task, edge probes ===
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="keras_bert_probe"))
        vectors = _vectors(encoder, tokenizer, drawn, options, folder, "")
        # Words without a piece have no vector and count nowhere from here on.
        kept = {name: part.words for name, part in vectors.items()}
        tags = {name: split.tags[kept[name]] for name, split in drawn.items()}
        words = {name: [split.words[word] for word in kept[name]] for name, split in drawn.items()}
        if options.probe_batch_size is None:
            size = max(_LEAST_BATCH, min(DEFAULT_BATCH, len(kept[TRAIN]) // _STEPS))
            options = dataclasses.replace(options, probe_batch_size=size)
        scale = measure_scale(vectors[TRAIN].values)
        probes = _linear(vectors, tags, data.labels, scale, options, "linear probes")
        controls = dict(
            zip(
                words,
                control_tags([*words.values()], tags[TRAIN], len(data.labels), options.seed),
                strict=True,
            )
        )
        # The same probe as the one that is judged, down to its weight decay.
        decays = probes.weight_decays[:, None]
        control = linear_probes(
            vectors, controls, len(data.labels), scale, decays, options, "control task"
        )
        notes = _notes(drawn, kept)
        edge = None
        if options.edge_probe:
            edge = _edge(drawn, vectors, data.labels, are_entities, scale, options)
            if edge is None:
                notes.append(
                    "edge probe left out: the spans to learn from have fewer than two labels, or a "
                    "split has no span"
                )
        # Their files are removed before those of the next encoder are written.
        del vectors

    # === The same architecture with random weights ===
    random: LinearProbes | None = None
    if options.random_weights:
        with tempfile.TemporaryDirectory(prefix="keras_bert_probe") as folder:
            keras.utils.set_random_seed(options.seed)
            fresh = type(encoder).from_config(encoder.get_config())
            vectors = _vectors(fresh, tokenizer, drawn, options, folder, ", random weights")
            scale = measure_scale(vectors[TRAIN].values)
            name = "linear probes, random weights"
            random = _linear(vectors, tags, data.labels, scale, options, name)
            del vectors

    # === What it is compared with ===
    truth = tags[_MEASURED]
    always = np.bincount(tags[TRAIN], minlength=len(data.labels)).argmax()
    of_words = most_frequent_tags_of_words(words[TRAIN], tags[TRAIN].tolist(), words[_MEASURED])
    scores = []
    for layer, found in enumerate(probes.predictions):
        right_control = control.predictions[layer] == controls[_MEASURED]
        scores.append(
            LayerScore(
                layer=layer,
                accuracy=float((found == truth).mean()),
                control_accuracy=float(right_control.mean()),
                weight_decay=float(probes.weight_decays[layer]),
                loss=float(probes.losses[layer]),
                random_accuracy=None
                if random is None
                else float((random.predictions[layer] == truth).mean()),
                f1=_entity_f1(drawn[_MEASURED], kept[_MEASURED], found, data.labels)
                if are_entities
                else None,
            )
        )
    is_folder = isinstance(model, str | os.PathLike)
    return ProbingResult(
        model=short_name(model) if is_folder else type(model).__name__,
        labels=tuple(data.labels),
        words={name: len(part) for name, part in kept.items()},
        measured_on=measured_on,
        layers=tuple(scores),
        most_frequent_tag=float((truth == always).mean()),
        most_frequent_tag_of_word=float((np.array(of_words) == truth).mean()),
        edge=edge,
        notes=tuple(notes),
        options=dataclasses.asdict(options),
    )


def _sentences(data: TaskData) -> tuple[dict[str, list[TaggedSentence]], str]:
    """Returns the sentences with tags of each split, and the split that is measured on."""
    found: dict[str, list[TaggedSentence]] = {}
    for name in (TRAIN, VALIDATION, TEST):
        sentences = data.splits.get(name, [])
        if not all(isinstance(sentence, TaggedSentence) for sentence in sentences):
            raise ValueError(
                "the data are not of a tagging task: read them with create_task('conll').read, or "
                "give --task=conll"
            )
        tagged = sum(sentence.tags is not None for sentence in sentences)
        if not tagged:
            continue
        if tagged < len(sentences):
            raise ValueError(
                f"{tagged:,} of the {len(sentences):,} sentences of the split {name!r} have tags: "
                "tag all of them, or leave out the others"
            )
        # Words and tags are counted one behind the other: one too many would move all the rest.
        TagHead().with_labels(data.labels).check_labels(sentences, name)
        found[name] = list(sentences)
    train = found.get(TRAIN, [])
    if VALIDATION not in found:
        found[VALIDATION] = train[_HELD_OUT - 1 :: _HELD_OUT]
        found[TRAIN] = [s for number, s in enumerate(train, start=1) if number % _HELD_OUT]
    if not found.get(TRAIN) or not found[VALIDATION]:
        raise ValueError(
            f"there are {len(train)} sentences with tags to learn from: give at least {_HELD_OUT}, "
            "or validation data besides"
        )
    measured_on = TEST if TEST in found else VALIDATION
    return {
        TRAIN: found[TRAIN],
        _DEVELOPMENT: found[VALIDATION],
        _MEASURED: found[measured_on],
    }, measured_on


def _drawn(
    splits: Mapping[str, Sequence[TaggedSentence]],
    labels: Sequence[str],
    tokenizer: Tokenizer,
    options: ProbingOptions,
) -> dict[str, _Split]:
    """Draws whole sentences until a split has its words; their order stays."""
    index = {label: number for number, label in enumerate(labels)}
    lowercase = tokenizer.settings.get("lowercase", False)  # byte-level ones have none
    drawn = {}
    for name, sentences in splits.items():
        most = options.max_train_words if name == TRAIN else options.max_eval_words
        order = np.random.default_rng(options.seed).permutation(len(sentences))
        total = np.cumsum([len(sentences[number].words) for number in order])
        # Never none, however long the first one is.
        count = max(1, int(np.searchsorted(total, most, side="right")))
        chosen = [sentences[number] for number in np.sort(order[:count])]
        drawn[name] = _Split(
            chosen,
            [word.lower() if lowercase else word for one in chosen for word in one.words],
            np.array([index[tag] for one in chosen for tag in one.tags or ()], np.int32),
        )
    return drawn


def _vectors(
    encoder: BertEncoder,
    tokenizer: Tokenizer,
    drawn: Mapping[str, _Split],
    options: ProbingOptions,
    folder: str,
    what: str,
) -> dict[str, LayerVectors]:
    """Returns the vectors of each split; those of one that is measured on twice are made once."""
    states_at = hidden_state_function(encoder)
    shape = encoder.config.num_hidden_layers + 1, encoder.config.hidden_size
    found: dict[str, LayerVectors] = {}
    for name, split in drawn.items():
        twin = next((n for n in found if drawn[n].sentences == split.sentences), None)
        found[name] = (
            found[twin]
            if twin is not None
            else layer_vectors(
                states_at,
                tokenizer,
                split.sentences,
                shape,
                options.max_seq_length or _DEFAULT_LENGTH,
                options.batch_size,
                f"{name} vectors{what}",
                folder,
            )
        )
    return found


def _linear(
    vectors: dict[str, LayerVectors],
    tags: dict[str, np.ndarray],
    labels: Sequence[str],
    scale: Scale,
    options: ProbingOptions,
    description: str,
) -> LinearProbes:
    layers = len(scale.mean)
    decays = np.tile(np.array(options.weight_decays), [layers, 1])  # [L + 1, D]
    return linear_probes(vectors, tags, len(labels), scale, decays, options, description)


def _edge(
    drawn: Mapping[str, _Split],
    vectors: Mapping[str, LayerVectors],
    labels: Sequence[str],
    are_entities: bool,
    scale: Scale,
    options: ProbingOptions,
) -> EdgeScores | None:
    """Learns edge probes; None where spans have not two labels, or a split has none."""
    kinds = list(
        dict.fromkeys(label[2:] for label in labels if label != "O") if are_entities else labels
    )
    spans = {}
    for name, split in drawn.items():
        place = np.full(len(split.words), -1)
        place[vectors[name].words] = np.arange(len(vectors[name].words))
        words: list[list[int]] = []
        numbers: list[int] = []
        start = 0
        for sentence in split.sentences:
            tags = sentence.tags or ()
            told = (
                [(one.type, one.first, one.last + 1) for one in entities(tags)]
                if are_entities
                else [(tag, word, word + 1) for word, tag in enumerate(tags)]
            )
            for kind, first, end in told:
                own = [int(at) for at in place[start + first : start + end] if at >= 0]
                if own:
                    words.append(own)
                    numbers.append(kinds.index(kind))
            start += len(tags)
        spans[name] = Spans.of(vectors[name].values, words, numbers)
    if len(set(spans[TRAIN].labels)) < 2 or not all(map(len, spans.values())):
        return None
    found = edge_probes(
        spans[TRAIN], spans[_DEVELOPMENT], spans[_MEASURED], len(kinds), scale, options
    )
    return EdgeScores(
        unit="spans" if are_entities else "words",
        labels=len(kinds),
        train_spans=len(spans[TRAIN]),
        measured_spans=len(spans[_MEASURED]),
        cumulative=tuple(map(float, found.accuracies)),
        mix=tuple(map(float, found.mix)),
    )


def _notes(drawn: Mapping[str, _Split], kept: Mapping[str, np.ndarray]) -> list[str]:
    lost: dict[str, int] = {}
    for name, split in drawn.items():
        # A split that is chosen by and measured on counts once.
        if all(drawn[other].sentences != split.sentences for other in lost):
            lost[name] = len(split.words) - len(kept[name])
    total = sum(lost.values())
    if not total:
        return []
    return [f"{total:,} words have no piece that the model reads and are left out"]


def _entity_f1(split: _Split, kept: np.ndarray, found: np.ndarray, labels: Sequence[str]) -> float:
    """Returns the F1 of whole entities; words without a piece are in none."""
    tags = np.full(len(split.words), labels.index("O"))
    tags[kept] = found
    predictions, start = [], 0
    for sentence in split.sentences:
        end = start + len(sentence.words)
        own = tuple(labels[tag] for tag in tags[start:end])
        predictions.append(TagPrediction(own, np.zeros(0)))
        start = end
    return count_entities(predictions, [one.tags or () for one in split.sentences]).f1
