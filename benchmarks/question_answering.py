r"""Questions about verses, against a random span and the most frequent name of the paragraph.

Fine-tunes a small pretrained BERT on the questions of verse_questions.py and compares it on the
same test questions with two baselines: a random span of words, of a length drawn from the training
answers, and the name that the paragraph has most often. The last rows are without the paragraph:
BM25 finds some among those of all questions, and the model reads these.

    make benchmark NAME=question_answering ARGS='--model_dir=runs/questions'
    make benchmark NAME=question_answering \
        ARGS='--model_dir=runs/unanswerable --unanswerable_rate=0.33 --epochs=1'
"""

import collections
import random
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import packages
import verse_questions
from absl import app, flags

from keras_bert import (
    Bm25,
    Bm25Index,
    ExtractiveReader,
    FinetuningOptions,
    Question,
    create_task,
    finetune,
)
from keras_bert.finetuning.task import TEST, VALIDATION
from keras_bert.tasks.question_answering.metrics import answer_exact_match, answer_f1, best_score

_WORD = re.compile(r"\S+")
_READ = (1, 3, 10)  # paragraphs of a question, out of all
_WEIGHTS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0)  # of the score of the search

_MODEL_DIR = flags.DEFINE_string("model_dir", None, "Folder of the runs.", required=True)
_EPOCHS = flags.DEFINE_integer("epochs", 3, "Passes over the questions.")
_LEARNING_RATE = flags.DEFINE_float("learning_rate", 1e-4, "Peak learning rate.")
_MAX_SEQ_LENGTH = flags.DEFINE_integer("max_seq_length", 192, "Most pieces of a window.")
_DOC_STRIDE = flags.DEFINE_integer("doc_stride", 64, "Pieces from window to window.")
_UNANSWERABLE_SHARE = flags.DEFINE_float(
    "unanswerable_rate", 0.0, "Questions that get a paragraph without the answer."
)
_SEEDS = flags.DEFINE_integer("seeds", 1, "Runs of ours.", lower_bound=1)


def random_spans(train: Sequence[Question], test: Sequence[Question]) -> list[str]:
    """Returns for each question some words of its context."""
    draw = random.Random(0)
    lengths = [len(answer.text.split()) for asked in train for answer in asked.answers or ()]
    found = []
    for question in test:
        words = _WORD.findall(question.context)
        first = draw.randrange(len(words))
        found.append(" ".join(words[first : first + draw.choice(lengths)]))
    return found


def most_frequent_names(train: Sequence[Question], test: Sequence[Question]) -> list[str]:
    """Returns for each question the name that its context has most often."""
    counts = (collections.Counter(_names(question.context)) for question in test)
    return [names.most_common(1)[0][0] if names else "" for names in counts]


def _names(context: str) -> list[str]:
    return [name for name, _ in verse_questions.names(context)]


def no_answers(train: Sequence[Question], test: Sequence[Question]) -> list[str]:
    """Returns nothing for each question."""
    return [""] * len(test)


_BASELINES: dict[str, Callable[[Sequence[Question], Sequence[Question]], list[str]]] = {
    "random span": random_spans,
    "most frequent name": most_frequent_names,
    "no answer": no_answers,
}


def main(_: list[str]) -> None:
    """Prints the scores of the baselines and of the fine-tuned model."""
    with tempfile.TemporaryDirectory() as data:
        verse_questions.write(Path(data), _UNANSWERABLE_SHARE.value)
        compare(Path(data))


def compare(data: Path) -> None:
    """Prints exact match and F1 on the test questions."""
    kind = "squad2" if _UNANSWERABLE_SHARE.value else "squad"
    task = create_task(kind, doc_stride=_DOC_STRIDE.value)
    splits = task.read(data)
    train, test = splits.splits["train"], splits.splits["test"]
    print(f"{len(train):,} questions to learn from, {len(test):,} to test with", flush=True)
    for name, answers in _BASELINES.items():
        print(f"{name}: {_measured(answers(train, test), test)}", flush=True)
    for seed in range(_SEEDS.value):
        options = FinetuningOptions(
            epochs=_EPOCHS.value,
            batch_size=16,
            learning_rate=_LEARNING_RATE.value,
            max_seq_length=_MAX_SEQ_LENGTH.value,
            seed=seed,
        )
        folder = Path(_MODEL_DIR.value) / f"seed_{seed}"
        result = finetune(task, splits, packages.minilm(), folder, options)
        shown = ", ".join(f"{name} {value:.4f}" for name, value in result.test.items())
        print(f"ours, seed {seed}: {shown}, {result.seconds:.0f} s of training", flush=True)
        for count, shown in _out_of_all(folder, splits.splits):
            print(f"ours, seed {seed}, nearest {count} paragraphs of all: {shown}", flush=True)


def _out_of_all(
    folder: Path, splits: Mapping[str, Sequence[Question]]
) -> Iterator[tuple[int, str]]:
    """Yields scores of answers that are looked for in all paragraphs, by how many are read.

    How much the score of the search counts is chosen by the F1 on the validation questions.
    """
    contexts = (question.context for part in splits.values() for question in part)
    index = Bm25Index.build(Bm25(), [*dict.fromkeys(contexts)])
    reader = ExtractiveReader.from_preset(folder)
    parts = {}
    for split in (VALIDATION, TEST):
        questions = [question for question in splits[split] if question.answers]
        asked = [question.question for question in questions]
        found = index.search(asked, max(_READ))
        parts[split] = questions, found, reader.read(asked, found)

    def answers(split: str, count: int, weight: float) -> list[str]:
        """Those of the nearest passages, with so much weight on the search."""
        _, found, read = parts[split]
        texts = []
        for hits, said in zip(found, read, strict=True):
            near = {hit.number for hit in hits[:count]}
            of_near = [one for one in said if one.passage.number in near]
            best = max(
                of_near, key=lambda one: one.score + weight * one.passage.score, default=None
            )
            texts.append(best.text if best else "")
        return texts

    for count in _READ:
        questions, found, _ = parts[TEST]
        weight = max(
            _WEIGHTS, key=lambda one: _f1(answers(VALIDATION, count, one), parts[VALIDATION][0])
        )
        right = [
            question.context in [hit.text for hit in hits[:count]]
            for question, hits in zip(questions, found, strict=True)
        ]
        shown = [
            f"{_measured(answers(TEST, count, one), questions)} with weight {one} on the search"
            for one in (0.0, weight)
        ]
        shown.append(f"its own is among them {sum(right) / len(right):.4f}, of {len(index):,}")
        yield count, "; ".join(shown)


def _f1(answers: Sequence[str], questions: Sequence[Question]) -> float:
    return sum(best_score(answer_f1, *pair) for pair in zip(answers, questions, strict=True)) / len(
        questions
    )


def _measured(answers: Sequence[str], test: Sequence[Question]) -> str:
    scores = {}
    for name, score in (("f1", answer_f1), ("exact_match", answer_exact_match)):
        values = [best_score(score, *pair) for pair in zip(answers, test, strict=True)]
        scores[name] = sum(values) / len(values)
    return ", ".join(f"{name} {value:.4f}" for name, value in scores.items())


if __name__ == "__main__":
    app.run(main)
