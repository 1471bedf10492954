"""Questions about verses, against a random span and the most frequent name of the paragraph.

Fine-tunes a small pretrained BERT on the questions of verse_questions.py and compares it on the
same test questions with two baselines: a random span of words, of a length drawn from the training
answers, and the name that the paragraph has most often.

    python benchmarks/question_answering.py runs/questions
    python benchmarks/question_answering.py runs/questions --unanswerable_share=0.33
"""

import argparse
import collections
import random
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import packages
import verse_questions

from keras_bert.tasks.squad import squad2_task, squad_task
from keras_bert.training.answer_metrics import answer_exact_match, answer_f1, best_score
from keras_bert.training.finetuning import finetune
from keras_bert.training.finetuning_options import FinetuningOptions
from keras_bert.training.questions import Question

_WORD = re.compile(r"\S+")


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


def main() -> None:
    """Prints the scores of the baselines and of the fine-tuned model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where runs are kept")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--learning_rate", type=float, default=1e-4)
    parser.add_argument("--max_seq_length", type=int, default=192)
    parser.add_argument("--doc_stride", type=int, default=64)
    parser.add_argument("--unanswerable_share", type=float, default=0.0)
    parser.add_argument("--seeds", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as data:
        verse_questions.write(Path(data), arguments.unanswerable_share)
        compare(Path(data), arguments)


def compare(data: Path, arguments: argparse.Namespace) -> None:
    """Prints exact match and F1 on the test questions."""
    create = squad2_task if arguments.unanswerable_share else squad_task
    task = create(doc_stride=arguments.doc_stride)
    splits = task.read(data)
    train, test = splits.splits["train"], splits.splits["test"]
    print(f"{len(train):,} questions to learn from, {len(test):,} to test with", flush=True)
    for name, answers in _BASELINES.items():
        print(f"{name}: {_measured(answers(train, test), test)}", flush=True)
    for seed in range(arguments.seeds):
        options = FinetuningOptions(
            epochs=arguments.epochs,
            batch_size=16,
            learning_rate=arguments.learning_rate,
            max_seq_length=arguments.max_seq_length,
            seed=seed,
        )
        folder = arguments.folder / f"seed_{seed}"
        result = finetune(task, splits, packages.minilm(), folder, options)
        shown = ", ".join(f"{name} {value:.4f}" for name, value in result.test.items())
        print(f"ours, seed {seed}: {shown}, {result.seconds:.0f} s of training", flush=True)


def _measured(answers: Sequence[str], test: Sequence[Question]) -> str:
    scores = {}
    for name, score in (("f1", answer_f1), ("exact_match", answer_exact_match)):
        values = [best_score(score, *pair) for pair in zip(answers, test, strict=True)]
        scores[name] = sum(values) / len(values)
    return ", ".join(f"{name} {value:.4f}" for name, value in scores.items())


if __name__ == "__main__":
    main()
