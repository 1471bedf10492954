"""Files and folders that are written whole or not at all, whatever ends the process or power."""

import os

import pytest

from keras_bert.storage.files import atomic_file, atomic_folder


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
def test_an_error_leaves_what_was_there(tmp_path, atomic):
    with atomic(tmp_path / "a") as path:
        (path / "inside" if atomic is atomic_folder else path).write_text("old")
    with pytest.raises(RuntimeError), atomic(tmp_path / "a") as path:
        (path / "inside" if atomic is atomic_folder else path).write_text("new")
        raise RuntimeError
    assert os.listdir(tmp_path) == ["a"]
    inside = tmp_path / "a" / "inside" if atomic is atomic_folder else tmp_path / "a"
    assert inside.read_text() == "old"
