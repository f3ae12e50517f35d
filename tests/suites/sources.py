"""The tests of an installed package, from its source distribution."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: Longest wait for the package index.
FETCH_SECONDS = 240.0


class NotFetchedError(Exception):
    """The source distribution could not be downloaded; the text is pip's last line."""


def fetch_tests(package: str, directory: Path, tests: str = "t") -> Path:
    """Unpack the folder of ``tests`` of the installed version's sources, and return the folder it stands in.

    Only the tests: beside their package they would test its sources, not what is installed.
    Raises NotFetchedError.
    """
    archive = _download(package, directory)
    folder = directory / package
    with tarfile.open(archive) as sources:
        root = sources.getnames()[0].partition("/")[0]
        wanted = [entry for entry in sources.getmembers() if entry.name.startswith(f"{root}/{tests}/")]
        sources.extractall(directory, wanted, filter="data")
    (directory / root).rename(folder)
    return folder


def _download(package: str, directory: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check"]
    wanted = ["--no-binary", package, "--dest", str(directory), f"{package}=={version(package)}"]
    try:
        done = subprocess.run(
            [*command, *wanted],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=FETCH_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise NotFetchedError(f"{package}: no answer from the package index") from late
    found = sorted(directory.glob(f"{package}-*.tar.gz"))
    if done.returncode != 0 or not found:
        said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        raise NotFetchedError(f"{package}: its sources could not be fetched: {said}")
    return found[0]
