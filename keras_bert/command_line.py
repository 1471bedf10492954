"""How every tool starts: flags made from its options, and errors that a person can read."""

import dataclasses
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import io
import os
import re
import sys
import tempfile
import types
import typing
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from absl import app, flags, logging

from keras_bert.storage.files import disk_error

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_EXPECTED_ERRORS = (ValueError, OSError)
# What TensorFlow raises for files that vanished, may not be read, or are damaged.
_FILE_ERRORS = ("NotFoundError", "PermissionDeniedError", "DataLossError", "UnavailableError")
# What it says of a bucket that does not answer, or not with a file.
_REQUEST = "Error executing an HTTP request"

Options = TypeVar("Options", bound="DataclassInstance")
# The flags below belong to the tool that calls, not to this module: --help shows those of the tool.
flags.disclaim_key_flags()


def define_flags(options: "type[DataclassInstance]", without: Collection[str] = ()) -> None:
    """Defines a flag for each field of a dataclass.

    A field gives the name, the type (`X | None`: unset unless given; a `Literal`: one of its names;
    a tuple: a list separated by commas) and the default; without default the flag is required. The
    help is the first sentence on the field under "Attributes:" of the docstring; None in it is
    shown as "unset".

    Args:
        options: the dataclass.
        without: fields that the tool gives to `options_from_flags` itself.
    """
    types_of, helps = typing.get_type_hints(options), _first_sentences(options)
    for field in dataclasses.fields(options):
        if field.name in without:
            continue
        name, help = field.name, helps.get(field.name, "")
        required = field.default is dataclasses.MISSING
        default: Any = None if required else field.default
        annotation = types_of[name]
        is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
        kinds = typing.get_args(annotation) if is_union else (annotation,)
        # int -> int, tuple[str, ...] -> tuple, Literal["a", "b"] -> Literal, each -> itself
        by_origin = {typing.get_origin(kind) or kind: kind for kind in kinds}
        if tuple in by_origin:
            flags.DEFINE_list(name, default and list(default), help, required=required)
        elif typing.Literal in by_origin:
            choices = typing.get_args(by_origin[typing.Literal])
            flags.DEFINE_enum(name, default, choices, help, required=required)
        else:
            definers: dict[type, Callable] = {
                str: flags.DEFINE_string,
                bool: flags.DEFINE_bool,
                int: flags.DEFINE_integer,
                float: flags.DEFINE_float,
            }
            (kind,) = by_origin.keys() - {types.NoneType}
            definers[kind](name, default, help, required=required)


def options_from_flags(options: type[Options], **given: Any) -> Options:
    """Returns the options that the flags of `define_flags` say.

    Args:
        options: the dataclass.
        **given: the values of fields that have no flag, or another value than theirs.

    Raises:
        ValueError: of the dataclass.
    """
    for field in dataclasses.fields(options):
        if field.name not in given:
            value = flags.FLAGS[field.name].value
            given[field.name] = tuple(value) if isinstance(value, list) else value
    return options(**given)


def given_flags() -> list[str]:
    """Returns the names of the flags that the command line gives, defaults left out."""
    return [name for name in flags.FLAGS if flags.FLAGS[name].present]


def number_list(flag: str) -> tuple[float, ...] | None:
    """Returns the numbers of a flag that lists some; None where it is unset.

    Args:
        flag: its name, of `flags.DEFINE_list`.

    Raises:
        ValueError: something in the list is no number.
    """
    values = flags.FLAGS[flag].value
    if values is None:
        return None
    try:
        return tuple(float(value) for value in values)
    except ValueError:
        raise ValueError(
            f"--{flag}={','.join(values)} has something else than numbers: give numbers separated "
            "by commas"
        ) from None


def check_companions(flag: str, *names: str) -> None:
    """Refuses flags that say something of another flag where that one is not given.

    Args:
        flag: the one that they belong to.
        *names: the flags.

    Raises:
        ValueError: one of them is given, and `flag` is not.
    """
    for name in names:
        if flags.FLAGS[name].present and not flags.FLAGS[flag].value:
            raise ValueError(f"--{name} is for --{flag}: give that, too, or leave it out")


