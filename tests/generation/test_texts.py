"""What is done with texts: blanks are filled, all else stays; what cannot be sampled is refused."""

import re

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import (
    BertClassifier,
    BertMaskedLM,
    BertTokenizer,
    ExportOptions,
    GenerationOptions,
    TextGenerator,
    export_saved_model,
)
from keras_bert.generation.blanks import fill_blanks
from keras_bert.serving.served_folder import open_signatures
from tests.serving.fresh_process import ask_fresh_process
from tests.signatures.tiny_models import tiny_config

TEXTS = [
    "The  FILM [MASK], a[MASK]x (Zo\u00eb) [MASK]",
    "[MASK]",
    "\u4e2d [MASK] [MASK] [SEP] the [MASK].",
    "[MASK] [MASK]",
]


@pytest.fixture(scope="module")
def model(model_folder):
    return BertMaskedLM.from_preset(model_folder("masked_lm"), dtype="float32")


@pytest.fixture(scope="module")
def tokenizer(model_folder):
    return BertTokenizer.from_preset(model_folder("masked_lm"), keep_special_tokens=True)


@pytest.fixture(scope="module")
def generator(model, tokenizer):
    return TextGenerator(model, tokenizer, GenerationOptions(sweeps=2), batch_size=4)


def written(text, pieces):
    """The text with pieces for masks, by Python's own means."""
    for piece in pieces:
        before, after = text.split("[MASK]", 1)
        if piece.startswith("##"):
            before, piece = before.rstrip(), piece[2:]
        text = before + piece + after
    return text


def test_only_masks_change(generator, tokenizer):
    joined = 0
    for text, samples in zip(TEXTS, generator.infill(TEXTS, samples=3, seed=2), strict=True):
        [ids] = tokenizer([text]).to_list()
        given = [tokenizer.vocabulary.tokens[i] for i in ids]
        for sample in samples:
            kept = [
                piece for piece, old in zip(sample.pieces, given, strict=True) if old != "[MASK]"
            ]
            assert kept == [old for old in given if old != "[MASK]"]
            drawn = [p for p, old in zip(sample.pieces, given, strict=True) if old == "[MASK]"]
            assert sample.text == written(text, drawn)
            joined += sum(piece.startswith("##") for piece in drawn)
            assert np.isfinite(sample.log_likelihood)
    assert joined > 0


@pytest.mark.parametrize(
    ("exported", "here"),
    [
        (dict(generate_sweeps=2), dict(sweeps=2)),
        # The likeliest pieces alone are drawn in the second half of the sweeps.
        (
            dict(generate_sweeps=4, generate_top_k=2, generate_temperature=2.0),
            dict(sweeps=4, burn_in=2, top_k=2, temperature=2.0),
        ),
    ],
)
def test_served_answers_are_those_of_python(exported, here, model, tokenizer, model_folder):
    generator = TextGenerator(model, tokenizer, GenerationOptions(**here), batch_size=4)
    # As operations one by one: test_an_export_generates_in_a_fresh_process has the graph.
    served = open_signatures(model_folder("masked_lm"), ExportOptions(**exported)).generate
    expected = [samples[0].text for samples in generator.infill(TEXTS, seed=7)]
    found = served(text=tf.constant(TEXTS), seed=tf.range(7, 11, dtype=tf.int64))
    assert [text.decode() for text in found["text"].numpy()] == expected


