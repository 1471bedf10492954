"""The page of attention in a real browser: what it shows, and how mouse and keys change it."""

import itertools
import re

import numpy as np
import pytest

from keras_bert import show_attention
from keras_bert.visualize.attention.probabilities import join_pieces
from tests.visualize.attention_models import LONG, PAIR, TEXT, tiny_encoder, tiny_tokenizer
from tests.visualize.chromium import Browser

# Starts Chromium; see chromium.py for how to get it.
pytestmark = [pytest.mark.slow, pytest.mark.browser]
PIECES = "[CLS] the a ##b ##c film , x [SEP] film d ##e the [SEP]".split()
VIEWS = {"1": "words", "2": "lines", "3": "matrix", "4": "heads"}
PHONE, DESK = 390, 1280


@pytest.fixture(scope="module")
def views():
    encoder, tokenizer = tiny_encoder(), tiny_tokenizer()
    return {
        "pair": show_attention(encoder, TEXT, PAIR, tokenizer=tokenizer),
        "part": show_attention(encoder, TEXT, PAIR, tokenizer=tokenizer, start=3, max_tokens=5),
        "long": show_attention(encoder, LONG, tokenizer=tokenizer),
        "long_pair": show_attention(encoder, LONG, LONG, tokenizer=tokenizer),
        "nothing": show_attention(encoder, "", tokenizer=tokenizer),
    }


