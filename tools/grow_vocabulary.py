r"""Gives a model pieces for the words of a field, before it goes on with the texts of that field.

    python tools/grow_vocabulary.py --model=bert --input='field/*.txt' --new_words=1000 \
        --output=models/grown
    python tools/grow_vocabulary.py --model=bert --words=words.txt --output=models/grown

--input takes the commonest words that the vocabulary cuts into --min_pieces pieces or more, --words
those of a file, one a line. They take the [unused] slots first, but for those that a ColBERT marks
texts with, and stand behind the end then; each starts at the mean of the embeddings of its pieces.
The folder is one for run_pretraining.py --init_from, and its vocab.txt the one for
create_pretraining_data.py. That of a fine-tuned model stays one for predict.py, with its task.json.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from absl import flags

from keras_bert import command_line
from keras_bert.choices import DecodingErrors

if TYPE_CHECKING:
    from keras_bert.text.corpus_tokenizer import CorpusTokenizer
    from keras_bert.text.coverage import WordCounts

flags.DEFINE_string("model", None, "Model folder of any format with a WordPiece vocabulary.")
flags.DEFINE_alias("init_from", "model")
flags.DEFINE_list("input", [], "Files, globs (.txt, .jsonl, .parquet, compressed), tfds:name.")
flags.DEFINE_string("words", None, "File with a word on each line, in place of --input.")
flags.DEFINE_string("output", None, "Folder to write, which must not exist yet.")
flags.DEFINE_integer("new_words", 1000, "The most words to take from --input.", lower_bound=1)
flags.DEFINE_integer(
    "min_pieces", 3, "The fewest pieces that such a word is cut into so far.", lower_bound=2
)
flags.DEFINE_integer("min_frequency", 10, "How often such a word occurs at least.", lower_bound=1)
flags.DEFINE_string("text_field", "text", "Field or column that holds the text.")
flags.DEFINE_enum(
    "errors", "strict", get_args(DecodingErrors), "What to do with bytes not in UTF-8."
)
flags.DEFINE_list("ignore_config_keys", [], "Unknown keys of the model's config to pass over.")
flags.mark_flags_as_required(["model", "output"])

_FOR_TEXTS = ("new_words", "min_pieces", "min_frequency", "text_field", "errors")
_SHOWN = 12


def main(_: Sequence[str]) -> None:
    """Reads the flags, chooses or reads the words, grows the model and writes it."""
    from keras_bert import BertTokenizer, grow_vocabulary, load_model, load_tokenizer
    from keras_bert.checkpoints import multi_vector_modules, sentence_modules, sparse_modules
    from keras_bert.finetuning.task import TASK_FILE
    from keras_bert.storage import hub
    from keras_bert.storage.files import atomic_folder
    from keras_bert.storage.paths import check_local
    from keras_bert.tasks.kinds import load_description
    from keras_bert.text.corpus_tokenizer import CorpusTokenizer
    from keras_bert.text.wordpiece.new_words import read_words
    from keras_bert.text.wordpiece.settings import Settings

    values, output = flags.FLAGS, Path(flags.FLAGS.output)
    if bool(values.input) == bool(values.words):
        raise ValueError("give either --input, texts to take words from, or --words, a list")
    for name in _FOR_TEXTS if values.words else ():
        if values[name].present:
            raise ValueError(f"--{name} is for words that are taken from --input: leave it out")
    check_local("--output", values.output)
    if output.exists():
        raise FileExistsError(f"{output} exists: give a new folder to --output, or remove it first")

    # The model, before the corpus is read: what is wrong with it is told at once.
    folder = hub.local_folder(values.model)
    tokenizer = load_tokenizer(folder)
    if not isinstance(tokenizer, BertTokenizer):
        raise ValueError(
            f"{values.model} has a {type(tokenizer).__name__}, whose pieces follow from merges or "
            "a model file: only a WordPiece vocabulary can take new words"
        )
    model = load_model(folder, values.ignore_config_keys)
    task = load_description(folder) if Path(folder, TASK_FILE).is_file() else None
    tokenizer.vocabulary.check_size(model.config.vocab_size)
    kept, of_tokens = "", None  # what a late-interaction encoder has behind its encoder
    try:
        if multi_vector_modules.is_multi_vector_folder(folder):
            of_tokens = multi_vector_modules.read(folder)
    except ValueError as error:
        if task is not None:
            raise  # a run is none without its projection
        kept = f", the encoder alone: {error}"  # no reason not to grow it
    corpus_tokenizer = CorpusTokenizer(tokenizer.vocabulary, Settings(**tokenizer.settings))

    if values.words:
        words = read_words(values.words, corpus_tokenizer)
    else:
        counts, words = _words_of_texts(corpus_tokenizer)
    grown = tokenizer.vocabulary.add_tokens(words, of_tokens.special_pieces if of_tokens else ())
    pieces = tokenizer.pieces_of_new_tokens(grown)
    if not pieces:
        raise ValueError(f"all {len(words)} words of {values.words} are in the vocabulary already")

    # The folder with them. Embeddings may have more rows than the vocabulary has pieces.
    model = grow_vocabulary(model, pieces, max(len(grown), model.config.vocab_size))
    with atomic_folder(output) as temporary:
        model.save_to_preset(temporary, BertTokenizer(grown, **tokenizer.settings))
        if of_tokens is not None:  # first: its task completes what it finds there
            multi_vector_modules.write(temporary, of_tokens)
            kept = f", with {sentence_modules.MODULES_FILE} and what it lists"
        if task is not None:
            task.save(temporary)
            kept += f", with {TASK_FILE}"
        try:
            if sparse_modules.is_sparse_folder(folder):
                sparse_modules.copy(folder, temporary, model.config.vocab_size)
                kept += f", with {sentence_modules.MODULES_FILE} and what it lists"
            elif task is None and sentence_modules.is_sentence_folder(folder):
                sentence_modules.copy(folder, temporary)
                kept = f", with {sentence_modules.MODULES_FILE} and what it lists"
        except ValueError as error:  # no reason not to grow the encoder
            kept = f", the encoder alone: {error}"

    shown = ", ".join(grown.tokens[index] for index in list(pieces)[:_SHOWN])
    more = f" and {len(pieces) - _SHOWN:,} more" if len(pieces) > _SHOWN else ""
    slots = sum(index < len(tokenizer.vocabulary) for index in pieces)
    print(f"new words: {len(pieces):,}, of them in [unused] slots: {slots:,}: {shown}{more}")
    if values.input:
        # The words that were forgotten of a large corpus count in neither line.
        before = counts.recounted(corpus_tokenizer)
        after = counts.recounted(CorpusTokenizer(grown, Settings(**tokenizer.settings)))
        print(f"before: {before.coverage}\nafter:  {after.coverage}")
    print(f"{output}: {type(model).__name__}, {len(grown):,} pieces{kept}")


def _words_of_texts(tokenizer: "CorpusTokenizer") -> tuple["WordCounts", list[str]]:
    """Returns how often words occur in --input, and those that become pieces."""
    from keras_bert.data.corpus.reading import Corpus
    from keras_bert.progress import Progress
    from keras_bert.text.coverage import count_words
    from keras_bert.text.wordpiece.new_words import choose_new_words

    values = flags.FLAGS
    corpus = Corpus(values.input, values.text_field, values.errors)
    with Progress(corpus.total_bytes, "B", "counting words", at_once=True) as progress:
        counts = count_words(tokenizer, corpus.paragraphs(progress))
    words = choose_new_words(counts, values.new_words, values.min_pieces, values.min_frequency)
    if not words:
        raise ValueError(
            f"no word of {', '.join(values.input)} occurs {values.min_frequency} times and is "
            f"cut into {values.min_pieces} pieces: lower --min_frequency or --min_pieces, or "
            "leave the vocabulary as it is"
        )
    return counts, words


if __name__ == "__main__":
    command_line.run(main)