def _first_sentences(options: type) -> dict[str, str]:
    """Returns what the docstring of a dataclass says of each attribute, as help of its flag."""
    # "    name: text", and what goes on four columns further to the right.
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", inspect.getdoc(options) or "", re.M)
    sentences = {}
    for name, text in entries:
        sentence = re.split(r"(?<=\.)\s+(?=[^a-z0-9])", " ".join(text.split()))[0]
        sentence = re.sub(r"\bNone\b", "unset", sentence).replace("`", "")
        sentences[name] = sentence[0].upper() + sentence[1:]
    return sentences


def run(main: Callable[[Sequence[str]], None]) -> None:
    """Runs `main` under absl; bad input ends with one sentence instead of a traceback.

    `ValueError` and `OSError` (missing files among them) are how the library reports bad input.
    Set the environment variable KERAS_BERT_TRACEBACK=1 to see where they were raised.

    Args:
        main: the tool's function; it receives the arguments that are not flags.
    """
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "3":
        sys.meta_path.insert(0, _QuietTensorFlow())
    # A character that the terminal has not must not lose a result: it is written as its code.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    logging.set_verbosity(logging.WARNING)  # what libraries tell absl, a user need not know
    # Lets --help of an installed tool show `keras-bert TOOL` in place of the script.
    tool, module = Path(sys.argv[0]), sys.modules["__main__"]
    if tool.parent == Path(__file__).parent / "tools" and module.__doc__:
        command = f"python tools/{tool.name}"
        module.__doc__ = module.__doc__.replace(command, f"keras-bert {tool.stem}")

    def run_and_report(arguments: Sequence[str]) -> None:
        if len(arguments) > 1:
            _fail(
                f"unexpected argument {arguments[1]!r}: every value belongs to a flag; see --help"
            )
        try:
            main(arguments)
        except KeyboardInterrupt:
            _fail("interrupted")
        except Exception as error:
            sentence = _sentence(error)
            if sentence is None or os.environ.get("KERAS_BERT_TRACEBACK"):
                raise
            _fail(sentence)

    app.run(run_and_report)


class _QuietTensorFlow(importlib.abc.MetaPathFinder):
    """Loads TensorFlow, whenever a tool asks for it, without its remarks about the machine.

    TensorFlow 2.21 writes them before it reads TF_CPP_MIN_LOG_LEVEL.
    """

    _REMARK = re.compile(rb"I0000 |WARNING: All log messages before absl::InitializeLog")

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Returns where Python itself finds TensorFlow, to be executed quietly."""
        if name != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec and spec.loader:
            execute = spec.loader.exec_module
            # mypy: this loader is of one module, and its method is replaced on purpose.
            spec.loader.exec_module = lambda module: self._run(execute, module)  # type: ignore[method-assign]
        return spec

    def _run(self, execute: Callable[[types.ModuleType], None], module: types.ModuleType) -> None:
        # C++ writes to the descriptor, past sys.stderr.
        try:
            terminal, file = os.dup(2), tempfile.TemporaryFile()
        except OSError:  # 2>&-, or nowhere to write
            execute(module)
            return
        with file as written:
            os.dup2(written.fileno(), 2)
            try:
                execute(module)
            finally:
                os.dup2(terminal, 2)
                os.close(terminal)
                written.seek(0)
                for line in written:
                    if not self._REMARK.match(line):
                        os.write(2, line)


def _sentence(error: Exception) -> str | None:
    """Returns what to tell a user of an error that he can do something about, else None."""
    if isinstance(error, _EXPECTED_ERRORS):
        return str(error)
    # TensorFlow's: "{{function_node ...}} path; No space left on device [Op:SaveV2]".
    words = re.sub(r"^\{\{.*?\}\} | \[Op:\w+\]$", "", str(error).strip().split("\n")[0])
    refused = disk_error(error)
    if refused is not None:
        return f"{words}: {refused[1]}"
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow and isinstance(error, tensorflow.errors.OpError) and _REQUEST in words:
        # Of one of several kinds; the next line has the address.
        return f"{' '.join(str(error).split())}: check the address, the network and your rights"
    if tensorflow and isinstance(
        error, tuple(getattr(tensorflow.errors, name) for name in _FILE_ERRORS)
    ):
        return words
    return None


def _fail(sentence: str) -> None:
    print(f"error: {sentence}", file=sys.stderr)
    sys.exit(1)
