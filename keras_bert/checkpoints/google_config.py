"""`bert_config.json`, which Google's original and Model Garden share."""

import dataclasses
import json
import os
from collections.abc import Collection
from pathlib import Path

from keras_bert.config import BertConfig

CONFIG_FILE = "bert_config.json"


def read(folder: str | os.PathLike, ignore_config_keys: Collection[str] = ()) -> BertConfig:
    """Reads the config beside a TensorFlow checkpoint.

    Args:
        folder: the folder.
        ignore_config_keys: unknown keys of the config to pass over, see `BertConfig.from_dict`.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it is not a BERT's.
    """
    return BertConfig.from_file(folder, "google", ignore_config_keys)


def write(config: BertConfig, folder: str | os.PathLike) -> None:
    """Writes the config.

    Raises:
        ValueError: a field has a value that the file cannot say, because Google's code fixes it.
    """
    values = config.to_dict("google")
    understood = dataclasses.asdict(BertConfig.from_dict(values, "google"))
    # Nothing depends on what the table of positions started as, which the file cannot say.
    trained = config.replace(position_initializer=understood["position_initializer"])
    for field, value in dataclasses.asdict(trained).items():
        if understood[field] != value:
            raise ValueError(
                f"{CONFIG_FILE} cannot hold {field} {value}: Google's code fixes it at "
                f"{understood[field]}; choose the format hf or keras"
            )
    content = json.dumps(values, indent=2, sort_keys=True) + "\n"
    (Path(folder) / CONFIG_FILE).write_text(content, encoding="utf-8")
