"""TriviaQA: small files written here in the published format of triviaqa-rc."""

import json

import numpy as np
import pytest

from keras_bert import FinetuningOptions, Question, convert_triviaqa, finetune
from keras_bert.models.span_labeler import BertSpanLabeler
from keras_bert.tasks.question_answering.questions import Answer, AnsweredQuestion, Candidate
from keras_bert.tasks.question_answering.squad import squad_task
from keras_bert.tasks.question_answering.squad_files import read_squad
from tests.tolerances import UNMOVED

ANSWER = {
    "Aliases": ["Sunset Blvd", "West Sunset Boulevard", "Sunset Boulevard", "Sunset Blvd."],
    "MatchedWikiEntityName": "Sunset Boulevard",
    "NormalizedAliases": ["west sunset boulevard", "sunset blvd", "sunset boulevard"],
    "NormalizedValue": "sunset boulevard",
    "Type": "WikipediaEntity",
    "Value": "Sunset Boulevard",
}
ASKED = "Which Lloyd Webber musical premiered in 1993?"
DOCUMENTS = {
    "wikipedia/Webber.txt": "\n Zoë: a SUNSET boulevards' fan saw West\nSunset  Boulevard, then.",
    "wikipedia/Cats.txt": "Cats is a musical.",
    "wikipedia/Late.txt": "one two three four five six seven eight nine Sunset Boulevard",
    "web/35/35_995.txt": "He wrote sunset blvd. in 1992.",
}


def entry(name="tc_33", pages=(), results=(), **fields):
    return {
        "Answer": ANSWER,
        "EntityPages": [{"DocSource": "TagMe", "Filename": file} for file in pages],
        "Question": ASKED,
        "QuestionId": name,
        "SearchResults": [{"Rank": 0, "Filename": file} for file in results],
    } | fields


def write(folder, **files):
    """Writes qa/<name>.json of lists of questions, and the documents."""
    (folder / "qa").mkdir(parents=True)
    for name, entries in files.items():
        content = {"Data": entries, "Domain": "Web", "VerifiedEval": False, "Version": 1.0}
        (folder / "qa" / f"{name.replace('_', '-')}.json").write_text(json.dumps(content))
    for name, text in DOCUMENTS.items():
        path = folder / "evidence" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def test_an_accent_of_its_own_is_part_of_its_word(tmp_path):
    answer = {"Value": "cafe", "Aliases": ["Sete\u0301", "cafe bar"]}
    asked = entry(pages=["Accents.txt"], Answer=answer)
    data = write(tmp_path / "triviaqa-rc", wikipedia_train=[asked])
    # e and U+0301 are one letter; U+0301 alone, after a space, is a mark by itself.
    text = "cafe\u0301 Sete e\u0301cafe cafe bar\u0301 \u0301 Sete\u0301 cafe"
    path = data / "evidence/wikipedia/Accents.txt"
    path.write_text("\ufeff" + text, encoding="utf-8")
    kept = {}
    for words in (5, 7, 8):
        convert_triviaqa(data, tmp_path / f"{words}", max_words=words)
        [kept[words]] = read_squad(tmp_path / f"{words}" / "train.json")
    # "cafe bar" has an accent behind it, so it is "cafe" that is found there.
    found = (Answer("cafe", text.index("cafe bar")),)
    assert kept[5].context == "cafe\u0301 Sete e\u0301cafe cafe bar\u0301"
    assert kept[7].context == "cafe\u0301 Sete e\u0301cafe cafe bar\u0301 \u0301 Sete\u0301"
    assert kept[8].context == text
    assert [one.answers for one in kept.values()] == [found] * 3
    path.write_text("Sete ba Sete\u0301", encoding="utf-8")
    convert_triviaqa(data, tmp_path / "other")
    [question] = read_squad(tmp_path / "other" / "train.json")
    assert question.answers == (Answer("Sete\u0301", 8),)


