"""Files and folders that are written whole or not at all, whatever ends the process or power."""

import errno
import json
import math
import os

import pytest
import tensorflow as tf

from keras_bert.finetuning.result import FinetuningResult
from keras_bert.storage.files import atomic_file, atomic_folder, write_json
from keras_bert.storage.growing_csv import growing_csv
from keras_bert.storage.paths import check_no_file, check_output, find_files
from keras_bert.training.run_folder import RunFolder, difference


def record_flushes(monkeypatch):
    """Returns a list that grows by what is flushed to the disk and what is renamed, in order.

    A flushed file stands there by its inode and its size, a renamed one by its inode.
    """
    events: list[tuple] = []
    fsync, replace = os.fsync, os.replace

    def recorded_fsync(descriptor):
        fsync(descriptor)
        status = os.fstat(descriptor)
        events.append(("flush", status.st_ino, status.st_size))

    def recorded_replace(source, target):
        events.append(("rename", os.stat(source).st_ino, os.fspath(target)))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "replace", recorded_replace)
    return events


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    events = record_flushes(monkeypatch)
    with atomic_file(tmp_path / "made" / "a.txt") as path:
        path.write_text("content")
    inode = os.stat(tmp_path / "made" / "a.txt").st_ino
    renamed = ("rename", inode, str(tmp_path / "made" / "a.txt"))
    assert events == [("flush", inode, 7), renamed]
    assert os.listdir(tmp_path / "made") == ["a.txt"]


def test_a_folder_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    target = tmp_path / "a"
    target.mkdir()
    (target / "old.txt").write_text("old")
    events = record_flushes(monkeypatch)
    with atomic_folder(target) as path:
        (path / "inner").mkdir()
        for name in ("b.txt", "inner/c.txt"):
            (path / name).write_text("content")
    paths = [target, target / "b.txt", target / "inner", target / "inner" / "c.txt"]
    renamed = events.index(("rename", os.stat(target).st_ino, str(target)))
    flushed = {inode for kind, inode, _ in events[:renamed] if kind == "flush"}
    assert flushed == {os.stat(path).st_ino for path in paths}
    assert sorted(os.listdir(target)) == ["b.txt", "inner"]


@pytest.mark.parametrize("atomic", [atomic_file, atomic_folder])
def test_an_error_of_another_file_is_not_one_of_the_target(tmp_path, atomic):
    for name, own in (("source/model.safetensors", False), ("a", True), (None, True)):
        with pytest.raises(OSError) as raised, atomic(tmp_path / "a") as path:
            name = path if name == "a" else name and tmp_path / name
            raise PermissionError(errno.EACCES, "Permission denied", name and str(name))
        assert (f"{tmp_path / 'a'} cannot be written" in str(raised.value)) == own


