"""Python in another process, beside this one: with the same modules, and without its signals."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def start(*arguments: str, environment: dict[str, str] | None = None, **options: Any) -> subprocess.Popen[bytes]:
    """Start ``python -m`` with these arguments; the options are those of ``subprocess.Popen``. Raises OSError."""
    # The process's own path, which programs that embed Python may have changed.
    path = os.pathsep.join(filter(None, sys.path))
    return subprocess.Popen(  # noqa: S603 - nothing of it comes from outside
        [_interpreter(), "-P", "-m", *arguments],
        env={**os.environ, "PYTHONPATH": path, **(environment or {})},
        stdout=subprocess.DEVNULL,
        # Signals to the worker's group, such as Ctrl-C, are the worker's, which may go on for long.
        start_new_session=True,
        **options,
    )


def _interpreter() -> str:
    """Return the path of Python. Raises OSError where there is none.

    Where a program embeds Python, as uWSGI does, ``sys.executable`` is that program, or nothing.
    """
    if sys.executable and Path(sys.executable).name.startswith(("python", "pypy", "graalpy")):
        return sys.executable
    return f"{sys.exec_prefix}/bin/python{sys.version_info.major}.{sys.version_info.minor}"
