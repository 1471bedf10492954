import dataclasses
import importlib
import json
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import load_tokenizer, train_byte_level_bpe, train_sentencepiece
from keras_bert.data.corpus.documents import document_sentences
from keras_bert.data.corpus.reading import Corpus
from keras_bert.data.creation.chunks import CHUNK_CHARACTERS, divide
from keras_bert.data.creation.create import create_pretraining_data
from keras_bert.data.creation.options import CreationOptions
from keras_bert.data.records.manifest import Manifest
from keras_bert.storage import hub
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.vocabulary import Vocabulary

ROOT = Path(__file__).parents[2]
FILES = [f"examples-0000{n}-of-00003.tfrecord" for n in range(3)]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def read_examples(folder):
    """Returns (ids, segments, label) of every record, parsed by protobuf."""
    for path in sorted(folder.glob("*.tfrecord")):
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            feature = tf.train.Example.FromString(record).features.feature
            yield (
                list(feature["input_ids"].int64_list.value),
                list(feature["segment_ids"].int64_list.value),
                feature["next_sentence_labels"].int64_list.value[0],
            )


def write_corpus(tmp_path, text):
    (tmp_path / "corpus.txt").write_text(text, encoding="utf-8")
    return (str(tmp_path / "corpus.txt"),)


def test_the_folder_holds_shards_vocabulary_settings_and_manifest(records, vocab):
    assert sorted(contents(records)) == [
        *FILES,
        "manifest.json",
        "tokenizer_config.json",
        "vocab.txt",
    ]
    assert BertTokenizer.from_preset(records).vocabulary == Vocabulary.from_file(vocab)


def test_the_manifest_counts_what_is_there(records, vocab, novels):
    manifest = Manifest.read(records)
    examples = list(read_examples(records))
    lengths = [len(ids) for ids, _, _ in examples]
    assert manifest.examples == len(examples) == sum(shard.examples for shard in manifest.shards)
    assert manifest.tokens == sum(lengths)
    assert manifest.fill_rate == pytest.approx(sum(lengths) / (64 * len(lengths)), abs=1e-6)
    assert manifest.label_counts[1] == sum(label for _, _, label in examples)
    assert sum(manifest.label_counts) == len(examples)
    assert [shard.name for shard in manifest.shards] == FILES
    for shard in manifest.shards:
        assert shard.bytes == (records / shard.name).stat().st_size
    # The cards are dealt evenly, save one for each chunk.
    counts = [shard.examples for shard in manifest.shards]
    assert max(counts) - min(counts) <= 2
    # The corpus, tokenized as one text a sentence.
    documents = list(Corpus([novels]))
    sentences = [text for document in documents for text in document_sentences(document)]
    pieces = BertTokenizer.from_preset(records)(sentences)
    assert manifest.documents == len(documents)
    assert manifest.sentences == len(sentences)
    assert manifest.corpus_tokens == pieces.flat_values.shape[0]
    unknown = pieces.flat_values.numpy() == Vocabulary.from_file(vocab).unk_id
    assert manifest.unknown_tokens == unknown.sum()
    assert manifest.vocabulary_sha256 == Vocabulary.from_file(vocab).sha256
    assert (manifest.vocab_size, manifest.lowercase) == (1200, True)


def test_examples_are_pairs_of_the_text(records, vocab, novels):
    vocabulary = Vocabulary.from_file(vocab)
    tokenizer = BertTokenizer.from_preset(records)
    texts = [" ".join(document_sentences(document)) for document in Corpus([novels])]
    whole = [" " + " ".join(map(str, row)) + " " for row in tokenizer(texts).to_list()]
    for ids, segments, label in list(read_examples(records))[::400]:
        assert ids[0] == vocabulary.cls_id and ids[-1] == vocabulary.sep_id
        assert 5 <= len(ids) <= 64
        middle = ids.index(vocabulary.sep_id)
        assert segments == [0] * (middle + 1) + [1] * (len(ids) - middle - 1)
        a, b = (
            " " + " ".join(map(str, part)) + " " for part in (ids[1:middle], ids[middle + 1 : -1])
        )
        homes_a = {n for n, text in enumerate(whole) if a in text}
        homes_b = {n for n, text in enumerate(whole) if b in text}
        assert homes_a and homes_b
        if label == 0:
            assert homes_a & homes_b
        elif len(homes_a) == len(homes_b) == 1:
            assert homes_a != homes_b


