"""Checks pages with axe-core, the engine of rules that browsers' own accessibility audits run."""

import json
from pathlib import Path

from tests.published_packages import fetch
from tests.visualize.chromium import Browser

# A wheel that holds axe.min.js (axe-core 4.12.1, MPL-2.0); nothing of it is installed.
_PACKAGE = "axe-playwright-python==0.1.8"
# WCAG 2.0, 2.1 and 2.2, levels A and AA.
_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


def violations(browser: Browser) -> list[str]:
    """Returns what breaks a rule on the page that a browser has open, an element a line."""
    if browser.run("typeof axe") == "undefined":
        [script] = fetch(_PACKAGE).rglob("axe.min.js")
        browser.run(Path(script).read_text(encoding="utf-8") + "; 0")
    # Without `preload`, by which it would ask for style sheets that the browser has.
    options = json.dumps({"runOnly": {"type": "tag", "values": _TAGS}, "preload": False})
    found = browser.run(f"axe.run(document, {options}).then(r => JSON.stringify(r.violations))")
    return [
        f"{rule['id']}: {' '.join(node['target'][0:1])}: {node['failureSummary']}"
        for rule in json.loads(found)
        for node in rule["nodes"]
    ]
