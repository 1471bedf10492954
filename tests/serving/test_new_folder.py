"""Two exports at a time, and exports that were killed. Oracle: what is in the folders."""

import contextlib
import threading
import time

import pytest

from keras_bert.serving.saved_model import export_saved_model
from keras_bert.storage.new_folder import check_nothing_there, new_folder


@contextlib.contextmanager
def another_export(watched, target):
    """Writes `target` as soon as something is being written in the folder `watched`."""
    stop = threading.Event()

    def write():
        while not stop.is_set():
            if watched.is_dir() and any(p.name.startswith(".") for p in watched.iterdir()):
                target.mkdir()
                (target / "saved_model.pb").write_text("theirs")
                return
            time.sleep(0.01)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert [path.name for path in target.iterdir()] == ["saved_model.pb"]
    assert (target / "saved_model.pb").read_text() == "theirs"


@pytest.mark.slow  # two exports: this and the next
def test_the_next_version_is_one_that_no_other_export_took(model_folder, tmp_path):
    with another_export(tmp_path / "served", tmp_path / "served" / "1"):
        assert export_saved_model(model_folder("number"), tmp_path / "served").name == "2"
    assert (tmp_path / "served" / "2" / "saved_model.pb").stat().st_size > 1000
    names = {path.name for path in (tmp_path / "served").iterdir()}
    assert not [name for name in names if name.startswith(".")]


@pytest.mark.slow
def test_a_version_that_was_asked_for_is_not_replaced(model_folder, tmp_path):
    with another_export(tmp_path / "served", tmp_path / "served" / "7"):
        with pytest.raises(FileExistsError, match="version 7 was written by another export"):
            export_saved_model(model_folder("number"), tmp_path / "served", 7)


def test_other_forms_replace_nothing_either(tmp_path):
    target = tmp_path / "forms" / "hub"
    with another_export(target.parent, target):
        with pytest.raises(FileExistsError, match="exists already: give another --export_dir"):
            with new_folder(target) as folder:
                (folder / "ours").write_text("ours")
                while not (target / "saved_model.pb").is_file():
                    time.sleep(0.01)
    assert [path.name for path in target.parent.iterdir()] == ["hub"]


def test_a_link_to_an_empty_folder_is_exported_to(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "served").symlink_to(tmp_path / "disk")
    check_nothing_there(tmp_path / "served")
    for refuses in (check_nothing_there, lambda path: new_folder(path).__enter__()):
        with pytest.raises(ValueError, match="export_dir is gs://bucket/x, but this is written"):
            refuses("gs://bucket/x")
    with new_folder(tmp_path / "served") as folder:
        (folder / "ours").touch()
    assert (tmp_path / "disk" / "ours").exists() and (tmp_path / "served").is_symlink()


def test_what_a_killed_export_left_is_told_and_is_no_version(model_folder, tmp_path, capsys):
    killed = new_folder(tmp_path / "served" / "1")
    (killed.__enter__() / "saved_model.pb").write_text("half")
    (left,) = (tmp_path / "served").iterdir()
    assert not left.name.isdecimal()  # TF Serving takes numbers for versions, and no others
    assert export_saved_model(model_folder("number"), tmp_path / "served").name == "1"
    assert f"{left} is left of an export that was killed" in capsys.readouterr().err
    assert left.is_dir()  # it may belong to one that still runs
    killed.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert not left.exists()
