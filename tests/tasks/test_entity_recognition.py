"""Entities of any labels: words, rows, windows, spans, scores and answers.

Expected values are those of Python's `re`, of rules written here once more in Python, and of the
formulas in float64.
"""

import re
import sys
import unicodedata

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertEncoder, EntityRecognizer, FinetunedModel, TaskData
from keras_bert.finetuning.task import TaskDescription
from keras_bert.models.entities.entity_matcher import BertEntityMatcher
from keras_bert.signatures.code_points import code_points
from keras_bert.signatures.windows import word_windows
from keras_bert.tasks.entity_recognition.head import EntityHead, SpanCrossentropy
from keras_bert.tasks.entity_recognition.metrics import SPAN_METRICS
from keras_bert.tasks.entity_recognition.rows import drawn_labels
from keras_bert.tasks.entity_recognition.sentences import EntitySentence, EntitySpan, ScoredSpan
from keras_bert.tasks.entity_recognition.spans import counting_spans, selected
from keras_bert.tasks.entity_recognition.words import split_words
from keras_bert.text.random_bits import seeds_of
from tests.signatures.tiny_models import random_texts
from tests.tasks.entity_models import LABELS, POSITIONS, WIDTH, entity_model, entity_tokenizer
from tests.text.family_tokenizers import fuzzed_texts, golden_texts
from tests.tolerances import BFLOAT16, FORMULA, REORDERED

WORD = re.compile(r"\w+(?:[-_]\w+)*|\S")
MAX_WORDS = 9


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A preset without a task, as `save_to_preset` writes it."""
    path = tmp_path_factory.mktemp("entities")
    entity_model(max_words=MAX_WORDS).save_to_preset(path, entity_tokenizer())
    return path


@pytest.fixture(scope="module")
def recognizer(folder):
    return EntityRecognizer.from_preset(folder)


def words_of(texts):
    found = split_words(code_points(tf.constant(texts)))
    rows = [[] for _ in texts]
    for row, start, end in zip(*(part.numpy().tolist() for part in found), strict=True):
        rows[row].append((start, end))
    return rows


def test_words_are_those_of_pythons_regular_expression():
    draw = np.random.default_rng(3)
    parts = [*"ab-_ .\u00e9\u0301\u0915\u093f\u4e2d\u0660\u00b2\u2160\x1c\x85\u3000-_\n"]
    mixed = ["".join(draw.choice(parts, size=draw.integers(0, 30))) for _ in range(500)]
    texts = [*golden_texts(), *fuzzed_texts(300), *mixed]
    texts = [text for text in texts if not any(unicodedata.category(c) == "Cn" for c in text)]
    assert words_of(texts) == [[m.span() for m in WORD.finditer(text)] for text in texts]


def test_every_character_that_python_knows_is_in_the_right_words():
    # Alone, within a word, and beside hyphens.
    known = (chr(c) for c in range(sys.maxunicode + 1))
    known = [c for c in known if unicodedata.category(c) not in ("Cn", "Cs")]
    text = "".join(f"{c} a{c}b {c}-{c}" for c in known)
    assert words_of([text])[0] == [m.span() for m in WORD.finditer(text)]


def greedy(spans, flat, multi_label):
    """Takes (first, last, label, score) one by one, as GLiNER's decoding does."""
    taken = []
    for span in sorted(spans, key=lambda span: -span[3]):
        for other in taken:
            if span[:2] == other[:2]:
                if not multi_label:
                    break
                continue
            crosses = not (span[0] > other[1] or other[0] > span[1])
            nested = (span[0] <= other[0] and span[1] >= other[1]) or (
                other[0] <= span[0] and other[1] >= span[1]
            )
            if crosses and (flat or not nested):
                break
        else:
            taken.append(span)
    return sorted(taken, key=lambda span: span[0])


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("multi_label", [True, False])
def test_the_most_probable_spans_stay(flat, multi_label):
    draw = np.random.default_rng(1)
    texts = []
    for _ in range(60):
        first = draw.integers(0, 12, size=draw.integers(0, 25))
        last = first + draw.integers(0, 4, size=len(first))
        # Few different scores, so that some are equal.
        scores = draw.choice(np.linspace(0.5, 1, 9), size=len(first)).astype(np.float32)
        spans = zip(first, last, draw.integers(0, 3, size=len(first)), scores, strict=True)
        texts.append([(int(a), int(b), int(c), float(d)) for a, b, c, d in spans])
    flat_spans = [(text, *span) for text, spans in enumerate(texts) for span in spans]
    of_text, first, last, _, score = (np.array(column) for column in zip(*flat_spans, strict=True))
    kept = selected(of_text, first, last, np.float32(score), flat, multi_label).numpy()
    expected = [(n, *s) for n, spans in enumerate(texts) for s in greedy(spans, flat, multi_label)]
    assert [flat_spans[place] for place in kept] == expected


