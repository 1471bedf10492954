"""One small model for twelve languages in eight scripts, by how often each language is drawn.

Text of debian_languages.py, one vocabulary, and a run for each of --alphas: 1.0 draws languages as
large as they are, smaller numbers show the small ones more often. Each run, of one seed, is judged
by its masked LM accuracy on held-out pages of each language; by whether a held-out paragraph's
vector is nearest to that of its translation among the English ones of all paragraphs that this
language translates; and by whether a classifier that has learned the chapters of the handbook from
English finds those of other languages' paragraphs (every eighth one of all pages, which it has not
learned from in English either). Vectors are the mean over the positions of a layer, less the mean
of their language on pages of the training text, which choose the layer too. Texts are cut at 64
pieces, which hold less of a paragraph where words have more pieces. The same command goes on where
it was stopped, and stages that are done are skipped. Needs apt-get and dpkg-deb; an hour on a
core.

    make benchmark NAME=languages ARGS='--folder=runs/languages'
    make benchmark NAME=languages ARGS='--folder=runs/try --train_steps=20 --alphas=1.0'

Small models use one core well: two runs may go side by side, each under `taskset -c 0` or
`taskset -c 1` with its own --alphas; the command without then prints all tables.
"""

import collections
import csv
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import debian_languages
import keras
import numpy as np
import tensorflow as tf
from absl import app, flags
from debian_languages import LANGUAGES, Paragraph
from small_pretraining import run_tool

from keras_bert import (
    BertConfig,
    BertEncoder,
    FinetunedModel,
    load_encoder,
    load_preprocessor,
    load_tokenizer,
)
from keras_bert.finetuning.result import FinetuningResult
from keras_bert.storage.files import atomic_file, atomic_folder, locked

_FOLDER = flags.DEFINE_string("folder", None, "Folder of all stages.", required=True)
_ALPHAS = flags.DEFINE_list("alphas", ["1.0", "0.7", "0.3"], "Exponents to compare.")
_TRAIN_STEPS = flags.DEFINE_integer("train_steps", 4000, "Steps of each run.", lower_bound=1)
_VOCAB_SIZE = flags.DEFINE_integer("vocab_size", 12000, "Pieces of the vocabulary.")
_VOCAB_ALPHA = 0.7
_LENGTH = 64
_BATCH_SIZE = 32
_PAIRS = 200  # of a language to choose the layer with
_FEWEST_OF_A_CHAPTER = 100  # English paragraphs to learn from
_FEWEST_TO_ASK = 50  # paragraphs of a language


class Figures(NamedTuple):
    """What a run is judged by, for each language.

    Attributes:
        masked_lm: held-out accuracy; empty for fresh weights.
        layer: whose vectors find translations.
        found: share of paragraphs nearest to their translation.
        chapters: share of paragraphs whose chapter is found.
    """

    masked_lm: dict[str, float]
    layer: int
    found: dict[str, float]
    chapters: dict[str, float]


def prepare(folder: Path) -> None:
    """Writes texts, vocabulary, records, the config and the chapters."""
    if not (folder / "text").is_dir():
        with atomic_folder(folder / "text") as temporary:
            debian_languages.write(temporary)
    vocab = folder / "vocab" / "vocab.txt"
    if not (vocab.parent / "tokenizer_config.json").is_file():  # written after vocab.txt
        run_tool(
            "build_vocab",
            "--nolowercase",
            input=_named(folder / "text", "{}/train.txt"),
            language_alpha=_VOCAB_ALPHA,
            limit_alphabet=4000,
            output=vocab,
            vocab_size=_VOCAB_SIZE.value,
        )
    for name in LANGUAGES:
        for split, passes in (("train", 2), ("eval", 1)):
            output = folder / "records" / split / name
            if not (output / "manifest.json").is_file():
                run_tool(
                    "create_pretraining_data",
                    input=folder / "text" / name / f"{split}.txt",
                    vocab=vocab,
                    output_dir=output,
                    max_seq_length=_LENGTH,
                    sentence_task="none",
                    dupe_factor=passes,
                    num_shards=1,
                )
    config = BertConfig.from_name(
        "bert_tiny",
        num_hidden_layers=4,
        vocab_size=len(load_tokenizer(vocab.parent).vocabulary.tokens),
        max_position_embeddings=_LENGTH,
        hidden_act="gelu_tanh",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.05,
        position_initializer="neighbors",
    )
    with atomic_file(folder / "config.json") as temporary:
        temporary.write_text(json.dumps(config.to_dict(), indent=2) + "\n")
    if not (folder / "chapters").is_dir():
        with atomic_folder(folder / "chapters") as temporary:
            write_chapters(temporary)


