"""A site that has neither Django's tasks nor the package ``django-tasks``: Django 5.2, and what we require."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support.waiting import PATIENCE_SECONDS

WORKERS_START = """
import sys
sys.modules["django.tasks"] = sys.modules["django_tasks"] = None
import django
django.setup()
from django_mq.delivery.consumer.handlers import discover
assert discover() == {}
"""


def test_workers_find_their_handlers_without_the_interface_of_tasks() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WORKERS_START],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings.sqlite"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_SECONDS,
        check=False,
    )

    assert done.returncode == 0, done.stderr