def test_a_number_is_not_a_part_of_another(tmp_path):
    asked = entry(pages=["Numbers.txt"], Answer={"Value": "5", "Aliases": ["5 goals", "1994"]})
    data = write(tmp_path / "triviaqa-rc", wikipedia_train=[asked])
    path = data / "evidence/wikipedia/Numbers.txt"
    # By hand: where the first 5, or year, stands that is no part of another number.
    for text, found in {
        "2.5 or 5.2 or 5,000 or 15, (5), 5 goals": Answer("5", 28),
        "In 5.31994 or in 1994. 3 of 5": Answer("1994", 17),
    }.items():
        path.write_text(text, encoding="utf-8")
        convert_triviaqa(data, tmp_path / "out")
        [question] = read_squad(tmp_path / "out" / "train.json")
        assert question.answers == (found,)


def test_the_first_alias_in_a_document_is_the_answer(tmp_path):
    test = entry("tc_36", pages=["Cats.txt"])
    del test["Answer"]
    data = write(
        tmp_path / "triviaqa-rc",
        web_train=[
            entry(pages=["Webber.txt", "Cats.txt", "Gone.txt"], results=["35/35_995.txt"]),
            entry("tc_34", pages=["Late.txt"]),
        ],
        web_dev=[entry("tc_35", pages=["Cats.txt", "Webber.txt"])],
        web_test_without_answers=[test],
    )
    counts = convert_triviaqa(data, tmp_path / "out", "web", max_words=10)
    # By hand: words and marks are counted, and whole words found: not the start of "boulevards".
    # Zoe : a SUNSET boulevards ' fan saw West Sunset | Boulevard
    cut = "Zoë: a SUNSET boulevards' fan saw West\nSunset"
    assert read_squad(tmp_path / "out/train.json") == [
        # The longest of those that begin there, as it stands in the text.
        Question(
            "tc_33--35/35_995.txt",
            ASKED,
            DOCUMENTS["web/35/35_995.txt"],
            (Answer("sunset blvd.", 9),),
        )
    ]
    dev = read_squad(tmp_path / "out/dev.json")
    spellings = ("Sunset Boulevard", "Sunset Blvd", "West Sunset Boulevard", "Sunset Blvd.")
    spellings += ("west sunset boulevard", "sunset blvd", "sunset boulevard")
    assert dev == [
        Question("tc_35--Cats.txt", ASKED, "Cats is a musical.", (), spellings),
        Question("tc_35--Webber.txt", ASKED, cut, (), spellings),
    ]
    [asked] = read_squad(tmp_path / "out/test.json", answers_optional=True)
    assert asked == Question("tc_36--Cats.txt", ASKED, "Cats is a musical.")
    train = counts["train"]
    assert (train.written, train.with_answer, train.left_out, train.missing) == (1, 1, 3, 1)
    assert (counts["dev"].written, counts["dev"].with_answer, counts["dev"].missing) == (2, 0, 0)
    # Three words more: the alias that begins first, over a line and two spaces.
    convert_triviaqa(data, tmp_path / "out", "web", max_words=13)
    first, *_ = read_squad(tmp_path / "out/train.json")
    assert first.answers == (Answer("West\nSunset  Boulevard", 34),)
    assert first.context == f"{cut}  Boulevard, then"


def answered(text):
    candidate = Candidate(text, 0, len(text), 1.0, 1.0)
    return AnsweredQuestion(candidate, candidate, 0.0, (candidate,))


def test_all_aliases_are_right_answers(tmp_path):
    data = write(
        tmp_path / "triviaqa-rc",
        wikipedia_train=[entry(pages=["Webber.txt"])],
        wikipedia_dev=[entry("tc_35", pages=["Cats.txt", "Late.txt"])],
    )
    convert_triviaqa(data, tmp_path / "out")
    task = squad_task()
    dev = task.read(tmp_path / "out").splits["validation"]
    # The text of the second holds "Sunset Boulevard" alone, that of the first none of them.
    found = [answered("the sunset blvd"), answered("West Sunset")]
    assert task.metrics["exact_match"](found, dev) == 0.5
    # "West Sunset" shares two of three words with "West Sunset Boulevard": F1 is 0.8.
    assert task.metrics["f1"](found, dev) == pytest.approx((1 + 0.8) / 2)