def test_every_span_of_a_long_text_counts_in_one_window():
    draw = np.random.default_rng(5)
    sizes = [0, 1, 40, 7, 25]
    texts = np.repeat(np.arange(len(sizes)), sizes)
    pieces = draw.integers(0, 4, size=len(texts))
    edges = np.concatenate([[0], np.cumsum(pieces)])
    room = tf.constant([9, 9, 9, 30, 13], tf.int64)
    windows = word_windows(tf.constant(texts), tf.constant(edges), room, MAX_WORDS, WIDTH)
    rows, first, last = (part.numpy() for part in windows)
    assert np.all(last - first <= MAX_WORDS) and np.all(last > first)
    assert np.all(edges[last] - edges[first] <= room.numpy()[rows])
    assert np.all(texts[first] == rows) and np.all(texts[last - 1] == rows)
    counts = counting_spans(windows, WIDTH).numpy()
    seen = [(first[r] + w, k) for r, w, k in np.argwhere(counts).tolist()]
    fits = {
        (a + w, k)
        for a, b in zip(first, last, strict=True)
        for w in range(b - a)
        for k in range(min(WIDTH, b - a - w))
    }
    assert sorted(seen) == sorted(fits)  # each once
    inside = {(w, k) for w in range(len(texts)) for k in range(WIDTH) if w + k < len(texts)}
    inside = {(w, k) for w, k in inside if texts[w] == texts[w + k]}
    narrow = {(w, k) for w, k in inside - fits if edges[w + k + 1] - edges[w] <= 9}
    assert not narrow  # what fits into a window lies in one
    for r, w, k in np.argwhere(counts).tolist():

        def context(window, span=(first[r] + w, first[r] + w + k)):
            return min(span[0] - first[window], last[window] - 1 - span[1])

        others = [
            n for n in range(len(first)) if first[n] <= first[r] + w and first[r] + w + k < last[n]
        ]
        assert r == max(others, key=context)  # the first of equal ones


def scoring(model):
    """Returns scores of single rows by the Keras model, in one graph for all of them."""
    signature = {t.name: tf.TensorSpec([None] * len(t.shape), t.dtype) for t in model.inputs}
    scores = tf.function(lambda inputs: model(inputs), input_signature=[signature])
    return lambda row: scores({name: tf.constant([value], tf.int32) for name, value in row.items()})


def by_hand(model, score_row, tokenizer, text, labels, threshold):
    """The entities of a text by single rows in NumPy: words by `re`, one window at a time."""
    spans = [match.span() for match in WORD.finditer(text)]
    pieces = tokenizer([text[a:b] for a, b in spans]).to_list() if spans else []
    prompt, places = [], []
    for row in tokenizer(labels).to_list():
        places.append(1 + len(prompt))
        prompt += [model.entity_token_id, *row]
    prompt.append(model.separator_token_id)
    room = POSITIONS - 2 - len(prompt)
    pieces = [row[:room] for row in pieces]
    edges = np.concatenate([[0], np.cumsum([len(row) for row in pieces])])
    windows, start = [], 0
    while start < len(pieces):
        end = start + 1
        while end < len(pieces) and edges[end + 1] - edges[start] <= room:
            end += 1
        end = min(end, start + MAX_WORDS)
        windows.append((start, end))
        if end == len(pieces):
            break
        half = next(w for w in range(start, end + 1) if 2 * edges[w] >= edges[start] + edges[end])
        start = max(start + 1, min(half, end - WIDTH + 1))
    cls_id, sep_id = tokenizer.vocabulary.cls_id, tokenizer.vocabulary.sep_id
    best = {}
    for start, end in windows:
        row, positions = [cls_id, *prompt], []
        for word in pieces[start:end]:
            positions.append(len(row) if word else 0)
            row += word
        row.append(sep_id)
        inputs = {
            "input_ids": row,
            "input_mask": [1] * len(row),
            "segment_ids": [0] * len(row),
            "word_positions": positions,
            "label_positions": places,
        }
        scores = np.maximum(np.array(score_row(inputs), np.float64)[0], -700)  # [W, K, L]
        probabilities = 1 / (1 + np.exp(-scores))
        for word in range(end - start):
            for width in range(min(WIDTH, end - start - word)):
                context = min(word, end - start - 1 - word - width)
                place = (start + word, start + word + width)
                if place not in best or best[place][0] < context:
                    best[place] = (context, probabilities[word, width])
    found = [
        (*place, label, float(score))
        for place, (_, scores) in sorted(best.items())
        for label, score in enumerate(scores)
        if score > threshold
    ]
    return [
        (spans[a][0], spans[b][1], text[spans[a][0] : spans[b][1]], labels[label], score)
        for a, b, label, score in greedy(found, True, False)
    ]


