import contextlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from keras_bert.data.corpus import reading as corpus_module
from keras_bert.data.creation import chunks
from keras_bert.data.creation.create import create_pretraining_data
from keras_bert.data.creation.options import CreationOptions
from keras_bert.data.records.manifest import Manifest

ROOT = Path(__file__).parents[2]
# Of the fixture `records`.
SETTINGS = {"max_seq_length": 64, "dupe_factor": 1, "num_shards": 3, "seed": 1}


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def options(novels, vocab, tmp_path):
    """Those of the fixture `records`, into another folder."""

    def make(**changes):
        values = {
            "inputs": (str(novels),),
            "vocab": str(vocab),
            "output_dir": str(tmp_path / "out"),
        }
        return CreationOptions(**(values | SETTINGS | changes))

    return make


def start(options, **settings):
    """Starts the tool in a process group of its own."""
    names = "vocab output_dir max_seq_length dupe_factor num_shards seed num_workers".split()
    flags = [f"--{name}={getattr(options, name)}" for name in names]
    command = [sys.executable, ROOT / "tools" / "create_pretraining_data.py", *flags]
    return subprocess.Popen(
        [*command, f"--input={','.join(options.inputs)}"],
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        # A shell's background jobs ignore SIGINT, and so would what a test starts there.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        **({"stderr": subprocess.DEVNULL, "stdout": subprocess.DEVNULL} | settings),
    )


def chunks_done(output):
    try:
        return json.loads((output / ".unfinished" / "state.json").read_text())["counts"]["chunks"]
    except FileNotFoundError:
        return 0


def wait_while(condition, process):
    """Waits for something that a process does; fails if it ends or takes too long instead."""
    deadline = time.monotonic() + 120
    while condition():
        assert process.poll() is None, f"the job ended with {process.returncode}"
        assert time.monotonic() < deadline, "the job takes too long"
        time.sleep(0.001)


def kill_after_chunk(process, output):
    try:
        wait_while(lambda: chunks_done(output) < 1, process)
    finally:
        kill(process)


