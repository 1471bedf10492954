"""How every tool starts: absl flags, and errors that a person can read."""

import os
import sys
from collections.abc import Callable, Sequence

from absl import app, logging

_EXPECTED_ERRORS = (ValueError, OSError)


def run(main: Callable[[Sequence[str]], None]) -> None:
    """Runs `main` under absl; bad input ends with one sentence instead of a traceback.

    `ValueError` and `OSError` (missing files among them) are how the library reports bad input.
    Set the environment variable KERAS_BERT_TRACEBACK=1 to see where they were raised.

    Args:
        main: the tool's function; it receives the arguments that are not flags.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    logging.set_verbosity(logging.WARNING)  # what libraries tell absl, a user need not know
    app.run(lambda arguments: _run_and_report(main, arguments))


def _run_and_report(main: Callable[[Sequence[str]], None], arguments: Sequence[str]) -> None:
    if len(arguments) > 1:
        _fail(f"unexpected argument {arguments[1]!r}: every value belongs to a flag; see --help")
    try:
        main(arguments)
    except _EXPECTED_ERRORS as error:
        if os.environ.get("KERAS_BERT_TRACEBACK"):
            raise
        _fail(str(error))
    except KeyboardInterrupt:
        _fail("interrupted")


def _fail(sentence: str) -> None:
    print(f"error: {sentence}", file=sys.stderr)
    sys.exit(1)