def test_entities_of_texts_of_any_length_are_those_of_their_windows(folder, recognizer):
    model, tokenizer = BertEntityMatcher.from_preset(folder), entity_tokenizer()
    score_row = scoring(model)
    texts = ["", "the film", *random_texts(6, seed=2, longest=30), "\x00 a\x01 b", "z" * 80]
    found = recognizer.recognize(texts, LABELS, batch_size=3)
    several = 0
    for text, entities in zip(texts, found, strict=True):
        expected = by_hand(model, score_row, tokenizer, text, LABELS, 0.5)
        assert [(e.start, e.end, e.text, e.label) for e in entities] == [e[:4] for e in expected]
        np.testing.assert_allclose(
            [e.score for e in entities], [e[4] for e in expected], **REORDERED
        )
        several += len(WORD.findall(text)) > MAX_WORDS and bool(entities)
    assert several and len({e.label for entities in found for e in entities}) > 1


def test_sentences_of_words_are_answered_and_measured_alike(folder):
    model, tokenizer = BertEntityMatcher.from_preset(folder), entity_tokenizer()
    score_row, texts = scoring(model), [*random_texts(5, seed=2, longest=30)[1:], "the film"]
    spans = [[match.span() for match in WORD.finditer(text)] for text in texts]
    words = [[text[a:b] for a, b in of_text] for text, of_text in zip(texts, spans, strict=True)]
    head = EntityHead(max_width=WIDTH, max_words=MAX_WORDS, labels=tuple(LABELS))
    description = TaskDescription("gliner", head.for_tokenizer(tokenizer), {}, POSITIONS)
    ours = FinetunedModel(model, tokenizer, description)
    found = ours.predict_examples([EntitySentence(of_text) for of_text in words], batch_size=3)
    for text, of_text, entities in zip(texts, spans, found, strict=True):
        expected = by_hand(model, score_row, tokenizer, text, LABELS, 0.5)
        places = [(of_text[e.first][0], of_text[e.last][1], e.label) for e in entities]
        assert places == [(e[0], e[1], e[3]) for e in expected]
        scores = [e[4] for e in expected]
        np.testing.assert_allclose([e.score for e in entities], scores, **REORDERED)
    # Whatever another sentence is asked for.
    beside = [*map(EntitySentence, words), EntitySentence(["a"], labels=["z" * 30])]
    *same, _ = ours.predict_examples(beside, batch_size=3)
    assert [[e[:3] for e in entities] for entities in same] == [
        [e[:3] for e in entities] for entities in found
    ]
    # Every other of its entities is right, and one is there beside them.
    told = [[EntitySpan(*e[:3]) for e in entities[::2]] for entities in found]
    told[-1] = [EntitySpan(0, 1, "ab")]
    right = sum(map(len, told)) - 1
    assert EntitySpan(0, 1, "ab") not in {e[:3] for e in found[-1]} and right > 5
    asked = [
        EntitySentence(of_text, entities, LABELS)
        for of_text, entities in zip(words, told, strict=True)
    ]
    measured = ours.measure(SPAN_METRICS, TaskData({"test": asked}, tuple(LABELS)))
    precision, recall = right / sum(map(len, found)), right / (right + 1)
    f1 = 2 * precision * recall / (precision + recall)
    assert measured == pytest.approx({"f1": f1, "precision": precision, "recall": recall})


