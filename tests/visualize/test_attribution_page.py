"""The page of attributions in a real browser."""

import pytest

from keras_bert.visualize.attributions.view import Explainer
from tests.signatures.tiny_models import write_model
from tests.visualize.chromium import Browser

# Starts Chromium; see chromium.py for how to get it.
pytestmark = [pytest.mark.slow, pytest.mark.browser]


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def view(tmp_path_factory):
    explain = Explainer(write_model(tmp_path_factory.mktemp("pairs"), "pairs"))
    return explain("the film abc, x (y) z.", "a film the abc. not a b c d e f", target="yes")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_is_whole_at_every_width_and_in_both_schemes(width, dark, browser, view, tmp_path):
    view.save(tmp_path / "page.html")
    browser.open(tmp_path / "page.html", width, dark)
    assert browser.errors == []
    assert browser.requests == [(tmp_path / "page.html").as_uri()]
    assert browser.run("document.documentElement.scrollWidth") <= width
    background, color = (
        browser.run(f"getComputedStyle(document.body).{name}")
        for name in ("backgroundColor", "color")
    )
    assert (background, color) == (
        ("rgb(20, 23, 28)", "rgb(240, 242, 245)")
        if dark
        else ("rgb(255, 255, 255)", "rgb(27, 31, 36)")
    )
    # The strongest word has the widest bar, in the colour of its sign.
    widths = browser.run(
        "[...document.querySelectorAll('main > table .bar')].map(bar => bar.offsetWidth)"
    )
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > 100


def test_a_text_from_right_to_left_stands_so(browser, tmp_path_factory, tmp_path):
    explain = Explainer(write_model(tmp_path_factory.mktemp("classes"), "classes"))
    explain("\u05d0\u05d1 \u05d2 \u05d3", target="good").save(tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    edges = browser.run(
        "[...document.querySelectorAll('.text > *')].map(e => e.getBoundingClientRect().left)"
    )
    # [CLS] and [SEP] stand at its ends and have no say in its direction.
    assert len(edges) == 5
    assert edges == sorted(edges, reverse=True)


def test_what_is_folded_opens_by_keyboard(browser, view, tmp_path):
    view.save(tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    browser.run("document.querySelector('details:last-of-type summary').focus()")
    browser.press("Enter")
    rows = browser.run("document.querySelectorAll('details[open] tbody tr').length")
    assert rows == len(view.tokens)