@pytest.mark.slow
def test_served_texts_with_no_mask_or_too_many(model_folder):
    options = ExportOptions(generate_sweeps=1)
    served = open_signatures(model_folder("masked_lm"), options).generate
    # Texts without a mask, and none at all.
    plain = served(text=tf.constant(["the  FILM", ""]), seed=tf.constant([1, 2], tf.int64))
    assert plain["text"].numpy().tolist() == [b"the  FILM", b""]
    # JSON cannot carry what is not UTF-8.
    [text] = served(text=tf.constant([b"caf\xe9"]), seed=tf.zeros([1], tf.int64))["text"].numpy()
    assert text.decode() == "caf\ufffd"
    none = served(text=tf.zeros([0], tf.string), seed=tf.zeros([0], tf.int64))
    assert none["text"].shape == (0,)
    # Masks that are cut off are left as they are.
    [cut] = served(text=tf.constant(["[MASK] " * 30]), seed=tf.zeros([1], tf.int64))["text"].numpy()
    assert cut.count(b"[MASK]") == 30 - 22


@pytest.mark.slow
def test_an_export_generates_in_a_fresh_process(generator, model_folder, tmp_path):
    options = ExportOptions(generate_sweeps=2)
    export = export_saved_model(model_folder("masked_lm"), tmp_path / "served", options=options)
    request = {"text": TEXTS, "seed": [7, 8, 9, 10]}
    guesses = {"text": ["the [MASK]"]}
    found, default = ask_fresh_process(
        tmp_path, [(export, "generate", request), (export, "serving_default", guesses)]
    )
    expected = [samples[0].text for samples in generator.infill(TEXTS, seed=7)]
    assert [str(text) for text in found["text"]] == expected
    assert default["tokens"].shape == (1, 1, 5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["classes", "encoder"])
def test_what_cannot_generate_is_refused(name, model_folder):
    for given in (dict(generate_sweeps=1), dict(top_k=3)):
        with pytest.raises(ValueError, match=f"--{[*given][0]} is for masked language models"):
            open_signatures(model_folder(name), ExportOptions(**given))


