"""Full disks, folders that are read-only or vanish, files cut short: one sentence, nothing half."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUNNER = Path(__file__).with_name("forked_tools.py")


def run_tools(runs, folder):
    """Runs `{"command": [tool, flag, ...]}` in `folder`; returns status and output of each."""
    for one in runs:
        one["command"] = [str(ROOT / "tools" / one["command"][0]), *one["command"][1:]]
    done = subprocess.run(
        [sys.executable, str(RUNNER)],
        input=json.dumps(runs),
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, pretrained_folder, sentiment_folder, sentiment_run):
    """Inputs of all tools: a text, a vocabulary, records, a pretrained and a fine-tuned model."""
    folder = tmp_path_factory.mktemp("disk")
    text = "a good film and a bad book . the film was fine .\n" * 200
    (folder / "corpus.txt").write_text(text, encoding="utf-8")
    (folder / "new.csv").write_text("text\n" + "good film\n" * 400, encoding="utf-8")
    (folder / "lines.txt").write_text("good film\n" * 100, encoding="utf-8")
    (folder / "pretrained").symlink_to(pretrained_folder)
    (folder / "finetuned").symlink_to(sentiment_run[0])
    (folder / "data").symlink_to(sentiment_folder)
    return folder


# Command, the flag of the target, the target, and the largest file in bytes that the disk takes.
TRAINING = ["--mixed_precision=float32", "--batch_size=8"]
RECORDS = [
    *("create_pretraining_data.py", "--input=corpus.txt", "--vocab=pretrained/vocab.txt"),
    *("--max_seq_length=32", "--sentence_task=none"),
]
CONVERT = ["convert_checkpoint.py", "--from=pretrained"]
FEATURES = ["extract_features.py", "--init_from=pretrained", "--layers=last", "--input=lines.txt"]
FULL = [
    # tokenizer_config.json, which is written first, has room.
    (
        ["build_vocab.py", "--input=corpus.txt", "--vocab_size=150", "--unused_slots=100"],
        *("output", "v/vocab.txt", 500),
    ),
    (RECORDS, "output_dir", "no_records", 900),
    (CONVERT, "to", "as_keras", 20_000),
    ([*CONVERT, "--format=google"], "to", "as_google", 9000),
    ([*CONVERT, "--format=hf"], "to", "as_hf", 9000),
    ([*CONVERT, "--format=garden"], "to", "as_garden", 9000),
    (
        [
            *("run_pretraining.py", "--data_dir=records", "--model=pretrained/config.json"),
            *("--train_steps=2", "--warmup_steps=1", *TRAINING),
        ],
        "model_dir",
        "pretraining",
        9000,
    ),
    (
        ["run_finetuning.py", "--data=data", "--init_from=pretrained", "--epochs=1", *TRAINING],
        "model_dir",
        "finetuning",
        9000,
    ),
    (["export_saved_model.py", "--model_dir=finetuned"], "export_dir", "served", 9000),
    (
        ["export_saved_model.py", "--model_dir=finetuned", "--format=tfhub"],
        *("export_dir", "as_tfhub", 9000),
    ),
    (["predict.py", "--model_dir=finetuned", "--input=new.csv"], "output", "answers.csv", 2000),
    (FEATURES, "output", "features.npz", 9000),
    (FEATURES, "output", "features.tfrecord", 9000),
]


@pytest.fixture(scope="module")
def with_records(folder):
    (made,) = run_tools([{"command": [*RECORDS, "--output_dir=records"]}], folder)
    assert made["status"] == 0, made["printed"]
    return folder


@pytest.mark.slow
def test_a_full_disk_ends_every_tool_with_one_sentence(with_records, subtests):
    folder, runs = with_records, []
    for command, flag, target, size in FULL:
        runs.append({"command": [*command, f"--{flag}={target}"], "largest_file": size})
    answers = run_tools(runs, folder)
    for (_, _, target, _), answer in zip(FULL, answers, strict=True):
        with subtests.test(target=target):
            assert answer["status"] == 1, answer["printed"]
            assert "Traceback" not in answer["printed"], answer["printed"]
            last = answer["printed"].strip().splitlines()[-1]
            assert last.startswith("error: "), answer["printed"]
            assert target in last, last
            assert "room" in last, last
    # Jobs that go on where they stopped keep their folder; everything else leaves nothing.
    left = {path.name for path in folder.iterdir()}
    kept = {"no_records", "pretraining", "finetuning", "served", "v"}
    assert left - {target.split("/")[0] for _, _, target, _ in FULL} == {
        *("corpus.txt", "new.csv", "lines.txt", "pretrained", "finetuned", "data", "records")
    }
    assert not {target for _, _, target, _ in FULL} & left - kept
    assert not any((folder / "served").iterdir())
    assert not (folder / "v/vocab.txt").exists()
    for unfinished in ("pretraining/preset", "finetuning/model.weights.h5"):
        assert not (folder / unfinished).exists()


@pytest.mark.long
def test_a_target_below_a_file_ends_with_one_sentence(with_records, subtests):
    folder = with_records
    (folder / "file").write_text("not a folder")
    runs = [{"command": [*command, f"--{flag}=file/{target}"]} for command, flag, target, _ in FULL]
    answers = run_tools(runs, folder)
    for (_, _, target, _), answer in zip(FULL, answers, strict=True):
        with subtests.test(target=target):
            assert answer["status"] == 1, answer["printed"]
            assert "Traceback" not in answer["printed"], answer["printed"]
            last = answer["printed"].strip().splitlines()[-1]
            assert last.startswith("error: ") and "file" in last, answer["printed"]
    assert (folder / "file").read_text() == "not a folder"


@pytest.mark.slow
def test_a_bucket_is_refused_where_only_the_disk_is_written_to(with_records, subtests):
    """Else all would be in a folder named gs: and lost with the machine."""
    commands = [(command, flag, target) for command, flag, target, _ in FULL]
    commands = [found for found in commands if found[0][0] != "run_pretraining.py"]
    commands += [
        (["prepare_sample_data.py"], "output_dir", "sample"),
        (["quickstart.py"], "output_dir", "quickstart"),
        (["grow_vocabulary.py", "--model=pretrained", "--input=corpus.txt"], "output", "grown"),
        (["augment_data.py", "--model=pretrained", "--data=new.csv"], "output", "more.csv"),
    ]
    runs = [
        {"command": [*command, f"--{flag}=gs://b/{target}"]} for command, flag, target in commands
    ]
    for (command, _, target), answer in zip(commands, run_tools(runs, with_records), strict=True):
        with subtests.test(command=command[0], target=target):
            assert answer["status"] == 1, answer["printed"]
            assert "Traceback" not in answer["printed"], answer["printed"]
            last = answer["printed"].strip().splitlines()[-1]
            assert last.startswith("error: ") and "gs://b/" in last, answer["printed"]
    assert not (with_records / "gs:").exists()


@pytest.mark.slow
def test_a_read_only_folder_ends_every_tool_with_one_sentence(with_records, subtests):
    folder = with_records
    (folder / "read_only").mkdir()
    (folder / "read_only").chmod(0o555)
    runs = [
        {"command": [*command, f"--{flag}=read_only/{target}"]} for command, flag, target, _ in FULL
    ]
    for (_, _, target, _), answer in zip(FULL, run_tools(runs, folder), strict=True):
        with subtests.test(target=target):
            assert answer["status"] == 1, answer["printed"]
            assert "Traceback" not in answer["printed"], answer["printed"]
            last = answer["printed"].strip().splitlines()[-1]
            assert last.startswith("error: "), answer["printed"]
            assert "read_only" in last and "ermission" in last, last
    assert not any((folder / "read_only").iterdir())


@pytest.mark.long
def test_a_folder_that_vanishes_never_ends_in_a_traceback(with_records, subtests):
    folder, runs = with_records, []
    for command, flag, target, _ in FULL:
        vanishing = f"vanishing_{target}".split("/")[0]
        if target.endswith((".csv", ".npz", ".tfrecord")):  # a file, in a folder that vanishes
            vanishing, target = f"vanishing_{target}_folder", f"{target}_folder/{target}"
            (folder / vanishing).mkdir()
        runs.append({"command": [*command, f"--{flag}=vanishing_{target}"], "vanishing": vanishing})
    for (command, _, target, _), answer in zip(FULL, run_tools(runs, folder), strict=True):
        with subtests.test(target=target, tool=command[0]):
            assert "Traceback" not in answer["printed"], answer["printed"]
            assert answer["status"] in (0, 1), answer["printed"]
            if answer["status"]:
                last = answer["printed"].strip().splitlines()[-1]
                assert last.startswith("error: ") and "vanishing" in last, answer["printed"]


@pytest.fixture(scope="module")
def finished(folder):
    """What each tool reads, whole: compressed text, records, a short pretraining run."""
    with gzip.open(folder / "corpus.txt.gz", "wb") as file:
        file.write((folder / "corpus.txt").read_bytes())
    pretrain = [
        *("run_pretraining.py", "--data_dir=whole_records", "--model_dir=whole_run", *TRAINING),
        *("--model=pretrained/config.json", "--train_steps=2", "--warmup_steps=1"),
    ]
    records = [*RECORDS, "--output_dir=whole_records", "--num_shards=2"]
    made = run_tools([{"command": records}, {"command": pretrain}], folder)
    assert all(one["status"] == 0 for one in made), made
    return folder


READ = [
    ("corpus.txt.gz", ["build_vocab.py", "--input=cut", "--output=new/v.txt", "--vocab_size=40"]),
    (
        "pretrained/vocab.txt",
        ["create_pretraining_data.py", "--input=corpus.txt", "--vocab=cut", "--output_dir=new/r"],
    ),
    ("whole_records/manifest.json", ["inspect_records.py", "--input=in"]),
    ("whole_records/examples-00000-of-00002.tfrecord", ["inspect_records.py", "--input=in"]),
    (
        "whole_records/examples-00000-of-00002.tfrecord",
        [
            *("run_pretraining.py", "--data_dir=in", "--model=pretrained/config.json"),
            *("--model_dir=new/p", "--train_steps=1", "--warmup_steps=1", *TRAINING),
        ],
    ),
    *(
        (f"pretrained/{name}", ["convert_checkpoint.py", "--from=in", "--to=new/c"])
        for name in ("config.json", "tokenizer_config.json", "model.weights.h5")
    ),
    *(
        (
            f"finetuned/{name}",
            ["predict.py", "--model_dir=in", "--input=new.csv", "--output=new/a.csv"],
        )
        for name in ("task.json", "config.json", "model.weights.h5", "vocab.txt")
    ),
    *(
        (
            f"whole_run/{name}",
            [
                *("run_pretraining.py", "--data_dir=whole_records", "--model_dir=in", *TRAINING),
                *("--model=pretrained/config.json", "--train_steps=2", "--warmup_steps=1"),
            ],
        )
        for name in (
            *("run.json", "metrics.jsonl", "starts.jsonl", "checkpoints/checkpoint"),
            *("checkpoints/step-2.index", "checkpoints/step-2.data-00000-of-00001"),
        )
    ),
    (
        "data/train.csv",
        [
            *("run_finetuning.py", "--data=in", "--init_from=pretrained", "--model_dir=new/f"),
            *("--epochs=1", *TRAINING),
        ],
    ),
]


@pytest.mark.long
def test_a_file_cut_at_any_tenth_never_ends_in_a_traceback(finished, tmp_path, subtests):
    runs, names = [], []
    for number, (name, command) in enumerate(READ):
        source = finished / name
        parent = finished / Path(name).parts[0]
        for tenth in range(10):
            place = tmp_path / f"{number}-{tenth}"
            place.mkdir()
            for kept in ("corpus.txt", "pretrained", "whole_records", "new.csv"):
                (place / kept).symlink_to(finished / kept)
            cut = place / "cut"
            if parent.is_dir():
                shutil.copytree(parent, place / "in")
                cut = place / "in" / source.relative_to(parent)
                if "--vocab=cut" in command:
                    (place / "cut").symlink_to(cut)
            whole = source.read_bytes()
            cut.write_bytes(whole[: len(whole) * tenth // 10])
            runs.append({"command": list(command), "folder": str(place)})
            names.append(f"{name} {command[0]} {tenth}/10")
    for name, answer in zip(names, run_tools(runs, finished), strict=True):
        with subtests.test(name=name):
            assert "Traceback" not in answer["printed"], answer["printed"]
            assert answer["status"] in (0, 1), answer["printed"]
            if answer["status"]:
                assert answer["printed"].strip().splitlines()[-1].startswith("error: ")
