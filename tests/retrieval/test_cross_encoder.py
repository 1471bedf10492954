"""Scores of pairs against the Keras models, and orders of what was found by hand."""

import csv
import json
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import (
    BertClassifier,
    BertMultipleChoice,
    BertPreprocessor,
    CrossEncoder,
    ExportOptions,
    SentenceEncoder,
    TextHead,
    TextIndex,
    create_task,
    load_tokenizer,
    mine_negatives,
)
from keras_bert.finetuning.task import TaskDescription
from keras_bert.retrieval.searched_texts import Hit
from keras_bert.serving.served_folder import open_ensemble
from tests import command_process
from tests.markers import some_fast
from tests.signatures.tiny_models import (
    MAX_SEQ_LENGTH,
    ask,
    random_texts,
    tiny_config,
    write_model,
)
from tests.tolerances import REORDERED

TOOLS = Path(__file__).parents[2] / "tools"
TEXTS = [*dict.fromkeys(random_texts(30, seed=3, longest=40))][1:]
QUERIES = [*dict.fromkeys(random_texts(30, seed=4, longest=40))][1 : 1 + len(TEXTS)]
PAIRS = [*zip(QUERIES, TEXTS, strict=False)]
HITS = [Hit(7, 0.9, "the film"), Hit(3, 0.8, "ab"), Hit(5, 0.7, "the film"), Hit(1, 0.6, "xx")]


@pytest.fixture(scope="module")
def chooser(model_folder):
    return CrossEncoder.from_preset(model_folder("choices"))


def scores_of(cross_encoder, pairs=PAIRS, **arguments):
    return cross_encoder.scores(*map(list, zip(*pairs, strict=True)), **arguments)


def test_a_choice_is_scored_by_its_logit(chooser, model_folder):
    folder = model_folder("choices")
    model = BertMultipleChoice.from_preset(folder)
    preprocess = BertPreprocessor(load_tokenizer(folder), MAX_SEQ_LENGTH)
    rows = preprocess(tuple(map(list, zip(*PAIRS, strict=True))))
    # Each pair as the only choice of an example: [N, S] -> [N, 1, S].
    expected = model({name: ids[:, None] for name, ids in rows.items()}).numpy()[:, 0]
    found = scores_of(chooser, batch_size=4)
    assert found.dtype == np.float32 and np.ptp(expected) > 1
    np.testing.assert_allclose(found, expected, **REORDERED)
    np.testing.assert_allclose(scores_of(chooser, PAIRS[:1]), expected[:1], **REORDERED)
    assert chooser.scores([], []).shape == (0,)


def test_two_classes_are_scored_by_the_log_odds_of_the_second(model_folder):
    folder = model_folder("pairs")
    texts, text_pairs = map(list, zip(*PAIRS, strict=True))
    no, yes = ask(folder, text=texts, text_pair=text_pairs)["scores"].T
    found = scores_of(CrossEncoder.from_preset(folder))
    np.testing.assert_allclose(found, np.log(yes / no), rtol=1e-4, atol=1e-4)  # of float32 softmax
    assert np.ptp(found) > 1


def test_a_number_of_pairs_is_the_score(model_folder, tmp_path):
    folder, head = tmp_path / "number", TextHead("regression")
    keras.utils.set_random_seed(1)
    model = BertClassifier(tiny_config(), **head.model_arguments())
    model.save_to_preset(folder, load_tokenizer(model_folder("pairs")))
    columns = {"text": "text", "text_pair": "text_pair"}
    TaskDescription("csv", head, columns, MAX_SEQ_LENGTH).save(folder)
    texts, text_pairs = map(list, zip(*PAIRS, strict=True))
    expected = ask(folder, text=texts, text_pair=text_pairs)["score"]
    found = scores_of(CrossEncoder.from_preset(folder))
    np.testing.assert_allclose(found, expected, **REORDERED)
    assert np.ptp(found) > 1
    with pytest.raises(ValueError, match="label is 'yes', but the model has no classes: leave"):
        CrossEncoder.from_preset(folder, label="yes")