def test_a_folder_that_cannot_be_is_told(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(
        OSError, match="file/b/c cannot be written: there can be no folder .*file/b"
    ):
        with atomic_file(tmp_path / "file" / "b" / "c"):
            pass


def test_a_full_disk_is_told_of_metrics(tmp_path):
    with RunFolder(tmp_path, {}).held():
        (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
        with pytest.raises(OSError, match="metrics.jsonl cannot be written: No space .*make room"):
            RunFolder(tmp_path, {}).note(1, "text")


def test_a_damaged_line_is_left_out_and_told_once(tmp_path, capsys):
    folder = RunFolder(tmp_path, {})
    folder.start(0)
    start = {"time": "", "command": "", "machine": "", "versions": {}, "devices": []}
    for step in range(1, 4):
        folder.note(step, "text")
        folder.note_start({**start, "step": step})
    for name in ("metrics.jsonl", "starts.jsonl"):
        first, second, third = (tmp_path / name).read_bytes().splitlines()
        damaged = [b"\0\xff", first, second[:9], b'{"step": 2}', b"3", third, third[:9]]
        (tmp_path / name).write_bytes(b"\n".join(damaged))
    for _ in range(2):
        assert [line["step"] for line in folder.read_metrics()] == [1, 3]
    told = capsys.readouterr().err.splitlines()
    assert [line.split(" is damaged and left out: ")[0] for line in told] == [
        f"warning: {tmp_path / 'metrics.jsonl'}, line {number}" for number in (1, 3, 4, 5)
    ]
    folder.start(3)
    folder.note_start({**start, "step": 4})
    assert [line["step"] for line in folder.read_starts()] == [1, 3, 4]


def test_metrics_that_are_no_numbers_are_strict_json(tmp_path):
    folder = RunFolder(tmp_path, {})
    folder.start(0)
    folder.log("train", 1, {"loss": math.nan, "gradient_norm": math.inf, "rate": 0.5})
    line = {"split": "train", "step": 1, "loss": None, "gradient_norm": None, "rate": 0.5}
    assert json.loads((tmp_path / "metrics.jsonl").read_text()) == line
    # As earlier versions wrote them; what goes on writes them anew.
    (tmp_path / "metrics.jsonl").write_text('{"split": "train", "step": 1, "loss": NaN}\n')
    assert math.isnan(folder.read_metrics()[0]["loss"])
    folder.start(2)
    assert json.loads((tmp_path / "metrics.jsonl").read_text())["loss"] is None
    assert math.isnan(folder.read_metrics()[0]["loss"])
    result = FinetuningResult(1, {"test": {"f1": math.nan}}, ({"loss": math.inf},), {}, None, 1, 1)
    result.save(tmp_path)
    assert json.loads((tmp_path / "metrics.json").read_text())["epochs"] == [{"loss": None}]
    found = FinetuningResult.finished(tmp_path)
    assert math.isnan(found.test["f1"]) and found.collapsed is None


def test_a_setting_that_is_gone_is_named():
    found = difference("options", {"x": 1, "gone": None}, {"x": 1})
    assert found == "options.gone=None, now there is no such setting"


def test_a_bucket_is_no_file():
    tf.io.gfile.makedirs("ram://books/inner")
    with pytest.raises(ValueError, match="--input ram://books/inner is a folder: give its files"):
        find_files(["ram://books/*"])


def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "gone").symlink_to("nowhere")  # told where it is opened
    assert find_files([tmp_path / "g*"]) == [str(tmp_path / "gone")]
    with pytest.raises(ValueError, match="pipe is a pipe or a device, and files are read more"):
        find_files([tmp_path / "*"])


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_to_a_folder_stays_one(exists, tmp_path):
    link, target = tmp_path / "link", tmp_path / "other" / "disk"
    target.parent.mkdir()
    if exists:
        target.mkdir()
        (target / "old").touch()
    link.symlink_to(target)
    with atomic_folder(link) as path:
        (path / "new").touch()
    assert link.is_symlink()
    assert os.listdir(target.parent) == ["disk"] and os.listdir(target) == ["new"]


def test_a_link_to_a_file_stays_one(tmp_path):
    link, target = tmp_path / "link.json", tmp_path / "disk" / "a.json"
    target.parent.mkdir()
    link.symlink_to(target)  # to nothing yet
    for content in ({"a": 1}, {"a": 2}):
        write_json(link, content)
        assert link.is_symlink() and json.loads(target.read_text()) == content
    with growing_csv(link, 1) as rows:  # answers of a server
        rows.add(["a"], [["1"]], 1)
    assert link.is_symlink() and target.read_text() == "a\n1\n"
    write_json(link, content)
    with pytest.raises(RuntimeError), atomic_file(link) as path:
        path.write_text("new")
        raise RuntimeError
    assert json.loads(target.read_text()) == {"a": 2}
    assert os.listdir(target.parent) == ["a.json"]


@pytest.mark.parametrize("atomic", [atomic_file, atomic_folder])
def test_a_circle_of_links_is_told(atomic, tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="a cannot be written: it is a link that leads back to its"):
        with atomic(tmp_path / "a"):
            pass
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


@pytest.mark.parametrize("folder", [".", "..", "a/.."])
def test_no_folder_takes_the_place_of_the_working_directory(folder, tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    with pytest.raises(ValueError, match="is the working directory or one above it, .*: name a"):
        with atomic_folder(folder):
            pass
    assert os.listdir(tmp_path) == ["a"] and not os.listdir(tmp_path / "a")


def test_no_file_takes_the_place_of_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    sentence = "pipe, which is a pipe or a device, and a file would take its place: name a file"
    with pytest.raises(ValueError, match=f"the output is .*{sentence}"), atomic_file(pipe) as path:
        path.touch()
    assert pipe.is_fifo()
    with pytest.raises(ValueError, match=f"--output is .*{sentence}"):
        check_output(pipe, name="--output")


@pytest.mark.parametrize("write", [atomic_file, atomic_folder])
def test_a_home_that_no_shell_has_expanded_is_no_folder_of_this_name(write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/ann")
    sentence = "is ~/runs/a, whose ~ nothing has expanded, .*: give /home/ann/runs/a"
    with pytest.raises(ValueError, match=sentence), write("~/runs/a"):
        pass
    with pytest.raises(ValueError, match=f"model_dir {sentence}"):  # also of runs in buckets
        check_no_file("model_dir", "~/runs/a")
    # A variable of the shell that is not set: files would lie in the working directory.
    with pytest.raises(ValueError, match="model_dir is empty, .*: name a path, or give . for it"):
        check_no_file("model_dir", "")
    with pytest.raises(ValueError, match="--output is empty"):
        check_output("", name="--output")
    with pytest.raises(ValueError, match="is ~, whose"):
        check_no_file("model_dir", "~")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("atomic", [atomic_file, atomic_folder])
def test_an_error_leaves_what_was_there(tmp_path, atomic):
    with atomic(tmp_path / "a") as path:
        (path / "inside" if atomic is atomic_folder else path).write_text("old")
    with pytest.raises(RuntimeError), atomic(tmp_path / "a") as path:
        (path / "inside" if atomic is atomic_folder else path).write_text("new")
        raise RuntimeError
    assert os.listdir(tmp_path) == ["a"]
    inside = tmp_path / "a" / "inside" if atomic is atomic_folder else tmp_path / "a"
    assert inside.read_text() == "old"
