"""An epoch of fine-tuning on reviews: ours against Hugging Face, as texts come and by length.

    make benchmark NAME=finetuning_speed ARGS='--examples=1000'

The 6-layer MiniLM, batches of 16, rate 5e-5, cut at 512 pieces, every batch padded to its longest
row. Hugging Face shuffles all texts, or puts texts of like length into a batch, as its trainer does
with `group_by_length`. LoRA of rank 8 stands beside all dense layers of the blocks, and pooler and
head are trained too. Hugging Face's is PEFT's, where query, key and value are three layers with
matrices of their own (here one, 49,152 numbers a block in place of 55,296) and the first ones start
2.4 times as small, so that at one rate theirs learns slower. A round is one epoch of a fresh run,
tracing included; tokenizing and the answers to the test reviews afterwards are not. --sides=TEXT
takes the sides with TEXT in their names, and ours in bfloat16.
"""

import dataclasses
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import contest
import food_reviews
import numpy as np
import packages
from absl import app, flags

flags.DEFINE_integer("examples", 1000, "Reviews to train on.", lower_bound=32)
flags.DEFINE_integer("test_examples", 300, "Reviews to test with.", lower_bound=1)
flags.DEFINE_integer("rounds", 3, "Rounds of each side.", lower_bound=1)
flags.DEFINE_multi_string("sides", [], "Parts of names of sides, beside ours in bfloat16.")
flags.DEFINE_string("side", None, "Run as this side (the benchmark starts itself so).")

FLAGS = flags.FLAGS
BATCH_SIZE, RATE, LONGEST = 16, 5e-5, 512
LORA_RANK, LORA_RATE = 8, 1e-3
THREADS = len(os.sched_getaffinity(0))
Epoch = Callable[[], dict[str, float]]


def ours(dtype: str, folder: Path, lora_rank: int | None = None) -> Epoch:
    """Returns what an epoch of `finetune` takes and reaches."""
    from keras_bert import FinetuningOptions, create_task, finetune
    from keras_bert.tasks.classification.head import LabeledTexts

    task = create_task("csv")
    data = task.read(food_reviews.write(folder / "data"))
    counts = {"train": FLAGS.examples, "test": FLAGS.test_examples}
    splits = {
        name: LabeledTexts(split.texts[: counts[name]], None, split.labels[: counts[name]])
        for name, split in data.splits.items()
    }
    data = dataclasses.replace(data, splits=splits)

    seeds = itertools.count(1)

    def epoch() -> dict[str, float]:
        seed = next(seeds)
        options = FinetuningOptions(
            epochs=1,
            batch_size=BATCH_SIZE,
            learning_rate=LORA_RATE if lora_rank else RATE,
            lora_rank=lora_rank,
            max_seq_length=LONGEST,
            mixed_precision=dtype,
            seed=seed,
        )
        result = finetune(task, data, packages.minilm(), folder / f"run{seed}", options)
        return {"seconds": result.seconds, "accuracy": result.test["accuracy"]}

    return epoch


