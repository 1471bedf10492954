"""Files of a model alone, token ids in and logits out: LiteRT for phones, ONNX for other engines.

    int32 [N, S] x 3 (input_ids, input_mask, segment_ids) --> logits of the head, float32

Tokenizing is left to the program that uses the file; `vocab.txt` and `tokenizer_config.json` lie
beside it, and `labels.json` with the name of each class where the model has classes.
"""

import contextlib
import functools
import importlib
import json
import logging
import os
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_bert.serving.formats.onnx_graph import OPSET, finish_onnx
from keras_bert.serving.served_folder import open_signatures
from keras_bert.signatures.base import SERVE_IDS, SignatureFamily
from keras_bert.signatures.options import ExportOptions, Head, ServingDtype
from keras_bert.storage.new_folder import check_nothing_there, new_folder

LITERT_FILE = "model.tflite"
ONNX_FILE = "model.onnx"
LABELS_FILE = "labels.json"
# What `serve_ids` calls the output of a model that has one.
LOGITS = "logits"
LITERT_DTYPES: tuple[ServingDtype, ...] = ("float32", "int8")
ONNX_DTYPES: tuple[ServingDtype, ...] = ("float32", "int8")


def export_litert(
    model_dir: str | os.PathLike,
    export_dir: str | os.PathLike,
    dtype: ServingDtype = "float32",
    head: Head = "auto",
    ignore_config_keys: Collection[str] = (),
) -> Path:
    """Writes `<export_dir>/model.tflite` with the signature `serve_ids`.

    Args:
        model_dir: the folder of a fine-tuning run, or of any model.
        export_dir: the folder to write.
        dtype: "int8" keeps matrices as 8-bit integers, a quarter of the file; activations are
            quantized row by row while it runs, so no calibration data are needed.
        head: "auto" serves the head that the folder holds, "encoder" its vectors, "masked_lm" its
            guesses of masked words.
        ignore_config_keys: unknown keys of the model's config to pass over.

    Raises:
        FileNotFoundError: there is no model.
        FileExistsError: there is something at `export_dir`.
        ValueError: the dtype is another one, or LiteRT lacks an operation of the model.
    """
    if dtype not in LITERT_DTYPES:
        raise ValueError(f"dtype is {dtype!r}: LiteRT files are {' or '.join(LITERT_DTYPES)}")

    def write(family: SignatureFamily, folder: Path) -> None:
        # As in `ServingModule`: plain variables, which the converter writes into the file.
        module = tf.Module()
        module.weights = [variable.value for variable in family.model.weights]
        function = tf.function(family.ids, autograph=False)
        # Ids in, logits out: neither format has the operations of the tokenizer.
        signature = function.get_concrete_function(**family.id_inputs())
        with tempfile.TemporaryDirectory() as scratch:
            tf.saved_model.save(module, scratch, signatures={SERVE_IDS: signature})
            converter = tf.lite.TFLiteConverter.from_saved_model(
                scratch, signature_keys=[SERVE_IDS]
            )
            if dtype == "int8":
                # Without sample data this quantizes weights; activations follow while it runs.
                converter.optimizations = [tf.lite.Optimize.DEFAULT]
            try:
                content = converter.convert()
            except Exception as error:  # its own class is not public
                raise ValueError(
                    f"LiteRT cannot hold this {type(family.model).__name__} "
                    f"({_first_line(error)}): serve it as a SavedModel"
                ) from error
        (folder / LITERT_FILE).write_bytes(content)

    return _export(model_dir, export_dir, head, ignore_config_keys, write)


