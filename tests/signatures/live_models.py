"""What the live Keras model says, worked out row by row with NumPy: the oracle of served answers.

Of the package it uses the Keras models and the tokenizer alone, which have oracles of their own;
packing, windows, softmax, entities and the choice of answers are written here once more. Shapes: R
rows, S positions of the longest, C labels.
"""

import functools
import os
import random

import numpy as np

from keras_bert import BertTokenizer
from tests.signatures.tiny_models import MAX_SEQ_LENGTH, MODELS, SPAN, TAGS, WINDOWS, random_texts

TOP_K = 5  # the default of ExportOptions


def request_of(name):
    """Strings to ask one of `MODELS`, short, long and empty ones."""
    draw, texts = random.Random(3), random_texts(24, seed=2)
    if name == "pairs":
        return {"text": texts, "text_pair": texts[::-1]}
    if name.startswith("spans"):
        contexts = random_texts(20, seed=2, longest=16)
        return {"question": draw.choices(random_texts(9, 3, longest=8), k=21), "context": contexts}
    if name == "choices":
        rows = [random_texts(2, seed)[1:] + [f"a {seed}"] for seed in range(24)]
        return {"context": texts, "choices": [[*row, ""] for row in rows] + [[""] * 4]}
    if name in ("masked_lm", "pretrainer"):
        masked = [f"[MASK] {text} ab[MASK] the" for text in texts[:12]]
        return {"text": ["the [MASK] film [MASK]", "none", "", "[MASK] " * 60, *masked]}
    if name in ("tags", "plain_tags", "bilstm"):
        words = ("the", "film", "ab", "xyz", "q", "zoe")
        return {"text": ["", *(" ".join(draw.choices(words, k=n % 8)) for n in range(60))]}
    # Rows that are cut at the model's length, and shorter ones.
    return {"text": [*texts, *random_texts(9, seed=4, longest=4)]}


@functools.cache
def live_model(folder, name, dtype="float32"):
    """The Keras model of one of `MODELS` and its tokenizer."""
    model = MODELS[name][0].from_preset(os.fspath(folder), dtype=dtype)
    keep = name in ("masked_lm", "pretrainer")
    return model, BertTokenizer.from_preset(folder, keep_special_tokens=keep)


def packed(tokenizer, first, second=None, longest=MAX_SEQ_LENGTH):
    """Ids and segments of [CLS] first [SEP], or [CLS] first [SEP] second [SEP]; pieces are lists.

    The longer text is cut first, of equals the second, as in run_classifier.py of google-research.
    """
    cls, sep = tokenizer.vocabulary.cls_id, tokenizer.vocabulary.sep_id
    first, second = list(first), None if second is None else list(second)
    while len(first) + len(second or []) > longest - 2 - (second is not None):
        (first if second is None or len(first) > len(second) else second).pop()
    ids = [cls, *first, sep]
    if second is None:
        return ids, [0] * len(ids)
    return [*ids, *second, sep], [0] * len(ids) + [1] * (len(second) + 1)


def padded(rows, **more):
    """Inputs of a model from rows of (ids, segments), int32 [R, S]."""
    longest = max(len(ids) for ids, _ in rows)
    names = ("input_ids", "input_mask", "segment_ids")
    batch = {name: np.zeros([len(rows), longest], np.int32) for name in names}
    for row, (ids, segments) in enumerate(rows):
        batch["input_ids"][row, : len(ids)] = ids
        batch["input_mask"][row, : len(ids)] = 1
        batch["segment_ids"][row, : len(ids)] = segments
    return batch | more


def pieces_of(tokenizer, texts):
    return tokenizer(list(texts)).to_list()


def softmax(logits):
    """Over the last axis, float64."""
    odds = np.exp(np.float64(logits) - np.max(logits, axis=-1, keepdims=True))
    return odds / odds.sum(axis=-1, keepdims=True)


def text_answers(name, model, tokenizer, text, text_pair=None):
    """Labels and scores of classifiers, numbers of regressions."""
    pieces = pieces_of(tokenizer, text)
    pairs = [None] * len(text) if text_pair is None else pieces_of(tokenizer, text_pair)
    rows = [packed(tokenizer, *pair) for pair in zip(pieces, pairs, strict=True)]
    return _labeled(name, np.float32(model(padded(rows))))


def window_answers(name, model, tokenizer, text):
    """Labels and scores of texts in windows, which attention with one query pools."""
    room, stride, most = MAX_SEQ_LENGTH - 2, WINDOWS["doc_stride"], WINDOWS["max_windows"]
    query = np.float64(model.get_layer("window_pooling").query)  # [H]
    kernel, bias = map(np.float64, model.get_layer("classifier").get_weights())
    logits = []
    for pieces in pieces_of(tokenizer, text):
        starts = [0]
        while starts[-1] + room < len(pieces) and len(starts) < most:
            starts.append(starts[-1] + stride)
        rows = [packed(tokenizer, pieces[start : start + room]) for start in starts]
        vectors = np.float64(model.encoder(padded(rows))["pooled_output"])  # [windows, H]
        logits.append(softmax(vectors @ query) @ vectors @ kernel + bias)
    return _labeled(name, np.array(logits, np.float32))


