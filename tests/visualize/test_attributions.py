"""Which words made an answer: the sums, an oracle, the page, the numbers for a file."""

import html
import json
import math
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import (
    BertClassifier,
    BertEncoder,
    BertEncoderDecoder,
    BertEntityMatcher,
    BertMaskedLM,
    BertPretrainer,
    BertSentenceEmbedder,
    FinetunedModel,
    Question,
    show_attributions,
)
from keras_bert.tasks.question_answering.head import SpanHead
from keras_bert.visualize.attributions.predictions import explain_file
from keras_bert.visualize.attributions.view import Explainer
from tests.markers import some_long
from tests.signatures.tiny_models import MODELS, TAGS, random_texts, tiny_config, write_model
from tests.tolerances import REORDERED
from tests.visualize.attention_models import tiny_tokenizer

CONTEXT = "a film, the ab x. y"
PAIRS = ("pairs", "spans", "spans_or_none", "choices")
HEADS = [name for name in MODELS if name not in ("encoder", "windows")]


@pytest.fixture(scope="module")
def explainers(tmp_path_factory):
    """One for each kind of head, made when it is asked for."""
    made = {}

    def explainer(name):
        if name not in made:
            made[name] = Explainer(write_model(tmp_path_factory.mktemp(name), name))
        return made[name]

    return explainer


def texts_for(name):
    texts = [text for text in random_texts(12, 1, 6) if text.strip()]
    assert len(texts) >= 10
    return [f"the [MASK] {text}" if name in ("masked_lm", "pretrainer") else text for text in texts]


@pytest.mark.parametrize("name", some_long(HEADS, ("classes", "spans")))
def test_scores_add_up_to_the_difference_of_the_logits(name, explainers):
    for text in texts_for(name)[:10]:
        view = explainers(name)(text, CONTEXT if name in PAIRS else None)
        difference = view.logit - view.baseline_logit
        assert abs(view.scores.sum() - difference) <= 0.01 * max(abs(difference), 1e-3)
        assert view.error <= 0.01
        assert view.word_scores.sum() == pytest.approx(view.scores.sum(), abs=1e-5)
        special = [token.is_special or token.piece == "[MASK]" for token in view.tokens]
        assert not view.scores[special].any()


def test_the_logits_are_those_of_the_live_model(explainers, tmp_path):
    folder = write_model(tmp_path, "classes")
    model = FinetunedModel.load(folder)
    view = show_attributions(model, "the film abc", target="good")
    whole, baseline = (
        model.model(explain.read(text).features).numpy()[0, 2]
        for explain, text in (
            (Explainer(model), "the film abc"),
            (Explainer(model.model, tiny_tokenizer(keep_special_tokens=True)), "[MASK] " * 5),
        )
    )
    assert [token.piece for token in view.tokens] == "[CLS] the film a ##b ##c [SEP]".split()
    np.testing.assert_allclose([view.logit, view.baseline_logit], [whole, baseline], **REORDERED)


def test_other_weights_give_another_map():
    # A map that other weights give, too, tells nothing of the model (Adebayo et al. 2018).
    maps = []
    for seed in (1, 2):
        keras.utils.set_random_seed(seed)
        model = BertClassifier(tiny_config(), num_classes=2)
        text = "the film abc, x. the film de y z"
        maps.append(show_attributions(model, text, tokenizer=tiny_tokenizer(), target=0).scores)
    assert abs(np.corrcoef(*maps)[0, 1]) < 0.7


