"""Start a job from a web or a worker process: in a process of its own, with a JVM of its own.

A JVM in the caller would hold half a gigabyte until the caller ends, and would not
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

    It ends with exit code 0 when the job is done; what it says goes to ``output``. How far it is, and
    what went wrong, go to ``errors``: None is this process's own, and by itself it is ``output``, too.
    ``environment`` is added to this process's; the settings and the project's folder go along.
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