def test_a_higher_threshold_nesting_and_several_labels(recognizer):
    texts = random_texts(4, seed=7, longest=20)
    usual = recognizer.recognize(texts, LABELS)
    sure = recognizer.recognize(texts, LABELS, threshold=0.6)
    assert 0 < sum(map(len, sure)) < sum(map(len, usual))
    assert all(entity.score > 0.6 for entities in sure for entity in entities)

    def crossing(entities):
        return sum(
            a is not b and a.start < b.end and b.start < a.end for a in entities for b in entities
        )

    assert not any(map(crossing, usual))
    assert any(map(crossing, recognizer.recognize(texts, LABELS, flat=False)))
    several = recognizer.recognize(texts, LABELS, multi_label=True)
    spans = [(e.start, e.end) for entities in several for e in entities]
    assert len(set(spans)) < len(spans)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("one text", LABELS), r"texts is one string, .* letter by letter: give \[text\]"),
        ((["a"], "ab"), "labels is the string 'ab', .* letter by letter: give a list of labels"),
        ((["a"], []), "there are no labels to look for: give at least one"),
        ((["a"], ["ab", " "]), r"label 1 \(counted from 0\) is blank: name it"),
        ((["a"], ["ab", "ab"]), "the label 'ab' is there twice: name each once"),
        ((["a"], LABELS, 1.0), "threshold is 1.0: it must be from 0 to below 1"),
        ((["a"], LABELS, 0.5, "false"), "flat is 'false': give True or False"),
        ((["a"], LABELS, 0.5, True, 1), "multi_label is 1: give True or False"),
        ((["a"], ["z" * 40]), "the 1 labels with their markers have 41 pieces, and a row of 40"),
    ],
)
def test_what_cannot_be_asked_is_refused(recognizer, arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        recognizer.recognize(*arguments)


def test_the_graph_runs_with_a_gpu_and_without(recognizer, folder, monkeypatch):
    """Where there is a GPU, Keras takes cuDNN's LSTM, which refuses a row without a word."""

    def lstm(*_, **__):
        raise AssertionError("cuDNN's was asked for")

    monkeypatch.setattr("keras.src.backend.lstm", lstm)
    found = EntityRecognizer.from_preset(folder).recognize(["the film ab"], LABELS)
    assert found == recognizer.recognize(["the film ab"], LABELS) != [[]]


def test_another_model_is_refused(model_folder):
    with pytest.raises(ValueError, match="does not score spans of words against labels: give a r"):
        EntityRecognizer.from_preset(model_folder("classes"))


ROWS = {
    "input_ids": np.arange(5, 29).reshape(2, 12),
    "input_mask": np.ones([2, 12]),
    "segment_ids": np.zeros([2, 12]),
    "word_positions": [[6, 7, 0, 9, -1], [5, 6, 8, 9, 10]],
    "label_positions": [[1, 3], [2, -1]],
}
ROWS = {name: np.array(values, np.int32) for name, values in ROWS.items()}


def test_scores_are_those_of_the_formula():
    """Oracle: the layers as the paper has them, each span by itself, in float64."""
    model = entity_model(num_rnn_layers=0)
    encoded = {name: ROWS[name] for name in ("input_ids", "input_mask", "segment_ids")}
    states = np.array(model.encoder(encoded)["sequence_output"], np.float64)  # [B, S, H]
    weights = {
        weight.path.removeprefix("entity_scores/"): np.array(weight, np.float64)
        for weight in model.weights
    }

    def dense(name, values):
        return values @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]

    def project(name, values):
        return dense(f"{name}_2", np.maximum(dense(f"{name}_1", values), 0))

    expected = np.full([2, 5, WIDTH, 2], -1e9)
    for row, (words, labels) in enumerate(
        zip(ROWS["word_positions"], ROWS["label_positions"], strict=True)
    ):
        there = [place for place in words if place >= 0]
        vectors = [dense("projection", states[row, p]) if p else np.zeros(12) for p in there]
        for first in range(len(there)):
            for width in range(min(WIDTH, len(there) - first)):
                start, end = vectors[first], vectors[first + width]
                both = np.concatenate([project("start", start), project("end", end)])
                span = project("span", np.maximum(both, 0))
                for label in np.flatnonzero(labels > 0):
                    asked = project("label", dense("projection", states[row, labels[label]]))
                    expected[row, first, width, label] = span @ asked
    np.testing.assert_allclose(model(ROWS, training=False), expected, **REORDERED)