def export_onnx(
    model_dir: str | os.PathLike,
    export_dir: str | os.PathLike,
    dtype: ServingDtype = "float32",
    head: Head = "auto",
    ignore_config_keys: Collection[str] = (),
) -> Path:
    """Writes `<export_dir>/model.onnx`; needs the extra `onnx` (tf2onnx).

    The file has operations of ONNX' version 17, which engines know since 2022.

    Args:
        model_dir: the folder of a fine-tuning run, or of any model.
        export_dir: the folder to write.
        dtype: "int8" keeps embeddings and matrices as 8-bit integers, a quarter of the file, which
            ONNX Runtime multiplies with activations that it quantizes while it runs (dynamic
            quantization; needs the package onnxruntime). Seven of the bits are used, so that sums
            do not overflow on processors without VNNI.
        head: "auto" serves the head that the folder holds, "encoder" its vectors, "masked_lm" its
            guesses of masked words.
        ignore_config_keys: unknown keys of the model's config to pass over.

    Raises:
        FileNotFoundError: there is no model.
        FileExistsError: there is something at `export_dir`.
        ValueError: the dtype is another one, tf2onnx is not installed or fails, or ONNX lacks an
            operation of the model.
    """
    if dtype not in ONNX_DTYPES:
        raise ValueError(f"dtype is {dtype!r}: ONNX files are {' or '.join(ONNX_DTYPES)}")
    write = functools.partial(_write_onnx, dtype=dtype)
    return _export(model_dir, export_dir, head, ignore_config_keys, write)


def _export(
    model_dir: str | os.PathLike,
    export_dir: str | os.PathLike,
    head: Head,
    ignore_config_keys: Collection[str],
    write: Callable[[SignatureFamily, Path], Any],
) -> Path:
    check_nothing_there(export_dir)
    options = ExportOptions(ignore_config_keys=tuple(ignore_config_keys))
    family = open_signatures(model_dir, options, head)
    if not family.has_portable_ids:
        raise ValueError(
            f"a {type(family.model).__name__} is no model for files of LiteRT or ONNX: serve it as "
            "a SavedModel"
        )
    with new_folder(export_dir) as folder:
        write(family, folder)
        # The program that uses the file tokenizes itself: it needs vocabulary and settings.
        family.tokenizer.save(folder)
        if family.labels:
            (folder / LABELS_FILE).write_text(json.dumps(family.labels) + "\n", encoding="utf-8")
    return Path(export_dir)


def _write_onnx(family: SignatureFamily, folder: Path, dtype: ServingDtype) -> None:
    model = family.ids_model()
    if model.input.keys() != family.id_inputs().keys():
        raise ValueError(
            f"a {type(family.model).__name__} writes texts in a loop, which ONNX files of ours do "
            "not hold: serve it as a SavedModel"
        )
    if dtype == "int8":
        try:
            importlib.import_module("onnxruntime.quantization")
        except ImportError as error:
            raise ValueError(
                f"ONNX in int8 needs the package onnxruntime ({_first_line(error)}): "
                "pip install onnxruntime"
            ) from None
    path = folder / ONNX_FILE
    # It lists operations as unsupported that `finish_onnx` writes in another form.
    logging.getLogger("tf2onnx").setLevel(logging.CRITICAL)
    try:
        model.export(
            path,
            format="onnx",
            input_signature=[family.id_inputs()],
            verbose=False,
            opset_version=OPSET,
        )
    except ImportError as error:
        raise ValueError(
            f"ONNX needs the package tf2onnx ({_first_line(error)}): pip install tf2onnx"
        ) from None
    except Exception as error:  # whatever tf2onnx stumbles over
        raise ValueError(
            f"tf2onnx cannot convert this {type(family.model).__name__} ({_first_line(error)}): "
            "serve it as a SavedModel"
        ) from error
    # The names that `serve_ids` has: those of a model with several outputs, in sorted order as
    # Keras flattens them.
    outputs = model.output
    finish_onnx(path, sorted(outputs) if isinstance(outputs, dict) else [LOGITS])
    if dtype == "int8":
        _quantize(path)


def _quantize(path: Path) -> None:
    """Writes the matrices of an ONNX file as 8-bit integers, with a scale for each column."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantized = path.with_suffix(".int8")
    with _without_advice():
        quantize_dynamic(
            path, quantized, per_channel=True, reduce_range=True, weight_type=QuantType.QInt8
        )
    quantized.replace(path)


@contextlib.contextmanager
def _without_advice() -> Iterator[None]:
    """ONNX Runtime advises to fold constants before, which tf2onnx has done."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]