def hugging_face(dtype: str, by_length: bool, lora_rank: int | None = None) -> Epoch:
    """Returns what an epoch in PyTorch takes and reaches; bfloat16 is autocast, LoRA is PEFT's."""
    import torch
    from transformers import AutoTokenizer, BertForSequenceClassification

    torch.set_num_threads(THREADS)
    device = contest.torch_device()
    tokenizer = AutoTokenizer.from_pretrained(packages.minilm())
    frames = food_reviews.load()
    names = sorted(set(frames["train"]["label"]))
    parts = {}
    for split, count in (("train", FLAGS.examples), ("test", FLAGS.test_examples)):
        texts = [str(text) for text in frames[split]["text"][:count]]
        labels = np.array([names.index(label) for label in frames[split]["label"][:count]])
        parts[split] = (texts, labels)

    def tokenized(texts: list[str]) -> list[list[int]]:
        return tokenizer(texts, truncation=True, max_length=LONGEST)["input_ids"]

    def logits(model: Any, rows: list[list[int]]) -> Any:
        padded = tokenizer.pad({"input_ids": rows}, return_tensors="pt").to(device)
        with torch.autocast(device, torch.bfloat16, enabled=dtype == "bfloat16"):
            return model(**padded).logits.float()

    seeds = itertools.count(1)

    def epoch() -> dict[str, float]:
        seed = next(seeds)
        torch.manual_seed(seed)
        random = np.random.default_rng(seed)
        model = BertForSequenceClassification.from_pretrained(packages.minilm(), num_labels=2)
        if lora_rank:
            import peft

            layers = ["query", "key", "value", "output.dense", "intermediate.dense"]
            model = peft.get_peft_model(
                model,
                peft.LoraConfig(
                    task_type="SEQ_CLS",
                    r=lora_rank,
                    lora_alpha=lora_rank,
                    target_modules=layers,
                    modules_to_save=["pooler", "classifier"],
                ),
            )
        model = model.to(device)
        learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
        peak = LORA_RATE if lora_rank else RATE
        optimizer = torch.optim.AdamW(learning, lr=peak, weight_decay=0.01, fused=True)
        texts, labels = parts["train"]
        rows = tokenized(texts)
        start = time.perf_counter()
        order = random.permutation(len(rows))
        if by_length:
            # Sorted within parts of 50 batches, as the trainer's LengthGroupedSampler does.
            lengths = np.array([len(row) for row in rows])
            order = np.concatenate(
                [
                    part[np.argsort(-lengths[part], kind="stable")]
                    for part in np.array_split(order, -(-len(order) // (50 * BATCH_SIZE)))
                ]
            )
        batches = [order[i : i + BATCH_SIZE] for i in range(0, len(order), BATCH_SIZE)]
        batches = [batches[i] for i in random.permutation(len(batches))]
        steps = len(batches)
        warmup = max(1, steps // 10)
        model.train()
        for step, batch in enumerate(batches):
            rate = min((step + 1) / warmup, (steps - step) / (steps - warmup))
            for group in optimizer.param_groups:
                group["lr"] = peak * rate
            found = logits(model, [rows[row] for row in batch])
            loss = torch.nn.functional.cross_entropy(
                found, torch.from_numpy(labels[batch]).to(device)
            )
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(learning, 1.0)
            optimizer.step()
        loss.item()  # waits for the device
        seconds = time.perf_counter() - start

        model.eval()
        texts, labels = parts["test"]
        rows, hits = tokenized(texts), 0
        with torch.inference_mode():
            for i in range(0, len(rows), BATCH_SIZE):
                found = logits(model, rows[i : i + BATCH_SIZE]).argmax(-1).cpu().numpy()
                hits += int((found == labels[i : i + BATCH_SIZE]).sum())
        return {"seconds": seconds, "accuracy": hits / len(rows)}

    return epoch


SIDES: dict[str, Callable[[Path], Epoch]] = {
    "ours, bfloat16": lambda folder: ours("bfloat16", folder),
    "Hugging Face, bfloat16, by length": lambda _: hugging_face("bfloat16", True),
    "Hugging Face, bfloat16, as they come": lambda _: hugging_face("bfloat16", False),
    "ours, float32": lambda folder: ours("float32", folder),
    "Hugging Face, float32, by length": lambda _: hugging_face("float32", True),
    "ours, bfloat16, LoRA": lambda folder: ours("bfloat16", folder, LORA_RANK),
    "PEFT, bfloat16, LoRA, by length": lambda _: hugging_face("bfloat16", True, LORA_RANK),
}


def main(_: list[str]) -> None:
    """Measures and prints a table."""
    if FLAGS.side:
        with tempfile.TemporaryDirectory() as folder:
            contest.answer_rounds(SIDES[FLAGS.side](Path(folder)))
        return
    names = contest.chosen(SIDES, FLAGS.sides, ["ours, bfloat16"])
    sides = contest.run(names, FLAGS.rounds, sys.argv)
    own = sides[0].median("seconds")
    print(
        f"\n{FLAGS.examples} reviews\n\n| side | an epoch, s | x ours, bfloat16 "
        "| test accuracy | memory, MB |\n|---|---|---|---|---|"
    )
    for side in sides:
        accuracy = statistics.mean(found["accuracy"] for found in side.rounds)
        print(
            f"| {side.name} | {side.median('seconds'):.1f} | {side.median('seconds') / own:.2f} "
            f"| {accuracy:.3f} | {side.median('peak_mb'):,.0f} |"
        )


if __name__ == "__main__":
    app.run(main)
