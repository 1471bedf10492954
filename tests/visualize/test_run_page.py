"""The reports of runs, vocabularies and models in a real browser."""

import pytest

from keras_bert import Vocabulary, inspect_model, inspect_vocabulary, show_run
from keras_bert.text.vocabulary import SPECIAL_TOKENS
from tests.visualize.chromium import Browser
from tests.visualize.run_folders import write_pretraining_run

# Starts Chromium; see chromium.py for how to get it.
pytestmark = [pytest.mark.slow, pytest.mark.browser]


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def pages(sentiment_run, tmp_path_factory):
    """A file for each report."""
    folder = tmp_path_factory.mktemp("pages")
    runs = [write_pretraining_run(folder / name, lower=i / 3) for i, name in enumerate("ab")]
    vocabulary = Vocabulary([*SPECIAL_TOKENS, "film", "##s", "a" * 90, "good.bad"])
    reports = {
        "run": show_run(sentiment_run[0]),
        "runs": show_run(*runs),
        "vocabulary": inspect_vocabulary(vocabulary, ["films " * 9 + "x" * 150, "a film"]),
        "model": inspect_model("bert_base", 512),
    }
    for name, report in reports.items():
        report.save(folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in reports}


@pytest.mark.parametrize("name", ["run", "runs", "vocabulary", "model"])
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_is_whole_at_every_width_and_in_both_schemes(name, width, dark, browser, pages):
    browser.open(pages[name], width, dark)
    assert browser.errors == []
    assert browser.requests == [pages[name].as_uri()]
    assert browser.run("document.documentElement.scrollWidth") <= width
    colors = browser.run(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    )
    light = ["rgb(255, 255, 255)", "rgb(27, 31, 36)"]
    assert colors == (["rgb(20, 23, 28)", "rgb(240, 242, 245)"] if dark else light)
    # Words of the pictures can be read on a phone, and lines are drawn in a colour of theirs.
    heights = browser.run(
        "[...document.querySelectorAll('figure svg text')]"
        ".map(text => text.getBoundingClientRect().height)"
    )
    assert heights and min(heights) > 10
    strokes = browser.run(
        "[...document.querySelectorAll('.line')].map(line => getComputedStyle(line).stroke)"
    )
    assert "none" not in strokes


def test_tables_open_and_scroll_by_keyboard(browser, pages):
    browser.open(pages["runs"], 390)
    browser.run("document.querySelector('figure details summary').focus()")
    browser.press("Enter")
    assert browser.run("document.querySelectorAll('details[open] tbody tr').length") == 5
    browser.press("Tab")
    assert browser.run("document.activeElement.className") == "scrolls"
