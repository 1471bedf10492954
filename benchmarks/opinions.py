"""21,000 sentences with opinions: of products, films and restaurants, and short public messages.

From the source archive of the PyPI package vaderSentiment (the data of Hutto and Gilbert, ICWSM
2014, rated by people) and the test data of the npm package sentiment. Their labels are not read:
they are texts for a teacher to answer.
"""

import html
import json
import tarfile
from collections.abc import Iterator

import packages

# In the archive: a number, a rating and a text in each line.
_ARCHIVE = "additional_resources/hutto_ICWSM_2014.tar.gz"
_RATED = ("amazonReviewSnippets", "movieReviewSnippets", "tweets")
_FIXTURES = ("amazon", "imdb", "yelp")


def load() -> list[str]:
    """Returns the texts, each once, in the order of their files."""
    return list(dict.fromkeys(text for text in (*_rated_texts(), *_fixture_texts()) if text))


def _rated_texts() -> Iterator[str]:
    source = packages.python_source("vaderSentiment==3.3.2")
    with tarfile.open(next(source.rglob(_ARCHIVE))) as archive:
        for name in _RATED:
            file = archive.extractfile(f"hutto_ICWSM_2014/{name}_GroundTruth.txt")
            assert file is not None
            for line in file.read().decode("utf-8").splitlines():
                # A few messages were cut in the middle of a line: the rest is a text of its own.
                yield html.unescape(line.rpartition("\t")[2]).strip()


def _fixture_texts() -> Iterator[str]:
    for name in _FIXTURES:
        path = packages.npm_package("sentiment@5.0.2") / f"package/test/fixtures/{name}.json"
        for entry in json.loads(path.read_text(encoding="utf-8")):
            yield entry["text"].strip()