def test_the_bytes_do_not_depend_on_the_number_of_workers(records, make_records):
    assert contents(make_records(num_workers=2)) == contents(records)


# TensorFlow takes longer to load than a small corpus, and its memory is that of many workers.
def test_records_are_made_without_tensorflow(novels, vocab, tmp_path):
    program = (
        "import sys\n"
        "from keras_bert.data.creation.create import create_pretraining_data\n"
        "from keras_bert.data.creation.options import CreationOptions\n"
        f"options = dict(inputs=({str(novels)!r},), vocab={str(vocab)!r}, dupe_factor=1)\n"
        f"options |= dict(static_masking=True, masking='ngram', output_dir={str(tmp_path)!r})\n"
        "create_pretraining_data(CreationOptions(**options))\n"
        "assert not {'tensorflow', 'keras'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
    assert Manifest.read(tmp_path).examples > 1000


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"sentence_task": "nsp"}, marks=pytest.mark.long),
        {"sentence_task": "sop"},
        pytest.param({"sentence_task": "none"}, marks=pytest.mark.long),
        {"sentence_task": "none", "cross_documents": True},
    ],
)
def test_the_bytes_are_the_same_for_every_task_and_more_workers(make_records, changes):
    folders = [
        make_records(num_workers=workers, dupe_factor=3, num_shards=7, **changes)
        for workers in (1, 2, 4)
    ]
    assert contents(folders[0]) == contents(folders[1]) == contents(folders[2])


@pytest.mark.slow
def test_another_seed_and_another_pass_make_other_pairs(records, make_records):
    first = [tuple(ids) for ids, _, _ in read_examples(records)]
    other = {tuple(ids) for ids, _, _ in read_examples(make_records(seed=2))}
    assert np.mean([ids in other for ids in first]) < 0.2
    twice = [tuple(ids) for ids, _, _ in read_examples(make_records(dupe_factor=2))]
    assert set(first) < set(twice)
    assert len(set(twice)) > 1.8 * len(set(first))


@pytest.mark.parametrize("changes", [{}, {"cross_documents": True}, {"pack": True}])
def test_copies_of_single_segments_are_cut_elsewhere(tmp_path, vocab, changes):
    words = Vocabulary.from_file(vocab).tokens[-900:]  # each sentence is another
    sentences = [" ".join(words[n : n + 3]) + " ." for n in range(0, 900, 3)]
    text = "\n\n".join("\n".join(sentences[n : n + 100]) for n in range(0, 300, 100))

    def made(copies):
        """The pieces of each example; packed ones each with a [CLS] of their own."""
        output = tmp_path / str(copies)
        options = CreationOptions(
            write_corpus(tmp_path, text + "\n\nThe house."),
            str(vocab),
            str(output),
            max_seq_length=64,
            dupe_factor=copies,
            sentence_task="none",
            short_seq_prob=0,
            **changes,
        )
        create_pretraining_data(options)
        cls = str(Vocabulary.from_file(vocab).cls_id)
        rows = [" " + " ".join(map(str, ids)) for ids, _, _ in read_examples(output)]
        return [part for row in rows for part in row.split(f" {cls} ") if part]

    one, three = made(1), made(3)
    assert set(one) < set(three)
    assert len(set(three)) > 2.2 * len(set(one))
    # A document that fits into one example is not cut.
    short = min(one, key=len)
    assert three.count(short) == 3 or "cross_documents" in changes


def test_single_segments_hold_every_piece_of_the_corpus(make_records):
    folder = make_records(sentence_task="none", num_shards=1)
    manifest = Manifest.read(folder)
    assert manifest.tokens == manifest.corpus_tokens + 2 * manifest.examples
    assert manifest.label_counts == (manifest.examples, 0)
    assert manifest.sentence_task == "none"


def test_as_many_documents_are_cut_shorter_as_asked_for(tmp_path, vocab):
    sentences = "\n".join(["He is in the house ."] * 40)  # of 6 pieces

    def examples(probability):
        options = CreationOptions(
            write_corpus(tmp_path, "\n\n".join([sentences] * 100)),
            str(vocab),
            str(tmp_path / str(probability)),
            max_seq_length=64,
            dupe_factor=1,
            sentence_task="none",
            short_seq_prob=probability,
        )
        create_pretraining_data(options)
        return Manifest.read(tmp_path / str(probability)).examples

    # 240 pieces in lengths of 62, or drawn from 2 to 62, which is half of that on average.
    assert examples(0.0) == 400
    assert examples(1.0) > 600


