"""How every tool starts: absl flags, and errors that a person can read."""

import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from absl import app, logging

from keras_bert.storage.files import disk_error

_EXPECTED_ERRORS = (ValueError, OSError)
# What TensorFlow raises for files that vanished, may not be read, or are damaged.
_FILE_ERRORS = ("NotFoundError", "PermissionDeniedError", "DataLossError", "UnavailableError")


def run(main: Callable[[Sequence[str]], None]) -> None:
    """Runs `main` under absl; bad input ends with one sentence instead of a traceback.

    `ValueError` and `OSError` (missing files among them) are how the library reports bad input.
    Set the environment variable KERAS_BERT_TRACEBACK=1 to see where they were raised.

    Args:
        main: the tool's function; it receives the arguments that are not flags.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    logging.set_verbosity(logging.WARNING)  # what libraries tell absl, a user need not know
    # Lets --help of an installed tool show `keras-bert TOOL` in place of the script.
    tool, module = Path(sys.argv[0]), sys.modules["__main__"]
    if tool.parent == Path(__file__).parent / "tools" and module.__doc__:
        command = f"python tools/{tool.name}"
        module.__doc__ = module.__doc__.replace(command, f"keras-bert {tool.stem}")
    app.run(lambda arguments: _run_and_report(main, arguments))


def _run_and_report(main: Callable[[Sequence[str]], None], arguments: Sequence[str]) -> None:
    if len(arguments) > 1:
        _fail(f"unexpected argument {arguments[1]!r}: every value belongs to a flag; see --help")
    try:
        main(arguments)
    except KeyboardInterrupt:
        _fail("interrupted")
    except Exception as error:
        sentence = _sentence(error)
        if sentence is None or os.environ.get("KERAS_BERT_TRACEBACK"):
            raise
        _fail(sentence)


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
    if tensorflow and isinstance(
        error, tuple(getattr(tensorflow.errors, name) for name in _FILE_ERRORS)
    ):
        return words
    return None


def _fail(sentence: str) -> None:
    print(f"error: {sentence}", file=sys.stderr)
    sys.exit(1)
