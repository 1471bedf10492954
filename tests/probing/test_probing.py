"""What probes find where it is known what each layer knows, and what they are compared with."""

import collections
import dataclasses
import json
import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from keras_bert import (
    BertEncoder,
    BertTokenizer,
    ProbingOptions,
    TaggedSentence,
    TaskData,
    create_task,
    plot_probes,
    probe_layers,
)
from keras_bert.probing.baselines import control_tags, most_frequent_tags_of_words
from keras_bert.tasks.classification.head import LabeledTexts
from tests.probing.probed import (
    ALL_WORDS,
    SHARES,
    TAG_OF,
    TAGS,
    knowing_encoder,
    sentences,
    tiny_tokenizer,
    write_columns,
    write_data,
)

QUICK = ProbingOptions(probe_batch_size=64, max_epochs=30, projection_size=8, learning_rate=0.02)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("probing") / "data")


@pytest.fixture(scope="module")
def data(folder):
    return create_task("conll", scheme="plain").read(folder)


@pytest.fixture(scope="module")
def known(data):
    """The encoder whose embeddings know the tag, probed."""
    return probe_layers(knowing_encoder(), data, QUICK, tokenizer=tiny_tokenizer())


def measured_words(name="test"):
    seed = ("train", "dev", "test").index(name)
    count = (120, 60, 60)[seed]
    return [word for row in sentences(count, seed) for word in row]


def test_what_an_encoder_knows_is_found_where_it_is(known):
    embeddings, last = known.layers
    assert (embeddings.name, last.name) == ("embeddings", "layer 1")
    assert embeddings.accuracy == 1
    # All words are one vector in the last layer: nothing is left but the most frequent tag.
    truth = [TAG_OF[word] for word in measured_words()]
    [(_, most)] = collections.Counter(truth).most_common(1)
    assert known.most_frequent_tag == pytest.approx(most / len(truth))
    assert last.accuracy == known.most_frequent_tag
    # Every word of the test occurs in training, and has one tag.
    assert known.most_frequent_tag_of_word == 1
    # Embeddings of random weights tell words apart, but not all of 36 in 16 numbers.
    assert known.most_frequent_tag < embeddings.random_accuracy < 1
    assert known.words == {"train": 600, "development": 300, "measured": 300}
    assert known.measured_on == "test"


def test_what_knows_the_tag_alone_is_selective(known, data):
    # Words of one tag have one vector: at best a probe says the commonest control tag of each.
    splits = [measured_words(name) for name in ("train", "dev", "test")]
    index = {label: number for number, label in enumerate(data.labels)}
    tags = np.array([index[TAG_OF[word]] for word in splits[0]])
    control = control_tags(splits, tags, 3, QUICK.seed)
    right = 0
    for tag in TAGS:
        learned, asked = (
            collections.Counter(
                told for word, told in zip(words, split, strict=True) if TAG_OF[word] == tag
            )
            for words, split in ((splits[0], control[0]), (splits[2], control[2]))
        )
        right += asked[learned.most_common(1)[0][0]]
    embeddings = known.layers[0]
    assert embeddings.control_accuracy == pytest.approx(right / 300)
    assert embeddings.selectivity == pytest.approx(1 - right / 300)
    assert embeddings.selectivity > 0.2


def test_the_mix_of_layers_leans_to_the_one_that_knows(known):
    edge = known.edge
    assert (edge.unit, edge.labels, edge.train_spans, edge.measured_spans) == ("words", 3, 600, 300)
    assert edge.cumulative[0] == 1
    assert sum(edge.mix) == pytest.approx(1)
    assert edge.mix[0] > 0.6
    assert edge.centre_of_gravity == pytest.approx(edge.mix[1])
    assert edge.differentials == (edge.cumulative[1] - edge.cumulative[0],)
    assert edge.expected_layer is None or edge.differentials[0] > 0


def test_plain_tags_that_look_like_entities_are_probed_word_by_word(tmp_path):
    look = dict(zip(TAGS, ("O", "B-X", "I-X"), strict=True))
    for seed, name in enumerate(("train", "dev")):
        rows = [[(word, look[TAG_OF[word]]) for word in row] for row in sentences(30, seed)]
        write_columns(tmp_path / f"{name}.txt", rows)

    def probed(scheme):
        data = create_task("conll", scheme=scheme).read(tmp_path)
        options = dataclasses.replace(QUICK, max_epochs=1, random_weights=False)
        return probe_layers(knowing_encoder(), data, options, tokenizer=tiny_tokenizer())

    plain, entities = probed("plain"), probed("BIO")
    assert (plain.edge.unit, plain.layers[0].f1) == ("words", None)
    assert plain.edge.train_spans == plain.words["train"]
    assert entities.edge is None or entities.edge.unit == "spans"
    assert entities.layers[0].f1 is not None


