"""Start a job from a web or a worker process: in a process of its own, with its own JVM.

A JVM in the caller would use half a gigabyte until the caller ends, and would not
survive a fork.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from django.conf import settings

from django_mq.pipeline.session import python_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import IO


def launch(
    *arguments: str,
    output: IO[bytes] | int = subprocess.DEVNULL,
    errors: IO[bytes] | int | None = subprocess.STDOUT,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start ``manage.py mq_spark`` with these arguments, and return its process.

    Its exit code is 0 when the job is done. Its output goes to ``output``, its progress and errors
    to ``errors``: None is this process's own; the default is ``output``.
    ``environment`` is added to this process's, and so are the settings and the project's folder.
    """
    known = {"DJANGO_SETTINGS_MODULE": settings.SETTINGS_MODULE or "", "PYTHONPATH": python_path()}
    # S603: the arguments are a list, no shell reads them.
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "django", "mq_spark", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=errors,
        env={**os.environ, **known, **(environment or {})},
    )