@pytest.mark.half_precision
def test_scores_are_float32_in_any_precision():
    whole, half = (entity_model(scale=1.0, dtype=d) for d in ("float32", "mixed_bfloat16"))
    half.set_weights(whole.get_weights())
    expected, found = (np.array(model(ROWS, training=False)) for model in (whole, half))
    assert found.dtype == np.float32
    there = expected > -1e8
    np.testing.assert_array_equal(found > -1e8, there)
    # Word 2 of the first row has no piece, and yet spans; the last one is none.
    assert there[0, :, 0, 0].tolist() == [True] * 4 + [False] and not there[1, ..., 1].any()
    probabilities, others = tf.sigmoid(expected[there]), tf.sigmoid(found[there])
    np.testing.assert_allclose(others, probabilities, **BFLOAT16)


@pytest.mark.slow
def test_weights_that_are_no_numbers_are_told(tmp_path):
    model = entity_model()
    layer = model.get_layer("entity_scores").span_2
    layer.bias.assign(np.full(layer.bias.shape, np.nan))
    model.save_to_preset(tmp_path, entity_tokenizer())
    with pytest.raises(ValueError, match="the model answers nan, which is no number to go by"):
        EntityRecognizer.from_preset(tmp_path).recognize(["a b"], LABELS)


SENTENCES = [
    EntitySentence("the film ab a b the ab".split(), [(0, 1, "x"), (2, 2, "y"), (2, 4, "x")]),
    EntitySentence("a b the".split(), []),
    EntitySentence(["z" * 3, "the", "film"], [(1, 2, "u v")]),
    EntitySentence(["film", "ab"] * 8, [(0, 3, "y"), (14, 15, "w")]),
]


@pytest.fixture(scope="module")
def encoded():
    head = EntityHead(max_width=WIDTH, max_words=MAX_WORDS, max_types=3, label_dropout=0.0)
    names = sorted({entity.label for one in SENTENCES for entity in one.entities})
    head = head.with_labels(names).for_tokenizer(entity_tokenizer())
    return head.encode(entity_tokenizer(), SENTENCES, POSITIONS, "rows")


def read_rows(batch):
    """Words, labels and entities of each row, read back from ids, positions and targets."""
    vocabulary, (inputs, targets) = entity_tokenizer().vocabulary, batch
    marker, end = len(vocabulary) + 1, len(vocabulary) + 2
    tokens = [*vocabulary.tokens, "[FLERT]", "<<ENT>>", "<<SEP>>"]
    rows = []
    for ids, mask, words, labels, target in zip(
        *(inputs[name].numpy() for name in ("input_ids", "input_mask")),
        *(inputs[name].numpy() for name in ("word_positions", "label_positions")),
        targets.numpy(),
        strict=True,
    ):
        ids = ids[: mask.sum()].tolist()
        labels, words = labels[labels >= 0].tolist(), words[words >= 0].tolist()
        stop = ids.index(end)
        assert [i for i, number in enumerate(ids) if number == marker] == labels
        assert (ids[0], ids[-1]) == (vocabulary.cls_id, vocabulary.sep_id)

        def joined(begin, stop, ids=ids):
            text = " ".join(tokens[number] for number in ids[begin:stop])
            return text.replace(" ##", "")

        names = [joined(a + 1, b) for a, b in zip(labels, [*labels[1:], stop], strict=True)]
        texts = [joined(a, b) for a, b in zip(words, [*words[1:], len(ids) - 1], strict=True)]
        spans = {(w, w + k, names[label]) for w, k, label in np.argwhere(target == 1).tolist()}
        # What is there to learn: each span within the words, for each label.
        there = np.zeros(target.shape, bool)
        for w in range(len(words)):
            there[w, : len(words) - w, : len(labels)] = True
        np.testing.assert_array_equal(target >= 0, there)
        rows.append((texts, names, spans))
    return rows


@pytest.fixture(scope="module")
def epoch_of(encoded):
    """Returns a function: what an epoch reads, by the seed of the run and its number."""
    graph = tf.function(encoded.training_examples, autograph=False)
    rows = tf.range(len(encoded), dtype=tf.int64)
    return lambda *epoch: read_rows(graph(rows, rows, tf.constant(epoch, tf.int64)))


