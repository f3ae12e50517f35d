"""Analyse the history of the demo with Spark: archive it, compute insights, and simulate other settings."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from django.conf import settings
from django.utils import timezone
from django_mq.errors import SparkUnavailable
from django_mq.models import History
from django_mq.pipeline import preflight

from library.demo.errors import DemoFailed
from library.demo.saying import say, say_table

if TYPE_CHECKING:
    from datetime import date

#: The queue of the simulation.
QUEUE = "index"


def learn() -> None:
    """Archive the history, compute its insights, and simulate three other settings. Raise DemoFailed."""
    try:
        preflight.check()
    except SparkUnavailable as missing:
        raise DemoFailed(str(missing)) from None
    root = settings.VAR_DIR / "archive"
    shutil.rmtree(root, ignore_errors=True)
    finished = History.objects.filter(queue_name=QUEUE).order_by("-id").values_list("ready_at", flat=True).first()
    for title, arguments in steps(str(root), (finished or timezone.now()).date()):
        say_table(title, [run(*arguments)])
    left = History.objects.count()
    say(f"\nThe history has {left:,} rows left; the rest is in {root}.")
    if left:
        raise DemoFailed("The archive has left something behind.")


def steps(root: str, day: date) -> list[tuple[str, list[str]]]:
    """Return the jobs, each with its title."""
    return [
        ("Archive", ["archive", "--root", root, "--older-than", "0"]),
        ("Insights", ["insights", "--days", "2"]),
        ("What if", ["whatif", "--queue", QUEUE, "--day", day.isoformat()]),
    ]


def run(*arguments: str) -> str:
    """Run a job in a process with a JVM of its own, and return what it printed. Raises DemoFailed."""
    command = [sys.executable, "manage.py", "mq_spark", *arguments]
    done = subprocess.run(
        command, cwd=settings.BASE_DIR, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise DemoFailed(f"mq_spark {arguments[0]} failed; its last line says why.")
    return done.stdout.strip()