def _labeled(name, logits):
    """The answers for logits [texts, C]."""
    labels = np.array(MODELS[name][2])
    if name == "number":
        return {"score": logits[:, 0]}
    scores = 1 / (1 + np.exp(-logits)) if name == "several" else softmax(logits)
    found = {"scores": scores, "labels": np.tile(labels, [len(logits), 1])}
    if name == "several":
        return found | {"likely_labels": np.array(["|".join(labels[row > 0.5]) for row in scores])}
    return found | {"label": labels[scores.argmax(-1)]}


def choice_answers(name, model, tokenizer, context, choices):
    """Of rows whose empty choices at the end are none."""
    most = len(choices[0])
    found = {"choice": [], "choice_text": [], "scores": []}
    for about, row in zip(pieces_of(tokenizer, context), choices, strict=True):
        given = max([i + 1 for i, choice in enumerate(row) if choice], default=0)
        scores, best, text = np.zeros(most), -1, ""
        if given:
            pairs = [packed(tokenizer, about, p) for p in pieces_of(tokenizer, row[:given])]
            batch = {key: values[None] for key, values in padded(pairs).items()}
            scores[:given] = softmax(np.float32(model(batch))[0])
            best = int(scores.argmax())
            text = row[best]
        for key, value in zip(found, (best, text, scores), strict=True):
            found[key].append(value)
    return {key: np.array(values) for key, values in found.items()}


def mask_answers(name, model, tokenizer, text):
    """Tokens and probabilities [texts, masks, TOP_K] of the masks of each text."""
    rows = [packed(tokenizer, pieces) for pieces in pieces_of(tokenizer, text)]
    mask, tokens = tokenizer.vocabulary.mask_id, np.array(tokenizer.vocabulary.tokens)
    places = [np.flatnonzero(np.equal(ids, mask)) for ids, _ in rows]
    positions = np.zeros([len(rows), max(map(len, places))], np.int32)
    for row, found in enumerate(places):
        positions[row, : len(found)] = found
    batch = padded(rows, masked_lm_positions=positions)
    outputs = model(batch)
    logits = np.float32(outputs["mlm_logits"] if name == "pretrainer" else outputs)
    probabilities = softmax(logits)  # [R, masks, V]
    best = np.argsort(-probabilities, axis=-1, kind="stable")[..., :TOP_K]
    none = np.arange(positions.shape[1]) >= np.array([len(found) for found in places])[:, None]
    said, shares = tokens[best], np.take_along_axis(probabilities, best, axis=-1)
    said[none], shares[none] = "", 0
    return {"tokens": said, "probabilities": shares}


def vector_answers(name, model, tokenizer, text):
    """All outputs of `serve_tokens`, those of `serving_default` among them."""
    rows = [packed(tokenizer, pieces) for pieces in pieces_of(tokenizer, text)]
    batch = padded(rows)
    outputs = model(batch)
    states = np.float32(outputs["sequence_output"])
    mask = batch["input_mask"]
    sums = np.float64(states * mask[:, :, None]).sum(1)
    tokens = np.array(tokenizer.vocabulary.tokens)[batch["input_ids"]]
    return {
        "pooled_output": np.float32(outputs["pooled_output"]),
        "mean_pooled": sums / mask.sum(1, keepdims=True),
        "token_vectors": states * mask[:, :, None],
        "tokens": np.where(mask, tokens, ""),
    }


def tag_answers(name, model, tokenizer, text):
    """Of texts whose words have white space between them and fit into one row."""
    labels = MODELS[name][2]
    found = []
    for words in map(str.split, text):
        pieces = pieces_of(tokenizer, words)
        if not words:
            found.append([])
            continue
        ids = [piece for part in pieces for piece in part]
        assert len(ids) <= MAX_SEQ_LENGTH - 2, words
        logits = np.float32(model(padded([packed(tokenizer, ids)])))[0]  # [S, C]
        first = 1 + np.cumsum([0, *map(len, pieces)])[:-1]
        shares = softmax(logits)[first]
        tags = [labels[best] for best in shares.argmax(-1)]
        found.append(_entries(words, tags, shares.max(-1), merged=labels == TAGS))
    names = ("entities" if labels == TAGS else "words", "labels", "starts", "ends", "scores")
    most = max(map(len, found))
    rows = [[*entries, *[("", "", -1, -1, 0.0)] * (most - len(entries))] for entries in found]
    columns = zip(*(zip(*row, strict=True) for row in rows), strict=True)
    return {key: np.array(values) for key, values in zip(names, columns, strict=True)}


