"""Folders of pretraining runs as such runs leave them, without a run."""

import json

from keras_bert.training.run_folder import RunFolder
from tests.signatures.tiny_models import tiny_config


def write_pretraining_run(folder, lower=0.0, learning_rate=1e-3):
    """Writes a run that stands at step 50 of 100; its losses are lower by so much."""
    settings = {
        "config": tiny_config().to_dict(),
        "options": {"train_steps": 100, "time_budget": None, "learning_rate": learning_rate},
        "num_examples": 1000,
        "max_seq_length": 24,
    }
    folder.mkdir(parents=True)
    run = RunFolder(folder, settings)
    run.start(0)
    start = {"time": "2026-11-01T12:00:00", "step": 0, "versions": {"keras_bert": "0.1.0"}}
    start |= {"machine": "Linux", "devices": [], "command": "--learning_rate=1e-3 & more"}
    run.note_start(start)
    lines = []
    for step in range(10, 60, 10):
        loss = 5.5 - step / 20 - lower
        speed = {10: 1.0, 20: 300.0, 30: 400.0, 40: 500.0, 50: 350.0}[step]
        lines.append(
            {"split": "train", "step": step, "masked_lm_loss": loss, "loss": loss}
            | {"masked_lm_accuracy": step / 100, "tokens_per_second": speed + 1000 * lower}
            | {"learning_rate": learning_rate * step / 50, "gradient_norm": step / 20}
            | {"seconds": float(step)}
        )
        if step == 10:
            lines.append({"split": "event", "step": 12, "message": "step 12 skipped"})
    for step, loss in ((20, 4.0), (40, 3.0), (50, 3.5)):
        lines.append(
            {"split": "eval", "step": step, "masked_lm_loss": loss - lower, "loss": loss - lower}
            | {"masked_lm_accuracy": step / 90, "most_frequent_piece_accuracy": 0.125}
        )
    lines.sort(key=lambda line: line["step"])
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text, encoding="utf-8")
    return folder
