"""Django's own tests of tasks, with our backend in the place of its dummy."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import skip_or_fail
from tests.services.processes import tethered
from tests.suites.sources import NotFetchedError, fetch_tests

ROOT = Path(__file__).parents[2]
SECONDS = 300.0
#: As many as Django 6.1 has; fewer would mean that they were not found.
FEWEST = 60
DUMMY = "tasks.test_dummy_backend.DummyBackendTestCase"
#: The tests that do not fit, and why.
OTHERWISE = {
    f"{DUMMY}.test_clear": "results are in the database, and not in a list that can be emptied",
    f"{DUMMY}.test_refresh_result": "the test changes the list of the dummy, not the result",
    f"{DUMMY}.test_refresh_result_async": "as above",
    "tasks.test_tasks.TaskTestCase.test_refresh_result": "asks the database in a coroutine, without await",
}


@pytest.mark.once
@pytest.mark.skipif(find_spec("django.tasks") is None, reason="Django has tasks from 6.0 on")
def test_djangos_tests_of_tasks_pass(tmp_path: Path) -> None:
    try:
        folder = fetch_tests("django", tmp_path, "tests/tasks")
    except NotFetchedError as missing:
        skip_or_fail(missing)
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings.sqlite", "PYTHONPATH": str(ROOT)}

    done = subprocess.run(
        tethered(
            [sys.executable, "-m", "tests.suites.tasks_suite", str(folder / "tests")], death_signal=signal.SIGKILL
        ),
        env=environment,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    ran, failed = json.loads(done.stdout.splitlines()[-1])
    assert ran >= FEWEST
    assert failed == sorted(OTHERWISE), done.stderr[-8000:]