@pytest.fixture(scope="module")
def pages(views, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for name, view in views.items():
        view.save(folder / f"{name}.html")
    frame = f"<html data-ready='true'><body>{views['pair']._repr_html_()}</body></html>"
    (folder / "notebook.html").write_text(frame, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture
def page(browser, pages):
    """The page of a pair at the width of a desk, in layer 2, of which the mean is shown."""
    browser.open(pages / "pair.html", DESK)
    yield browser
    assert browser.errors == []


def text(page, selector):
    return page.run(f"document.querySelector({selector!r})?.textContent")


def texts(page, selector):
    return page.run(f"[...document.querySelectorAll({selector!r})].map(e => e.textContent)")


def value(page, selector):
    return page.run(f"document.querySelector({selector!r}).value")


def choose(page, selector, option):
    """Chooses an option of a list as a user does, with the event that follows."""
    page.run(
        f"""(() => {{
            const list = document.querySelector({selector!r});
            list.value = {option!r};
            list.dispatchEvent(new Event(list.type === "range" ? "input" : "change"));
        }})()"""
    )


def ranking(page):
    """Words and weights of the list below the text, in its order."""
    names = texts(page, "#ranking .name")
    weights = [float(n.split()[0]) / 100 for n in texts(page, "#ranking .number")]
    return list(zip(names, weights, strict=True))


def expected_ranking(labels, row, shown):
    order = sorted(shown, key=lambda at: -row[at])
    return [(labels[at], float(row[at])) for at in order]


def check_ranking(found, expected):
    """The same words with the same weights; words of equal weight may change places."""
    weights = [weight for _, weight in found]
    # Bytes and the digits on show: half a point, and 0.05 below ten.
    np.testing.assert_allclose(weights, [weight for _, weight in expected], rtol=0, atol=0.007)
    assert sorted(name for name, _ in found) == sorted(name for name, _ in expected)
    assert found[0][0] == expected[0][0]


REAL = [at for at, piece in enumerate(PIECES) if piece not in ("[CLS]", "[SEP]")]


@pytest.mark.parametrize("name", ["pair", "part", "long", "long_pair", "nothing"])
@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_view_draws_without_an_error(name, width, dark, browser, pages):
    browser.open(pages / f"{name}.html", width, dark)
    for key, view in VIEWS.items():
        browser.press(key)
        assert text(browser, "[aria-selected=true]").lower().split()[-1] == view
        assert browser.run("document.getElementById('panel').childElementCount") >= 1
        # Nothing hangs out at the side: a reader on a phone scrolls down only.
        assert browser.run("document.documentElement.scrollWidth") <= width
    page_colour = browser.run("getComputedStyle(document.body).backgroundColor")
    assert page_colour == ("rgb(20, 23, 28)" if dark else "rgb(255, 255, 255)")
    assert browser.errors == []
    assert [url for url in browser.requests if not url.startswith(pages.as_uri())] == []


def test_a_word_looks_at_the_words_that_the_model_says(page, views):
    probabilities = views["pair"].probabilities
    page.click('#text [data-token="5"]')  # film
    assert text(page, "#panel h2") == "“film” looks at"
    row = probabilities[2].mean(axis=0)[5]
    check_ranking(ranking(page), expected_ranking(PIECES, row, REAL))
    hidden = float(re.search(r"([\d.]+)\s%", text(page, "#rest"))[1]) / 100
    assert hidden == pytest.approx(row[[0, 8, 13]].sum(), abs=0.007)
    # One head; then special tokens, too; then what looks at the word.
    choose(page, "#layer", "1")
    choose(page, "#head", "3")
    row = probabilities[1, 3, 5]
    check_ranking(ranking(page), expected_ranking(PIECES, row, REAL))
    page.click("#hide")
    everything = expected_ranking(PIECES, row, range(14))[:12]
    check_ranking(ranking(page), everything)
    assert text(page, "#rest") != ""
    page.click("#hide")
    choose(page, "#direction", "to")
    assert text(page, "#panel h2") == "“film” is looked at by"
    check_ranking(ranking(page), expected_ranking(PIECES, probabilities[1, 3, :, 5], REAL))


def test_joined_pieces_add_up(page, views):
    words, indices = list(views["pair"].words), [token.word for token in views["pair"].tokens]
    page.click("#join")
    page.click('#text [data-token="2"]')
    assert text(page, "#panel h2") == "“abc” looks at"
    row = join_pieces(views["pair"].probabilities[2].mean(axis=0), indices)[2]
    shown = [at for at, word in enumerate(words) if not word.startswith("[")]
    check_ranking(ranking(page), expected_ranking(words, row, shown))
    choose(page, "#layer", "mean")
    row = join_pieces(views["pair"].probabilities.mean(axis=(0, 1)), indices)[2]
    check_ranking(ranking(page), expected_ranking(words, row, shown))


def test_from_one_sentence_to_the_other(page, views):
    page.click('#text [data-token="5"]')
    choose(page, "#pair", "01")
    row = views["pair"].probabilities[2].mean(axis=0)[5]
    check_ranking(ranking(page), expected_ranking(PIECES, row, [9, 10, 11, 12]))
    assert text(page, "#rest").endswith("% to segment A.")
    # A word that does not look has no weights here, and nothing is said of any.
    page.click('#text [data-token="9"]')
    assert ranking(page) == []
    assert (
        text(page, "#rest") == "“film” is not in segment A, which looks here: choose a word of it."
    )
    choose(page, "#direction", "to")
    check_ranking(
        ranking(page),
        expected_ranking(
            PIECES,
            views["pair"].probabilities[2].mean(axis=0)[:, 9],
            [at for at in REAL if at < 8],
        ),
    )
    page.click('#text [data-token="5"]')
    assert "“film” is not in segment B, which is looked at here" in text(page, "#rest")
    page.press("2")
    assert texts(page, ".left .token") == [PIECES[at] for at in REAL if at < 8]
    assert texts(page, ".right .token") == [PIECES[at] for at in REAL if at > 8]
    assert texts(page, ".right .segment-name") == ["B"]


def test_the_grid_shows_a_pair_in_every_head_and_opens_one(page, views):
    page.click('#text [data-token="5"]')
    page.click('#ranking [data-token="9"]')
    assert text(page, ".columns section:last-child h2") == "“film” → “film” in every head"
    shown = page.run("[...document.querySelectorAll('#pair-grid button')].map(e => e.title)")
    found = [float(re.search(r": ([\d.]+)\s%", title)[1]) / 100 for title in shown]
    expected = views["pair"].probabilities[:, :, 5, 9].ravel()
    np.testing.assert_allclose(found, expected, rtol=0, atol=0.007)
    page.click('#pair-grid [data-layer="1"][data-head="2"]')
    assert (value(page, "#layer"), value(page, "#head")) == ("1", "2")
    assert text(page, "#status").startswith("Layer 1, head 2: ")


def test_what_is_said_of_a_head(views, browser, tmp_path):
    # A head that looks at the token before, and one that looks nowhere in particular.
    view = views["pair"]
    count = len(view.tokens)
    weights = np.full((1, 2, count, count), 1 / count, np.float32)
    weights[0, 0] = np.eye(count, k=-1)
    weights[0, 0, 0, 0] = 1
    attention = view._attention._replace(probabilities=weights)
    type(view)(attention, "made").save(tmp_path / "made.html")
    browser.open(tmp_path / "made.html")
    choose(browser, "#head", "0")
    # Of 14 tokens 13 have one before them; [CLS] looks at itself.
    assert (
        text(browser, "#status")
        == "Layer 0, head 0: 93\u00a0% of all weight goes to the token before"
    )
    choose(browser, "#head", "1")
    assert text(browser, "#status") == "Layer 0, head 1: spread widely"


def test_keys_choose_layer_head_and_view(page):
    def chosen():
        return value(page, "#layer"), value(page, "#head")

    assert chosen() == ("2", "mean")
    page.press("k")
    assert chosen() == ("1", "mean")
    page.press("m", "l", "j")
    assert chosen() == ("2", "1")
    page.press("h", "h")
    assert chosen() == ("2", "mean")  # behind the last head and before the first
    page.press("j", "j")
    assert chosen() == ("0", "mean")
    page.press("w", "s")
    assert page.run(
        "[document.getElementById('join').checked, document.getElementById('hide').checked]"
    ) == [True, False]
    for key, view in VIEWS.items():
        page.press(key)
        assert page.run(f"document.getElementById('tab-{view}').ariaSelected") == "true"
    # In a list of options, letters are those of the list.
    page.press("1")
    page.run("document.getElementById('layer').focus()")
    page.press("4")
    assert text(page, "[aria-selected=true]") == "Words"


def test_the_keyboard_alone_is_enough(page):
    page.run("document.getElementById('tab-words').focus()")
    page.press("ArrowRight", "Enter")
    assert text(page, "[aria-selected=true]") == "Lines"
    page.press("ArrowLeft", "Enter")
    focused = "document.activeElement.textContent"
    page.run("document.querySelector('#text [tabindex=\"0\"]').focus()")
    page.press("Home")
    assert page.run(focused) == "the"
    page.press("ArrowRight", "Enter")
    assert text(page, "#panel h2") == "“a” looks at"
    assert page.run(focused) == "a"  # the page was drawn anew, the focus stays
    page.press("End")
    assert page.run(focused) == "the"
    page.run("document.querySelector('#ranking [tabindex=\"0\"]').focus()")
    page.press("ArrowDown", "Enter")
    second = texts(page, "#ranking .name")[1]
    assert text(page, ".columns section:last-child h2") == f"“a” → “{second}” in every head"
    page.run("document.querySelector('#pair-grid [tabindex=\"0\"]').focus()")
    page.press("Home", "ArrowDown", "ArrowRight", "Enter")
    assert (value(page, "#layer"), value(page, "#head")) == ("1", "1")


def test_lines_follow_threshold_and_token(page, views):
    page.press("2")
    weights = views["pair"].probabilities[2].mean(axis=0)[np.ix_(REAL, REAL)]

    def lines():
        return page.run("document.querySelectorAll('#lines path').length")

    for percent in (5, 9):
        choose(page, "#threshold", str(percent))
        sure = (weights > percent / 100 + 0.004).sum(), (weights > percent / 100 - 0.004).sum()
        assert sure[0] <= lines() <= sure[1]
        assert value(page, "#threshold-value") == f"{percent} %"
    choose(page, "#threshold", "0")
    assert lines() == weights.size
    page.move_to('.left [data-token="5"]')
    assert lines() == len(REAL)
    assert "Lines from “film”" in text(page, "#status")
    found = [float(n.split()[0]) / 100 for n in texts(page, ".right .number")]
    np.testing.assert_allclose(found, weights[REAL.index(5)], rtol=0, atol=0.007)
    page.move_to("h1")
    assert lines() == weights.size
    # A click keeps it, a second one lets it go.
    for expected in (len(REAL), weights.size):
        page.click('.right [data-token="9"]')
        page.run("document.activeElement.blur()")
        page.move_to("h1")
        assert lines() == expected


def test_the_matrix_reads_out_a_cell(page, views):
    page.press("3")
    page.run("document.getElementById('matrix').focus()")
    page.press("ArrowDown", "ArrowRight", "ArrowRight")
    found = re.match(r"“(\S+)” → “(\S+)”: ([\d.]+)\s%", text(page, "#status"))
    assert found.groups()[:2] == (PIECES[REAL[1]], PIECES[REAL[2]])
    expected = views["pair"].probabilities[2].mean(axis=0)[REAL[1], REAL[2]]
    assert float(found[3]) / 100 == pytest.approx(expected, abs=0.007)
    page.press("ArrowLeft")
    before = text(page, "#status")
    page.move_to("#matrix")  # its middle
    assert text(page, "#status") != before


def test_a_thumbnail_opens_its_head(page):
    page.press("4")
    assert page.run("document.querySelectorAll('#heads canvas').length") == 12
    page.move_to('#heads [data-layer="1"][data-head="3"]')
    assert text(page, "#status").startswith("Layer 1, head 3: ")
    page.click('#heads [data-layer="1"][data-head="3"]')
    assert text(page, "[aria-selected=true]") == "Lines"
    assert (value(page, "#layer"), value(page, "#head")) == ("1", "3")


def test_a_long_text_has_a_window(browser, pages, views):
    total = len(views["long"].tokens) - 2
    assert total == 158  # all positions of the model
    browser.open(pages / "long.html", DESK)
    assert f"160 tokens · {views['long'].cut_pieces} more pieces did not fit" in text(
        browser, "#about"
    )
    browser.press("2")
    assert value(browser, "#window-range") == f"tokens 1 to 64 of {total}"
    assert len(texts(browser, ".left .token")) == 64
    browser.press("n", "n", "n")
    assert value(browser, "#window-range") == f"tokens 129 to 158 of {total}"
    assert len(texts(browser, ".left .token")) == 30
    browser.click("#window-back")
    assert value(browser, "#window-range") == f"tokens 65 to 128 of {total}"
    browser.press("3")
    assert value(browser, "#window-range") == f"tokens 65 to 128 of {total}"
    assert browser.errors == []


def test_between_two_long_texts_each_weight_can_be_reached(browser, pages, views):
    # All positions of the model: 79 and 78 pieces, [CLS] before and [SEP] behind the first text.
    texts_of_pair = range(1, 80), range(81, 159)
    browser.open(pages / "long_pair.html", DESK)
    browser.press("2")
    choose(browser, "#pair", "01")
    reached = set()
    for left, right in itertools.product(
        ("1 to 64 of 79", "65 to 79 of 79"), ("1 to 64 of 78", "65 to 78 of 78")
    ):
        assert value(browser, "#window-range") == f"tokens {left} → {right}"
        shown = [
            browser.run(
                f"[...document.querySelectorAll('{side} .token')].map(e => e.dataset.token)"
            )
            for side in (".left", ".right")
        ]
        reached |= {(int(one), int(other)) for one in shown[0] for other in shown[1]}
        browser.press("n")
    assert reached == set(itertools.product(*texts_of_pair))
    # The matrix has the same windows; from the last to the one before it.
    browser.press("3")
    browser.press("p")
    browser.run("document.getElementById('matrix').focus()")
    browser.press("ArrowDown", "ArrowRight")
    row, column = texts_of_pair[0][65], texts_of_pair[1][1]
    expected = views["long_pair"].probabilities[2].mean(axis=0)[row, column]
    found = re.match(r"“(\S+)” → “(\S+)”: ([\d.]+)\s%", text(browser, "#status"))
    pieces = [token.piece for token in views["long_pair"].tokens]
    assert found.groups()[:2] == (pieces[row], pieces[column])
    assert float(found[3]) / 100 == pytest.approx(expected, abs=0.007)
    assert browser.errors == []


def test_what_lies_beyond_the_page_is_told(browser, pages, views):
    browser.open(pages / "part.html", DESK)
    assert "tokens 4 to 8 of 14" in text(browser, "#about")
    browser.click('#text [data-token="2"]')  # film, the sixth token of the text
    row = views["part"].probabilities[2].mean(axis=0)[5]
    found = float(re.search(r"([\d.]+)\s% to tokens beyond", text(browser, "#rest"))[1]) / 100
    assert found == pytest.approx(1 - row[3:8].sum(), abs=0.007)


def test_a_text_from_right_to_left_stands_so(browser, tmp_path):
    view = show_attention(
        tiny_encoder(), "\u05d0\u05d1 \u05d2 \u05d3", "x y", tokenizer=tiny_tokenizer()
    )
    view.save(tmp_path / "page.html")
    browser.open(tmp_path / "page.html", DESK)
    browser.press("w")
    # The label, then the words, each by its left edge.
    edges = [
        browser.run(
            f"[...document.querySelectorAll('#text > :nth-child({segment}) > *')]"
            ".map(e => e.getBoundingClientRect().left)"
        )
        for segment in (1, 2)
    ]
    assert [len(line) for line in edges] == [4, 3]
    assert edges[0] == sorted(edges[0], reverse=True)
    assert edges[1] == sorted(edges[1])
    # The arrow to the left goes to the next word, which stands there.
    browser.run("document.querySelector('#text .token').focus()")
    browser.press("ArrowLeft", "Enter")
    assert text(browser, "#panel h2") == "“\u05d2” looks at"
    assert browser.errors == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_words_can_be_read_on_every_shade(dark, browser, pages):
    browser.open(pages / "pair.html", DESK, dark)
    pairs = browser.run(
        """[...document.querySelectorAll("#text .token, #status, .note, .axis, label")].map(e => {
            const own = getComputedStyle(e);
            const none = own.backgroundColor === "rgba(0, 0, 0, 0)";
            const page = getComputedStyle(document.body).backgroundColor;
            return [own.color, none ? page : own.backgroundColor];
        })"""
    )
    assert len(pairs) > 20
    for pair in pairs:
        light, dim = sorted((luminance(colour) for colour in pair), reverse=True)
        assert (light + 0.05) / (dim + 0.05) >= 4.5, pair  # WCAG 2.2, 1.4.3


def luminance(colour):
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    parts = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return float(np.dot([0.2126, 0.7152, 0.0722], parts))


def test_the_page_draws_in_the_frame_of_a_notebook(browser, pages):
    browser.open(pages / "notebook.html", DESK)
    inside = "document.querySelector('iframe').contentDocument"
    for _ in range(200):
        if browser.run(f"{inside}.documentElement?.dataset.ready") == "true":
            break
    assert browser.run(f"{inside}.querySelectorAll('#text .token').length") == len(REAL)
    assert browser.errors == []
