"""SQuAD files: small ones written here in the published format, and broken ones."""

import csv
import dataclasses
import json
import random

import pytest
from published_packages import fetch

from keras_bert.finetuning.finetune import finetune
from keras_bert.finetuning.options import FinetuningOptions
from keras_bert.tasks.finetuned_model import FinetunedModel
from keras_bert.tasks.predict import predict_file
from keras_bert.tasks.question_answering.questions import Answer, Question
from keras_bert.tasks.question_answering.squad import squad2_task, squad_task
from keras_bert.tasks.question_answering.squad_files import (
    read_questions_to_predict,
    read_squad,
    write_squad,
)

CONTEXT = "Zoë 😀 lives in 東京, they say."


def entry(**changes):
    answers = [{"text": "東京", "answer_start": 15}]
    return {"id": "q1", "question": "Where?", "answers": answers} | changes


def content(*entries, **paragraph):
    paragraphs = [{"context": CONTEXT, "qas": list(entries)} | paragraph]
    return {"version": "1.1", "data": [{"title": "Zoë", "paragraphs": paragraphs}]}


def write(path, value, encoding="utf-8"):
    path.write_text(json.dumps(value, ensure_ascii=False), encoding=encoding)
    return path


def test_offsets_are_characters_of_the_original(tmp_path):
    unanswerable = entry(id="q2", answers=[], is_impossible=True, plausible_answers=[])
    path = write(tmp_path / "dev.json", content(entry(), unanswerable), "utf-8-sig")
    assert read_squad(path) == [
        Question("q1", "Where?", CONTEXT, (Answer("東京", 15),)),
        Question("q2", "Where?", CONTEXT, ()),
    ]


def test_what_is_written_is_read_again(tmp_path):
    questions = [
        Question("a", "Where?", CONTEXT, (Answer("東京", 15), Answer("in 東京", 12))),
        Question("b", "When?", CONTEXT, ()),
        Question("c", "Who?", "Somebody.", (Answer("Somebody", 0),)),
    ]
    write_squad(tmp_path / "x.json", questions)
    assert read_squad(tmp_path / "x.json") == questions


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (
            content(entry(answers=[{"text": "東京", "answer_start": 18}])),
            "question 'q1': the answer '東京' is not at character 18 of its context, where "
            r"' t' stands; it stands at 15: fix its start \(answer_start in a file; characters, ",
        ),
        (
            content(entry(answers=[{"text": "Oslo", "answer_start": -1}])),
            "the answer 'Oslo' is not at character -1",
        ),
        (content(entry(answers=[])), "question 'q1' has no answers and is not marked is_imposs"),
        (content(entry(is_impossible=True)), "question 'q1' is_impossible but has the answer"),
        (
            content(entry(answers=[], is_impossible="false")),
            "question 'q1': 'is_impossible' is 'false', expected true or false, without quotes",
        ),
        (content(entry(id=None)), "article 1, paragraph 1: 'id' is None, expected a string"),
        (content(entry(), entry()), "two questions have the id 'q1'"),
        (content({"id": 7, "answers": []}), r"question '7': there is no 'question' \(found: id, "),
        (content(entry(answers="東京")), "'answers' is a str, expected a list"),
        (content(entry(answers=[{"text": "東京"}])), "there is no 'answer_start'"),
        (content(context=None), "article 1, paragraph 1: 'context' is a NoneType, expected a str"),
        ({"data": [{"title": "x"}]}, "article 1: there is no 'paragraphs'"),
        ({"data": []}, "train.json has no questions"),
        ({}, r"there is no 'data' \(found: nothing\)"),
        ([], "holds a list, expected a JSON object"),
    ],
)
def test_broken_files_are_refused_in_one_sentence(tmp_path, value, sentence):
    write(tmp_path / "train.json", value)
    with pytest.raises(ValueError, match=sentence) as caught:
        squad2_task().read(tmp_path)
    assert "train.json" in str(caught.value) and "\n" not in str(caught.value)


def test_what_is_no_json_is_refused_with_its_line(tmp_path):
    (tmp_path / "train.json").write_text('{"data": [\n}', encoding="utf-8")
    with pytest.raises(ValueError, match=r"train.json is not valid JSON: .* line 2"):
        squad_task().read(tmp_path)
    (tmp_path / "train.json").write_text("9" * 5000, encoding="utf-8")
    with pytest.raises(ValueError, match=r"train.json is not valid JSON: Exceeds the limit"):
        squad_task().read(tmp_path)
    (tmp_path / "train.json").write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match=r"train.json is not valid JSON"):
        squad_task().read(tmp_path)


def test_squad_1_has_no_unanswerable_questions(tmp_path):
    write(tmp_path / "train.json", content(entry(), entry(id="q2", answers=[], is_impossible=True)))
    with pytest.raises(ValueError, match="the question 'q2' has no answer: use --task=squad2"):
        squad_task().read(tmp_path)
    assert len(squad2_task().read(tmp_path).splits["train"]) == 2


def test_a_test_file_may_keep_its_answers_to_itself(tmp_path):
    hidden = entry(id="q2", answers=[])
    write(tmp_path / "train.json", content(entry()))
    # TriviaQA's other spellings, of which there are none either.
    write(tmp_path / "test.json", content(entry(), hidden, hidden | {"id": "q3", "aliases": []}))
    for task in (squad_task(), squad2_task()):
        test = task.read(tmp_path).splits["test"]
        assert [question.answers is None for question in test] == [False, True, True]
        assert task.head.references(test) is None


