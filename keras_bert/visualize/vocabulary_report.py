"""What a vocabulary holds, and what becomes of a text under it."""

import collections
import html
import os
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from keras_bert.storage import hub
from keras_bert.storage.paths import short_name
from keras_bert.storage.text_lines import check_several
from keras_bert.text.corpus_tokenizer import CorpusTokenizer
from keras_bert.text.coverage import WordCounts, count_words
from keras_bert.text.tokenizer_files import family_of
from keras_bert.text.vocabulary import CONTINUATION_PREFIX, Vocabulary
from keras_bert.text.vocabulary_contents import describe_vocabulary
from keras_bert.text.wordpiece import files as wordpiece_files
from keras_bert.text.wordpiece.settings import Settings, is_cased
from keras_bert.visualize import charts, report_page

# Rows of lists; longer ones are told by their number.
_MOST_ROWS = 15
_MOST_DEAD = 300
_MOST_UNUSED = 300
_MOST_SCRIPTS = 25
# Points of the Zipf picture, evenly spread over the logarithm of the rank.
_RANKS = 200


class VocabularyReport(report_page.Report):
    """What stands in a vocabulary and how a text fares under it; a notebook shows it as a page.

    Attributes:
        title: names the vocabulary.
        vocabulary: the entries.
        settings: how the tokenizer treats text.
        contents: kinds, scripts, lengths, dead entries: `VocabularyContents`.
        counts: words and pieces of the text: `WordCounts`; None without a text.
    """

    def __init__(
        self, name: str, vocabulary: Vocabulary, settings: Settings, counts: WordCounts | None
    ):
        self.title = f"Vocabulary {name}"
        self.name = name
        self.vocabulary = vocabulary
        self.settings = settings
        self.contents = describe_vocabulary(vocabulary, settings)
        self.counts = counts

    def lines(self) -> Iterator[str]:
        """Yields the most important numbers as text for a terminal."""
        contents, total = self.contents, len(self.vocabulary)
        yield f"{self.name}: {total:,} entries, {self._treatment()}"
        for kind, number in contents.kinds.items():
            if number:
                yield f"    {kind:40}{number:>9,}{100 * number / total:>8.1f} %"
        scripts = ", ".join(f"{s} {n:,}" for s, n in list(contents.scripts.items())[:8])
        yield f"scripts: {scripts}"
        dead = collections.Counter(entry.reason for entry in contents.unreachable)
        yield f"entries that no text produces: {len(contents.unreachable):,}"
        for reason, number in dead.most_common():
            examples = [e.token for e in contents.unreachable if e.reason == reason][:5]
            yield f"    {reason}: {number:,}, such as {' '.join(examples)}"
        if self.counts is not None:
            yield f"the text, {self.counts.coverage.words:,} words: {self.counts.coverage}"
            for title, words in (
                ("commonest [UNK]", self.counts.commonest_unknown(8)),
                ("commonest split words", self.counts.commonest_split(8)),
            ):
                if words:
                    yield f"{title}: {', '.join(f'{word} ({n:,})' for word, n in words)}"

    def html(self) -> str:
        """Returns the page: one HTML text that needs no other file, no script and no network."""
        sections = [*self._contents_sections()]
        if self.counts is not None:
            sections = [*self._text_sections(self.counts), *sections]
        head = report_page.paragraph(f"{len(self.vocabulary):,} entries; {self._treatment()}.")
        return report_page.page(self.title, self.title, [head, *sections])

    def _treatment(self) -> str:
        """Returns how text is treated, in words."""
        strips = self.settings.strip_accents
        accents = self.settings.lowercase if strips is None else strips
        return ", ".join(
            [
                "uncased" if self.settings.lowercase else "cased",
                "accents stripped" if accents else "accents kept",
                f"ideographs {'apart' if self.settings.split_cjk else 'within words'}",
            ]
        )

    def _contents_sections(self) -> Iterator[str]:
        contents, total = self.contents, len(self.vocabulary)
        scripts = list(contents.scripts.items())
        rest = sum(number for _, number in scripts[_MOST_SCRIPTS:])
        scripts = [*scripts[:_MOST_SCRIPTS], *([("other scripts", rest)] if rest else [])]
        yield report_page.section(
            "Entries",
            report_page.columns(
                [
                    _block("By kind", _bars("kind", contents.kinds.items(), total)),
                    _block("By script", _bars("script", scripts, sum(contents.scripts.values()))),
                ]
            ),
        )
        yield report_page.section(
            "Lengths",
            report_page.columns(
                [
                    _block("Words and beginnings", _histogram(contents.lengths)),
                    _block("Continuations, without ##", _histogram(contents.continuation_lengths)),
                ]
            ),
            charts.folded("Longest entries", _entries(contents.longest)),
        )
        dead = contents.unreachable
        if not dead:
            words = "Each entry but special tokens and [unused] slots can be produced."
            yield report_page.section("Entries that no text produces", report_page.paragraph(words))
            return
        rows = [[e.token, e.reason, e.becomes] for e in dead[:_MOST_DEAD]]
        shown = f", the first {_MOST_DEAD}" if len(dead) > _MOST_DEAD else ""
        reasons = collections.Counter(entry.reason for entry in dead)
        yield report_page.section(
            "Entries that no text produces",
            report_page.paragraph(
                f"{len(dead):,} entries ({_percent(len(dead), total)}) are never used with this "
                "tokenizer: their rows of the embedding learn nothing.",
            ),
            _bars("reason", reasons.most_common(), len(dead)),
            charts.folded(
                f"The entries{shown}",
                charts.table(["entry", "why", "becomes"], rows, "Entries that no text produces"),
            ),
        )

    def _text_sections(self, counts: WordCounts) -> Iterator[str]:
        coverage, tokens = counts.coverage, self.vocabulary.tokens
        words = coverage.words
        if not words:
            yield report_page.section("The text", report_page.paragraph("It has no words."))
            return
        rows = [
            ["words", f"{words:,}"],
            ["distinct words", f"{len(counts.words) + counts.forgotten:,}"],
            ["pieces", f"{coverage.pieces:,}"],
            ["pieces per word (fertility)", f"{coverage.pieces_per_word:.3f}"],
            ["words that stay whole", f"{100 * coverage.whole_rate:.2f} %"],
            ["words that are [UNK]", f"{100 * coverage.unknown_rate:.3f} %"],
            [
                "entries that occur",
                f"{coverage.entries_used:,} ({_percent(coverage.entries_used, coverage.entries)})",
            ],
        ]
        by_pieces = sorted(counts.words_by_pieces.items())
        yield report_page.section(
            "The text",
            report_page.columns(
                [
                    _block("Figures", charts.table(["figure", "value"], rows, "Figures")),
                    _block(
                        "Pieces of a word",
                        _bars("pieces", [(str(n), times) for n, times in by_pieces], words),
                    ),
                    self._zipf(counts),
                ]
            ),
        )
        yield report_page.section(
            "Words",
            report_page.columns(
                [
                    self._words("Commonest words of several pieces", counts.commonest_split),
                    self._words("Words of most pieces", counts.most_split),
                    self._words("Commonest [UNK]", counts.commonest_unknown, with_pieces=False),
                    _block(
                        "Characters that are no entry",
                        _table(
                            ["character", "name", "words"],
                            [
                                [character, _name(character), f"{times:,}"]
                                for character, times in counts.unknown_characters.most_common(
                                    _MOST_ROWS
                                )
                            ],
                            "Characters that are no entry",
                        ),
                    ),
                ]
            ),
        )
        unused = [
            token for token, times in zip(tokens, counts.piece_counts, strict=True) if not times
        ]
        by_kind = collections.Counter(
            "continuations (##)" if token.startswith(CONTINUATION_PREFIX) else "other entries"
            for token in unused
        )
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in by_kind.items())
        shown = f", the first {_MOST_UNUSED}" if len(unused) > _MOST_UNUSED else ""
        yield report_page.section(
            "Entries that the text does not use",
            report_page.paragraph(
                f"{len(unused):,} of {len(tokens):,} entries "
                f"({_percent(len(unused), len(tokens))}): {kinds}."
                if unused
                else "The text uses every entry."
            ),
            charts.folded(f"The entries{shown}", _entries(unused[:_MOST_UNUSED])) if unused else "",
        )

    def _words(
        self,
        title: str,
        find: Callable[[int], list[tuple[str, int]]],
        with_pieces: bool = True,
    ) -> str:
        assert self.counts is not None
        rows = [
            [word, *([" ".join(self.counts.pieces(word))] if with_pieces else []), f"{times:,}"]
            for word, times in find(_MOST_ROWS)
        ]
        head = ["word", *(["pieces"] if with_pieces else []), "times"]
        return _block(title, _table(head, rows, title))

    def _zipf(self, counts: WordCounts) -> str:
        """Returns how often the entry, and the word, of each rank occurs."""
        pieces = sorted((int(n) for n in counts.piece_counts if n), reverse=True)
        words = [times for _, times in counts.words.most_common()]
        return charts.line_chart(
            "Frequency by rank (Zipf)",
            [
                charts.Series("words", _by_rank(words), 1),
                charts.Series("pieces", _by_rank(pieces), 2, thin=True, dashed=True),
            ],
            charts.Axis("rank", log=True),
            charts.Axis("times", log=True),
        )

    def __repr__(self) -> str:
        return f"VocabularyReport({self.name!r}, {len(self.vocabulary):,} entries)"


