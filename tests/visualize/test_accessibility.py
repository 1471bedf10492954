"""Pages of the package and of the documentation in a real browser, against WCAG 2.2 A and AA.

A new page is one entry of `PAGES`: its name, what writes it, and the keys that open its views.
"""

import time
from pathlib import Path

import numpy as np
import pytest

from keras_bert import (
    SimilarPair,
    TextClusters,
    Vocabulary,
    inspect_model,
    inspect_vocabulary,
    show_attention,
    show_clusters,
    show_run,
)
from keras_bert.text.vocabulary import SPECIAL_TOKENS
from keras_bert.visualize.attributions.view import Explainer
from tests.docs.documents import ROOT
from tests.signatures.tiny_models import write_model
from tests.visualize.attention_models import PAIR, TEXT, tiny_encoder, tiny_tokenizer
from tests.visualize.axe import violations
from tests.visualize.chromium import Browser
from tests.visualize.run_folders import write_pretraining_run

# Starts Chromium; see chromium.py for how to get it.
pytestmark = [pytest.mark.slow, pytest.mark.browser]


def _attention(path: Path) -> None:
    show_attention(tiny_encoder(), TEXT, PAIR, tokenizer=tiny_tokenizer()).save(path)


def _attributions(path: Path) -> None:
    explain = Explainer(write_model(path.parent / "pairs", "pairs"))
    explain("the film abc, x (y) z.", "a film the abc. not a b c d e f", target="yes").save(path)


def _runs(path: Path) -> None:
    runs = [write_pretraining_run(path.parent / name, lower=i / 3) for i, name in enumerate("ab")]
    show_run(*runs).save(path)


def _vocabulary(path: Path) -> None:
    vocabulary = Vocabulary([*SPECIAL_TOKENS, "film", "##s", "good.bad"])
    inspect_vocabulary(vocabulary, ["films or a film"]).save(path)


def _model(path: Path) -> None:
    inspect_model("bert_base", 512).save(path)


def _clusters(path: Path) -> None:
    clusters = TextClusters([*"aabbc"], np.eye(5), [0, 0, 1, 1, -1])
    report = show_clusters(clusters, [SimilarPair(0.9, 0, 1)])
    # With the texts of a cluster.
    page = report.html().replace("\n</script>\n</body>", "\nchooseCluster(0);</script></body>")
    path.write_text(page, encoding="utf-8")


# Name of a page -> what writes it, keys that open its views ("" for the page as it opens).
PAGES = {
    "attention": (_attention, ("1", "2", "3", "4")),
    "attributions": (_attributions, ("",)),
    "runs": (_runs, ("",)),
    "vocabulary": (_vocabulary, ("",)),
    "model": (_model, ("",)),
    "clusters": (_clusters, ("",)),
}
SITE = ROOT / "build" / "site"  # of `make docs`
SITE_PAGES = ("index", "faq", "coming_from", "results", "api/models", "notebooks/1_classifier")


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280], ids=["phone", "desk"])
@pytest.mark.parametrize("name", PAGES)
def test_no_rule_is_broken(name, width, dark, browser, folder):
    write, views = PAGES[name]
    path = folder / f"{name}.html"
    if not path.exists():
        write(path)
    browser.open(path, width, dark)
    browser.run("document.querySelectorAll('details').forEach(part => part.open = true)")
    for key in views:
        if key:
            browser.press(key)
        assert violations(browser) == [], f"view {key or 'whole'}"


with_site = pytest.mark.skipif(not SITE.is_dir(), reason="the site is not there: make docs")


@with_site
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280], ids=["phone", "desk"])
def test_no_rule_is_broken_by_the_documentation(width, dark, browser):
    for name in SITE_PAGES:
        browser.open(SITE / f"{name}.html", width, dark)
        assert violations(browser) == [], name
        assert browser.errors == []
        # Nothing comes from elsewhere, and nothing hangs out at the side.
        assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []
        assert browser.run("document.documentElement.scrollWidth") <= width


@with_site
def test_the_documentation_can_be_searched_in_files(browser):
    browser.open(SITE / "index.html")
    browser.run("document.querySelector('.md-search__input').focus()")
    browser.press(*"whole-word masking")
    found = "document.querySelector('.md-search-result__meta').textContent"
    end = time.monotonic() + 60
    while "matching" not in browser.run(found):
        assert time.monotonic() < end, browser.errors
        time.sleep(0.1)
    assert int(browser.run(found).split()[0]) > 3
    assert browser.errors == []


def test_a_broken_rule_is_found(browser, tmp_path):
    (tmp_path / "page.html").write_text(
        "<html data-ready='true'><p style='color: #ccc'>pale</p><img src='x.png'></html>"
    )
    browser.open(tmp_path / "page.html")
    found = " ".join(violations(browser))
    for rule in ("color-contrast", "document-title", "html-has-lang", "image-alt"):
        assert f"{rule}: " in found
