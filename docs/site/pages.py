"""What the site takes from outside docs/: README files, notebooks and the files that pages link to.

Files stay where GitHub shows them, with links that are relative to them. Here each gets a place on
the site, and the links of all pages are rewritten to it: to another page where the target is one,
else to a copy of the file. MkDocs calls the functions that are named `on_...`.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
# File of the repository -> its page; those of docs/ keep their names.
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "benchmarks.md",
    "colab/README.md": "notebooks/index.md",
    "tools/README.md": "tools.md",
    "tools/sample_data/README.md": "sample_data.md",
    "tools/sample_model/README.md": "sample_model.md",
} | {
    f"colab/{path.name}": f"notebooks/{path.stem}.md"
    for path in sorted((ROOT / "colab").glob("*.ipynb"))
}
_SOURCES = {page: source for source, page in PAGES.items()}
_FENCED = re.compile(r"^(```.*?^```)", re.M | re.S)
# The target of a link or picture, up to its anchor.
_TARGET = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)|(?<=src=\")(?!\w+:)([^\"]+)")
_LANGUAGES = {"%%bash": "bash", "%%writefile": "python"}


def on_files(files: Files, *, config: Any) -> Files:
    """Adds the pages from outside docs/ and copies of the files that any page links to."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=_text(source)))
    for file in _linked_files(files):
        if not (ROOT / file).is_file():
            raise PluginError(f"a page links to {file}, which is no file of the repository")
        files.append(File.generated(config, _copy(file), abs_src_path=str(ROOT / file)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Rewrites the links of a page for the site."""
    place = page.file.src_uri
    if place == "index.md":
        page.meta["hide"] = ["toc"]  # its own links lead on, and its commands are wide
    source = _source(place)

    def replace(found: re.Match) -> str:
        file = _resolve(source, found[0])
        return os.path.relpath(_page(file) or _copy(file), os.path.dirname(place) or ".")

    parts = _FENCED.split(markdown)  # those between fences are at even places
    parts[::2] = [_TARGET.sub(replace, part) for part in parts[::2]]
    return "".join(parts)


def _source(place: str) -> str:
    return _SOURCES.get(place, f"docs/{place}")


def _resolve(source: str, target: str) -> str:
    """Returns the file of the repository that a link in `source` names."""
    return os.path.normpath(os.path.join(os.path.dirname(source), target))


def _page(file: str) -> str | None:
    """Returns the place of a file that is on the site anyway."""
    return file.removeprefix("docs/") if file.startswith("docs/") else PAGES.get(file)


def _copy(file: str) -> str:
    """Returns where the copy of a file lies; programs get an ending that browsers show."""
    return f"files/{file}" + ("" if Path(file).suffix in (".ipynb", ".png", ".svg") else ".txt")


def _linked_files(files: Files) -> list[str]:
    """Returns the notebooks, and the files that some page links to and that are no pages."""
    found = {
        _resolve(source, target[0])
        for source in (_source(file.src_uri) for file in files.documentation_pages())
        for part in _FENCED.split(_text(source))[::2]
        for target in _TARGET.finditer(part)
    }
    copied = {file for file in found if _page(file) is None}
    return sorted(copied | {file for file in PAGES if file.endswith(".ipynb")})


def _text(source: str) -> str:
    text = (ROOT / source).read_text(encoding="utf-8")
    return _notebook(source, text) if source.endswith(".ipynb") else text


def _notebook(source: str, text: str) -> str:
    """Returns a notebook as Markdown; it is stored without outputs."""
    parts = []
    for cell in json.loads(text)["cells"]:
        body = "".join(cell["source"])
        if cell["cell_type"] == "code":
            language = _LANGUAGES.get(body.split(maxsplit=1)[0] if body else "", "python")
            body = f"```{language}\n{body}\n```"
        parts.append(body)
    name = Path(source).name
    # HTML: a link in Markdown leads to the page.
    download = f'<a href="../{_copy(source)}" download>{name}</a>'
    parts.insert(1, f"{download}, for Jupyter or Colab ([how](README.md))")
    return "\n\n".join(parts) + "\n"