def write_chapters(folder: Path) -> None:
    """Writes train.csv and test.csv of English, and LANGUAGE.csv with what test.csv has in it.

    Every eighth paragraph of a page is tested with, in all languages.
    """
    chapters = debian_languages.chapters()
    english = [p for p in debian_languages.paragraphs("en") if p.page in chapters]
    counts = collections.Counter(chapters[p.page] for p in english)
    for name in LANGUAGES:
        for split in ("train", "test") if name == "en" else (name,):
            with open(folder / f"{split}.csv", "w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(["text", "label"])
                writer.writerows(
                    [paragraph.text, chapters[paragraph.page]]
                    for paragraph in debian_languages.paragraphs(name)
                    if counts.get(chapters.get(paragraph.page, ""), 0) >= _FEWEST_OF_A_CHAPTER
                    and (paragraph.number % 8 == 0) == (split != "train")
                )


def pretrain(folder: Path, alpha: str) -> Path:
    """Pretrains a model, or goes on; returns its run folder."""
    run = folder / f"alpha_{alpha}_{_TRAIN_STEPS.value}_steps"
    if not (run / "report.md").is_file():  # written at the end
        run_tool(
            "run_pretraining",
            data_dir=_named(folder / "records" / "train", "{}"),
            eval_data_dir=_named(folder / "records" / "eval", "{}"),
            language_alpha=alpha,
            model_dir=run,
            model=folder / "config.json",
            train_steps=_TRAIN_STEPS.value,
            warmup_steps=_TRAIN_STEPS.value // 20,
            eval_steps=max(1, _TRAIN_STEPS.value // 5),
            checkpoint_steps=max(1, _TRAIN_STEPS.value // 20),
            batch_size=_BATCH_SIZE,
            learning_rate=2e-3,
            beta_2=0.98,
            bias_correction=True,
        )
        if not (run / "report.md").is_file():
            raise SystemExit("stopped: the same command goes on from here")
    return run


def judge(folder: Path, run: Path) -> Figures:
    """Measures a run and keeps the figures in its folder."""
    path = run / "figures.json"
    if not path.is_file():
        lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        last = [line for line in lines if line["split"] == "eval"][-1]
        masked_lm = {name: last[f"masked_lm_accuracy/{name}"] for name in LANGUAGES}
        encoder = load_encoder(run / "preset", output_hidden_states=True)
        chapters = find_chapters(folder, run / "preset", run / "chapters")
        _save(path, Figures(masked_lm, *find_translations(encoder, run / "preset"), chapters))
    return Figures(**json.loads(path.read_text()))


def judge_fresh_weights(folder: Path, preset: Path) -> Figures:
    """Measures a model that has learned nothing; the preset says how large it is."""
    path = folder / "fresh" / "figures.json"
    if not path.is_file():
        trained = load_encoder(preset)
        keras.utils.set_random_seed(0)
        encoder = type(trained)(trained.config, output_hidden_states=True)
        chapters = find_chapters(folder, preset, path.parent / "chapters", "--from_scratch")
        _save(path, Figures({}, *find_translations(encoder, preset), chapters))
    return Figures(**json.loads(path.read_text()))


def _save(path: Path, figures: Figures) -> None:
    with atomic_file(path) as temporary:
        temporary.write_text(json.dumps(figures._asdict(), indent=2) + "\n")


def find_translations(encoder: BertEncoder, preset: Path) -> tuple[int, dict[str, float]]:
    """Returns a layer, chosen on pages of the training text, and what it finds on the others."""
    preprocess = load_preprocessor(preset, max_seq_length=_LENGTH, pad_to="max")
    outputs = tf.function(lambda inputs: encoder(inputs)["hidden_states"], autograph=False)

    def vectors(paragraphs: Sequence[Paragraph]) -> np.ndarray:
        found = []
        for start in range(0, len(paragraphs), _BATCH_SIZE):
            texts = [p.text for p in paragraphs[start : start + _BATCH_SIZE]]
            inputs = preprocess(texts + [""] * (_BATCH_SIZE - len(texts)))
            mask = tf.cast(inputs["input_mask"], tf.float32)[:, :, None]  # [B, S, 1]
            states = tf.stack([tf.cast(x, tf.float32) for x in outputs(inputs)])  # [L + 1, B, S, H]
            means = tf.reduce_sum(states * mask, axis=2) / tf.reduce_sum(mask, axis=1)
            found.append(means[:, : len(texts)].numpy())
        return np.concatenate(found, axis=1)  # [L + 1, paragraphs, H]

    def normalized(rows: np.ndarray, mean: np.ndarray) -> np.ndarray:
        rows = rows - mean
        return rows / np.maximum(np.linalg.norm(rows, axis=2, keepdims=True), 1e-9)

    chosen, others = {}, {}
    for name in LANGUAGES:
        if name == "en":
            continue
        means: list[np.ndarray] = []  # [L + 1, 1, H] of this language, and of English
        for split, shares in (("train", chosen), ("eval", others)):
            sides = translations(name, split)
            rows = [vectors(side) for side in sides]
            means = means or [side.mean(axis=1, keepdims=True) for side in rows]
            ours, english = map(normalized, rows, means)
            nearest = (ours @ english.swapaxes(1, 2)).argmax(axis=2)  # [L + 1, paragraphs]
            shares[name] = (nearest == np.arange(len(sides[0]))).mean(axis=1)  # [L + 1]
    layer = int(np.mean(list(chosen.values()), axis=0).argmax())
    return layer, {name: float(share[layer]) for name, share in others.items()}


def translations(name: str, split: str) -> tuple[list[Paragraph], list[Paragraph]]:
    """Returns paragraphs of a split that English has too, in both languages."""
    held_out = debian_languages.held_out()
    english = {(p.page, p.number): p for p in debian_languages.paragraphs("en")}
    ours = [
        paragraph
        for paragraph in debian_languages.paragraphs(name)
        if (paragraph.page in held_out) == (split == "eval")
        and (paragraph.page, paragraph.number) in english
    ]
    if split == "train":
        ours = ours[:: max(1, len(ours) // _PAIRS)][:_PAIRS]
    return ours, [english[paragraph.page, paragraph.number] for paragraph in ours]


def find_chapters(folder: Path, preset: Path, model_dir: Path, *flags: str) -> dict[str, float]:
    """Learns the chapters from English; returns the share found in each language.

    Args:
        folder: of all stages.
        preset: what to start from.
        model_dir: of the run.
        *flags: more flags of run_finetuning.py.
    """
    if FinetuningResult.finished(model_dir) is None:
        shutil.rmtree(model_dir, ignore_errors=True)  # what was stopped within
        run_tool(
            "run_finetuning",
            *flags,
            task="csv",
            data=folder / "chapters",
            init_from=preset,
            model_dir=model_dir,
            epochs=6,
            batch_size=_BATCH_SIZE,
            learning_rate=5e-4,
            max_seq_length=_LENGTH,
        )
    tuned = FinetunedModel.load(model_dir)
    preprocess = load_preprocessor(model_dir, max_seq_length=_LENGTH)
    shares = {}
    for name in LANGUAGES:
        rows = chapter_rows(folder, name)
        if len(rows) >= _FEWEST_TO_ASK:
            logits = tuned.model.predict(preprocess([row["text"] for row in rows]), verbose=0)
            said = [tuned.description.labels[index] for index in np.argmax(logits, axis=-1)]
            right = [label == row["label"] for label, row in zip(said, rows, strict=True)]
            shares[name] = float(np.mean(right))
    return shares


def chapter_rows(folder: Path, name: str) -> list[dict[str, str]]:
    """Returns the held-out paragraphs of a language with their chapters."""
    file_name = "test" if name == "en" else name
    with open(folder / "chapters" / f"{file_name}.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _named(folder: Path, pattern: str) -> str:
    return ",".join(f"{name}={folder / pattern.format(name)}" for name in LANGUAGES)


def print_tables(folder: Path, figures: Mapping[str, Figures], fresh: Figures) -> None:
    """Prints what is known of all runs, by alpha, and of fresh weights."""
    examples = {
        name: json.loads((folder / "records" / "train" / name / "manifest.json").read_text())[
            "examples"
        ]
        for name in LANGUAGES
    }
    titles = [f"alpha {alpha}" for alpha in figures]
    print("\nShare of the batches, and held-out masked LM accuracy")
    _print_row("language", "script", "examples (two passes)", *titles, *titles)
    totals = {a: sum(n ** float(a) for n in examples.values()) for a in figures}
    for name, language in LANGUAGES.items():
        shares = [f"{100 * examples[name] ** float(a) / totals[a]:.1f} %" for a in figures]
        accuracies = [f"{100 * found.masked_lm[name]:.1f} %" for found in figures.values()]
        _print_row(name, language.script, f"{examples[name]:,}", *shares, *accuracies)
    sides = [*figures.values(), fresh]
    print("\nParagraphs nearest to their translation in English")
    _print_row("language", "paragraphs", "chance", *titles, "fresh weights")
    for name in fresh.found:
        count = len(translations(name, "eval")[0])
        found = [f"{100 * side.found[name]:.1f} %" for side in sides]
        _print_row(name, f"{count}", f"{100 / count:.1f} %", *found)
    print(f"layers: {', '.join(str(side.layer) for side in sides)}")
    print("\nChapters found by what was learned from English")
    _print_row("language", "paragraphs", "best single answer", *titles, "fresh weights")
    for name in fresh.chapters:
        labels = collections.Counter(row["label"] for row in chapter_rows(folder, name))
        [(_, most)] = labels.most_common(1)
        found = [f"{100 * side.chapters[name]:.1f} %" for side in sides]
        _print_row(name, f"{labels.total()}", f"{100 * most / labels.total():.1f} %", *found)


def _print_row(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |")


def main(_: Sequence[str]) -> None:
    """Prepares, pretrains, judges and prints the tables."""
    folder = Path(_FOLDER.value)
    folder.mkdir(parents=True, exist_ok=True)
    busy = SystemExit(f"another process works in {folder}: start again when it is done")
    with locked(folder / "prepared", busy):
        prepare(folder)
    runs = {alpha: pretrain(folder, alpha) for alpha in _ALPHAS.value}
    figures = {alpha: judge(folder, run) for alpha, run in runs.items()}
    with locked(folder / "fresh", busy):
        fresh = judge_fresh_weights(folder, next(iter(runs.values())) / "preset")
    print_tables(folder, figures, fresh)


if __name__ == "__main__":
    app.run(main)
