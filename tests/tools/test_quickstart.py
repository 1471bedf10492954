"""The whole road, with seconds of pretraining in place of minutes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "quickstart.py"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_quickstart_goes_to_its_end(tmp_path):
    folder = tmp_path / "road"
    flags = [f"--output_dir={folder}", "--pretraining_seconds=5", "--epochs=1"]
    done = subprocess.run([sys.executable, TOOL, *flags], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    shown = done.stdout[done.stdout.index("=== What came out") :]
    for what in ("masked LM accuracy", "verse pairs, test accuracy, pretrained", "from scratch"):
        assert re.search(rf"{what}.* \d+\.\d%\n", shown), shown
    answers = re.findall(r"-> (\w+) \((\d\.\d+)\)", done.stdout)
    assert len(answers) == 2
    assert (folder / "export" / "1" / "saved_model.pb").is_file()
    assert (folder / "pretraining" / "curves.png").read_bytes().startswith(b"\x89PNG")
