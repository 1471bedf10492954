"""The stages of small pretraining runs; each is skipped where its output exists.

A folder holds text/ (train, eval), data/ (the sample data), the other tasks' data, vocab/, records/
(train, eval; records_sop/ and records_none/ where the sentences are paired otherwise) and the runs
made from them.
"""

import contextlib
import fcntl
import json
import shlex
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import brown
import english_text
import food_reviews
import spam

from keras_bert import BertConfig
from keras_bert.choices import LayerStrategy, SentenceTask
from keras_bert.finetuning.result import FinetuningResult
from keras_bert.pretraining.objectives.registry import objective_named
from keras_bert.storage.files import atomic_file, atomic_folder

VOCAB_SIZE = 8000
BATCH_SIZE = 32

# Fields of the configs of all models.
COMMON = {
    "vocab_size": VOCAB_SIZE,
    "max_position_embeddings": 128,  # fine-tuning may want longer sequences than pretraining had
    "hidden_act": "gelu_tanh",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
# What small models start from, so that they need no thousands of steps to find neighbouring words.
START = {"initializer_range": 0.05, "position_initializer": "neighbors"}

# Options of a run that are folders: the same one may have moved.
_PATHS = frozenset({"init_from"})
_TOOLS = Path(__file__).resolve().parents[1] / "tools"
_ALL_MASK = {"mask_token_rate": 1.0, "random_token_rate": 0.0}


class Corpus(NamedTuple):
    """Text and the vocabulary that cuts it; folders are within the one of all stages.

    Attributes:
        records: folder of its records.
        texts: folders with train/*.txt and eval/*.txt.
        vocab: folder of its vocab.txt.
    """

    records: str
    texts: tuple[str, ...]
    vocab: str


GENERAL = Corpus("records", ("text", "data/corpus"), "vocab")


class Downstream(NamedTuple):
    """A task that a pretrained model is judged by.

    Attributes:
        name: of its folder within that of a run.
        title: for tables.
        data: its folder within the one of all stages.
        metric: the one that counts.
        flags: of run_finetuning.py.
        write: writes its folder; None: it comes with the sample data.
    """

    name: str
    title: str
    data: str
    metric: str
    flags: dict[str, Any]
    write: Callable[[Path], object] | None = None


VERSES = Downstream(
    "pairs",
    "verse pairs",
    "data/pairs",
    "accuracy",
    {"task": "csv", "epochs": 2, "batch_size": 32, "learning_rate": 3e-4, "max_seq_length": 128},
)
REVIEWS = Downstream(
    "reviews",
    "food reviews",
    "reviews",
    "accuracy",
    {"task": "csv", "epochs": 3, "batch_size": 32, "learning_rate": 2e-4, "max_seq_length": 128},
    lambda folder: food_reviews.write(folder, validation=400),
)
NAMES = Downstream(
    "names",
    "proper names, F1",
    "names",
    "f1",
    {
        "task": "conll",
        "label_index": 2,
        "epochs": 2,
        "batch_size": 32,
        "learning_rate": 5e-4,
        "max_seq_length": 64,
    },
    lambda folder: brown.write(folder, training_texts=100),
)

PARTS_OF_SPEECH = NAMES._replace(
    name="parts_of_speech",
    title="parts of speech",
    metric="accuracy",
    flags=NAMES.flags | {"label_index": 1, "scheme": "plain"},
    write=None,
)
SPAM = REVIEWS._replace(
    name="spam",
    title="spam",
    data="spam",
    flags=REVIEWS.flags | {"epochs": 2},
    write=spam.write,
)


def name_features(strategy: LayerStrategy, title: str) -> Downstream:
    """Returns proper names by a BiLSTM on features of the frozen model (section 5.3 of the paper).

    Args:
        strategy: which layers they come from.
        title: for tables.
    """
    changes = {"features_from": strategy, "lstm_width": 128, "learning_rate": 1e-3}
    return NAMES._replace(
        name=f"names_{strategy}", title=title, flags=NAMES.flags | changes, write=None
    )


class SmallPretraining(NamedTuple):
    """Runs that have their text, vocabulary, records and tasks in common.

    Attributes:
        folder: of all stages.
        max_seq_length: of the records.
        train_steps: of each run.
        learning_rate: the peak of each run.
        tasks: that the models are judged by.
        packages: where the text comes from.
    """

    folder: Path
    max_seq_length: int
    train_steps: int
    learning_rate: float
    tasks: tuple[Downstream, ...]
    packages: tuple[str, ...] = english_text.PACKAGES

    def prepare(self) -> None:
        """Fetches the text and makes vocabulary, records and the tasks' data of it."""
        with self._one_process():
            text = self.folder / "text"
            if not text.is_dir():
                with atomic_folder(text) as temporary:
                    print(f"text: {english_text.write(temporary, self.packages)}", flush=True)
            there = {path.stem for path in (text / "train").glob("*.txt")}
            if there != {Path(package).name for package in self.packages}:
                raise SystemExit(
                    f"{text} has the text of {len(there)} package(s), and that of "
                    f"{len(self.packages)} is asked for: give another --folder or move it away"
                )
            if not (self.folder / "data" / "pairs" / "test.csv").is_file():  # the last of its files
                run_tool("prepare_sample_data", output_dir=self.folder / "data")
            for task in self.tasks:
                if task.write and not (self.folder / task.data).is_dir():
                    with atomic_folder(self.folder / task.data) as temporary:
                        task.write(temporary)
            self.learn_vocabulary(GENERAL)

    def learn_vocabulary(self, corpus: Corpus) -> None:
        """Learns the vocabulary of a corpus from its training text."""
        vocab = self.folder / corpus.vocab / "vocab.txt"
        if not (vocab.parent / "tokenizer_config.json").is_file():  # written after vocab.txt
            texts = self.texts(corpus, "train")
            run_tool("build_vocab", input=texts, output=vocab, vocab_size=VOCAB_SIZE)

    @contextlib.contextmanager
    def _one_process(self) -> Iterator[None]:
        """Waits for others that make something in this folder: runs may go side by side."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / ".lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # until the file is closed
            yield

    def records(self, sentence_task: SentenceTask = "nsp", corpus: Corpus = GENERAL) -> Path:
        """Makes the records of all runs with sentences paired so; returns their folder."""
        suffix = "" if sentence_task == "nsp" else f"_{sentence_task}"
        folder = self.folder / (corpus.records + suffix)
        with self._one_process():
            for split, passes in (("train", 2), ("eval", 1)):
                if not (folder / split / "manifest.json").is_file():
                    run_tool(
                        "create_pretraining_data",
                        input=self.texts(corpus, split),
                        vocab=self.folder / corpus.vocab / "vocab.txt",
                        output_dir=folder / split,
                        max_seq_length=self.max_seq_length,
                        sentence_task=sentence_task,
                        dupe_factor=passes,
                        num_workers=2,
                    )
        return folder

    def pretrain(
        self,
        name: str,
        config: BertConfig,
        sentence_task: SentenceTask = "nsp",
        train_steps: int | None = None,
        corpus: Corpus = GENERAL,
        **flags: object,
    ) -> Path:
        """Pretrains a model on the records; returns its run folder.

        Args:
            name: of the run within the folder; a run that was stopped goes on.
            config: of any family. There is no dropout: a run sees each text three times at most.
            sentence_task: how the sentences of its records are paired.
            train_steps: if not those of all these runs.
            corpus: what it reads.
            **flags: of run_pretraining.py, where they differ from those of all these runs.
        """
        run = self.folder / name
        if (run / "report.md").is_file():  # written at the end
            asked = {"train_steps": train_steps or self.train_steps, "batch_size": BATCH_SIZE}
            asked |= {"learning_rate": self.learning_rate} | flags
            # As the run keeps it: from left to right, for instance.
            objective = objective_named(flags.get("objective", "masked"), sentence_task)
            _check_finished(run, objective.model_config(config), asked)
            return run
        records, steps = self.records(sentence_task, corpus), train_steps or self.train_steps
        arguments: dict[str, object] = {
            "data_dir": records / "train",
            "eval_data_dir": records / "eval",
            "model_dir": run,
            "model": self._write(name, config),
            "train_steps": steps,
            "warmup_steps": steps // 16,
            "eval_steps": max(1, steps // 9),
            "checkpoint_steps": max(1, steps // 60),
            "batch_size": BATCH_SIZE,
            "learning_rate": self.learning_rate,
            "bias_correction": True,  # without it such short runs may never start to learn
        }
        run_tool("run_pretraining", **(arguments | flags))
        if not (run / "report.md").is_file():
            raise SystemExit("stopped: the same command goes on from here")
        return run

    def finetune(
        self,
        run: Path,
        task: Downstream,
        from_scratch: bool = False,
        seed: int = 0,
        step: int | None = None,
    ) -> float:
        """Fine-tunes the model of a run on a task; returns the metric on its test data.

        Args:
            run: from `pretrain`.
            task: one of those of all runs.
            from_scratch: take the model's size, not its weights.
            seed: of order, dropout and weights that are not taken.
            step: take the model as it was then, of a run with `preset_steps`; None: as it ended.
        """
        name = f"{task.name}_from_scratch" if from_scratch else task.name
        name = name if step is None else f"{name}_{step}"
        start = run / ("preset" if step is None else f"kept_presets/step_{step}")
        model_dir = run / "tasks" / name
        if FinetuningResult.finished(model_dir) is None:
            shutil.rmtree(model_dir, ignore_errors=True)  # what was stopped within
            run_tool(
                "run_finetuning",
                *(["--from_scratch"] if from_scratch else []),
                data=self.folder / task.data,
                init_from=start,
                model_dir=model_dir,
                seed=seed,
                **task.flags,
            )
        return FinetuningResult.finished(model_dir).test[task.metric]

    def held_out_metrics(self, run: Path) -> dict[str, float]:
        """Measures the model of a run on the held-out records with every chosen piece a [MASK].

        So that runs which hid pieces in other ways are measured alike, and no chosen piece can be
        read.
        """
        path = run / "held_out.json"
        if not path.is_file():
            metrics = _measure(self.records() / "eval", run)
            with atomic_file(path) as temporary:
                temporary.write_text(json.dumps(metrics, indent=2) + "\n")
        return json.loads(path.read_text())

    def _write(self, name: str, config: BertConfig) -> Path:
        path = self.folder / "configs" / f"{Path(name).name}.json"
        path.parent.mkdir(exist_ok=True)
        with atomic_file(path) as temporary:
            temporary.write_text(json.dumps(config.to_dict(), indent=2) + "\n")
        return path

    def texts(self, corpus: Corpus, split: str) -> str:
        """Returns the files of a split, "train" or "eval", as the tools take them."""
        return ",".join(f"{self.folder}/{name}/{split}/*.txt" for name in corpus.texts)


def _check_finished(run: Path, config: BertConfig, asked: Mapping[str, object]) -> None:
    """Ends where a run of that name was made in another way: its scores would be taken for ours."""
    made = json.loads((run / "run.json").read_text())
    wanted = config.to_dict() | {key: asked[key] for key in asked.keys() - _PATHS}
    # Not all flags are kept: how often a run is evaluated makes no other model.
    found = {key: value for key, value in made["options"].items() if key in wanted}
    fields = dict.fromkeys(config.to_dict()) | made["config"]  # of both: defaults are left out
    for key, value in (fields | found).items():
        if value != wanted.get(key):
            raise SystemExit(
                f"{run} was made with {key} {value}, and {wanted.get(key)} is asked for: give "
                "another --folder, or move that one away"
            )


def median_and_range(values: Sequence[float], scale: float = 100, digits: int = 1) -> str:
    """Returns the median over seeds, in percent if not told otherwise, and the range of several."""
    if not values:
        return ""
    scaled = [scale * value for value in values]
    spread = f" ({min(scaled):.{digits}f} to {max(scaled):.{digits}f})" if len(values) > 1 else ""
    return f"{statistics.median(scaled):.{digits}f}{spread}"


def last_metrics(run: Path, split: str) -> dict[str, float]:
    """Returns the last line of a run's metrics of a split: "train", or "eval" as it trained."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if line["split"] == split][-1]


def _measure(records: Path, run: Path) -> dict[str, float]:
    import tensorflow as tf

    from keras_bert import BertPretrainer, BertTokenizer, PretrainingOptions
    from keras_bert.data.records.record_set import PretrainingData
    from keras_bert.pretraining.evaluation import create_evaluation
    from keras_bert.pretraining.objectives.registry import create_objective

    data = PretrainingData(str(records))
    options = PretrainingOptions("", "", batch_size=BATCH_SIZE, **_ALL_MASK)
    objective = create_objective(options, data)
    targets = objective.targets(options, BertTokenizer.from_preset(run / "preset"), data)
    model = BertPretrainer.from_preset(run / "preset")
    strategy = tf.distribute.get_strategy()
    return create_evaluation(model, objective, data, targets, options, strategy)()


def run_tool(tool: str, *arguments: str, **named: object) -> None:
    """Runs a tool and prints its command line; ends where it fails."""
    command = [str(_TOOLS / f"{tool}.py"), *(f"--{key}={value}" for key, value in named.items())]
    print(f"\n$ python {shlex.join([*command, *arguments])}", flush=True)
    subprocess.run([sys.executable, *command, *arguments], check=True)