def test_a_probe_is_logistic_regression(pretrained_folder, tmp_path):
    """scikit-learn, on the same vectors, standardized here."""
    words = "good great fine nice bad awful poor sad the a film was".split()
    draw = np.random.default_rng(0)
    rows = []
    for _ in range(80):
        row = draw.choice(words, size=4)
        # The tag is that of the word before: a layer tells it in part.
        tags = ["first", *("late" if words.index(w) < 6 else "early" for w in row[:-1])]
        rows.append(list(zip(row, tags, strict=True)))
    for name in ("train", "dev"):  # the same: fitted until the loss on them is least
        write_columns(tmp_path / f"{name}.txt", rows)
    data = create_task("conll", scheme="plain").read(tmp_path)
    # What is least on the words that were learned from is so with the lesser decay on them, too.
    decay = 0.01
    options = ProbingOptions(
        weight_decays=(1.0, decay),
        probe_batch_size=320,
        learning_rate=0.05,
        max_epochs=200,
        edge_probe=False,
        random_weights=False,
    )
    result = probe_layers(pretrained_folder, data, options)
    assert result.measured_on == "validation"
    encoder = BertEncoder.from_preset(pretrained_folder, output_hidden_states=True)
    tokenizer = BertTokenizer.from_preset(pretrained_folder)
    ids = tokenizer([" ".join(word for word, _ in row) for row in rows]).to_tensor().numpy()
    vocabulary = tokenizer.vocabulary
    ids = np.pad(ids, ((0, 0), (1, 0)), constant_values=vocabulary.cls_id)
    ids = np.pad(ids, ((0, 0), (0, 1)), constant_values=vocabulary.sep_id)
    inputs = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}
    labels = [tag for row in rows for _, tag in row]
    for state, score in zip(encoder(inputs)["hidden_states"], result.layers, strict=True):
        vectors = state.numpy()[:, 1:-1].reshape(-1, 32)
        vectors = (vectors - vectors.mean(axis=0)) / vectors.std(axis=0)
        # C * sum of losses + |w|^2 / 2 is least where mean loss + decay * |w|^2 / 2 is, with
        # C = 1 / (n * decay).
        fitted = LogisticRegression(C=1 / (decay * len(labels)), tol=1e-8, max_iter=5000)
        fitted.fit(vectors, labels)
        told = fitted.predict_log_proba(vectors)
        columns = {label: column for column, label in enumerate(fitted.classes_)}
        loss = -np.mean([row[columns[label]] for row, label in zip(told, labels, strict=True)])
        assert score.weight_decay == decay
        assert score.loss == pytest.approx(loss, rel=0.03)
        assert score.accuracy == pytest.approx(fitted.score(vectors, labels), abs=0.02)


def test_a_control_task_is_one_tag_for_each_type():
    words = [ALL_WORDS * 3, ALL_WORDS[::-1]]
    tags = np.repeat(np.arange(3), (50, 30, 20))
    train, test = control_tags(words, tags, 3, seed=1)
    of_type = dict(zip(words[0], train, strict=True))
    assert [of_type[word] for word in words[0]] == list(train)
    assert [of_type[word] for word in words[1]] == list(test)
    again, other = (control_tags(words, tags, 3, seed)[0] for seed in (1, 2))
    assert list(again) == list(train) != list(other)
    # Drawn as often as the true tags occur.
    many = [[f"word {number}" for number in range(20_000)]]
    [drawn] = control_tags(many, tags, 3, seed=0)
    np.testing.assert_allclose(np.bincount(drawn) / 20_000, SHARES, atol=0.01)


def test_the_tag_that_a_word_has_most_often_by_hand():
    words = ["the", "run", "run", "run", "oslo", "rita", "walk"]
    tags = ["D", "V", "N", "V", "P", "P", "V"]
    # Of the words seen once (the, oslo, rita, walk) most are P.
    assert most_frequent_tags_of_words(words, tags, ["run", "oslo", "new"]) == ["V", "P", "P"]
    # No word was seen once: the most frequent of all.
    assert most_frequent_tags_of_words(["a", "a", "b", "b", "b"], "XXYYY", ["c"]) == ["Y"]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_numbers(data, monkeypatch):
    """Also where the vectors are in files."""
    options = ProbingOptions(max_train_words=100, max_eval_words=50, max_epochs=2, seed=4)
    encoder = knowing_encoder()
    first = probe_layers(encoder, data, options, tokenizer=tiny_tokenizer())
    monkeypatch.setattr("keras_bert.probing.layer_vectors._MOST_IN_MEMORY", 0)
    assert probe_layers(encoder, data, options, tokenizer=tiny_tokenizer()) == first
    assert first.words == {"train": 100, "development": 50, "measured": 50}
    assert first.options["probe_batch_size"] == 16  # few words, small steps