@pytest.mark.slow
def test_a_text_may_be_the_start(model, tokenizer):
    options = GenerationOptions(method="metropolis_hastings", sweeps=1, start="text")
    generator = TextGenerator(model, tokenizer, options)
    [samples] = generator.infill(["The film \u2603 abc"], samples=4)
    for sample in samples:
        assert len(sample.pieces) == 6
        assert sample.pieces[2] == "[UNK]"  # a chain could not come back to it
        assert sample.text == re.sub(r" ##", "", " ".join(sample.pieces))
    assert len({sample.text for sample in samples}) > 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (dict(method="beam"), "method is 'beam': choose one of gibbs"),
        (dict(order="left"), "order is 'left'"),
        (dict(energy="high"), "energy is 'high'"),
        (dict(start="unk"), "start is 'unk'"),
        (dict(sweeps=0), "sweeps is 0"),
        (dict(top_k=-1), "top_k is -1"),
        (dict(temperature=0.0), "temperature is 0.0: it must be finite and at least 1e-06"),
        (dict(temperature=1e-38), "temperature is 1e-38: it must be finite and at least 1e-06"),
        (dict(final_temperature=float("nan")), "final_temperature is nan"),
        (dict(burn_in=3), "burn_in is 3 but top_k is 0"),
        (dict(burn_in=20, top_k=1), "burn_in is 20 of 20 sweeps"),
        (dict(method="annealing", top_k=5), "top_k is for gibbs: annealing"),
        (dict(method="metropolis_hastings", order="parallel"), "order=parallel is for gibbs"),
        (dict(energy="raw"), "energy is 'raw', and gibbs has none"),
        (dict(final_temperature=0.1), "final_temperature is 0.1, and gibbs keeps its"),
        (dict(method="annealing", temperature=0.01), "cools down, from temperature 0.01 to"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        GenerationOptions(**options)


def test_annealing_cools_down_by_equal_factors():
    options = GenerationOptions("annealing", sweeps=3, temperature=4.0, final_temperature=0.25)
    assert [options.temperature_of(sweep) for sweep in range(3)] == pytest.approx([4.0, 1.0, 0.25])


@pytest.mark.parametrize(
    "options", [{}, {"method": "metropolis_hastings"}, {"method": "annealing", "energy": "raw"}]
)
def test_texts_of_a_model_without_numbers_are_refused(model_folder, tokenizer, options):
    broken = BertMaskedLM.from_preset(model_folder("masked_lm"), dtype="float32")
    for weight in broken.weights:
        weight.assign(np.full(weight.shape, np.nan))
    generator = TextGenerator(broken, tokenizer, GenerationOptions(**options, sweeps=2))
    with pytest.raises(ValueError, match="^the model answers nan, which is no number"):
        generator.infill(["the [MASK] film"])


def test_the_lowest_temperature_takes_the_likeliest_pieces(model, tokenizer):
    def texts(**options):
        chosen = TextGenerator(model, tokenizer, GenerationOptions(sweeps=2, **options))
        return [sample.text for samples in chosen.infill(TEXTS) for sample in samples]

    assert texts(temperature=1e-6) == texts(top_k=1)


def test_what_cannot_be_sampled_is_refused(generator, model, tokenizer, model_folder):
    from_text = TextGenerator(model, tokenizer, GenerationOptions(start="text"))
    plain = BertTokenizer.from_preset(model_folder("masked_lm"))
    refusals = {
        "'the film' has no [MASK]: there is nothing": lambda: generator.infill(["the film"]),
        "has 23 pieces but the model has room for 22": lambda: generator.infill(["[MASK] " * 23]),
        "read letter by letter": lambda: generator.infill("a [MASK]"),
        "text 1 (counted from 0) is a int": lambda: generator.infill(["[MASK]", 3]),
        "samples is 0": lambda: generator.infill(["[MASK]"], samples=0),
        "seed is -1": lambda: generator.infill(["[MASK]"], seed=-1),
        "prefix is a NoneType: give a string": lambda: generator.generate(prefix=None),
        "count is None: it must be a whole": lambda: generator.generate(count=None),
        "seed is None: it must be a whole": lambda: generator.infill(["[MASK]"], seed=None),
        "prefix 'The [MASK] was' holds [MASK]": lambda: generator.generate(prefix="The [MASK] was"),
        "length is 0": lambda: generator.generate(length=0),
        "count is 0: it must be at least 1": lambda: generator.generate(count=0),
        "seed is 0.5: it must be a whole number": lambda: generator.generate(seed=0.5),
        "length is 2.0: it must be a whole number": lambda: generator.generate(length=2.0),
        "start=text begins with all pieces": lambda: from_text.infill(["a [MASK]"]),
        "start=text samples the pieces of given texts": lambda: from_text.generate(),
        "has no words: there is nothing": lambda: from_text.infill(["\u2603"]),
        "reads [MASK] as plain text": lambda: TextGenerator(model, plain),
        "the model is a BertClassifier": lambda: TextGenerator(
            BertClassifier(tiny_config(), num_classes=2), tokenizer
        ),
        "generate_sweeps is 0": lambda: ExportOptions(generate_sweeps=0),
        "generate_temperature is 1e-38: it must be": lambda: ExportOptions(
            generate_sweeps=1, generate_temperature=1e-38
        ),
        "give generate_sweeps, too": lambda: ExportOptions(generate_top_k=3),
    }
    for sentence, call in refusals.items():
        with pytest.raises(ValueError, match=re.escape(sentence)):
            call()
    assert generator.infill([]) == []
    assert generator.infill(tf.constant(["a [MASK]"])) == generator.infill(["a [MASK]"])


@pytest.mark.parametrize("space", [" ", "\t", "\u00a0", "\u0085", "\u3000", " \u2003\n"])
def test_a_continuation_joins_the_word_before_any_white_space(space):
    pieces = tf.ragged.constant([["##9"], ["9"]])
    filled = fill_blanks(tf.constant([f"x{space}[MASK] y"] * 2), pieces, "[MASK]").numpy()
    assert [text.decode() for text in filled] == ["x9 y", f"x{space}9 y"]