def test_rows_name_their_own_labels_and_some_others_in_any_order(encoded, epoch_of):
    numbers, orders, others_first = [set() for _ in range(len(encoded))], set(), False
    windows = [part.numpy() for part in encoded.windows]
    starts = np.cumsum([0, *(len(one.words) for one in SENTENCES)])
    for number in range(40):
        for row, (texts, names, spans) in enumerate(epoch_of(7, number)):
            text, first, last = (part[row] for part in windows)
            sentence, first, last = SENTENCES[text], first - starts[text], last - starts[text]
            assert texts == list(sentence.words[first:last])
            inside = {
                (a - first, b - first, label)
                for a, b, label in sentence.entities
                if first <= a and b < last
            }
            own = {label for *_, label in inside}
            assert len(names) == len(set(names)) and own <= set(names) and len(names) <= 3
            assert spans == {span for span in inside if span[1] - span[0] < WIDTH}
            numbers[row].add(len(names) - len(own))
            orders.add(tuple(names))
            others_first |= bool(own) and names[0] not in own
    assert numbers[0] == {0, 1} and max(numbers[1]) == 3 and min(numbers[1]) == 1
    assert {("x", "y"), ("y", "x")} <= orders and others_first


def test_labels_follow_from_seed_epoch_and_row_alone(encoded, epoch_of):
    assert epoch_of(7, 3) == epoch_of(7, 3)
    assert epoch_of(7, 3) != epoch_of(8, 3)
    part, whole = tf.constant([2, 0], tf.int64), tf.range(len(encoded), dtype=tf.int64)
    found = encoded.training_examples(part, whole, tf.constant([7, 3], tf.int64))
    every = epoch_of(7, 3)
    assert read_rows(found) == [every[2], every[0]]
    shapes = [value.shape for value in found[0].values()]
    again = encoded.training_examples(whole, whole, tf.constant([7, 3], tf.int64))[0]
    assert [shape[1:] for shape in shapes] == [value.shape[1:] for value in again.values()]


def test_a_label_of_a_row_may_be_left_out():
    own = tf.RaggedTensor.from_row_lengths(tf.tile(tf.constant([0, 2], tf.int64), [400]), [2] * 400)
    seeds = seeds_of(tf.range(400, dtype=tf.int64)[:, None])
    found = drawn_labels(own, 3, 25, 0.5, seeds).numpy()
    assert found.shape == (400, 3) and np.all(found.max(axis=1) >= 0)
    rate = np.mean([np.any(found == label, axis=1) for label in (0, 2)])
    # Each stays in half of the rows, and one of them where both and the other label would go.
    assert 0.45 < rate < 0.65
    whole = drawn_labels(own, 3, 25, 0.0, seeds).numpy()
    assert np.all([np.any(whole == label, axis=1) for label in (0, 2)])
    assert 0.4 < np.mean(np.any(whole == 1, axis=1)) < 0.6  # none or one of the others


def test_evaluation_asks_for_all_labels_of_the_split(encoded):
    head = EntityHead(max_width=WIDTH, max_types=4).for_tokenizer(entity_tokenizer())
    encoded = head.encode(entity_tokenizer(), SENTENCES, POSITIONS, "rows")
    rows = tf.range(len(encoded), dtype=tf.int64)
    names = [names for _, names, _ in read_rows(encoded.examples(rows, rows))]
    assert names == [["u v", "w", "x", "y"]] * len(encoded)
    asking = [EntitySentence(["the"], [], ["y", "ab"]), EntitySentence(["ab"], [], ["x"])]
    encoded = head.encode(entity_tokenizer(), asking, POSITIONS, "rows")
    rows = tf.range(2, dtype=tf.int64)
    assert [names for _, names, _ in read_rows(encoded.examples(rows, rows))] == [
        ["y", "ab"],
        ["x"],
    ]


def test_a_sentence_with_more_labels_than_a_row_takes_leaves_room(encoded):
    spans = [(place, place, label * 5) for place, label in enumerate("abcdefgh")]
    head = EntityHead(max_width=WIDTH, max_types=2).for_tokenizer(entity_tokenizer())
    found = head.encode(entity_tokenizer(), [EntitySentence(["z"] * 8, spans)], POSITIONS, "rows")
    # Two labels of five pieces with their markers, [CLS], <<SEP>> and [SEP].
    assert found.remark == f"labels leave room for {POSITIONS - 2 * 6 - 3} pieces of a text"
    assert encoded.remark.endswith("; entities wider than max_width 3, not found: 1")
    with pytest.raises(ValueError, match="^2 labels with their markers have up to 12 pieces, and"):
        head.encode(entity_tokenizer(), [EntitySentence(["z"] * 8, spans)], 15, "rows")


