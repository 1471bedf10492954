"""SavedModels that take strings: tokenizer, model and answer in one graph.

    model folder --open_signatures--> SignatureFamily --functions()--> traced graphs
                                                                          |
    export_dir/1/saved_model.pb, variables/, assets.extra/ (warm-up) <----+
    export_dir/models.config, docker-compose.yml, README.md: TF Serving's kit

A version appears whole or not at all: it is written under a hidden name and renamed. The graph
needs the operations of TensorFlow and tensorflow_text only, which TF Serving's own binary has.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

from keras_bert.counts import check_count
from keras_bert.serving.kit import MODELS_FILE, add_warmup, model_name, write_kit
from keras_bert.serving.served_folder import open_ensemble, open_signatures
from keras_bert.signatures.base import SERVING_DEFAULT, SignatureFamily
from keras_bert.signatures.options import ExportOptions, Head
from keras_bert.storage.files import write_errors
from keras_bert.storage.new_folder import rename_new, unfinished_folder
from keras_bert.storage.paths import check_local


class ServingModule(tf.Module):
    """What is saved: the signatures of a model, and its weights.

    Args:
        family: the signatures.
    """

    def __init__(self, family: SignatureFamily):
        super().__init__(name="keras_bert")
        # Plain variables, not the Keras model: what loads the export needs TensorFlow alone.
        self.weights = [
            variable.value for member in family.members for variable in member.model.weights
        ]
        # A module must hold what its graphs look up: tables and constants of the tokenizer, and
        # whatever else the signatures bring (the weights of a sentence's pooling).
        self.tokenizers = [member.tokenizer for member in family.members]
        self.tracked = family.tracked
        # Traced here, once: {"serving_default": strings in, "serve_ids": token ids in, ...}
        self.serving_signatures = family.functions()


def export_saved_model(
    model_dir: str | os.PathLike | Sequence[str | os.PathLike],
    export_dir: str | os.PathLike,
    version: int | None = None,
    options: ExportOptions | None = None,
    head: Head = "auto",
) -> Path:
    """Writes `<export_dir>/<version>/saved_model.pb` from a model folder, and TF Serving's kit.

    Args:
        model_dir: the folder of a fine-tuning run, or of any model; several runs for an ensemble,
            which has the signatures of one model and takes the memory and the time of all.
        export_dir: holds one folder for each version, as TF Serving wants it.
        version: its number; None takes the next free one.
        options: settings; None takes the defaults.
        head: "auto" serves the head that the folder holds, "encoder" its vectors, "masked_lm" its
            guesses of masked words.

    Returns:
        The folder of the version.

    Raises:
        FileNotFoundError: there is no model.
        FileExistsError: `export_dir` holds something else than exports, or another export wrote
            the version meanwhile.
        ValueError: the version exists or is below 1, the name of `export_dir` is none for a served
            model, the folder lacks the head, or the members of an ensemble do not fit each other.
        OSError: the disk refused a write; the sentence names `export_dir`.
    """
    # 1. What can be refused is refused before the model is opened.
    check_local("export_dir", export_dir)
    name = model_name(Path(export_dir))
    check_holds_exports(Path(export_dir))
    checked_version(Path(export_dir), version)
    # 2. The model, and a graph for each of its signatures.
    options = options or ExportOptions()
    folders = [model_dir] if isinstance(model_dir, str | os.PathLike) else list(model_dir)
    if len(folders) == 1:
        family = open_signatures(folders[0], options, head)
    else:
        family = open_ensemble(folders, options, head)
    module = ServingModule(family)
    # 3. A version, written under a hidden name: TF Serving loads any folder that is a number.
    with write_errors(export_dir), unfinished_folder(Path(export_dir)) as written:
        tf.saved_model.save(module, str(written), signatures=module.serving_signatures)
        add_warmup(written, family, name)
        folder = _as_version(written, Path(export_dir), version)
    # 4. Configuration and README beside it; they follow from the signatures.
    write_kit(Path(export_dir), family, folder)
    takes = ", ".join(family.string_inputs())
    print(f"{SERVING_DEFAULT} takes {takes}: {family.reason}", file=sys.stderr)
    return folder


def _as_version(written: Path, export_dir: Path, version: int | None) -> Path:
    """Gives what was written the name of a version that no other export took meanwhile."""
    # Two exports at once may both find 3 free: the rename of one fails, and it goes on to 4.
    while True:
        folder = export_dir / str(version or checked_version(export_dir, None))
        if rename_new(written, folder):
            return folder
        if version is not None:
            raise FileExistsError(
                f"{export_dir}: version {version} was written by another export meanwhile: give "
                "another --version or leave it out for the next one"
            )


def check_holds_exports(export_dir: Path) -> None:
    """Checks that a folder may be exported to: new, empty, or one of earlier exports.

    Raises:
        FileExistsError: it holds something else, whose README.md would be replaced.
    """
    if export_dir.is_dir():
        # Hidden files are none that could be replaced; a killed export leaves a hidden folder.
        names = [path.name for path in export_dir.iterdir() if not path.name.startswith(".")]
        holds_exports = MODELS_FILE in names or all(map(str.isdecimal, names))
    else:
        holds_exports = not export_dir.exists()
    if not holds_exports:
        raise FileExistsError(
            f"{export_dir} holds something else than exports: give a new folder as --export_dir"
        )


def checked_version(export_dir: Path, version: int | None) -> int:
    """Returns the number of the version to write; None becomes the next free one.

    Raises:
        ValueError: the version exists or is below 1.
    """
    # "1", "2" and so on are versions; models.config and README.md lie beside them.
    names = [path.name for path in export_dir.glob("*")] if export_dir.is_dir() else []
    taken = [int(name) for name in names if name.isdecimal()]
    if version is None:
        return max(taken, default=0) + 1
    check_count("version", version)
    if version in taken:
        raise ValueError(
            f"{export_dir} holds version {version}: give another --version or leave it out for the "
            "next one"
        )
    return version