def inspect_vocabulary(
    vocab: str | os.PathLike | Vocabulary,
    texts: Iterable[str] | None = None,
    settings: Settings | None = None,
) -> VocabularyReport:
    """Shows what stands in a vocabulary and, with texts, what they become under it.

    Args:
        vocab: a vocab.txt, whose folder may hold a tokenizer_config.json; a model folder of any
            format or `hf://org/name`; or a vocabulary.
        texts: texts to cut into pieces; read as a stream.
        settings: how text is treated; None takes what the folder says.

    Returns:
        A report, which a notebook displays; `save` writes the page, `lines` gives the most
        important numbers, `contents` and `counts` all of them.

    Raises:
        FileNotFoundError: there is no vocabulary.
        ValueError: it is damaged, and the sentence names the line; or it is not WordPiece.

    Example:
        report = inspect_vocabulary("vocab/vocab.txt", ["Unaffordability is no word ."])
        print(report.counts.coverage.pieces_per_word)
    """
    if isinstance(vocab, Vocabulary):
        if vocab.word_mark != CONTINUATION_PREFIX:
            raise ValueError(
                f"the vocabulary marks words with {vocab.word_mark!r}: the report is of WordPiece "
                f"vocabularies, whose mark is {CONTINUATION_PREFIX!r}"
            )
        name, vocabulary = f"of {len(vocab):,} entries", vocab
        found = Settings(lowercase=not is_cased(vocab))
    else:
        name = short_name(vocab)
        if hub.is_hub_name(vocab) or Path(vocab).is_dir():
            if (family := family_of(vocab)) != "wordpiece":
                raise ValueError(
                    f"{vocab} holds a tokenizer of the family {family}: the report is of WordPiece "
                    "vocabularies; give a folder with a vocab.txt"
                )
            vocabulary, found = wordpiece_files.read(vocab)
        else:
            if Path(vocab).suffix in (".json", ".model"):
                raise ValueError(
                    f"{vocab} is a file of another tokenizer: the report is of WordPiece "
                    "vocabularies; give a vocab.txt"
                )
            vocabulary, found = wordpiece_files.read_file(vocab)
    # Spelled out in a text, special tokens are text: words are counted, not markers.
    treatment = (settings or found)._replace(keep_special_tokens=False)
    counts = None
    if texts is not None:
        check_several(texts)
        counts = count_words(CorpusTokenizer(vocabulary, treatment), texts)
    return VocabularyReport(name, vocabulary, treatment, counts)


