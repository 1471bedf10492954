import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from keras_bert.text.vocabulary import Vocabulary

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
GOLDEN = Path(__file__).parents[1] / "golden" / "vocab_uncased.txt"


def write(folder: Path, content: bytes) -> Path:
    path = folder / "vocab.txt"
    path.write_bytes(content)
    return path


def lines(*tokens: str, end: str = "\n") -> bytes:
    return "".join(f"{token}{end}" for token in tokens).encode()


def test_ids_are_places_in_the_list():
    vocabulary = Vocabulary(["[UNK]", "a", "[PAD]", "##a", "[MASK]", "[SEP]", "[CLS]"])
    assert len(vocabulary) == 7
    assert vocabulary.tokens[3] == "##a"
    assert vocabulary.id_of("##a") == 3
    assert "##a" in vocabulary and "b" not in vocabulary
    assert (vocabulary.pad_id, vocabulary.unk_id, vocabulary.cls_id) == (2, 0, 6)
    assert (vocabulary.sep_id, vocabulary.mask_id) == (5, 4)
    assert vocabulary.special_ids == (2, 0, 6, 5, 4)
    assert vocabulary.continuation_mask.tolist() == [False] * 3 + [True] + [False] * 3


# Each with its UTF-8 in the characters of a byte-level vocabulary. The third column: begins a word.
@pytest.mark.parametrize(
    ("piece", "byte_level", "begins"),
    [
        ("▁the", "Ġthe", True),
        ("ing", "ing", False),
        (".", ".", False),
        ("é", "Ã©", False),
        ("中", "ä¸Ń", True),
        ("，中文", "ï¼Įä¸Ńæĸĩ", True),
        ("。", "ãĢĤ", False),
        ("の", "ãģ®", True),
        ("ก", "à¸ģ", True),
        ("ั", "à¸±", False),  # a mark above the Thai letter before it
        ("ກ", "àºģ", True),
        ("က", "áĢĢ", True),
        ("ក", "áŀĢ", True),
        ("한", "íķľ", False),  # Korean has spaces
        ("क", "à¤ķ", False),  # so has Hindi
        (None, "ä¸", True),  # the first two bytes of an ideograph
        (None, "ä", True),
        (None, "Ń", False),  # its last one
        (None, "Ńä¸Ń", False),  # which another one follows: it begins inside a character
        (None, "à¸", True),  # of a Thai letter
        (None, "à¤", False),
        (None, "ðł", True),
        (None, "ðŁĺ", False),  # of an emoji
    ],
)
def test_pieces_of_scripts_without_spaces_begin_words(piece, byte_level, begins):
    for mark, token in (("▁", piece), ("Ġ", byte_level)):
        if token is not None:
            vocabulary = Vocabulary([*SPECIAL, token], word_mark=mark)
            assert vocabulary.continuation_mask.tolist() == [False] * 5 + [not begins]


def test_google_file():
    vocabulary = Vocabulary.from_file(GOLDEN)
    assert len(vocabulary) == 30522
    assert vocabulary.special_ids == (0, 100, 101, 102, 103)
    assert vocabulary.sha256 == hashlib.sha256(GOLDEN.read_bytes()).hexdigest()


def test_save_and_read(tmp_path):
    vocabulary = Vocabulary([*SPECIAL, "é", "##中", "\u2028x\u200d".strip()])
    vocabulary.save(tmp_path / "deep" / "vocab.txt")
    content = (tmp_path / "deep" / "vocab.txt").read_bytes()
    assert content == lines(*vocabulary.tokens)
    assert vocabulary.sha256 == hashlib.sha256(content).hexdigest()
    assert Vocabulary.from_file(tmp_path / "deep" / "vocab.txt") == vocabulary


def test_lines_are_stripped_like_the_original(tmp_path):
    path = write(tmp_path, lines(*SPECIAL, "  a ", "b\u2003", end="\r\n") + b"last")
    assert Vocabulary.from_file(path).tokens == (*SPECIAL, "a", "b", "last")
    path.write_bytes("\ufeff".encode() + path.read_bytes())  # as some editors save it
    assert Vocabulary.from_file(path).tokens == (*SPECIAL, "a", "b", "last")


def test_a_line_separator_alone_is_a_piece(tmp_path):
    # Line 344 of Google's Chinese vocabulary; an id of its own, which no text has.
    path = write(tmp_path, lines(*SPECIAL, "a", "\u2028", "b"))
    vocabulary = Vocabulary.from_file(path)
    assert vocabulary.tokens == (*SPECIAL, "a", "\u2028", "b")
    vocabulary.save(tmp_path / "again.txt")
    assert Vocabulary.from_file(tmp_path / "again.txt") == vocabulary


