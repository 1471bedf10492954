"""`.bin` files run no code: PyTorch's own are in the oracle tests, here are the hostile ones."""

import os
import pickle
import zipfile

import pytest

from keras_bert.checkpoints import torch_file


class _Hostile:
    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def _archive(path, content):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", content)
    return path


@pytest.mark.parametrize("zipped", [True, False])
def test_code_in_a_pickle_is_refused_and_not_run(zipped, tmp_path):
    ran = tmp_path / "ran"
    content = pickle.dumps({"w": _Hostile(f"touch {ran}")})
    path = tmp_path / "x.bin"
    _archive(path, content) if zipped else path.write_bytes(content)
    with pytest.raises(ValueError, match=r"x.bin .* asks for \w+.system, .*: refused"):
        torch_file.read(path)
    assert not ran.exists()
    pickle.loads(content)  # the attack itself works
    assert ran.exists()


@pytest.mark.parametrize(
    "content", [{"w": 3}, [1, 2], {1: "x"}, "text"], ids=["number", "list", "key", "text"]
)
def test_other_content_is_refused(content, tmp_path):
    path = _archive(tmp_path / "x.bin", pickle.dumps(content, protocol=2))
    with pytest.raises(ValueError, match="something other than a dict of named tensors"):
        torch_file.read(path)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x80\x02K\x07."])
def test_foreign_files_are_refused(content, tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="x.bin is not a readable PyTorch checkpoint"):
        torch_file.read(path)


def test_damage_of_any_byte_is_told_by_the_name_of_the_file(tmp_path):
    """A zip of an empty dict, whole and with one bit of each byte turned."""
    path = _archive(tmp_path / "x.bin", pickle.dumps({}, protocol=2))
    content, refused = path.read_bytes(), 0
    assert torch_file.read(path).shapes == {}
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            torch_file.read(path)
        except ValueError as error:
            assert "x.bin is not a readable PyTorch checkpoint" in str(error)  # noqa: PT017
            refused += 1
    assert refused > len(content) // 4


def test_archive_without_pickle(tmp_path):
    path = tmp_path / "x.bin"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme", "hi")
    with pytest.raises(ValueError, match="holds no data.pkl"):
        torch_file.read(path)