def _block(title: str, content: str) -> str:
    return f"<div><h3>{html.escape(title)}</h3>\n{content}</div>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], label: str) -> str:
    return charts.table(head, rows, label) if rows else report_page.paragraph("None.", "note")


def _bars(head: str, amounts: Iterable[tuple[str, int]], total: int) -> str:
    rows = [
        (name, float(number), f"{number:,} ({_percent(number, total)})")
        for name, number in amounts
        if number
    ]
    return charts.bar_table([head, "number"], rows, head)


def _histogram(lengths: Mapping[int, int]) -> str:
    if not lengths:
        return report_page.paragraph("None.", "note")
    every = range(min(lengths), max(lengths) + 1)
    rows = [(str(n), float(lengths.get(n, 0)), f"{lengths.get(n, 0):,}") for n in every]
    return charts.bar_table(["characters", "entries"], rows, "Lengths")


def _entries(tokens: Sequence[str]) -> str:
    items = "".join(f"<li>{html.escape(token)}</li>" for token in tokens)
    return f'<ul class="entries">{items}</ul>'


def _by_rank(counts: Sequence[int]) -> list[charts.Point]:
    """Returns rank and count, at ranks that are evenly spread over the logarithm."""
    if not counts:
        return []
    steps = (len(counts) ** (index / (_RANKS - 1)) for index in range(_RANKS))
    ranks = sorted({min(round(step), len(counts)) for step in steps})
    return [(float(rank), float(counts[rank - 1])) for rank in ranks]


def _name(character: str) -> str:
    """Returns the Unicode name of a character, or its code point where it has none."""
    return unicodedata.name(character, f"U+{ord(character):04X}").lower()


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.1f} %"
