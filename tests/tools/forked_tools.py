"""Runs tools one after another as children of one process, which loads TensorFlow only once.

    python forked_tools.py < runs.json

Each run is {"command": [tool, flag, ...]} with, where they matter,

- "folder": where it starts.
- "largest_file": bytes beyond which the system lets no file grow, as a full disk would
  (RLIMIT_FSIZE; Python ignores the signal that goes with it).
- "vanishing": a folder that is removed, once, as soon as something is in it.

A run as root gives up the right to pass over permissions, so that a read-only folder is one. The
answer is a list of {"status", "printed"} in JSON.
"""

import contextlib
import ctypes
import json
import os
import resource
import runpy
import shutil
import signal
import sys
import threading
import time
import traceback

_PASS_OVER_PERMISSIONS = 0b110  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, see capabilities(7)
_CAPABILITY_VERSION_3 = 0x20080522


def run(
    command: list[str],
    folder: str = ".",
    largest_file: int | None = None,
    vanishing: str | None = None,
) -> dict:
    # A pipe, since a file would fall under the limit.
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        os.chdir(folder)
        _obey_permissions()
        if vanishing is not None:
            threading.Thread(target=_remove_once_filled, args=[vanishing], daemon=True).start()
        os._exit(_exit_status(command, largest_file))
    os.close(writing)
    with open(reading, encoding="utf-8", errors="replace") as pipe:
        printed = pipe.read()
    _, status = os.waitpid(child, 0)
    return {"status": os.waitstatus_to_exitcode(status), "printed": printed}


def _obey_permissions() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; then their upper halves
    if libc.capget(header, sets):
        raise OSError(ctypes.get_errno(), "capget")
    for index in range(3):
        sets[index] &= ~_PASS_OVER_PERMISSIONS
    if libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "capset")


def _remove_once_filled(folder: str) -> None:
    while True:
        with contextlib.suppress(OSError):
            if os.listdir(folder):
                shutil.rmtree(folder)
                return
        time.sleep(0.001)


def _exit_status(command: list[str], largest_file: int | None) -> int:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if largest_file is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, resource.RLIM_INFINITY))
    sys.argv = command
    sys.path.insert(0, os.path.dirname(command[0]))
    status = 0
    try:
        runpy.run_path(command[0], run_name="__main__")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return status


if __name__ == "__main__":
    import keras  # noqa: F401  loaded before the forks; no operation runs here
    import tensorflow as tf  # noqa: F401
    import tensorflow_text  # noqa: F401

    runs = json.load(sys.stdin)
    json.dump([run(**one) for one in runs], sys.stdout)