ENTITIES = [
    [("the", "O"), ("good", "I-PER"), ("great", "I-PER"), ("film", "O"), ("bad", "I-LOC")],
    [("sad", "I-LOC"), ("was", "O"), ("nice", "I-PER"), ("and", "O"), ("it", "O")],
]


@pytest.mark.slow
def test_names_are_probed_as_spans(tmp_path, pretrained_folder):
    """Whole names in IOB1: their words are pooled, and entities are counted whole."""
    for name in ("train", "dev", "test"):
        write_columns(tmp_path / f"{name}.txt", ENTITIES * 12)
    data = create_task("conll").read(tmp_path)
    options = ProbingOptions(
        probe_batch_size=60, projection_size=8, learning_rate=0.05, random_weights=False
    )
    result = probe_layers(pretrained_folder, data, options)
    # Labels in any order.
    other = TaskData(data.splits, (*data.labels[1:], "O"))
    again = probe_layers(pretrained_folder, other, options)
    assert (again.edge.unit, again.edge.labels) == ("spans", 2)
    assert [score.f1 for score in again.layers] == [1.0, 1.0]
    assert (result.edge.unit, result.edge.labels) == ("spans", 2)
    assert result.edge.measured_spans == 12 * 4
    assert result.edge.cumulative == (1.0, 1.0)  # two types of words
    assert [score.f1 for score in result.layers] == [1.0, 1.0]
    assert "entity F1" in result.table()


@pytest.mark.slow
def test_one_type_of_names_is_nothing_to_classify(tmp_path, pretrained_folder):
    rows = [[(word, tag.replace("LOC", "PER")) for word, tag in row] for row in ENTITIES]
    for name in ("train", "dev", "test"):
        write_columns(tmp_path / f"{name}.txt", rows * 2)
    quick = ProbingOptions(max_epochs=1, random_weights=False)
    result = probe_layers(pretrained_folder, create_task("conll").read(tmp_path), quick)
    assert result.edge is None
    assert "edge probe left out" in result.table()


def test_words_that_the_model_does_not_see_are_left_out():
    row = TaggedSentence(("aa", "\u200b", "bb", "AA"), ("A", "B", "B", "A"))
    splits = {"train": [row] * 20}
    quick = ProbingOptions(max_epochs=1, random_weights=False, edge_probe=False)
    result = probe_layers(
        knowing_encoder(), TaskData(splits, ("A", "B")), quick, tokenizer=tiny_tokenizer()
    )
    # Of 20 sentences each tenth is held out, and measured on, too.
    assert result.words == {"train": 54, "development": 6, "measured": 6}
    assert result.notes[0].startswith("20 words have no piece")  # one of each sentence
    assert result.most_frequent_tag_of_word == 1  # "AA" is "aa" to an uncased model


