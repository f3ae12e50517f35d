"""The oldest Celery, Kombu and Redis client that are accepted: a part of our own tests, in another process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import skip_or_fail
from tests.services.processes import tethered

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.once
ROOT = Path(__file__).parents[2]
#: They stand in front of the installed ones; what both need is the same.
OLDEST = {"celery": "5.5.3", "kombu": "5.5.4", "redis": "4.5.2"}
#: Hints, workers in threads, private names, Kombu programs, publishing, and a live worker through its day.
PARTS = (
    "tests/notifications/conformance",
    "tests/notifications/test_every_way.py",
    "tests/notifications/test_malformed.py",
    "tests/notifications/test_redis.py",
    "tests/integrations/celery/test_memory_transport.py",
    "tests/integrations/celery/test_internals.py",
    "tests/integrations/celery/test_kombu.py",
    "tests/integrations/celery/test_publishing.py",
    "tests/journeys/test_a_workers_day.py",
)
#: About as many as they have; fewer would mean that they were not found.
FEWEST = 180
SECONDS = 900.0


@pytest.fixture(scope="module")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that sees the old versions; a laptop without network skips what needs it."""
    folder = tmp_path_factory.mktemp("oldest")
    wanted = [f"{name}=={version}" for name, version in OLDEST.items()]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    done = run([*command, "--target", str(folder), *wanted], os.environ)
    if done.returncode != 0:
        skip_or_fail(RuntimeError(done.stdout))
    return {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "CI": ""}


@pytest.mark.timeout(1800)
def test_our_own_tests_pass_with_the_oldest_celery(oldest: dict[str, str]) -> None:
    program = f"import {', '.join(OLDEST)}; print({', '.join(f'{name}.__version__' for name in OLDEST)})"
    said = run([sys.executable, "-c", program], oldest)
    assert said.stdout.split() == list(OLDEST.values())

    plain = ["-p", "no:randomly", "-p", "no:cacheprovider", "-q"]
    plain += ["-k", "not postgresql and not mariadb"]
    done = run([sys.executable, "-m", "pytest", *plain, *PARTS], oldest)

    assert done.returncode == 0, done.stdout[-6000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed, done.stdout
    assert int(passed[1]) >= FEWEST


def run(command: list[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run to the end; what is said, errors too, is the output."""
    return subprocess.run(
        tethered(command, death_signal=signal.SIGKILL),
        env=dict(environment),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=SECONDS,
    )