def test_chunks_hold_consecutive_documents_and_two_at_least(tmp_path, novels):
    chunks = list(divide(Corpus([novels])))
    assert [chunk.number for chunk in chunks] == [0, 1]
    documents = [document for chunk in chunks for document in chunk.documents]
    assert documents == list(Corpus([novels]))
    assert sum(chunk.new_documents for chunk in chunks) == len(documents)
    assert chunks[-1].end_position == novels.stat().st_size
    # Two large documents: the second does not become a chunk of its own.
    large = "x " * (CHUNK_CHARACTERS // 2)
    corpus = write_corpus(tmp_path, f"{large}\n\n{large}\n\n{large}")
    assert [len({d.number for d in chunk.documents}) for chunk in divide(Corpus(corpus))] == [3]


def test_a_corpus_of_one_document_gives_true_pairs_and_says_so(tmp_path, vocab):
    inputs = write_corpus(tmp_path, "The house was old. He had been there. " * 50)
    manifest = create_pretraining_data(
        CreationOptions(inputs, str(vocab), str(tmp_path / "out"), dupe_factor=1)
    )
    assert manifest.lone_document_units == 1
    assert manifest.label_counts == (manifest.examples, 0)


def test_sentences_that_no_swapped_pair_holds_are_counted(tmp_path, vocab):
    inputs = write_corpus(tmp_path, "The house.\n\nHe was old. She was there.\n\nShe was old.")
    options = CreationOptions(
        inputs, str(vocab), str(tmp_path / "sop"), dupe_factor=2, sentence_task="sop"
    )
    manifest = create_pretraining_data(options)
    pieces = BertTokenizer.from_vocab(vocab)(["The house.", "She was old."]).flat_values.shape[0]
    assert (manifest.unused_sentences, manifest.unused_tokens) == (2, pieces)
    options = dataclasses.replace(options, output_dir=str(tmp_path / "nsp"), sentence_task="nsp")
    assert create_pretraining_data(options).unused_sentences == 0


def test_strange_texts_pass(tmp_path, vocab):
    strange = ["\x00\x01", "\u200b", "word", "שלום עולם.", "😀 😀", "a" * 5000, "\ufeff", "."]
    inputs = write_corpus(tmp_path, "\n\n".join(strange) + "\n\n" + "\n".join(strange))
    options = CreationOptions(
        inputs, str(vocab), str(tmp_path / "out"), num_shards=1, sentence_task="none", dupe_factor=1
    )
    manifest = create_pretraining_data(options)
    sentences = [text for document in Corpus(inputs) for text in document_sentences(document)]
    pieces = BertTokenizer.from_vocab(vocab)(sentences).flat_values.shape[0]
    assert manifest.corpus_tokens == pieces
    assert manifest.tokens == pieces + 2 * manifest.examples


def test_a_finished_folder_is_not_touched(records, make_records, novels, vocab):
    before = contents(records)
    with pytest.raises(FileExistsError, match="holds finished records already: remove"):
        create_pretraining_data(CreationOptions((str(novels),), str(vocab), str(records)))
    assert contents(records) == before


@pytest.fixture
def on_beam(monkeypatch):
    """What makes records on Beam, up to the point where the pipeline would begin.

    Beam need not be installed: tests/data/test_beam_oracle.py runs it.
    """

    def begins(*_, **__):
        raise RuntimeError("the pipeline begins")

    package, options = (types.ModuleType(name) for name in ("apache_beam", "pipeline_options"))
    package.DoFn, package.Pipeline, options.PipelineOptions = object, begins, list
    for name in ("options", "options.pipeline_options"):
        monkeypatch.setitem(sys.modules, f"apache_beam.{name}", options)
    monkeypatch.setitem(sys.modules, "apache_beam", package)
    monkeypatch.delitem(sys.modules, "keras_bert.data.creation.beam", raising=False)
    yield importlib.import_module("keras_bert.data.creation.beam").create_pretraining_data_with_beam
    del sys.modules["keras_bert.data.creation.beam"]


def test_files_of_others_are_not_replaced_in_a_bucket(novels, vocab, on_beam):
    output = "ram://beam/model"
    options = CreationOptions((str(novels),), str(vocab), output, dupe_factor=1)
    tf.io.gfile.makedirs(output)
    with tf.io.gfile.GFile(f"{output}/vocab.txt", "w") as file:
        file.write("of a model")
    with pytest.raises(FileExistsError, match="ram://beam/model holds vocab.txt, which would be"):
        on_beam(options)
    tf.io.gfile.remove(f"{output}/vocab.txt")
    tf.io.gfile.copy(str(vocab), f"{output}/vocab.txt")
    with pytest.raises(RuntimeError, match="the pipeline begins"):
        on_beam(options)


@pytest.mark.parametrize(
    "name", ["vocab.txt", "tokenizer_config.json", "examples-00000-of-00001.tfrecord"]
)
def test_files_of_others_are_not_replaced(tmp_path, novels, vocab, name, on_beam):
    output = tmp_path / "model"
    output.mkdir()
    (output / name).write_text("of a model")
    options = CreationOptions((str(novels),), str(vocab), str(output), dupe_factor=1)
    with pytest.raises(FileExistsError, match=f"holds {name}, which would be replaced: choose"):
        create_pretraining_data(options)
    assert contents(output) == {name: b"of a model"}
    with pytest.raises(FileExistsError, match=f"holds {name}, which would be replaced: choose"):
        on_beam(options)
    assert contents(output) == {name: b"of a model"}
    # The same vocabulary is no other.
    (output / name).unlink()
    (output / "vocab.txt").write_bytes(Path(vocab).read_bytes())
    assert create_pretraining_data(options).examples


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", r"the corpus is empty: no text in .*corpus\.txt"),
        ("\n \n\t\n", "the corpus is empty"),
        ("\x00 \u200b", "the corpus is empty"),
        ("word", r"the corpus \(1 sentence\(s\) in 1 document\(s\), .*too short for one example"),
    ],
)
def test_a_corpus_without_an_example_leaves_nothing_behind(tmp_path, vocab, text, sentence):
    output = tmp_path / "out"
    with pytest.raises(ValueError, match=sentence):
        create_pretraining_data(
            CreationOptions(write_corpus(tmp_path, text), str(vocab), str(output))
        )
    assert list(output.iterdir()) == []


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_an_error_in_the_middle_leaves_no_half_written_file(tmp_path, vocab, novels, workers):
    (tmp_path / "z.txt").write_bytes(b"\xff")
    inputs = (str(novels), str(tmp_path / "z.txt"))
    output = tmp_path / "out"
    with pytest.raises(ValueError, match=r"z\.txt is not UTF-8 at byte 0"):
        create_pretraining_data(
            CreationOptions(inputs, str(vocab), str(output), num_workers=workers, dupe_factor=1)
        )
    assert list(output.iterdir()) == []