@pytest.mark.slow
def test_what_is_explained_can_be_named(explainers):
    assert explainers("classes")("the film", target="good").target == "good"
    assert explainers("classes")("the film", target=np.int64(0)).target == "bad"
    assert explainers("classes")("the film", target="2").target == "good"  # of a flag
    assert explainers("number")("the film").target == "the number"
    tagged = explainers("tags")("the film x", position="film", target="B-LOC")
    assert tagged.target == "B-LOC for 'film'"
    assert explainers("tags")("the film x", position="2", target="B-LOC").target == tagged.target
    answer = explainers("spans")("the film", CONTEXT, target="the ab")
    assert answer.target == "the answer 'the a b'"
    # The second of two, by its code points; a character that is removed is no hindrance.
    second = explainers("spans")("the film", "x\u200b y x", target=(5, 6))
    assert second.target == "the answer 'x'"
    assert second.logit != explainers("spans")("the film", "x\u200b y x", target="x").logit
    word = explainers("masked_lm")("the [MASK] x [MASK]", target="film", position=1)
    assert word.target == "[MASK] = film"
    assert word.logit != explainers("masked_lm")("the [MASK] x [MASK]", target="film").logit


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("classes", {"target": "god"}, "target is 'god': choose one of bad, fine, good"),
        ("classes", {"target": 3}, "target is 3: choose one of bad, fine, good"),
        ("number", {"target": "x"}, "target is 'x', but the model gives one number"),
        ("pairs", {}, "the model was trained on pairs of texts: give text_pair, too"),
        ("classes", {"text_pair": "a"}, "the model was trained on single texts: leave text_pair"),
        ("choices", {}, "text_pair is missing: give the context as text, one choice as pair"),
        ("classes", {"baseline": "[NO]"}, r"baseline is '\[NO\]', which is no piece"),
        ("classes", {"target": True}, "target is True: choose one of bad, fine, good, or its"),
        ("tags", {"position": "no"}, "position is 'no': give one of the words the, film"),
        ("spans", {}, "text_pair is missing or empty: give the question as text"),
        ("spans", {"text_pair": "a b", "target": "c"}, "target is 'c', which does not stand in"),
        ("spans", {"text_pair": "the film", "target": "he"}, "'he', .* as whole words: copy it"),
        ("masked_lm", {}, r"the text holds no \[MASK\]: put it where a word is missing"),
        ("masked_lm", {"text": "[MASK]", "position": 1}, "position is 1 but the text has 1"),
        ("classes", {"position": 0}, "position is 0, but a BertClassifier gives one answer"),
        ("spans", {"text_pair": "a", "position": "a"}, "'a', but a BertSpanLabeler gives one"),
        (
            "masked_lm",
            {"text": "[MASK]", "target": "films"},
            "target is 'films', which is no piece",
        ),
    ],
)
def test_what_there_is_not_is_named(name, arguments, sentence, explainers):
    with pytest.raises(ValueError, match=sentence):
        explainers(name)(**({"text": "the film"} | arguments))


def test_models_without_an_answer_are_refused(tmp_path):
    with pytest.raises(ValueError, match="BertEncoder, which gives no answer that could be expl"):
        show_attributions(write_model(tmp_path, "encoder"), "the film")
    with pytest.raises(ValueError, match="BertEncoder, which gives no answer that could be expl"):
        show_attributions(BertEncoder(tiny_config()), "the film", tokenizer=tiny_tokenizer())
    model = BertEncoderDecoder(tiny_config(), start_token_id=2, end_token_id=3)
    with pytest.raises(ValueError, match="writes texts: which words made them is not explained"):
        show_attributions(model, "the film", tokenizer=tiny_tokenizer())
    with pytest.raises(ValueError, match="scores spans against labels: which words made a score"):
        show_attributions(BertEntityMatcher(tiny_config()), "the film", tokenizer=tiny_tokenizer())
    model = BertSentenceEmbedder(tiny_config())
    with pytest.raises(ValueError, match="a BertSentenceEmbedder, which gives vectors, no answer"):
        show_attributions(model, "the film", tokenizer=tiny_tokenizer())
    with pytest.raises(ValueError, match="there is no tokenizer for the BertMaskedLM"):
        show_attributions(BertMaskedLM(tiny_config()), "the [MASK]")


def test_an_error_that_is_left_is_told(explainers):
    view = explainers("choices")("the film x", CONTEXT, tolerance=0.0, max_points=16)
    assert view.points == 16
    assert view.error > 0.005
    assert f"is {100 * view.error:.1f} % off the difference, after 16 points" in view.html()
    with pytest.raises(ValueError, match="max_points is 15: it must be at least 16"):
        explainers("choices")("the film x", CONTEXT, max_points=15)
    with pytest.raises(ValueError, match="max_points is inf: it must be a whole number"):
        explainers("choices")("the film x", CONTEXT, max_points=math.inf)  # it had no end


