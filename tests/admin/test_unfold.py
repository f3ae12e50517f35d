"""The admin under django-unfold, which a process has from its start or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import skip_or_fail
from tests.services.server import UnavailableError

ROOT = Path(__file__).parents[2]
#: Starting, a database, and two rounds in a browser, on a machine that is busy.
SECONDS = 800


@pytest.mark.once
def test_the_main_pages_work_under_unfold(tmp_path: Path) -> None:
    try:
        import unfold  # type: ignore[import-untyped,import-not-found,unused-ignore] # noqa: F401
    except ImportError:
        skip_or_fail(UnavailableError("django-unfold is not installed."))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"),
            *("--ds=tests.settings.unfold", "tests/admin/under_unfold.py"),
        ],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": f"sqlite:///{tmp_path}/unfold.sqlite3"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )

    assert done.returncode == 0, done.stdout + done.stderr
