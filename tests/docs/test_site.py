"""The documentation site: every page has its place, every public name its entry.

`make docs` builds it, and fails where a link or an anchor of it leads nowhere.
"""

import re

import pytest

import keras_bert
from tests.docs.documents import ROOT, documents, read

API = [document for document in documents() if document.startswith("docs/api/")]
# Pages that the site takes from outside docs/, of docs/site/pages.py.
OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "benchmarks.md",
    "colab/README.md": "notebooks/index.md",
    "tools/README.md": "tools.md",
    "tools/sample_data/README.md": "sample_data.md",
    "tools/sample_model/README.md": "sample_model.md",
}


def names_on(page):
    return re.findall(r"^::: keras_bert\.(\w+)$", read(page), re.M)


def test_every_public_name_is_in_the_api_once():
    shown = [name for page in API for name in names_on(page)]
    assert sorted(shown) == sorted(set(keras_bert.__all__) - {"__version__"}), (
        "a public name stands as `::: keras_bert.Name` on one page of docs/api/"
    )


def test_the_list_of_the_api_names_what_is_on_its_pages():
    rows = re.findall(r"^\| \[.*?\]\((\w+\.md)\) \| (.*) \|$", read("docs/api/README.md"), re.M)
    assert {f"docs/api/{page}" for page, _ in rows} == set(API) - {"docs/api/README.md"}
    for page, names in rows:
        assert re.findall(r"`(\w+)`", names) == names_on(f"docs/api/{page}"), page


@pytest.mark.parametrize("document", documents())
def test_every_document_is_in_the_navigation(document):
    page = OUTSIDE.get(document, document.removeprefix("docs/"))
    configuration = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert re.search(rf"^ +- (.*: )?{re.escape(page)}$", configuration, re.M)


def test_every_notebook_is_in_the_navigation():
    configuration = (ROOT / "mkdocs.yml").read_text("utf-8")
    for path in sorted((ROOT / "colab").glob("*.ipynb")):
        assert f"notebooks/{path.stem}.md" in configuration


def test_the_readme_is_one_screen():
    assert len(read("README.md").splitlines()) <= 80