def test_a_result_is_written_whole_and_drawn(known, tmp_path):
    known.save(tmp_path / "new" / "probe.json")
    found = json.loads((tmp_path / "new" / "probe.json").read_text())
    assert found["layers"][0]["selectivity"] == known.layers[0].selectivity
    assert found["edge"]["centre_of_gravity"] == known.edge.centre_of_gravity
    assert found["options"]["max_seq_length"] == 16
    assert "most frequent tag of the word  100.0 %" in known.table()
    assert "centre of gravity: layer 0." in known.table()
    plot_probes(known, tmp_path / "probe.svg")
    assert (tmp_path / "probe.svg").stat().st_size > 5000
    with pytest.raises(ValueError, match=r"probe.pdf does not end with .png or .svg"):
        plot_probes(known, tmp_path / "probe.pdf")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"max_train_words": 0}, "max_train_words is 0: it must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0: it must be above 0"),
        ({"learning_rate": math.inf}, "learning_rate is inf: it must be above 0 and finite"),
        ({"max_seq_length": 0}, "max_seq_length is 0: it must be at least 3"),
        ({"max_seq_length": 7.5}, "max_seq_length is 7.5: it must be a whole number, at least 3"),
        ({"seed": -1}, "seed is -1: it must be from 0 to 4,294,967,295"),
        ({"weight_decays": ()}, "weight_decays are none: give numbers of 0 or more"),
        ({"weight_decays": ("1e-3", "x")}, "weight_decays are 1e-3, x: give numbers"),
        ({"weight_decays": 1e-3}, "weight_decays are 0.001: give numbers of 0 or more"),
        ({"weight_decays": (-1.0,)}, "weight_decays are -1.0: give numbers of 0 or more"),
        ({"weight_decays": "12"}, "weight_decays are 12: give numbers of 0 or more"),
        ({"learning_rate": "0.1"}, "learning_rate is the string '0.1': give a number"),
        ({"random_weights": "no"}, "random_weights is the string 'no': give True or False"),
        ({"seed": None}, "seed is None: it must be a whole number"),
        ({"batch_size": None}, "batch_size is None: it must be a whole number"),
    ],
)
def test_options_out_of_range(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        ProbingOptions(**change)


def test_each_word_has_a_tag():
    """A tag too many would move those of all words behind it, and one too few after it hide that.

    By hand: sentence 1 of the second split has 3 tags for 2 words, sentence 2 has 1.
    """
    right = TaggedSentence(("aa", "bb"), ("A", "B"))
    moved = [right, right._replace(tags=("A", "B", "A")), right._replace(tags=("B",))]
    for name in ("validation", "test"):
        splits = {"train": [right] * 20, "validation": [right] * 3, name: moved}
        expected = rf"^example 1 .* of the split '{name}' has 2 words but 3 tags: give one for each"
        with pytest.raises(ValueError, match=expected):
            probe_layers(knowing_encoder(), TaskData(splits, ("A", "B")))


@pytest.mark.parametrize("name", ["train", "validation", "test"])
def test_sentences_without_tags_are_not_passed_over(name):
    right = TaggedSentence(("aa", "bb"), ("A", "B"))
    splits = {"train": [right] * 20, name: [right] * 11 + [right._replace(tags=None)]}
    expected = rf"^11 of the 12 sentences of the split '{name}' have tags: tag all of them, or "
    with pytest.raises(ValueError, match=expected):
        probe_layers(knowing_encoder(), TaskData(splits, ("A", "B")))


def test_bad_input(data, pretrained_folder):
    encoder, tokenizer = knowing_encoder(), tiny_tokenizer()
    with pytest.raises(ValueError, match="max_seq_length is 17 but the model has 16 pos"):
        probe_layers(encoder, data, ProbingOptions(max_seq_length=17), tokenizer=tokenizer)
    with pytest.raises(ValueError, match="there is no tokenizer for the BertEncoder"):
        probe_layers(encoder, data)
    with pytest.raises(ValueError, match="the model is a list"):
        probe_layers([], data)
    texts = TaskData({"train": LabeledTexts(["a"], None, [0])}, ("x", "y"))
    with pytest.raises(ValueError, match="the data are not of a tagging task"):
        probe_layers(pretrained_folder, texts)
    few = TaskData({"train": [TaggedSentence(("aa",), ("A",))] * 9}, ("A", "B"))
    with pytest.raises(ValueError, match="there are 9 sentences with tags to learn from"):
        probe_layers(encoder, few, tokenizer=tokenizer)
    unseen = TaskData({"train": [TaggedSentence(("\u200b",), ("A",))] * 20}, ("A", "B"))
    with pytest.raises(ValueError, match="no word has a piece that the model reads"):
        probe_layers(encoder, unseen, tokenizer=tokenizer)
    unknown = TaskData({"train": [TaggedSentence(("aa",), ("C",))] * 20}, ("A", "B"))
    expected = r"of the split 'train' has the tag 'C', which is none of the 2 labels \(A, B\)"
    with pytest.raises(ValueError, match=expected):
        probe_layers(encoder, unknown, tokenizer=tokenizer)
    # By hand: after the first step weights are about 1e38, whose products are no float32 numbers.
    fast = dataclasses.replace(QUICK, learning_rate=1e38, edge_probe=False, max_epochs=4)
    expected = "^linear probes: in 2 of 2 layers no loss was finite .* rate of 1e[+]38: lower it"
    with pytest.raises(ValueError, match=expected):
        probe_layers(encoder, data, fast, tokenizer=tokenizer)
    broken = knowing_encoder()
    table = broken.word_embeddings.variables[0]
    table.assign(np.full(table.shape, np.nan, np.float32))
    with pytest.raises(ValueError, match=r"layer 0 of the encoder .* weights are damaged"):
        probe_layers(broken, data, tokenizer=tokenizer)