def kill(process):
    """Kills a process and its workers, unless it has ended."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="module")
def killed_job(novels, vocab, tmp_path_factory):
    """The folder of a job that was killed when one of two chunks was complete."""
    output = tmp_path_factory.mktemp("killed") / "out"
    kill_after_chunk(
        start(CreationOptions((str(novels),), str(vocab), str(output), **SETTINGS)), output
    )
    assert chunks_done(output) == 1
    assert not (output / "manifest.json").exists()
    return output


@pytest.fixture
def killed(killed_job, tmp_path):
    """A copy of it."""
    return Path(shutil.copytree(killed_job, tmp_path / "out"))


def test_a_killed_job_goes_on_and_ends_with_the_same_bytes(killed, options, records, capsys):
    with open(killed / ".unfinished" / "examples-00001-of-00003.tfrecord", "ab") as shard:
        shard.write(b"half a record of a chunk that was under way")
    (killed / ".unfinished" / "chunk-0-1").write_bytes(b"half")
    create_pretraining_data(options())
    assert "going on after 1 chunk(s)" in capsys.readouterr().err
    assert contents(killed) == contents(records)


def test_another_job_is_refused_and_the_first_can_still_go_on(
    killed, options, records, vocab, novels, tmp_path
):
    for changes, told in (
        ({"seed": 2}, r"seed: 1 then, 2 now"),
        ({"sentence_task": "sop"}, r"sentence_task: nsp then, sop now"),
        ({"inputs": (str(novels), str(vocab))}, r"files of the corpus: .*inputs: "),
    ):
        with pytest.raises(FileExistsError, match=rf"unfinished job that was told .*{told}.*remov"):
            create_pretraining_data(options(**changes))
    other = tmp_path / "other" / novels.name
    other.parent.mkdir()
    text = novels.read_bytes()
    try:
        novels.write_bytes(b"!" + text[1:])
        with pytest.raises(FileExistsError, match="files of the corpus: [0-9a-f]+ then, [0-9a-f]+"):
            create_pretraining_data(options())
    finally:
        novels.write_bytes(text)
    create_pretraining_data(options(num_workers=1))
    assert contents(killed) == contents(records)


def test_a_job_of_older_code_is_not_gone_on_with(killed, options):
    path = killed / ".unfinished" / "state.json"
    state = json.loads(path.read_text())
    state["told"].pop("version of the code", None)  # the first ones did not write it
    path.write_text(json.dumps(state))
    with pytest.raises(FileExistsError, match=r"version of the code: None then, \d+ now.*remove"):
        create_pretraining_data(options())


def test_shards_are_on_the_disk_before_something_says_how_large_they_are(
    novels, vocab, tmp_path, monkeypatch
):
    monkeypatch.setattr(chunks, "CHUNK_CHARACTERS", 400_000)
    output = tmp_path / "out"
    sizes: dict[str, int] = {}  # of the shards, as far as they are on the disk
    folder_is_flushed, states = False, 0
    fsync, replace = os.fsync, os.replace

    def recorded_fsync(descriptor):
        nonlocal folder_is_flushed
        fsync(descriptor)
        path, status = Path(os.readlink(f"/proc/self/fd/{descriptor}")), os.fstat(descriptor)
        if path.suffix == ".tfrecord":
            sizes[path.name] = status.st_size
        folder_is_flushed |= path == output

    def checked_replace(source, target):
        nonlocal folder_is_flushed, states
        name = Path(target).name
        if name == "state.json":
            shards = json.loads(Path(source).read_text())["shards"]
            told = [shard["bytes"] for shard in shards]
            states += any(told)
            assert [sizes.get(f"examples-{n:05}-of-00003.tfrecord", 0) for n in range(3)] == told
        elif name == "manifest.json" and Path(target).parent == output:
            assert folder_is_flushed
            shards = json.loads(Path(source).read_text())["shards"]
            assert {shard["name"]: shard["bytes"] for shard in shards} == sizes
        elif Path(target).parent == output:
            folder_is_flushed = False  # its entries have changed
        replace(source, target)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "replace", checked_replace)
    create_pretraining_data(CreationOptions((str(novels),), str(vocab), str(output), **SETTINGS))
    assert states > 2 and folder_is_flushed and len(sizes) == 3


@pytest.fixture
def broken(novels, vocab, tmp_path, monkeypatch, request):
    """Files of a job that ended at a bad byte: one group is complete, of the next one chunk is."""
    given = getattr(request, "param", {})
    monkeypatch.setattr(chunks, "CHUNK_CHARACTERS", 100_000)
    monkeypatch.setattr(corpus_module, "GROUP_BYTES", 400_000)
    text = novels.read_text(encoding="utf-8")
    paths = [tmp_path / f"{name}.txt" for name in "abc"]
    for path, bounds in zip(paths, pairwise((0, 450_000, 750_000, 800_000)), strict=True):
        path.write_text(text[slice(*bounds)], encoding="utf-8")
    paths[2].write_bytes(paths[2].read_bytes() + b"\xff\n")

    def start(output, **changes):
        inputs, output = tuple(map(str, paths)), tmp_path / output
        create_pretraining_data(
            CreationOptions(inputs, str(vocab), str(output), **(SETTINGS | given | changes))
        )
        return contents(output)

    with pytest.raises(
        ValueError, match=r"c\.txt is not UTF-8 .*; 5 complete chunk.* kept: then start"
    ):
        start("out")
    assert chunks_done(tmp_path / "out") == 5
    return start, paths


@pytest.mark.parametrize(
    "broken",
    [{}, {"sentence_task": "none", "cross_documents": True, "static_masking": True}],
    indirect=True,
)
def test_a_job_goes_on_when_a_bad_byte_is_mended(broken, capsys):
    start, paths = broken
    paths[2].write_bytes(paths[2].read_bytes().replace(b"\xff", b"One more sentence."))
    made = start("out")
    assert "going on after 5 chunk(s)" in capsys.readouterr().err
    assert made == start("fresh")


def test_a_job_goes_on_when_bad_bytes_are_to_be_replaced(broken, capsys):
    start, _ = broken
    made = start("out", errors="replace")
    assert "going on after 5 chunk(s)" in capsys.readouterr().err
    assert made == start("fresh", errors="replace")


@pytest.mark.parametrize("file", [0, 1])
def test_what_was_worked_on_must_not_change(broken, tmp_path, file):
    start, paths = broken
    before, kept = contents(tmp_path / "out" / ".unfinished"), paths[file].read_bytes()
    paths[2].write_text("Mended.\n")
    for changed in (b"!" + kept[1:], kept[:90_000]):
        paths[file].write_bytes(changed)
        with pytest.raises(FileExistsError, match="something else .files of the corpus: .*remov"):
            start("out")
    assert contents(tmp_path / "out" / ".unfinished") == before
    paths[file].write_bytes(kept)
    assert start("out") == start("fresh")


def test_a_job_killed_between_its_last_moves_ends_when_started_again(options, records, tmp_path):
    output = tmp_path / "out"
    create_pretraining_data(options())
    # What the job leaves when it is killed behind its last move.
    (output / ".unfinished").mkdir()
    assert create_pretraining_data(options()) == Manifest.read(records)
    assert contents(output) == contents(records)
    (output / ".unfinished").mkdir()
    with pytest.raises(FileExistsError, match="holds finished records already"):
        create_pretraining_data(options(seed=3))


def test_two_jobs_cannot_write_into_one_folder(options, tmp_path):
    process = start(options())
    try:
        wait_while(lambda: not (tmp_path / "out" / ".unfinished").exists(), process)
        with pytest.raises(FileExistsError, match="another process is writing records into"):
            create_pretraining_data(options())
    finally:
        kill(process)


def test_a_changed_shard_is_named(killed, options):
    path = killed / ".unfinished" / "examples-00000-of-00003.tfrecord"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(FileExistsError, match=r"examples-00000-of-00003.* was changed; remove"):
        create_pretraining_data(options())


# What a power cut leaves, and what another version of this library wrote.
@pytest.mark.parametrize(
    "content", [b"", pytest.param(b'{"units": 1, "counts": {}}', marks=pytest.mark.slow)]
)
def test_a_job_whose_notes_cannot_be_read_begins_anew(killed, options, records, capsys, content):
    (killed / ".unfinished" / "state.json").write_bytes(content)
    create_pretraining_data(options())
    told = "state.json is damaged or of another version: beginning anew"
    assert told in capsys.readouterr().err
    assert contents(killed) == contents(records)


@pytest.mark.slow
@pytest.mark.parametrize("pause", [0.1, 0.4])
def test_an_interruption_while_workers_start_is_told_in_one_line(options, tmp_path, pause):
    process = start(options(num_workers=2), stderr=subprocess.PIPE, text=True)
    try:
        wait_while(lambda: not (tmp_path / "out" / ".unfinished" / "state.json").exists(), process)
        time.sleep(pause)
        os.killpg(process.pid, signal.SIGINT)
        printed = process.communicate(timeout=60)[1]
    finally:
        kill(process)
    assert printed.splitlines()[-1] == "error: interrupted"
    assert "Traceback" not in printed


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_job_ends_at_once_and_can_go_on(options, records, tmp_path, workers):
    made = options(num_workers=workers)
    process = start(made, stderr=subprocess.PIPE, text=True)
    try:
        wait_while(lambda: chunks_done(tmp_path / "out") < 1, process)
        os.killpg(process.pid, signal.SIGINT)
        printed = process.communicate(timeout=60)[1]
    finally:
        kill(process)
    assert process.returncode == 1
    assert printed.splitlines()[-1] == "error: interrupted"
    assert "Traceback" not in printed
    create_pretraining_data(made)
    assert contents(tmp_path / "out") == contents(records)


@contextlib.contextmanager
def files_limited_to(size):
    """Writing beyond a size fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_full_disk_ends_with_one_sentence_and_the_job_can_go_on(
    options, make_records, tmp_path, workers
):
    whole = contents(make_records(num_shards=1))
    size = len(whole["examples-00000-of-00001.tfrecord"])
    for limit, done in ((size // 10, 0), (size - 1, 1)):
        sentence = rf"no room left for {tmp_path / 'out'} after {done} chunk.*start the same job"
        with files_limited_to(limit), pytest.raises(OSError, match=sentence):
            create_pretraining_data(options(num_shards=1, num_workers=workers))
        assert chunks_done(tmp_path / "out") == done
    create_pretraining_data(options(num_shards=1))
    assert contents(tmp_path / "out") == whole


@pytest.mark.parametrize(
    "number_of_kills",
    [pytest.param(3, marks=pytest.mark.slow), pytest.param(30, marks=pytest.mark.long)],
)
@pytest.mark.timeout(3600)
def test_kills_at_random_moments_change_no_byte(novels, vocab, tmp_path, number_of_kills):
    """Twelve chunks; each start is killed within the time that three or four of them take."""
    text = novels.read_text(encoding="utf-8")
    paths = []
    for number in range(8):
        path = tmp_path / f"{number}.txt"
        path.write_text(f"Volume {number}.\n\n{text}", encoding="utf-8")
        paths.append(str(path))
    options = CreationOptions(
        tuple(paths), str(vocab), str(tmp_path / "whole"), 64, dupe_factor=1, num_shards=5
    )
    create_pretraining_data(options)
    whole = contents(tmp_path / "whole")
    draw = random.Random(0)
    kills, output = 0, tmp_path / "killed"
    while kills < number_of_kills:
        shutil.rmtree(output, ignore_errors=True)
        while not (output / "manifest.json").exists() or (output / ".unfinished").exists():
            changes = {"output_dir": str(output), "num_workers": draw.choice([1, 2, 7])}
            process = start(CreationOptions(**(vars(options) | changes)))
            if kills < number_of_kills:
                time.sleep(draw.uniform(0.3, 4))
                kills += process.poll() is None
                kill(process)
            assert process.wait() in (0, -signal.SIGKILL)
        assert contents(output) == whole