@pytest.mark.parametrize(("alpha", "gamma"), [(None, 0.0), (0.75, 0.0), (None, 2.0), (0.3, 1.5)])
def test_the_loss_is_the_sum_of_the_formula(alpha, gamma):
    draw = np.random.default_rng(0)
    scores = draw.normal(scale=2, size=(3, 4, 2, 5)).astype(np.float32)
    targets = draw.integers(-1, 2, size=scores.shape)
    scores[targets < 0] = -1e9
    p = 1 / (1 + np.exp(-np.maximum(np.float64(scores), -700)))
    right = np.where(targets == 1, p, 1 - p)
    losses = -np.log(right, where=targets >= 0, out=np.zeros_like(p)) * (1 - right) ** gamma
    if alpha is not None:
        losses *= np.where(targets == 1, alpha, 1 - alpha)
    expected = np.where(targets >= 0, losses, 0).sum((1, 2, 3))
    loss = SpanCrossentropy(alpha, gamma)
    np.testing.assert_allclose(loss.call(targets, scores), expected, **FORMULA)
    again = SpanCrossentropy.from_config(loss.get_config())
    np.testing.assert_allclose(again(targets, scores), expected.mean(), **FORMULA)


def test_losses_and_gradients_are_finite_where_the_model_is_sure():
    # Right and wrong; sigmoid(-200) is 0 in float32.
    scores = tf.constant([[[[200.0, -200.0, 200.0, -200.0, 0.0, -1e9]]]])
    targets = tf.constant([[[[1, 0, 0, 1, 1, -1]]]])
    with tf.GradientTape() as tape:
        tape.watch(scores)
        loss = SpanCrossentropy(0.5, 0.5)(targets, scores)
    expected = 0.5 * (200 + 200 + np.log(2) * np.sqrt(0.5))
    np.testing.assert_allclose(loss, expected, **FORMULA)
    assert np.all(np.isfinite(tape.gradient(loss, scores)))


def test_metrics_count_entities_of_all_labels_together():
    # Two of three predictions are right; there are four entities.
    predictions = [
        (ScoredSpan(0, 1, "x", 0.9), ScoredSpan(3, 3, "y", 0.8)),
        (ScoredSpan(0, 0, "x", 0.7),),
    ]
    references = [(EntitySpan(0, 1, "x"), EntitySpan(3, 3, "x")), (EntitySpan(0, 0, "x"),) * 1]
    references[1] += (EntitySpan(4, 9, "x"),)
    found = {name: metric(predictions, references) for name, metric in SPAN_METRICS.items()}
    assert found == {"f1": pytest.approx(4 / 7), "precision": 2 / 3, "recall": 0.5}


def test_a_model_starts_from_an_encoder_alone(model_folder, folder):
    head = EntityHead().for_tokenizer(entity_tokenizer()).for_folder(model_folder("masked_lm"))
    assert (head.max_width, head.max_words, head.num_rnn_layers) == (12, 384, 1)
    model = BertEntityMatcher.from_preset(model_folder("masked_lm"), **head.model_arguments())
    before = np.array(BertEncoder.from_preset(model_folder("masked_lm")).weights[0])
    table, pieces = np.array(model.encoder.weights[0]), len(entity_tokenizer().vocabulary)
    np.testing.assert_array_equal(table[:pieces], before)
    # [FLERT], <<ENT>> and <<SEP>> are the mean of all pieces.
    expected = np.tile(before.mean(axis=0), [3, 1])
    np.testing.assert_allclose(table[pieces : pieces + 3], expected, **REORDERED)
    assert (model.entity_token_id, model.separator_token_id) == (pieces + 1, pieces + 2)
    # From a folder of such a model, what stands behind the encoder comes along.
    head = EntityHead().for_tokenizer(entity_tokenizer()).for_folder(folder)
    assert (head.max_width, head.span_hidden_size, head.max_words) == (WIDTH, 12, MAX_WORDS)
    with pytest.raises(ValueError, match="num_rnn_layers is 0, but .* has 1 behind its encoder"):
        EntityHead(num_rnn_layers=0).for_folder(folder)
