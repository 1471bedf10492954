"""Two books in twelve languages, paragraph by paragraph, from Debian packages.

The Debian Administrator's Handbook, and for Greek and Korean, of which it has little, the GIMP
User Manual. The pages of a book have the same names and the same number of paragraphs in all its
languages, so that the paragraph of a page is the translation of the one with its number in another
language. A paragraph is taken where the English one is prose, so that headings, tables and code
stay out, and where it is translated: what is not yet stands there in English. For some languages
guides and questions of other packages are added to what is trained on, which have no translations
beside them. Every eighth page, counted through both books, is held out in all languages. Needs
apt-get and dpkg-deb.
"""

import functools
import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import packages
from english_text import is_prose, paragraphs_of_html

from keras_bert.storage.files import atomic_file

_HANDBOOK = "debian-handbook"
_MANUAL = "gimp-help"
_HELD_OUT_EVERY = 8
_FEWEST_CHARACTERS = 20
# Words that tell English from German and Spanish, and from Vietnamese in all but a few sentences.
_ENGLISH = frozenset(
    "and are be by for from if is it of on or that the this to which with you".split()
)
_WORD = re.compile(r"[^\W\d_]+")


class Language(NamedTuple):
    """A language of the books.

    Attributes:
        folder: of the pages of the handbook.
        script: what it is written in.
        foreign: the least share of letters outside ASCII in its paragraphs.
        has_manual: whether the pages of the manual are taken too.
        more: packages and folders of more text.
    """

    folder: str
    script: str
    foreign: float = 0.5
    has_manual: bool = False
    more: tuple[tuple[str, str], ...] = ()


def _guide(language: str) -> tuple[str, str]:
    package = f"maint-guide-{language}"
    return package, f"usr/share/doc/{package}/html"


def _questions(language: str) -> tuple[str, str]:
    return f"debian-faq-{language}", f"usr/share/doc/debian/FAQ/{language}"


LANGUAGES = {
    "en": Language("en-US", "Latin", 0.0, has_manual=True),
    "de": Language("de-DE", "Latin", 0.0, more=(_guide("de"),)),
    "es": Language("es-ES", "Latin", 0.0),
    "vi": Language("vi-VN", "Latin", 0.1, more=(_guide("vi"),)),
    "ru": Language("ru-RU", "Cyrillic", more=(_questions("ru"),)),
    "el": Language("el-GR", "Greek", has_manual=True),
    "ar": Language("ar-MA", "Arabic"),
    "fa": Language("fa-IR", "Arabic"),
    "ja": Language("ja-JP", "kana and Han", more=(_guide("ja"), _questions("ja"))),
    "ko": Language("ko-KR", "Hangul", has_manual=True, more=(_questions("ko"),)),
    "zh_cn": Language("zh-CN", "Han, simplified", more=(_guide("zh-cn"), _questions("zh-cn"))),
    "zh_tw": Language("zh-TW", "Han, traditional"),
}


class Paragraph(NamedTuple):
    """A translated paragraph of a book.

    Attributes:
        page: its page, with the name of the book before it.
        number: its place in the page.
        text: what stands there.
    """

    page: str
    number: int
    text: str


def paragraphs(name: str) -> list[Paragraph]:
    """Returns the paragraphs of the books in a language that are in that language, in order.

    A text that stands in several places is taken once: where it is trained on, if it is.
    """
    found: dict[str, Paragraph] = {}
    kept_out = held_out()
    for page, translated in _pages(name).items():
        originals = _page_texts(_pages("en")[page]) if page in _pages("en") else []
        texts = _page_texts(translated)
        if len(texts) != len(originals):  # they have other numbers than their translations
            continue
        for number, (text, original) in enumerate(zip(texts, originals, strict=True)):
            if is_prose(original) and _is_of(name, text):
                if text not in found or (found[text].page in kept_out and page not in kept_out):
                    found[text] = Paragraph(page, number, text)
    return list(found.values())


def chapters() -> dict[str, str]:
    """Returns the chapter of each page of the handbook: the last page that is not a section."""
    found, chapter = {}, ""
    for page in _pages("en"):
        book, _, name = page.partition("/")
        if book == _HANDBOOK:
            chapter = chapter if name.startswith("sect.") else name.removesuffix(".html")
            found[page] = chapter
    return found


def held_out() -> set[str]:
    """Returns the pages that no model is trained on."""
    return set(list(_pages("en"))[_HELD_OUT_EVERY // 2 :: _HELD_OUT_EVERY])


def write(folder: Path) -> dict[str, dict[str, int]]:
    """Writes LANGUAGE/train.txt and LANGUAGE/eval.txt; returns the characters of each."""
    characters: dict[str, dict[str, int]] = {}
    kept_out = held_out()
    for name in LANGUAGES:
        texts: dict[str, dict[str, list[str]]] = {"train": {}, "eval": {}}
        for paragraph in paragraphs(name):
            split = "eval" if paragraph.page in kept_out else "train"
            texts[split].setdefault(paragraph.page, []).append(paragraph.text)
        known = {text for documents in texts["eval"].values() for text in documents}
        for page, found in _more(name):
            if new := [text for text in found if text not in known]:
                texts["train"][page] = new
        for split, documents in texts.items():
            text = "\n\n".join("\n".join(found) for found in documents.values()) + "\n"
            (folder / name).mkdir(parents=True, exist_ok=True)
            with atomic_file(folder / name / f"{split}.txt") as temporary:
                temporary.write_text(text, encoding="utf-8")
            characters.setdefault(name, {})[split] = len(text)
        print(f"{name}: {characters[name]} characters", flush=True)
    return characters


@functools.cache
def _pages(name: str) -> dict[str, Path]:
    """Returns the files of the pages in a language by book and name, in the order of the books."""
    handbook = packages.debian_package(_HANDBOOK) / "usr/share/doc/debian-handbook/html"
    index = (handbook / "en-US" / "index.html").read_text("utf-8")
    names = dict.fromkeys(re.findall(r'href="([\w.-]+\.html)[#"]', index))
    found = {f"{_HANDBOOK}/{page}": handbook / LANGUAGES[name].folder / page for page in names}
    if LANGUAGES[name].has_manual:
        manual = packages.debian_package(f"{_MANUAL}-{name}") / "usr/share/gimp/2.0/help" / name
        files = sorted(manual.rglob("*.html"))
        found |= {f"{_MANUAL}/{file.relative_to(manual).as_posix()}": file for file in files}
    return found


def _more(name: str) -> Iterator[tuple[str, list[str]]]:
    for package, folder in LANGUAGES[name].more:
        for path in sorted((packages.debian_package(package) / folder).glob("*.html*")):
            texts = [text for text in _page_texts(path) if _is_of(name, text)]
            yield f"{package}/{path.name}", texts


@functools.cache
def _page_texts(path: Path) -> list[str]:
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    return paragraphs_of_html(content.decode("utf-8", "replace"))


def _is_of(name: str, text: str) -> bool:
    """Whether a paragraph is running text of a language."""
    if name == "en":
        return is_prose(text)
    letters = [character for character in text if character.isalpha()]
    spaces = sum(character.isspace() for character in text)
    if len(letters) < _FEWEST_CHARACTERS or len(letters) + spaces < 0.85 * len(text):
        return False
    if sum(not letter.isascii() for letter in letters) < LANGUAGES[name].foreign * len(letters):
        return False
    words = [word.lower() for word in _WORD.findall(text)]
    return sum(word in _ENGLISH for word in words) < 0.05 * len(words)
