"""The page of clusters: what stands in it, and in a browser what mouse and keys change."""

import json
import re

import numpy as np
import pytest

from keras_bert import SimilarPair, TextClusters, principal_components, show_clusters
from tests.visualize.chromium import Browser

TEXTS = [
    *("the film was good </script>", "a film", "film & book", "the film"),
    *("rain today", "rain, rain", "the rain & wind", "<b>alone</b>"),
]
LABELS = [4, 4, 4, 4, 1, 1, 1, -1]
PHONE, DESK = 390, 1280


def vectors():
    draw = np.random.default_rng(0)
    return np.eye(4)[[0, 0, 0, 0, 1, 1, 1, 2]] + 0.1 * draw.normal(size=[8, 4])


@pytest.fixture(scope="module")
def clusters():
    return TextClusters(TEXTS, vectors(), LABELS)


def data_of(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])


def test_what_stands_on_the_page(clusters, tmp_path):
    report = show_clusters(clusters, [SimilarPair(0.987, 1, 3)], "Films & <rain>")
    report.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<title>Films &amp; &lt;rain&gt;</title>" in page
    assert "8 texts, 2 clusters, 1 text in none." in page
    assert page.count("</script>") == 2 and "<b>alone" not in page
    data = data_of(page)
    assert data["texts"] == TEXTS and data["labels"] == [0, 0, 0, 0, 1, 1, 1, -1]
    assert (data["names"], data["sizes"]) == (["film", "rain"], [4, 3])
    np.testing.assert_allclose(data["similarities"][:7], clusters.similarities[:7], atol=5e-4)
    # The map: one scale for both directions, from 0 to 1,000.
    found = principal_components(clusters.vectors)
    points = found.points - found.points.min(axis=0)
    np.testing.assert_allclose(
        np.stack([data["x"], data["y"]], 1), 1000 * points / points.max(), atol=0.5
    )
    assert f"{100 * found.explained[0]:.1f} % and" in page
    assert "<td>1: a film</td><td>3: the film</td>" in page and ">0.987</th>" in page
    assert re.search(r'data-cluster="1".*>rain</span><span class="count">3 texts</span>', page)
    assert "<iframe srcdoc=" in report._repr_html_()


def test_a_page_of_many_texts_shows_some_and_lists_all_clusters(clusters, monkeypatch):
    monkeypatch.setattr("keras_bert.visualize.clusters.page._MOST_POINTS", 5)
    monkeypatch.setattr("keras_bert.visualize.clusters.page._MOST_LETTERS", 8)
    page = show_clusters(clusters).html()
    data = data_of(page)
    assert len(data["x"]) == len(data["y"]) == len({*data["numbers"]}) == 5
    assert data["numbers"] == sorted(data["numbers"])
    assert data["labels"] == [int(clusters.labels[number]) for number in data["numbers"]]
    assert all(
        text == TEXTS[number] if len(TEXTS[number]) <= 8 else text == f"{TEXTS[number][:7]}…"
        for text, number in zip(data["texts"], data["numbers"], strict=True)
    )
    assert "5 texts at random" in page and "3 texts</span>" in page
    assert "Near-duplicates" not in page


@pytest.mark.parametrize("count", [2, 8])
def test_a_map_keeps_neighbours_together(count, clusters, monkeypatch):
    few = TextClusters(TEXTS[:count], vectors()[:count], LABELS[:count])
    page = show_clusters(few, projection="tsne").html()
    data = data_of(page)
    assert "The map shows all texts by t-SNE: near neighbours lie together" in page
    assert len(data["x"]) == count and max(*data["x"], *data["y"]) == 1000
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match="a map by t-SNE needs scikit-learn: pip install scikit-l"):
        show_clusters(few, projection="tsne")
    with pytest.raises(ValueError, match="projection is 'umap': choose one of pca, tsne"):
        show_clusters(few, projection="umap")


def test_few_texts_and_wrong_pairs(clusters):
    for texts in ([], ["one"]):
        alone = TextClusters(texts, np.ones([len(texts), 4]), [-1] * len(texts))
        assert "There are no clusters." in show_clusters(alone).html()
    with pytest.raises(ValueError, match=r"SimilarPair\(score=1, first=2, second=8\) names a text"):
        show_clusters(clusters, [SimilarPair(1, 2, 8)])
    with pytest.raises(ValueError, match="page.txt does not end with .html"):
        show_clusters(clusters).save("page.txt")


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def path(clusters, tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "clusters.html"
    show_clusters(clusters, [SimilarPair(0.987, 1, 3)]).save(path)
    return path


def at_point(browser, kind, point):
    """The mouse does something in the middle of a point of the map."""
    browser.run(
        f"""(() => {{
            const box = canvas.getBoundingClientRect();
            const [x, y] = places[{point}];
            const place = {{clientX: box.x + x, clientY: box.y + y}};
            canvas.dispatchEvent(new MouseEvent("{kind}", place));
        }})()"""
    )


def text(browser, selector):
    return browser.run(f"document.querySelector({selector!r}).textContent")


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_draws_and_answers(width, dark, browser, path, clusters):
    browser.open(path, width, dark)
    # A pixel in the middle of a point has the colour of its cluster, so both clusters differ.
    colours = [
        tuple(
            browser.run(f"[...context.getImageData(...places[{point}].map(Math.round), 1, 1).data]")
        )
        for point in (2, 5)
    ]
    assert colours[0] != colours[1] and min(colour[3] for colour in colours) > 100
    at_point(browser, "mousemove", 5)
    assert text(browser, "#text").startswith("Text 5, cluster 1: rain, similarity")
    assert text(browser, "#text p:last-child") == TEXTS[5]
    at_point(browser, "click", 7)  # kept when the pointer leaves
    browser.run("canvas.dispatchEvent(new MouseEvent('mouseleave'))")
    assert text(browser, "#text") == f"Text 7, in no cluster{TEXTS[7]}"
    assert browser.run("document.getElementById('members').hidden")
    browser.click("[data-cluster='1']")
    assert text(browser, "#members-heading") == "Cluster 1: rain"
    assert text(browser, "#members-note") == "3 texts, the nearest to its centre first."
    listed = browser.run(
        "[...document.querySelectorAll('#members .words')].map(e => e.textContent)"
    )
    assert listed == [TEXTS[number] for number in clusters.clusters[1].members]
    browser.click("#members-list li:last-child button")
    assert text(browser, "#text p:last-child") == listed[-1]
    # By keys: another cluster, and none again.
    browser.run("document.querySelector('[data-cluster=\"0\"]').focus()")
    browser.press("Enter")
    assert text(browser, "#members-heading") == "Cluster 0: film"
    assert "Point at the map" in text(browser, "#text")
    browser.press("Enter")
    assert browser.run("document.getElementById('members').hidden")
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.errors == []
    assert [url for url in browser.requests if url != path.as_uri()] == []