def test_the_page_holds_words_scores_and_nothing_that_a_text_could_start(explainers, tmp_path):
    view = explainers("pairs")("<script>alert(1)</script> film", "& {{WORDS}} the", target="yes")
    path = tmp_path / "new" / "page.html"
    view.save(path)
    text = path.read_text(encoding="utf-8")
    assert "<script" not in text
    assert 'Explained: <b dir="auto">yes</b>' in text
    shown = [
        html.unescape(word)
        for word in re.findall(r'class="word \w+" style="[^"]*" title="[^"]*">(.*?)</span>', text)
    ]
    assert shown == [word for word in view.words if word not in ("[CLS]", "[SEP]")]
    index = int(np.abs(view.word_scores).argmax())
    assert f"<td>{view.word_scores[index]:+.4f}</td>" in text
    assert view._repr_html_().startswith("<iframe")
    with pytest.raises(ValueError, match="does not end with .html"):
        view.save(tmp_path / "page.png")


def test_tokens_know_where_they_stand(explainers):
    view = explainers("pairs")("The abc film", "de the")
    assert [(t.start, t.end) for t in view.tokens] == [
        *((0, 0), (0, 3), (4, 5), (5, 6), (6, 7), (8, 12), (0, 0)),
        *((0, 1), (1, 2), (3, 6), (0, 0)),
    ]


FILES = {
    "classes": ("texts.csv", "text\nthe film\nabc\n"),
    "pairs": ("pairs.csv", "text,text_pair\nthe film,abc\nx,y z\n"),
    "tags": ("words.txt", "the\nfilm\n\nx\ny\nz\n"),
    "plain_tags": ("words.txt", "the\nfilm\n\nx\n"),
    "choices": ("choices.csv", "context,choice0,choice1\nthe film,x,y z\nabc,the,film\n"),
    "spans": (
        "questions.json",
        json.dumps(
            {
                "version": "1.1",
                "data": [
                    {
                        "title": "t",
                        "paragraphs": [
                            {
                                "context": "the film abc x y z . " * 4,
                                "qas": [{"id": "1", "question": "film ?", "answers": []}],
                            }
                        ],
                    }
                ],
            }
        ),
    ),
}