@pytest.mark.parametrize(
    "case",
    some_fast(
        [
            (("0", "1"), None, 1),
            (("LABEL_0", "LABEL_1"), None, 1),
            (("1", "-1"), None, 0),
            (("entailment", "not_entailment"), None, 0),
            (("not_good", "good"), None, 1),
            (("no", "yes"), "no", 0),
            (("right", "wrong"), "right", 0),
            (("right", "wrong"), "wrong", 1),
        ],
        [(("entailment", "not_entailment"), None, 0), (("right", "wrong"), "right", 0)],
    ),
)
def test_which_of_two_classes_answers(case, tmp_path):
    labels, label, place = case
    folder = write_model(tmp_path / "two", "pairs", labels=labels)
    query, text = PAIRS[0]
    classes = ask(folder, text=[query], text_pair=[text])["scores"][0]
    (found,) = scores_of(CrossEncoder.from_preset(folder, label=label), PAIRS[:1])
    expected = np.log(classes[place] / classes[1 - place])
    assert found == pytest.approx(expected, abs=1e-4)  # of float32 softmax


def test_classes_whose_names_do_not_tell_are_refused(tmp_path):
    folder = write_model(tmp_path / "two", "pairs", labels=("right", "wrong"))
    with pytest.raises(ValueError, match="the classes are right and wrong: name the one of texts"):
        CrossEncoder.from_preset(folder)
    with pytest.raises(ValueError, match="label is 'good': the classes are right and wrong"):
        CrossEncoder.from_preset(folder, label="good")
    # The second of 0 and 1, but of 1 and 2?
    task = json.loads((folder / "task.json").read_text())
    (folder / "task.json").write_text(json.dumps(task | {"labels": ["1", "2"]}))
    with pytest.raises(ValueError, match="the classes are 1 and 2: name the one of texts"):
        CrossEncoder.from_preset(folder)


