"""The commands of docs/pretraining_data.md, run as they stand."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "pretraining_data.md"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_commands_of_the_guide_run_and_print_what_it_says(tmp_path):
    (tmp_path / "tools").symlink_to(ROOT / "tools")
    text = GUIDE.read_text(encoding="utf-8")
    blocks = re.findall(r"```bash\n(.*?)```(?:\n\n```\n(.*?)```)?", text, re.DOTALL)
    assert len(blocks) == 5
    for block, shown in blocks:
        for line in block.strip().splitlines():
            program, *arguments = shlex.split(line)
            assert program == "python"
            done = subprocess.run(
                [sys.executable, *arguments],
                capture_output=True,
                text=True,
                cwd=tmp_path,
                env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
            )
            assert done.returncode == 0, done.stderr
        printed = done.stderr + done.stdout
        for line in filter(None, shown.splitlines()):
            assert line in printed, f"{line!r} is not in\n{printed}"
    shutil.rmtree(tmp_path / "demo")