def _entries(words, tags, shares, merged):
    """(words, label, start, end, score) of each entity, or of each word."""
    text = " ".join(words)
    entries, before = [], "O"
    place = 0
    for word, tag, share in zip(words, tags, shares, strict=True):
        start, end = place, place + len(word)
        place = end + 1
        kind = tag[2:] if merged else tag
        if merged and tag[0] in "IE" and before[0] in "BI" and before[2:] == kind:
            _, _, start, _, score = entries.pop()
            share = min(share, score)
        if not merged or tag != "O":
            entries.append((text[start:end], kind, start, end, share))
        before = tag
    return entries


def span_answers(name, model, tokenizer, question, context):
    """As run_squad.py of google-research/bert, with its lists and loops."""
    found = {key: [] for key in ("answer", "start", "end", "score", "null_score")}
    _, starts, ends = tokenizer.tokenize_with_offsets(list(context))
    rows = zip(
        context,
        pieces_of(tokenizer, question),
        pieces_of(tokenizer, context),
        starts.to_list(),
        ends.to_list(),
        strict=True,
    )
    for text, query, *pieces in rows:
        answer = _answer(model, tokenizer, text, query[: SPAN["max_query_length"]], *pieces)
        threshold = MODELS[name][1].null_threshold if name == "spans_or_none" else None
        for key, value in zip(found, _decided(*answer, threshold), strict=True):
            found[key].append(value)
    return {key: np.array(values) for key, values in found.items()}


def _answer(model, tokenizer, text, query, pieces, starts, ends):
    """Spans (score, text, start, end) of different texts, the best first, and the null score."""
    room = MAX_SEQ_LENGTH - 3 - len(query)
    firsts = [0]
    while firsts[-1] + room < len(pieces):
        firsts.append(firsts[-1] + min(room, SPAN["doc_stride"]))
    windows = [(first, min(first + room, len(pieces))) for first in firsts]
    rows = [packed(tokenizer, query, pieces[first:end]) for first, end in windows]
    logits = model(padded(rows))
    logits = [np.float64(np.float32(logits[f"{side}_logits"])) for side in ("start", "end")]

    def context_of(window, piece):
        first, end = windows[window]
        return min(piece - first, end - 1 - piece) + 0.01 * (end - first)

    # The window that shows each piece with most context, the first of equals.
    owners = [
        max(
            (w for w, (first, end) in enumerate(windows) if first <= piece < end),
            key=lambda w, piece=piece: context_of(w, piece),
        )
        for piece in range(len(pieces))
    ]
    spans, shift = [], len(query) + 2
    for window, (first, end) in enumerate(windows):
        length = len(rows[window][0])
        best = [np.argsort(-side[window, :length], kind="stable") for side in logits]
        for i in best[0][: SPAN["n_best_size"]]:
            for j in best[1][: SPAN["n_best_size"]]:
                begin, last = i - shift + first, j - shift + first
                if not first <= begin <= last < end or last - begin >= SPAN["max_answer_length"]:
                    continue
                if owners[begin] == window:
                    score = logits[0][window, i] + logits[1][window, j]
                    start, stop = starts[begin], ends[last]
                    spans.append((score, text[start:stop], start, stop))
    spans.sort(key=lambda span: -span[0])
    different = {}
    for span in spans:
        different.setdefault(span[1], span)
    null = min(logits[0][w, 0] + logits[1][w, 0] for w in range(len(windows)))
    return list(different.values())[: SPAN["n_best_size"]], null


def _decided(spans, null, threshold):
    best = spans[0] if spans else (null, "", -1, -1)
    scores = [span[0] for span in spans]
    if threshold is not None or not spans:
        scores.append(null)
    shares = softmax(np.array(scores))
    null_score = null - best[0]
    if spans and (threshold is None or null_score <= threshold):
        return *best[1:], shares[0], null_score
    return "", -1, -1, shares[-1], null_score


_ANSWERS = {
    "windows": window_answers,
    "choices": choice_answers,
    "masked_lm": mask_answers,
    "pretrainer": mask_answers,
    "encoder": vector_answers,
    **dict.fromkeys(("tags", "plain_tags", "bilstm"), tag_answers),
    **dict.fromkeys(("spans", "spans_or_none"), span_answers),
}


def live_answers(folder, name, dtype="float32", **request):
    """The outputs of `serving_default`, and for encoders of `serve_tokens`, by name."""
    return answers_of(name, *live_model(folder, name, dtype), **request)


def answers_of(name, model, tokenizer, **request):
    """The same of any function from a batch to the logits of one of `MODELS`."""
    return _ANSWERS.get(name, text_answers)(name, model, tokenizer, **request)
