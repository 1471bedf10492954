"""The road with the tokenizers of other families: records, fine-tuning, answers as strings."""

import dataclasses
import random

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import (
    BertConfig,
    BertEncoder,
    BertMaskedLM,
    CreationOptions,
    FinetunedModel,
    FinetuningOptions,
    ProbingOptions,
    Question,
    TextGenerator,
    create_pretraining_data,
    create_task,
    export_saved_model,
    finetune,
    head_statistics,
    inspect_vocabulary,
    load_encoder,
    load_model,
    load_preprocessor,
    load_tokenizer,
    probe_layers,
    show_attention,
)
from keras_bert.data.records.record_set import PretrainingData
from keras_bert.finetuning.task import TaskDescription
from keras_bert.models.span_labeler import BertSpanLabeler
from keras_bert.models.token_classifier import BertTokenClassifier
from keras_bert.serving.served_folder import open_signatures
from keras_bert.signatures.options import ExportOptions
from keras_bert.tasks.classification.delimited import csv_task
from keras_bert.tasks.feature_extraction.extraction import FeatureExtractor
from keras_bert.tasks.fill_mask.augmentation import TextAugmenter
from keras_bert.tasks.question_answering.head import SpanHead
from keras_bert.tasks.question_answering.questions import Answer
from keras_bert.tasks.question_answering.windows import WindowSettings, encode_questions
from keras_bert.tasks.tagging.head import TagHead
from tests.conftest import sentiment_rows, write_csv
from tests.markers import some_fast, some_slow
from tests.serving.fresh_process import ask_fresh_process
from tests.text.family_tokenizers import byte_level_files, golden_texts, sentencepiece_files
from tests.text.llama_tokenizer import llama_files
from tests.tolerances import REORDERED

FAMILIES = ["byte_level_bpe", "albert", "xlm_roberta", "deberta", "llama"]
# <s> a </s> </s> b </s> in the others.
SPECIAL_IN_PAIR = {"albert": 3, "deberta": 3, "llama": 2}
CONTEXT = "It's said\u00a0that 漢字 and naïve 😀 cafés,  opened in   1894 (Paris)."


def special_in(row, vocabulary):
    """How many tokens begin a text or end one."""
    return sum(token in (vocabulary.cls_id, vocabulary.sep_id) for token in row)