def test_a_default_prompt_of_a_published_folder_stands_before_queries(tmp_path):
    folder = write_model(tmp_path / "published", "pairs", labels=("no", "yes"))
    (folder / "task.json").unlink()
    plain = CrossEncoder.from_preset(folder)
    settings = {"prompts": {"ask": "the film: ", "other": "!"}, "default_prompt_name": "ask"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    found = scores_of(CrossEncoder.from_preset(folder))
    by_hand = scores_of(plain, [(f"the film: {query}", text) for query, text in PAIRS])
    np.testing.assert_array_equal(found, by_hand)
    assert np.abs(found - scores_of(plain)).max() > 0.1


def test_rows_are_as_long_as_asked_for(chooser, model_folder):
    short = CrossEncoder.from_preset(model_folder("choices"), max_seq_length=12)
    pair = ("the film", "the film " * 20)
    # 12 positions: [CLS], 2 pieces, [SEP], 7 pieces, [SEP].
    expected = scores_of(chooser, [(pair[0], "the film the film the film the")])
    np.testing.assert_allclose(scores_of(short, [pair]), expected, **REORDERED)
    assert abs(scores_of(chooser, [pair]) - expected) > 1e-3


def test_an_ensemble_is_refused(model_folder, tmp_path):
    other = write_model(tmp_path / "other", "choices", seed=1)
    family = open_ensemble([model_folder("choices"), other], ExportOptions())
    with pytest.raises(ValueError, match="an ensemble does not score pairs: give one of its mod"):
        CrossEncoder(family)


@pytest.mark.parametrize("name", ["classes", "number", "windows"])
def test_a_model_of_one_text_is_refused(model_folder, name):
    with pytest.raises(ValueError, match="takes one text, has several labels, or more than two"):
        CrossEncoder.from_preset(model_folder(name))


@pytest.mark.parametrize("name", ["tags", "masked_lm", "encoder"])
def test_a_model_that_says_nothing_of_pairs_is_refused(model_folder, name):
    with pytest.raises(ValueError, match="does not score pairs of texts: give a model"):
        CrossEncoder.from_preset(model_folder(name))


def test_three_classes_of_pairs_are_refused(tmp_path):
    folder = write_model(tmp_path / "nli", "pairs", labels=("no", "perhaps", "yes"))
    with pytest.raises(ValueError, match="or more than two classes"):
        CrossEncoder.from_preset(folder)


def test_what_was_found_is_ordered_anew(chooser):
    first, second = chooser.rerank(["the ab", "zz"], [HITS, HITS[1:2]])
    scores = scores_of(chooser, [("the ab", hit.text) for hit in HITS])
    assert scores[0] == scores[2] and len({*scores.tolist()}) == 3
    order = np.argsort(-scores, kind="stable")
    assert [hit.number for hit in first] == [HITS[place].number for place in order]
    # Of equal texts the one that was found first stays before.
    assert [hit.number for hit in first if hit.text == "the film"] == [7, 5]
    np.testing.assert_allclose([hit.score for hit in first], scores[order], **REORDERED)
    assert [hit.number for hit in second] == [3]
    assert second[0].score == pytest.approx(scores_of(chooser, [("zz", "ab")])[0], abs=1e-5)
    best, none = chooser.rerank(["the ab", "zz"], [HITS, []], top_k=2)
    assert [hit.number for hit in best] == [hit.number for hit in first[:2]] and none == []


def test_bad_arguments_are_refused(chooser):
    with pytest.raises(ValueError, match="read letter by letter"):
        chooser.scores("the film", ["the film"])
    with pytest.raises(ValueError, match="there are 1 queries and 2 texts: give a query for each"):
        chooser.scores(["a"], ["b", "c"])
    with pytest.raises(ValueError, match="text 1 .* is a int: give strings"):
        chooser.scores(["a", "b"], ["b", 3])
    with pytest.raises(ValueError, match="top_k is 0: it must be at least 1"):
        chooser.rerank(["a"], [HITS], top_k=0)
    with pytest.raises(ValueError, match="there are 1 queries and 2 lists of texts"):
        chooser.rerank(["a"], [HITS, HITS])
    with pytest.raises(ValueError, match="found is one list of hits: give a list of them for each"):
        chooser.rerank(["a"], HITS[:1])
    for texts in ([["the film"]], ["the film"], [[(7, 0.9, "the film")]]):
        with pytest.raises(ValueError, match="found has a (str|tuple) where a Hit belongs: give w"):
            chooser.rerank(["a"], texts)
    with pytest.raises(ValueError, match="batch_size is 0: it must be at least 1"):
        chooser.scores(["a"], ["b"], batch_size=0)


def test_queries_may_be_a_tensor_or_come_one_by_one(chooser, index):
    queries, found = QUERIES[:2], index.search(QUERIES[:2])
    expected = chooser.rerank(queries, found)
    assert chooser.rerank(tf.constant(queries), found) == expected
    assert chooser.rerank(iter(queries), iter(found)) == expected
    mined = mine_negatives(index, queries, TEXTS[:2])
    assert mine_negatives(index, iter(queries), tf.constant(TEXTS[:2])) == mined


@pytest.fixture(scope="module")
def index(model_folder):
    encoder = SentenceEncoder.from_preset(model_folder("encoder"), pooling="mean")
    return TextIndex.build(encoder, [*TEXTS, *QUERIES[:2], " "])


def nearest_first(index, query):
    """The texts of an index and their cosines with a query, by float64."""
    asked = np.float64(index.query_vectors([query]))[0]
    cosines = np.float64(index.vectors) @ asked
    return [(index.texts[place], cosines[place]) for place in np.argsort(-cosines)]


@pytest.mark.parametrize(
    ("skip", "relative_margin", "depth"), [(0, -1.0, 99), (2, -1.0, 99), (0, 0.1, 99), (0, 0, 20)]
)
def test_wrong_answers_are_the_nearest_that_are_not_right(index, skip, relative_margin, depth):
    # The first query has two answers; it and the second are texts of the index themselves.
    queries = [QUERIES[0], QUERIES[0], QUERIES[1]]
    positives = [TEXTS[0], TEXTS[1], TEXTS[2]]
    found = mine_negatives(index, queries, positives, 20, skip, relative_margin, depth)
    for query, positive, several in zip(queries, positives, found, strict=True):
        ordered = nearest_first(index, query)
        limit = (1 - relative_margin) * dict(ordered)[positive]  # all cosines are above 0
        assert ordered[-1][1] > 0
        right = {query, *TEXTS[:2]} if query == QUERIES[0] else {query, TEXTS[2]}
        expected = [
            text
            for text, cosine in ordered[:depth]
            if text.strip() and text not in right and (relative_margin < 0 or cosine <= limit)
        ]
        assert several == expected[skip : skip + 20]
    assert any(found)


def test_the_margin_of_an_answer_that_points_away(index):
    """Its cosine is -0.5: less a tenth of it leaves what is below -0.55."""
    angles = {"right": 120, "nearer": 118, "near": 122.5, "far": 125}  # degrees from the query
    query = index.query_vectors(["the film"])[0]
    other = index.vectors[0] - (index.vectors[0] @ query) * query
    other /= np.linalg.norm(other)
    turned = np.radians([*angles.values()])[:, None]
    vectors = np.cos(turned) * query + np.sin(turned) * other
    away = TextIndex(index._encoder, [*angles], vectors)
    assert mine_negatives(away, ["the film"], ["right"], relative_margin=0.1) == [["far"]]
    assert mine_negatives(away, [b"the film"], ["right"], relative_margin=0.0) == [["near", "far"]]


def test_mining_refuses_what_it_cannot_do(index):
    with pytest.raises(ValueError, match="the answer 'nowhere' is not among the texts of the ind"):
        mine_negatives(index, ["a"], ["nowhere"])
    with pytest.raises(ValueError, match="there are 1 queries and 2 positives: give the answer"):
        mine_negatives(index, ["a"], TEXTS[:2])
    with pytest.raises(ValueError, match="count is 0: it must be at least 1"):
        mine_negatives(index, ["a"], TEXTS[:1], count=0)
    with pytest.raises(ValueError, match="depth is 5: look at 6 of the nearest at least"):
        mine_negatives(index, ["a"], TEXTS[:1], count=4, skip=2, depth=5)
    with pytest.raises(ValueError, match="relative_margin is 1.0: it must be below 1"):
        mine_negatives(index, ["a"], TEXTS[:1], relative_margin=1.0)


def tool(name, folder, *arguments):
    done = command_process.run([TOOLS / name, "--model=encoder", *arguments], folder)
    assert "Traceback" not in done.stderr, done.stderr[-2000:]
    return done


@pytest.mark.slow
def test_wrong_answers_are_counted_in_the_rows_that_stay(model_folder, tmp_path):
    shutil.copytree(model_folder("encoder"), tmp_path / "encoder")
    # Of two passages, the second row has one as its answer and is the other.
    (tmp_path / "train.csv").write_text("text,positive,negative\nzz,ab,xx\nxx,ab,\n")
    flags = ("--pooling=mean", "--input=train.csv", "--output=mined.csv", "--relative_margin=-1")
    done = tool("mine_negatives.py", tmp_path, *flags)
    assert "1 of 2 rows, 1.0 wrong answers each, among 2 texts: mined.csv" in done.stdout


@pytest.mark.slow
def test_the_commands_mine_search_and_rerank(chooser, index, model_folder, tmp_path):
    for name in ("encoder", "choices"):
        shutil.copytree(model_folder(name), tmp_path / name)
    # The first row has a wrong answer already, and its own answer as another, which is none; the
    # file of passages has empty lines.
    rows = [("text", "positive", "negative0", "negative1"), (*PAIRS[0], TEXTS[3], PAIRS[0][1])]
    rows += [(*pair, "", "") for pair in PAIRS[1:6]]
    with open(tmp_path / "train.csv", "w", newline="") as file:
        csv.writer(file).writerows(rows)
    (tmp_path / "more.txt").write_text("\n\n".join(TEXTS[6:]) + "\n")
    done = tool(
        "mine_negatives.py",
        tmp_path,
        *("--pooling=mean", "--input=train.csv", "--passages=more.txt", "--output=mined.csv"),
        *("--negatives=2", "--relative_margin=-1", "--skip=1"),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert f"6 of 6 rows, 2.0 wrong answers each, among {len(TEXTS)} texts: mined" in done.stdout
    passages = TextIndex(index._encoder, TEXTS, index.vectors[: len(TEXTS)])
    expected = mine_negatives(passages, *zip(*PAIRS[:6], strict=True), 2, 1, -1.0)
    with open(tmp_path / "mined.csv", newline="") as file:
        header, *found = csv.reader(file)
    assert header == ["text", "positive", "negative0", "negative1"]
    expected[0] = [*dict.fromkeys([TEXTS[3], *expected[0]])][:2]
    assert found == [[*pair, *wrong] for pair, wrong in zip(PAIRS[:6], expected, strict=True)]
    # The same with what a cross-encoder says of each, to learn from.
    shutil.move(tmp_path / "mined.csv", tmp_path / "train.csv")
    done = tool(
        "mine_negatives.py",
        tmp_path,
        *("--pooling=mean", "--input=train.csv", "--output=taught.csv", "--negatives=3"),
        *("--relative_margin=0.5", "--score_with=choices"),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    taught = create_task("retrieval")
    (tmp_path / "taught").mkdir()
    shutil.move(tmp_path / "taught.csv", tmp_path / "taught" / "train.csv")
    examples = taught.read(tmp_path / "taught").splits["train"]
    assert [example.texts[:4] for example in examples] == [(*row[:4],) for row in found]
    pairs = [(texts[0], text) for texts in (e.texts for e in examples) for text in texts[1:]]
    expected = chooser.scores(*zip(*pairs, strict=True))
    scores = [score for example in examples for score in example.teacher_scores]
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)  # six digits are written
    done = tool(
        "search_texts.py",
        tmp_path,
        *("--pooling=mean", "--input=more.txt", f"--query={QUERIES[0]}", "--output=found.csv"),
        *("--rerank_with=choices", "--candidates=5", "--top_k=3"),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = (tmp_path / "more.txt").read_text().split("\n")[:-1]
    more = TextIndex.build(index._encoder, lines)
    (hits,) = chooser.rerank(QUERIES[:1], more.search(QUERIES[:1], 5), top_k=3)
    with open(tmp_path / "found.csv", newline="") as file:
        found = [*csv.DictReader(file)]
    assert [(row["text"], int(row["number"])) for row in found] == [
        (hit.text, hit.number) for hit in hits
    ]
    scores = [float(row["score"]) for row in found]
    np.testing.assert_allclose(scores, [hit.score for hit in hits], **REORDERED)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--candidates=5"], "--candidates is for --rerank_with: give that, too, or leave it out"),
        (["--rerank_with=encoder", "--candidates=5"], "--top_k=10 is more than --candidates=5"),
        (["--rerank_with=encoder"], "does not score pairs of texts"),
        (["--rerank_label=yes"], "--rerank_label is for --rerank_with: give that, too, or leave"),
    ],
)
def test_the_command_refuses_in_one_sentence(arguments, sentence, model_folder, tmp_path):
    shutil.copytree(model_folder("encoder"), tmp_path / "encoder")
    (tmp_path / "texts.txt").write_text("a\n")
    done = tool("search_texts.py", tmp_path, "--input=texts.txt", "--query=a", *arguments)
    assert done.returncode != 0 and sentence in done.stderr
