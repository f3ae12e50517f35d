"""The example's packages, importable as in the example itself, and its demo as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "example_project"
sys.path.append(str(EXAMPLE))


@pytest.fixture
def start_demo(tmp_path: Path) -> Callable[..., AbstractContextManager[subprocess.Popen[str]]]:
    """Start ``manage.py demo`` with a directory of its own; keywords are environment variables."""

    @contextmanager
    def start(*arguments: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
        outside = {name: value for name, value in os.environ.items() if not name.endswith("_URL")}
        outside.pop("DJANGO_SETTINGS_MODULE", None)
        environment = outside | {"LIBRARY_VAR": str(tmp_path), "PYTHONPATH": str(ROOT)} | variables
        command = [sys.executable, str(EXAMPLE / "manage.py"), "demo", *arguments]
        with subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            try:
                yield process
            finally:
                process.terminate()

    return start


@pytest.fixture
def run_demo(
    start_demo: Callable[..., AbstractContextManager[subprocess.Popen[str]]],
) -> Callable[..., tuple[int, str]]:
    """Run ``manage.py demo`` to its end; return its exit code and what it wrote."""

    def run(*arguments: str, **variables: str) -> tuple[int, str]:
        with start_demo(*arguments, **variables) as process:
            written, _ = process.communicate(timeout=400)
            return process.returncode, written

    return run