def files_of(family):
    if family == "byte_level_bpe":
        return byte_level_files()
    if family == "llama":  # rows have no token at their end
        return llama_files()
    return sentencepiece_files(family)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Returns a function: a model folder of one layer with the tokenizer of a family."""
    root, made = tmp_path_factory.mktemp("families"), {}

    def folder(family, model_class=BertEncoder, head=None):
        key = family, model_class
        if key not in made:
            path = root / f"{family}_{model_class.__name__}"
            files = files_of(family)
            files.save(path)
            keras.utils.set_random_seed(1)
            config = BertConfig(
                vocab_size=len(files.vocabulary),
                hidden_size=32,
                num_hidden_layers=1,
                num_attention_heads=2,
                intermediate_size=64,
                max_position_embeddings=64,
                initializer_range=0.2,
            )
            arguments = {} if head is None else head.model_arguments()
            model_class(config, **arguments).save_to_preset(path, load_tokenizer(path))
            if head is not None:
                TaskDescription("test", head, {"text": "text"}, 32).save(path)
            made[key] = path
        return made[key]

    return folder


def asked(folder, **texts):
    family = open_signatures(folder, ExportOptions())
    answer = tf.function(family.answer, autograph=False)
    found = answer(**{name: tf.constant(text) for name, text in texts.items()})
    return {name: value.numpy() for name, value in found.items()}


@pytest.fixture(scope="module")
def sentiment_data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sentiment")
    for seed, (name, count) in enumerate({"train": 256, "dev": 16}.items()):
        write_csv(folder / f"{name}.csv", ["text", "label"], sentiment_rows(count, seed))
    return folder


def finetuned(family, folders, data_folder, model_dir):
    options = FinetuningOptions(
        epochs=1, batch_size=16, learning_rate=5e-3, mixed_precision="float32"
    )
    task = csv_task()
    assert finetune(task, task.read(data_folder), folders(family), model_dir, options)
    return model_dir


@pytest.mark.parametrize("family", some_slow(FAMILIES, ("byte_level_bpe", "albert")))
def test_an_export_answers_where_tensorflow_and_its_text_operations_are(
    family, folders, sentiment_data, tmp_path
):
    folder = finetuned(family, folders, sentiment_data, tmp_path / "run")
    texts = ["a very good film", "the book was bad", "", "naïve 漢字 😀\x00"]
    export = export_saved_model(folder, tmp_path / "served")
    [answers] = ask_fresh_process(tmp_path, [(export, "serving_default", {"text": texts})])
    model = FinetunedModel.load(folder)
    assert model.tokenizer.vocabulary == files_of(family).vocabulary
    expected = model.predict(texts)
    np.testing.assert_allclose(answers["scores"], expected, **REORDERED)


@pytest.mark.parametrize("family", some_fast(FAMILIES, ("byte_level_bpe", "xlm_roberta")))
def test_answers_to_questions_stand_in_the_context(family, folders):
    tokenizer = load_tokenizer(folders(family))
    start = CONTEXT.index("1894")
    question = Question("q", "Who, when?", CONTEXT, (Answer("1894", start),))
    encoded = encode_questions(tokenizer, [question], WindowSettings(60, 20, 10), "tokenizing")
    [(inputs, targets)] = encoded.inference_batches(64)[0]
    found = []
    first, last = (targets[name].numpy() for name in ("start_logits", "end_logits"))
    for row, begin, end in zip(inputs["input_ids"].numpy().tolist(), first, last, strict=True):
        assert special_in(row, tokenizer.vocabulary) == SPECIAL_IN_PAIR.get(family, 4)
        if begin:
            found.append(tokenizer.detokenize([row[begin : end + 1]]).numpy()[0].decode().strip())
    assert found and set(found) == {"1894"}


@pytest.mark.parametrize("family", FAMILIES)
def test_no_answer_begins_or_ends_with_a_space_that_is_a_piece(family, tmp_path):
    files_of(family).save(tmp_path)
    tokenizer, context = load_tokenizer(tmp_path), "The    man said Paris."
    [question] = [Question("q", "Who?", context, ())]
    head = SpanHead(has_unanswerable=True, max_query_length=16)
    encoded = head.encode(tokenizer, [question], 64, "tokenizing")
    _, starts, ends = (part.to_list()[0] for part in tokenizer.tokenize_with_offsets([context]))
    empty = [n for n, (start, end) in enumerate(zip(starts, ends, strict=True)) if start == end]
    assert empty or family != "byte_level_bpe"  # else the test shows nothing
    width = encoded.row_lengths.tolist()[0]
    logits = np.zeros(width, np.float32)
    for number in empty:  # what stands before the context: all but it and the last special token
        logits[width - 1 - len(starts) + number] = 9.0
    outputs = {"start_logits": [logits], "end_logits": [logits]}
    [found] = head.predictions(outputs, encoded, [question])
    spans = [candidate for candidate in found.n_best if candidate.start >= 0]
    assert spans
    for text, start, end, *_ in spans:
        assert text == text.strip() == context[start:end] != ""


@pytest.mark.slow
def test_a_span_model_answers_in_the_words_of_the_context(folders):
    head = SpanHead(doc_stride=5, max_query_length=6, max_answer_length=8, n_best_size=7)
    folder = folders("byte_level_bpe", BertSpanLabeler, head)
    found = asked(folder, question=["Who?", "Where is 漢字?"], context=[CONTEXT, CONTEXT])
    for answer, start, end in zip(found["answer"], found["start"], found["end"], strict=True):
        assert answer.decode() == CONTEXT[start:end] != ""


@pytest.mark.parametrize("family", some_fast(FAMILIES, ("byte_level_bpe",)))
def test_a_tagger_finds_the_words_between_spaces(family, folders):
    head = TagHead().with_labels(("NOUN", "VERB"))
    folder = folders(family, BertTokenClassifier, head)
    texts = ["  Ann\tmet (Bob)  in 😀 café .\n ", "", " ", "x\u3000y"]
    found = asked(folder, text=texts)
    words = [[word.decode() for word in row if word] for row in found["words"]]
    assert words == [["Ann", "met", "(", "Bob", ")", "in", "😀", "café", "."], [], [], ["x", "y"]]


@pytest.mark.parametrize("family", some_fast(FAMILIES, ("byte_level_bpe",)))
def test_records_are_made_and_masked_by_words(family, tmp_path):
    draw = random.Random(0)
    corpus = "\n\n".join(". ".join(draw.sample(golden_texts()[:40], 4)) for _ in range(12))
    (tmp_path / "corpus.txt").write_text(corpus, encoding="utf-8")
    files_of(family).save(tmp_path / "vocab")
    options = CreationOptions(
        (str(tmp_path / "corpus.txt"),),
        str(tmp_path / "vocab"),
        str(tmp_path / "records"),
        max_seq_length=64,
        dupe_factor=1,
        num_shards=1,
        static_masking=True,
        masking="whole_word",
    )
    manifest = create_pretraining_data(options)
    tokenizer = load_tokenizer(tmp_path / "records")
    vocabulary = tokenizer.vocabulary
    data = PretrainingData(str(tmp_path / "records"))
    data.check_vocabulary(vocabulary)
    assert manifest.examples > 10
    names = {
        "input_ids": tf.io.FixedLenFeature([64], tf.int64),
        "segment_ids": tf.io.FixedLenFeature([64], tf.int64),
        "masked_lm_positions": tf.io.VarLenFeature(tf.int64),
        "masked_lm_ids": tf.io.VarLenFeature(tf.int64),
    }
    continues = vocabulary.continuation_mask
    for record in tf.data.TFRecordDataset(data.paths).take(20):
        example = tf.io.parse_single_example(record, names)
        ids = example["input_ids"].numpy()
        assert special_in(ids, vocabulary) == SPECIAL_IN_PAIR.get(family, 4)
        assert example["segment_ids"].numpy().any() == (family in ("albert", "deberta"))
        positions = example["masked_lm_positions"].values.numpy()
        hidden = example["masked_lm_ids"].values.numpy()
        ids[positions[positions > 0]] = hidden[positions > 0]
        for position in positions[positions > 0]:
            # The rest of its word is masked, too.
            following = position + 1
            special = following == len(ids) or ids[following] in vocabulary.special_ids
            assert special or not continues[ids[following]] or following in positions


@pytest.mark.parametrize("family", some_fast(FAMILIES, ("xlm_roberta",)))
def test_one_way_in(family, folders):
    folder = folders(family)
    preprocess = load_preprocessor(folder)
    assert preprocess.max_seq_length == 64
    inputs = preprocess((["A package."], ["Its text."]))
    encoder = load_encoder(folder)
    model = load_model(folder)
    assert type(model) is type(encoder) is BertEncoder
    np.testing.assert_array_equal(model(inputs)["pooled_output"], encoder(inputs)["pooled_output"])
    tokens = [preprocess.tokenizer.vocabulary.tokens[i] for i in inputs["input_ids"].numpy()[0]]
    special = preprocess.tokenizer.vocabulary.special_tokens
    assert tokens[0] == special.cls and (tokens[-1] == special.sep) == (family != "llama")


def test_a_model_with_a_head_comes_back_as_what_it_is(folders, pretrained_folder):
    head = TagHead().with_labels(("NOUN", "VERB"))
    folder = folders("byte_level_bpe", BertTokenClassifier, head)
    model = load_model(folder)
    assert isinstance(model, BertTokenClassifier) and model.num_classes == 2
    assert isinstance(load_encoder(folder), BertEncoder)
    assert type(load_model(pretrained_folder)) is BertEncoder


def test_white_space_is_of_no_word(folders):
    folder, texts = folders("byte_level_bpe"), ["  hello", "a  b \n\n\n c, d.  ", " ", "x\u3000 y"]
    model = BertEncoder.from_preset(folder, output_hidden_states=True), load_tokenizer(folder)
    pieces = list(FeatureExtractor(*model, layers="last")(texts))
    words = list(FeatureExtractor(*model, layers="last", level="word")(texts))
    left_out = 0
    for text, piece, word in zip(texts, pieces, words, strict=True):
        spans = list(zip(word.starts, word.ends, strict=True))
        assert [text[start:end] for start, end in spans] == text.split()
        left_out += len(piece.values)
        for (start, end), values in zip(spans, word.values, strict=True):
            own = [start <= s < e <= end for s, e in zip(piece.starts, piece.ends, strict=True)]
            np.testing.assert_allclose(values, piece.values[own].mean(0), **REORDERED)
            left_out -= sum(own)
    assert left_out > 3


@pytest.mark.slow
def test_heads_look_at_special_tokens_and_punctuation_of_the_family(folders):
    folder, text = folders("byte_level_bpe"), " the package , the text ."
    view = show_attention(folder, text)
    pieces = [token.piece for token in view.tokens]
    assert (pieces[0], pieces[-1]) == ("<s>", "</s>")
    received = view.probabilities.mean(axis=-2)  # [L, A, S]
    stops = [index for index, piece in enumerate(pieces) if piece.strip("Ġ") in (",", ".")]
    assert len(stops) == 2
    values = head_statistics(folder, [text]).values
    np.testing.assert_allclose(values["cls"], received[..., 0], **REORDERED)
    np.testing.assert_allclose(values["sep"], received[..., -1], **REORDERED)
    np.testing.assert_allclose(values["punctuation"], received[..., stops].sum(-1), **REORDERED)
    assert (values["same_word"] > 0).all()
    assert "goes to" in view.html()


def test_words_are_probed_as_they_are_spelled(folders, tmp_path):
    draw = random.Random(0)
    words = {"Ann": "A", "ann": "B", "Bob": "B", "bob": "A"}
    lines = [draw.choices(list(words), k=4) for _ in range(40)]
    rows = "\n\n".join("\n".join(f"{word} {words[word]}" for word in line) for line in lines)
    (tmp_path / "train.txt").write_text(rows + "\n", encoding="utf-8")
    options = ProbingOptions(max_epochs=2, edge_probe=False, random_weights=False)
    data = create_task("conll", scheme="plain").read(tmp_path)
    found = probe_layers(folders("byte_level_bpe"), data, options)
    # A vocabulary of bytes knows no lower-casing.
    assert found.most_frequent_tag_of_word == 1
    assert len(found.layers) == 2


def test_what_joins_word_pieces_says_so(folders):
    folder = folders("byte_level_bpe")
    tokenizer = load_tokenizer(folder)
    for ask in (
        lambda: TextGenerator(None, tokenizer),
        lambda: TextAugmenter(None, tokenizer),
        lambda: inspect_vocabulary(folder),
        lambda: inspect_vocabulary(folder / "vocab.json"),
        lambda: inspect_vocabulary(tokenizer.vocabulary),
    ):
        with pytest.raises(ValueError, match="WordPiece"):
            ask()


@pytest.mark.slow
def test_folders_of_other_families_generate_nothing(folders):
    folder = folders("byte_level_bpe", BertMaskedLM)
    for ask in (
        lambda: TextGenerator.from_preset(folder),
        lambda: TextAugmenter.from_preset(folder),
        lambda: open_signatures(folder, ExportOptions(generate_sweeps=1)),
    ):
        with pytest.raises(ValueError, match="WordPiece"):
            ask()


@pytest.mark.slow
def test_settings_of_a_folder_can_be_replaced(folders):
    tokenizer = load_tokenizer(folders("byte_level_bpe"), keep_special_tokens=True)
    ids, starts, ends = (
        part.to_list()[0] for part in tokenizer.tokenize_with_offsets(["a <mask>"])
    )
    assert ids[-1] == tokenizer.vocabulary.mask_id and (starts[-1], ends[-1]) == (2, 8)
    plain = tokenizer.with_settings(keep_special_tokens=False)
    assert plain.vocabulary.mask_id not in plain(["a <mask>"]).to_list()[0]
    assert dataclasses.replace(files_of("byte_level_bpe")).vocabulary == plain.vocabulary