def test_a_vocabulary_without_mask_is_refused(tmp_path, novels):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nword\n")
    with pytest.raises(ValueError, match=r"lacks the special tokens \[MASK\]"):
        create_pretraining_data(
            CreationOptions((str(novels),), str(tmp_path / "vocab.txt"), str(tmp_path / "out"))
        )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("family", ["byte_level_bpe", "add_prefix_space", "albert"])
def test_a_paragraph_has_the_pieces_that_it_has_as_a_whole(tmp_path, family):
    """Though its sentences are tokenized one by one; cut ones (2,000 characters) as well."""
    paragraphs = ["He left. She went home! Why? " + "She had ab " * 300 + "left.", "She left. He"]
    if family == "albert":
        train_sentencepiece(paragraphs * 3, 50).save(tmp_path / "vocab")
    else:
        files = train_byte_level_bpe(paragraphs * 3, 300)
        prefix = files.settings._replace(add_prefix_space=family == "add_prefix_space")
        dataclasses.replace(files, settings=prefix).save(tmp_path / "vocab")
    options = CreationOptions(
        write_corpus(tmp_path, "\n".join(paragraphs)),
        str(tmp_path / "vocab"),
        str(tmp_path / "out"),
        max_seq_length=5000,
        dupe_factor=1,
        sentence_task="none",
        short_seq_prob=0,
    )
    create_pretraining_data(options)
    ((ids, _, _),) = read_examples(tmp_path / "out")
    tokenizer = load_tokenizer(tmp_path / "vocab")
    assert ids[1:-1] == tokenizer(paragraphs).flat_values.numpy().tolist()