def test_a_line_separator_inside_a_line_does_not_end_it(tmp_path):
    path = write(tmp_path, lines(*SPECIAL, "a\u2028b", "c\x85d"))
    assert Vocabulary.from_file(path).tokens[5:] == ("a\u2028b", "c\x85d")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (lines(*SPECIAL, "a", "b", "a"), r"'a' is on line 6 and again on line 8"),
        (lines(*SPECIAL, "a", "", "b"), r"line 7 is blank"),
        (lines(*SPECIAL, "a", " \t", "b", end="\r\n"), r"line 7 is blank"),
        (lines(*SPECIAL) + b"\n", r"line 6 is blank"),
        (b"", r"\(0 entries\) lacks the special tokens \[PAD\], \[UNK\], \[CLS\]"),
        (lines(*SPECIAL[:4], "x"), r"\(5 entries\) lacks the special tokens \[MASK\]"),
        (lines(*SPECIAL) + b"ok\n\xff\n", r"line 7 is not UTF-8 \(byte 34 of the file\)"),
    ],
)
def test_bad_files_name_the_line(tmp_path, content, sentence):
    path = write(tmp_path, content)
    with pytest.raises(ValueError, match=sentence) as caught:
        Vocabulary.from_file(path)
    assert str(path) in str(caught.value)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no vocabulary at .*vocab.txt"):
        Vocabulary.from_file(tmp_path / "vocab.txt")


@pytest.mark.parametrize("token", ["a ", "\ta", "a\nb"])
def test_tokens_that_a_line_cannot_hold(token):
    with pytest.raises(ValueError, match="white space"):
        Vocabulary([*SPECIAL, token])


def test_unknown_token_has_no_id():
    with pytest.raises(ValueError, match="no entry 'b'"):
        Vocabulary(SPECIAL).id_of("b")


def test_added_tokens_are_no_letters_of_a_string():
    with pytest.raises(ValueError, match=r"tokens is the string 'ab', .*: give \['ab'\]"):
        Vocabulary(SPECIAL).add_tokens("ab")


def test_added_tokens_take_unused_slots_first():
    vocabulary = Vocabulary(["[PAD]", "[unused1]", *SPECIAL[1:], "[unused0]", "known", "[unused]"])
    grown = vocabulary.add_tokens(["covid", "known", "##vid", "covid", "third", "fourth"])
    assert grown.tokens == (
        *("[PAD]", "covid", *SPECIAL[1:], "##vid", "known", "[unused]"),
        *("third", "fourth"),
    )
    assert vocabulary.tokens[1] == "[unused1]"
    # But for those that mean something to the model.
    grown = vocabulary.add_tokens(["covid", "third"], kept=["[unused1]"])
    assert grown.tokens == (
        *("[PAD]", "[unused1]", *SPECIAL[1:], "covid", "known", "[unused]", "third"),
    )


def test_size_against_the_config():
    vocabulary = Vocabulary([*SPECIAL, "a"])
    for rows in (6, 8, 16, 64, 128, 1024):  # padded to a multiple of 8 or more
        vocabulary.check_size(rows)
    for rows in (5, 7, 24, 2048, 30522):
        with pytest.raises(
            ValueError,
            match=f"vocab.txt has 6 entries but config.vocab_size is {rows}: "
            "pass the vocabulary the checkpoint was trained with",
        ):
            vocabulary.check_size(rows)
    Vocabulary([*SPECIAL, *"abcdefgh"]).check_size(16)


def test_a_few_rows_without_a_piece_are_told(capsys):
    many = Vocabulary([*SPECIAL, *map(str, range(25_000))])
    many.check_size(25_006)  # padded to a multiple of 2 or not at all
    told = "vocab.txt has 25005 entries but config.vocab_size is 25006: 1 rows have no piece; "
    assert capsys.readouterr().err.startswith(told)
    many.check_size(25_005 + 1024)
    for rows in (25_005 + 1025, 25_004):
        with pytest.raises(ValueError, match="pass the vocabulary"):
            many.check_size(rows)
    few = Vocabulary([*SPECIAL, *map(str, range(96))])  # 101, a twentieth of which is 5
    few.check_size(106)
    with pytest.raises(ValueError, match="pass the vocabulary"):
        few.check_size(107)


def test_needs_no_tensorflow():
    program = "import sys, keras_bert.text.vocabulary; print('tensorflow' in sys.modules)"
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert printed.stdout.strip() == "False"
