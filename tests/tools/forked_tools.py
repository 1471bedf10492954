"""Runs tools one after another as children of one process, which loads TensorFlow only once.

    python forked_tools.py < runs.json

Each run is {"command": [tool, flag, ...], "largest_file": bytes or null, "folder": path} and starts
in the folder. With a number of bytes the system refuses to let any file grow beyond it, as a full
disk would (RLIMIT_FSIZE; Python ignores the signal that goes with it). The answer is a list of
{"status", "printed"} in JSON.
"""

import json
import os
import resource
import runpy
import signal
import sys
import traceback


def run(command: list[str], largest_file: int | None, folder: str = ".") -> dict:
    # A pipe, since a file would fall under the limit.
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        os.chdir(folder)
        os._exit(_exit_status(command, largest_file))
    os.close(writing)
    with open(reading, encoding="utf-8", errors="replace") as pipe:
        printed = pipe.read()
    _, status = os.waitpid(child, 0)
    return {"status": os.waitstatus_to_exitcode(status), "printed": printed}


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