def test_the_vocabulary_of_a_repository_is_fetched_for_all_workers(
    novels, records, vocab, tmp_path, monkeypatch
):
    """By the process that starts the workers, which are sent what is in it."""
    fetched = []

    def download(hub, repository, inner, files):
        fetched.append(repository)
        return vocab.parent

    monkeypatch.setattr(hub, "_download", download)
    options = CreationOptions(
        inputs=(str(novels),),
        vocab="hf://someone/tiny-bert",
        output_dir=str(tmp_path / "out"),
        max_seq_length=64,
        dupe_factor=1,
        num_shards=3,
        seed=1,
        num_workers=2,
    )
    manifest = create_pretraining_data(options)
    assert set(fetched) == {"someone/tiny-bert"}
    assert manifest.settings["vocab"] == "hf://someone/tiny-bert"
    # All files but the manifest, which tells the name of the vocabulary, are those of a local one.
    made, expected = contents(tmp_path / "out"), contents(records)
    assert made.pop("manifest.json") != expected.pop("manifest.json")
    assert made == expected


def test_a_vocabulary_of_another_name_tells_its_case_itself(tmp_path, vocab):
    cased = Vocabulary([*Vocabulary.from_file(vocab).tokens, "House"])
    cased.save(tmp_path / "cased-vocab.txt")
    inputs = write_corpus(tmp_path, "House house.\n" * 20 + "\n" + "House house.\n" * 20)
    manifest = create_pretraining_data(
        CreationOptions(inputs, str(tmp_path / "cased-vocab.txt"), str(tmp_path / "out"))
    )
    assert manifest.lowercase is False
    ids = next(read_examples(tmp_path / "out"))[0]
    assert cased.id_of("House") in ids


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"output_dir": ""}, "output_dir is empty, which would be the working directory"),
        ({"output_dir": "~/records"}, "output_dir is ~/records, whose ~ nothing has expanded"),
        ({"max_seq_length": 7}, "max_seq_length is 7: it must be at least 8"),
        ({"dupe_factor": 0}, "dupe_factor is 0: it must be at least 1"),
        ({"num_shards": 0}, "num_shards is 0"),
        ({"num_workers": -1}, "num_workers is -1"),
        (
            {"static_masking": True, "masked_lm_prob": float("nan")},
            "masked_lm_prob is nan: it must be above 0 and at most 1",
        ),
        ({"short_seq_prob": 1.5}, "short_seq_prob is 1.5: it must be from 0 to 1"),
        ({"seed": -1}, "seed is -1: it must be from 0 to 9,223,372,036,854,775,807"),
        ({"seed": 1 << 63}, "seed is 9223372036854775808: it must be from 0 to"),
        ({"sentence_task": "next"}, "sentence_task is 'next': choose one of nsp, sop, none"),
        (
            {"cross_documents": True},
            "sentence_task is 'nsp', whose .*; leave out --cross_documents",
        ),
        (
            {"cross_documents": True, "sentence_task": "none", "pack": True},
            "leave out --pack or --cross_documents",
        ),
    ],
)
def test_options_out_of_range_are_refused(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        CreationOptions(**({"inputs": ("a",), "vocab": "b", "output_dir": "c"} | changes))


def test_paths_of_pathlib_and_numbers_of_numpy_make_the_same_records(tmp_path, novels, vocab):
    usual = CreationOptions((str(novels),), str(vocab), str(tmp_path / "1"), 32, 1, 2)
    create_pretraining_data(usual)
    # A single input, whose letters would be inputs.
    numbers = np.int64(32), np.int64(1), np.int64(2)
    create_pretraining_data(CreationOptions(Path(novels), Path(vocab), tmp_path / "2", *numbers))
    assert contents(tmp_path / "1") == contents(tmp_path / "2")


def test_a_manifest_can_be_read_back(records, tmp_path):
    manifest = Manifest.read(records)
    manifest.write(tmp_path)
    assert dataclasses.asdict(Manifest.read(tmp_path)) == dataclasses.asdict(manifest)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda values: values.pop("shards"), "is damaged"),
        (lambda values: values.update(format_version=99), "has format_version 99"),
        (lambda values: values.update(more=1), "is damaged"),
    ],
)
def test_a_damaged_manifest_is_named(records, tmp_path, change, sentence):
    values = json.loads((records / "manifest.json").read_text())
    change(values)
    (tmp_path / "manifest.json").write_text(json.dumps(values))
    with pytest.raises(ValueError, match=f"manifest.json {sentence}"):
        Manifest.read(tmp_path)


def test_a_folder_without_a_manifest_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no manifest.json"):
        Manifest.read(tmp_path)