@pytest.mark.parametrize(
    "name",
    [
        *("classes", "tags"),
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("plain_tags", "choices", "spans")
        ),
        pytest.param("pairs", marks=pytest.mark.long),
    ],
)
def test_every_prediction_of_a_file_is_explained(name, tmp_path):
    folder = write_model(tmp_path / "model", name)
    file, content = FILES[name]
    (tmp_path / file).write_text(content, encoding="utf-8")
    if file == "words.txt":
        task = json.loads((folder / "task.json").read_text())
        (folder / "task.json").write_text(json.dumps(task | {"text_columns": {"word": "0"}}))
    count = explain_file(folder, tmp_path / file, tmp_path / "out.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert len(lines) == count > 0
    for line in lines:
        total = sum(score for _, score in line["words"])
        assert total == pytest.approx(line["logit"] - line["baseline_logit"], rel=0.01, abs=2e-5)
    if name == "classes":
        scores = FinetunedModel.load(folder).predict(["the film", "abc"])
        assert [line["target"] for line in lines] == [
            ("bad", "fine", "good")[index] for index in scores.argmax(axis=1)
        ]
        assert [word for word, _ in lines[0]["words"]] == ["[CLS]", "the", "film", "[SEP]"]


@pytest.mark.slow
@pytest.mark.parametrize("packed", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_live_pretrainer_is_asked_for_words(packed):
    config = tiny_config(hidden_dropout_prob=0.1)
    model = BertPretrainer(config, packed=packed, seed=0)
    # Its tokenizer would split "[MASK]".
    view = show_attributions(model, "the [MASK] x", tokenizer=tiny_tokenizer(), target="film")
    same = BertMaskedLM(config)
    weights = {weight.path: weight for weight in model.weights}
    for weight in same.weights:
        weight.assign(weights[weight.path])
    expected = show_attributions(same, "the [MASK] x", tokenizer=tiny_tokenizer(), target="film")
    assert view.target == "[MASK] = film"
    np.testing.assert_allclose(view.scores, expected.scores, **REORDERED)


@pytest.mark.half_precision
def test_a_bfloat16_model_is_explained_in_float32():
    model = BertClassifier(tiny_config(), num_classes=2, seed=0, dtype="mixed_bfloat16")
    view = show_attributions(model, "the film", tokenizer=tiny_tokenizer(), target=1)
    assert view.error <= 0.005


def test_a_tagger_explains_the_entity_that_it_is_surest_of(explainers):
    explain = explainers("tags")
    view = explain("the film abc, x y")
    tag, word = re.fullmatch(r"(.*) for '(.*)'", view.target).groups()
    logits = explain._model(explain.read("the film abc, x y").features).numpy()[0]
    # By hand: words begin at pieces 1, 2, 3, 6, 7 and 8; of those that are not O the surest.
    surest = {}
    for name, piece in zip(["the", "film", "abc", ",", "x", "y"], [1, 2, 3, 6, 7, 8], strict=True):
        scores = np.exp(logits[piece]) / np.exp(logits[piece]).sum()
        if TAGS[scores.argmax()] != "O":
            surest[scores.max()] = (TAGS[scores.argmax()], name)
    assert (tag, word) == surest[max(surest)]


@pytest.mark.slow
def test_what_a_file_holds_that_is_hard_to_explain(tmp_path):
    folder = write_model(tmp_path / "model", "spans_or_none")
    # The model reads 24 pieces at once, and not all spaces are those of ASCII.
    late = "the film abc x y z . " * 6 + "the y"
    rows = [("1", "film ?", late), ("2", "the ?", "x x x x"), ("3", "film ?", "")]
    rows.append(("4", "film ?", late.replace(" ", "\n")))
    rows.append(("5", "film ?", "。".join(late.split())))
    paragraphs = [
        {"context": context, "qas": [{"id": number, "question": question, "answers": []}]}
        for number, question, context in rows
    ]
    content = {"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}
    (tmp_path / "in.json").write_text(json.dumps(content), encoding="utf-8")
    task = json.loads((folder / "task.json").read_text())
    # Always an answer, where there is anything to answer with.
    task["head"]["null_threshold"] = 1e9
    (folder / "task.json").write_text(json.dumps(task))
    explain_file(folder, tmp_path / "in.json", tmp_path / "out.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    asked = [Question(*row) for row in rows]
    answers = [said.answer for said in FinetunedModel.load(folder).predict_examples(asked)]
    assert [line["example"] for line in lines] == [1, 2, 3, 4, 5]
    for number in (0, 1, 3, 4):
        target = lines[number]["target"].removeprefix("the answer '").removesuffix("'")
        assert "".join(target.split()) == "".join(answers[number].text.lower().split())
    assert lines[2]["not_explained"] == "the prediction is that there is no answer"


def test_a_question_is_cut_as_for_its_prediction(tmp_path):
    folder = write_model(tmp_path / "model", "spans", head=SpanHead(8, max_query_length=6))
    model = FinetunedModel.load(folder)
    question, context = "x " * 23, "the film a b"
    row = model.description.head.encode(model.tokenizer, [Question("1", question, context)], 24, "")
    inputs, _ = row.examples(tf.constant([0], tf.int64), tf.constant([0], tf.int64))
    read = Explainer(model).read(question, context).features
    assert read["input_ids"].shape[1] == 1 + 6 + 1 + 4 + 1
    np.testing.assert_array_equal(read["input_ids"], inputs["input_ids"][:, :13])
    np.testing.assert_array_equal(read["segment_ids"], inputs["segment_ids"][:, :13])


@pytest.mark.slow
def test_every_label_that_is_predicted_is_explained(tmp_path):
    folder = write_model(tmp_path / "model", "several")
    texts = ["the film", "abc x", "y z .", "a b", "film film"]
    (tmp_path / "in.csv").write_text("\n".join(["text", *texts]) + "\n", encoding="utf-8")
    explain_file(folder, tmp_path / "in.csv", tmp_path / "out.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    scores = FinetunedModel.load(folder).predict(texts)
    expected = []
    for number, row in enumerate(scores > 0.5, start=1):
        names = [name for name, on in zip(("bad", "fine", "good"), row, strict=True) if on]
        expected += [(number, name) for name in names or [None]]
    assert [(line["example"], line.get("target")) for line in lines] == expected
    assert {None} < {name for _, name in expected}