def test_what_cannot_be_converted_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"qa/wikipedia-train.json does not exist: give"):
        convert_triviaqa(tmp_path, tmp_path / "out")
    data = write(tmp_path / "a", wikipedia_train=[entry(pages=["Cats.txt"])])
    with pytest.raises(ValueError, match="no document holds an answer in its first 400 words"):
        convert_triviaqa(data, tmp_path / "out")
    data = write(tmp_path / "b", wikipedia_train=[entry(pages=["Gone.txt"])])
    with pytest.raises(FileNotFoundError, match="evidence holds none of the 1 documents that"):
        convert_triviaqa(data, tmp_path / "out")
    broken = entry("tc_7", pages=["Cats.txt"], Answer={"Aliases": []})
    data = write(tmp_path / "c", wikipedia_train=[broken])
    with pytest.raises(ValueError, match=r"question 'tc_7': there is no 'Value' \(found: Aliases"):
        convert_triviaqa(data, tmp_path / "out")
    with pytest.raises(ValueError, match="max_words is 0: it must be at least 1"):
        convert_triviaqa(data, tmp_path / "out", max_words=0)
    # Told before documents are read: the answer of this question would be missed first.
    for output in ("ram://out", tmp_path / "c" / "qa" / "wikipedia-train.json"):
        with pytest.raises(ValueError, match=r"^output is .*(to the disk of|is a file: name)"):
            convert_triviaqa(data, output)
    good = [entry(pages=["Webber.txt"])]
    data = write(tmp_path / "d", wikipedia_train=good, wikipedia_dev=[entry(pages=["Gone.txt"])])
    with pytest.raises(FileNotFoundError, match="evidence holds none of the 1 documents that"):
        convert_triviaqa(data, tmp_path / "out")
    data = write(tmp_path / "e", wikipedia_train=good, wikipedia_dev=[])
    with pytest.raises(ValueError, match="wikipedia-dev.json names no documents"):
        convert_triviaqa(data, tmp_path / "out")
    data = write(tmp_path / "f", wikipedia_train=[entry(pages=["../../secret.txt"])])
    with pytest.raises(ValueError, match=r"Filename '../../secret.txt' lies outside of"):
        convert_triviaqa(data, tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.json"))  # no split without the others
    (tmp_path / "out" / "dev.json").write_text("of another data set")
    with pytest.raises(ValueError, match="holds a dev.json of other data"):
        convert_triviaqa(write(tmp_path / "g", wikipedia_train=good), tmp_path / "out")


@pytest.mark.slow  # two runs
def test_a_model_of_triviaqa_goes_on_with_squad(pretrained_folder, tmp_path):
    data = write(tmp_path / "rc", wikipedia_train=[entry(pages=["Webber.txt", "Late.txt"])])
    convert_triviaqa(data, tmp_path / "trivia")
    squad = {"paragraphs": [{"context": "a good film", "qas": []}]}
    squad["paragraphs"][0]["qas"].append(
        {"id": "1", "question": "a film", "answers": [{"text": "good", "answer_start": 2}]}
    )
    (tmp_path / "squad").mkdir()
    (tmp_path / "squad/train.json").write_text(json.dumps({"data": [squad]}))
    task, start = squad_task(max_query_length=8), pretrained_folder
    for name, rate in (("trivia", 1e-2), ("squad", 1e-7)):
        options = FinetuningOptions(
            epochs=1, learning_rate=rate, max_seq_length=32, mixed_precision="float32"
        )
        finetune(task, task.read(tmp_path / name), start, tmp_path / f"{name}_run", options)
        start = tmp_path / f"{name}_run"
    # The second run barely moved what the first one had learned, head included.
    first, second = (
        [weight.numpy() for weight in BertSpanLabeler.from_preset(tmp_path / name).weights]
        for name in ("trivia_run", "squad_run")
    )
    for before, after in zip(first, second, strict=True):
        np.testing.assert_allclose(after, before, **UNMOVED)
