"""A field of its own: ways to a model for mails, each judged by a task of mails and by another one.

    make benchmark NAME=own_domain ARGS='--folder=runs/own_domain'

    general text --4,000 steps--> general --+-- as it is
                                            +-- 2,000 steps of general text (for comparison)
                                            +-- 2,000 steps of mails
                                            +-- 2,000 steps of mails, 1,000 of their words added
    mails --6,000 steps--> a vocabulary of their own, from fresh weights

General text and vocabulary are those of reference_run.py; the field is the mails of SpamAssassin's
training data. BERT of 4 layers of 128, sequences of 64, whole documents, no sentence pairs. Then
each learns to find spam from few labelled mails, and proper names in the Brown corpus. Accuracies
on held-out mails compare where the vocabulary is the same: a whole word is harder to guess than its
third piece. All is made with one seed, then with the next, and the table of what is done is printed
after each; the same command goes on where it was stopped. What each run reached stands in
scores.jsonl of the folder. --scores=FILE reads and extends FILE in its place: a copy from another
machine, whose runs are made again only where another one goes on from them or has their size.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import spam
from absl import app, flags
from score_file import ScoreFile
from small_pretraining import (
    COMMON,
    GENERAL,
    NAMES,
    SPAM,
    START,
    Corpus,
    Downstream,
    SmallPretraining,
    last_metrics,
    median_and_range,
    run_tool,
)

from keras_bert import BertConfig
from keras_bert.models.preset import read_config
from keras_bert.storage.files import atomic_folder
from keras_bert.text.corpus_tokenizer import CorpusTokenizer
from keras_bert.text.coverage import measure_coverage
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.text.wordpiece.settings import Settings

_FOLDER = flags.DEFINE_string("folder", None, "Folder of all stages.", required=True)
_GENERAL_STEPS = flags.DEFINE_integer("general_steps", 4000, "Steps of the general model.")
_FIELD_STEPS = flags.DEFINE_integer("field_steps", 2000, "Steps that a model goes on with.")
_FIELD_RATE = flags.DEFINE_float("field_rate", 5e-4, "Peak learning rate of going on.")
_LABELS = flags.DEFINE_integer("labels", 400, "Labelled mails to learn from.", lower_bound=1)
_SEEDS = flags.DEFINE_integer("seeds", 3, "Runs of each kind.", lower_bound=1)
_SCORES = flags.DEFINE_string("scores", None, "File of finished runs; unset: in the folder.")

_LENGTH = 64
_LEARNING_RATE = 1e-3
_SPAM = SPAM._replace(
    title="spam, accuracy",
    flags=SPAM.flags | {"epochs": 6, "batch_size": 16, "learning_rate": 3e-4},
    write=lambda folder: _write_spam(folder),  # below
)
_CONFIG = BertConfig(
    **COMMON,
    **START,
    num_hidden_layers=4,
    hidden_size=128,
    num_attention_heads=2,
    intermediate_size=512,
)

_MAILS = Corpus("records_mails", ("mails",), GENERAL.vocab)
_ADDED = Corpus("records_added", ("mails",), "grown")
_OWN = Corpus("records_own", ("mails",), "vocab_own")


class Way(NamedTuple):
    """A way to a model of the field.

    Attributes:
        title: for the table.
        corpus: what it reads last, with which vocabulary.
        steps: those of "general" text from fresh weights; those of the "field" from the model that
            has read the general text; or as many as "both" from fresh weights.
    """

    title: str
    corpus: Corpus
    steps: Literal["general", "field", "both"]


_WAYS = {
    "general": Way("general text", GENERAL, "general"),
    "control": Way("general text, and on with it", GENERAL, "field"),
    "mails": Way("general text, then mails", _MAILS, "field"),
    "added": Way("general text, then mails with words added", _ADDED, "field"),
    "own": Way("mails alone, a vocabulary of their own", _OWN, "both"),
}


# Other scores of a run: masked LM accuracy on held-out mails, of runs that were measured on them,
# and how many pieces a word of those mails takes.
_ACCURACY = "accuracy"
_PIECES = "pieces_per_word"


def _tasks() -> tuple[Downstream, ...]:
    # With other numbers of labels these are other data.
    name = f"spam_{_LABELS.value}"
    return _SPAM._replace(name=name, data=name), NAMES


def _write_spam(folder: Path) -> None:
    """Writes the mails as a task, of the training mails a part that has both classes."""
    spam.write(folder)
    path = folder / "train.csv"
    with open(path, encoding="utf-8", newline="") as file:
        header, *rows = list(csv.reader(file))
    kept = [rows[index * len(rows) // _LABELS.value] for index in range(_LABELS.value)]
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *kept])


def _write_mails(folder: Path) -> None:
    """Writes the text of the training mails and, to measure on, that of the development mails."""
    texts: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
    for text, _, split in spam.mails():
        texts[split].append(text)
    for split, name in (("train", "train"), ("dev", "eval")):
        (folder / name).mkdir(parents=True)
        content = "\n\n".join(filter(None, texts[split])) + "\n"
        (folder / name / "mails.txt").write_text(content, encoding="utf-8")


def main(_: list[str]) -> None:
    """Makes all runs with one seed after the other, the table after each."""
    stages = SmallPretraining(
        Path(_FOLDER.value), _LENGTH, _GENERAL_STEPS.value, _LEARNING_RATE, _tasks()
    )
    file = ScoreFile(Path(_SCORES.value or stages.folder / "scores.jsonl"))
    budget = {
        "start": _CONFIG.position_initializer,
        "general_steps": _GENERAL_STEPS.value,
        "field_steps": _FIELD_STEPS.value,
        "field_rate": _FIELD_RATE.value,
        "labels": _LABELS.value,
    }
    tasks = [task.name for task in stages.tasks]
    found: dict[str, list[dict[str, float]]] = {}
    for seed in range(_SEEDS.value):
        for way in (*_WAYS, "fresh"):
            names = tasks if way == "fresh" else [*tasks, _PIECES]
            if way != "fresh" and _WAYS[way].corpus != GENERAL:
                names = [*names, _ACCURACY]
            measure = partial(_measure, stages, way, seed)
            scores = file.measured(names, measure, way=way, seed=seed, **budget)
            found.setdefault(way, []).append(scores)
            _print_table(found, stages.tasks)


def _measure(stages: SmallPretraining, name: str, seed: int) -> dict[str, float]:
    """Makes a run and returns its scores; "fresh" has the size of the general model alone."""
    stages.prepare()
    if not (stages.folder / "mails").is_dir():
        with atomic_folder(stages.folder / "mails") as temporary:
            _write_mails(temporary)
    stages.learn_vocabulary(_OWN)
    fresh = name == "fresh"
    name = "general" if fresh else name
    way = _WAYS[name]
    run = _pretrained(stages, name, way, seed)
    scores = {task.name: stages.finetune(run, task, fresh, seed) for task in stages.tasks}
    if not fresh:
        vocab = f"{_ADDED.vocab}_{seed}" if way.corpus == _ADDED else way.corpus.vocab
        scores[_PIECES] = _pieces_per_word(stages, vocab)
        if way.corpus != GENERAL:
            scores[_ACCURACY] = last_metrics(run, "eval")["masked_lm_accuracy"]
    return scores


def _pretrained(stages: SmallPretraining, name: str, way: Way, seed: int) -> Path:
    run_name = f"{name}_{seed}"
    if way.steps == "both":
        steps = _GENERAL_STEPS.value + _FIELD_STEPS.value
        return stages.pretrain(run_name, _CONFIG, "none", steps, way.corpus, seed=seed)
    if way.steps == "general":
        return stages.pretrain(run_name, _CONFIG, "none", seed=seed)
    start = _pretrained(stages, "general", _WAYS["general"], seed) / "preset"
    corpus = way.corpus
    if corpus == _ADDED:
        start = _grown(stages, start, seed)
        corpus = corpus._replace(vocab=start.name)
    return stages.pretrain(
        run_name,
        read_config(start),
        "none",
        _FIELD_STEPS.value,
        corpus,
        seed=seed,
        init_from=start,
        learning_rate=_FIELD_RATE.value,
    )


def _grown(stages: SmallPretraining, start: Path, seed: int) -> Path:
    # The words are those of the text and the same for all seeds; their embeddings are not.
    folder = stages.folder / f"{_ADDED.vocab}_{seed}"
    if not folder.is_dir():
        texts = stages.texts(_ADDED, "train")
        run_tool("grow_vocabulary", model=start, input=texts, new_words=1000, output=folder)
    return folder


def _print_table(
    found: Mapping[str, Sequence[Mapping[str, float]]], tasks: Sequence[Downstream]
) -> None:
    columns = ["pieces per word of mails", "held-out mails, accuracy"]
    columns += [task.title for task in tasks]
    print(f"\n| read | {' | '.join(columns)} |\n|---{'|---' * len(columns)}|")
    for name, scores in found.items():

        def of(key: str, scores=scores) -> list[float]:
            return [one[key] for one in scores if key in one]

        cells = [_WAYS[name].title if name in _WAYS else "fresh weights"]
        cells.append(median_and_range(of(_PIECES)[:1], 1, 3))  # the same with all seeds
        cells += [median_and_range(of(key)) for key in (_ACCURACY, *(one.name for one in tasks))]
        print(f"| {' | '.join(cells)} |", flush=True)


def _pieces_per_word(stages: SmallPretraining, vocab: str) -> float:
    """Returns how many pieces of a folder's vocabulary a word of the held-out mails takes."""
    vocabulary = Vocabulary.from_file(stages.folder / vocab / "vocab.txt")
    return measure_coverage(CorpusTokenizer(vocabulary, Settings()), _lines(stages)).pieces_per_word


def _lines(stages: SmallPretraining) -> Iterator[str]:
    with open(stages.folder / "mails" / "eval" / "mails.txt", encoding="utf-8") as file:
        yield from file


if __name__ == "__main__":
    app.run(main)