def test_a_test_file_that_is_answered_in_part_is_told(tmp_path, capsys):
    write(tmp_path / "train.json", content(entry()))
    write(tmp_path / "test.json", content(entry(), entry(id="q2", answers=[])))
    squad2_task().read(tmp_path)
    assert "test: 1 of 2 questions have no answers and are not marked" in capsys.readouterr().err
    for answered in ([entry(id="q2", answers=[], is_impossible=True)], [entry(id="q2")], []):
        write(tmp_path / "test.json", content(entry(), *answered))
        squad2_task().read(tmp_path)
        assert capsys.readouterr().err == ""


def test_answers_of_questions_to_predict_are_not_looked_at(tmp_path):
    wrong = [{"text": "nowhere", "answer_start": 3}]
    write(tmp_path / "in.json", content(entry(answers=wrong), entry(id="q2", is_impossible=True)))
    found = read_questions_to_predict(tmp_path / "in.json", None).examples
    assert [(question.id, question.answers) for question in found] == [("q1", None), ("q2", None)]


@pytest.mark.oracle
def test_a_published_excerpt_is_read():
    # allennlp carries questions of SQuAD 1.1 as they were published.
    fixtures = fetch("allennlp==0.9.0") / "allennlp/tests/fixtures/data"
    questions = read_squad(fixtures / "squad.json")
    assert len(questions) == 5
    assert questions[0].question.startswith("To whom did the Virgin Mary allegedly appear")
    assert questions[0].answers == (Answer("Saint Bernadette Soubirous", 515),)


PLACES = ["bad", "awful", "poor", "sad"]


def small_questions(count, seed):
    """The answer is the one word of PLACES in the context, if there is one."""
    draw = random.Random(seed)
    for index in range(count):
        words = draw.choices(["film", "book", "very", "was", "good"], k=10)
        if draw.random() < 0.3:
            yield Question(str(index), "fine", " ".join(words), ())
            continue
        place = draw.randrange(10)
        words[place] = draw.choice(PLACES)
        start = len(" ".join([*words[:place], ""]))
        yield Question(str(index), "fine", " ".join(words), (Answer(words[place], start),))


@pytest.fixture(scope="module")
def run(pretrained_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("squad")
    for seed, (split, count) in enumerate({"train": 600, "dev": 100, "test": 50}.items()):
        write_squad(folder / f"{split}.json", list(small_questions(count, seed)))
    task = squad2_task(doc_stride=6, max_query_length=2)
    options = FinetuningOptions(
        epochs=6, batch_size=16, learning_rate=5e-3, max_seq_length=16, mixed_precision="float32"
    )
    model_dir = folder / "run"
    result = finetune(task, task.read(folder), pretrained_folder, model_dir, options)
    return folder, model_dir, result


def test_spans_are_learned_through_windows(run):
    _, _, result = run
    assert result.test["f1"] > 0.9
    assert result.test["has_answer_f1"] > 0.85
    assert result.collapsed is None


def test_the_threshold_is_stored_and_used(run):
    folder, model_dir, result = run
    finetuned = FinetunedModel.load(model_dir)
    head = finetuned.description.head
    assert head.null_threshold != 0.0
    questions = read_squad(folder / "dev.json")
    answers = finetuned.predict_examples(questions)
    for answered in answers:
        assert (answered.answer.text == "") == (answered.null_score > head.null_threshold)
    official = json.loads((model_dir / "submission" / "predictions_validation.json").read_text())
    assert official == {
        question.id: answered.answer.text
        for question, answered in zip(questions, answers, strict=True)
    }
    odds = json.loads((model_dir / "submission" / "null_odds_test.json").read_text())
    assert len(odds) == 50
    assert result.metrics["validation"]["f1"] > 0.9


def test_a_model_is_tuned_as_its_run_was(run):
    folder, model_dir, result = run
    task = squad2_task(doc_stride=6, max_query_length=2)
    data = task.read(folder)
    kept = FinetunedModel.load(model_dir)
    untuned = dataclasses.replace(kept.description.head, null_threshold=0.0)
    description = dataclasses.replace(kept.description, head=untuned)
    tuned = dataclasses.replace(kept, description=description).tuned(data)
    # Between the scores of two questions, which padding moves in the last digits.
    threshold = kept.description.head.null_threshold
    assert tuned.description.head.null_threshold == pytest.approx(threshold, abs=1e-4)
    measured = tuned.measure(task.metrics, data, split="validation")
    expected = result.metrics["validation"]
    assert measured == pytest.approx({name: expected[name] for name in measured})


def test_tables_of_questions_are_answered(run, tmp_path):
    _, model_dir, _ = run
    source = tmp_path / "in.csv"
    context = "the film, film very (good) was film book awful film"
    source.write_text(f'note,question,context\nn1,fine,"{context}"\nn2,fine,film was good\n')
    assert predict_file(model_dir, source, tmp_path / "out.csv") == 2
    with open(tmp_path / "out.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:7] == ["note", "question", "context", "answer", "score", "start", "end"]
    assert [row["answer"] for row in rows] == ["awful", ""]
    assert (rows[0]["start"], rows[0]["end"]) == ("41", "46")
    assert context[41:46] == "awful"
    assert (rows[1]["start"], rows[1]["end"]) == ("-1", "-1")
    assert all(0 < float(row["score"]) <= 1 for row in rows)
