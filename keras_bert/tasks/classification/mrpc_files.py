"""The Microsoft Research Paraphrase Corpus before GLUE makes its MRPC of it.

GLUE's script fetches `msr_paraphrase_train.txt` and `msr_paraphrase_test.txt`, and takes the pairs
of ids in `dev_ids.tsv` out of the first as development data.
"""

from pathlib import Path

from keras_bert.finetuning.task import TEST, TRAIN, VALIDATION
from keras_bert.storage.tables import Table, read_unquoted

_TRAIN_FILE, _TEST_FILE = "msr_paraphrase_train.txt", "msr_paraphrase_test.txt"
_DEV_IDS_FILE = "dev_ids.tsv"
_IDS = ("#1 ID", "#2 ID")


def is_original(folder: Path) -> bool:
    """Whether a folder has the corpus alone, not the files that GLUE's script makes of it."""
    return (folder / _TRAIN_FILE).is_file() and not (folder / "train.tsv").is_file()


def read_original(folder: Path) -> dict[str, Table]:
    """Returns the tables of the splits that are there; all of them have labels.

    Args:
        folder: holds the training file, perhaps the test file and the ids of GLUE's development
            data.

    Raises:
        ValueError: a file is broken, or the ids leave nothing to learn from.
    """
    tables = {TRAIN: read_unquoted(folder / _TRAIN_FILE)}
    if (folder / _DEV_IDS_FILE).is_file():
        table = tables[TRAIN]
        path = folder / _DEV_IDS_FILE
        chosen = {tuple(row.values.values()) for row in read_unquoted(path, _IDS).rows}
        remedy = "give the file as it is distributed"
        ids = zip(*(table.column(name, remedy) for name in _IDS), strict=True)
        rows: dict[str, list] = {TRAIN: [], VALIDATION: []}
        for row, pair in zip(table.rows, ids, strict=True):
            rows[VALIDATION if pair in chosen else TRAIN].append(row)
        for split, found in rows.items():
            if not found:
                raise ValueError(
                    f"{path} leaves no {split} data in {table.path}: give the ids of GLUE, or none"
                )
        tables |= {split: table._replace(rows=tuple(found)) for split, found in rows.items()}
    if (folder / _TEST_FILE).is_file():
        tables[TEST] = read_unquoted(folder / _TEST_FILE)
    return tables
