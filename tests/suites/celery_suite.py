"""Celery's own integration suite with ``django-mq://`` as broker, and Redis or ``django-mq://`` for results.

    python -m tests.suites.celery                      all of it: half an hour, most of it the suite's own waiting
    python -m tests.suites.celery test_inspect.py      one module
    python -m tests.suites.celery --results django-mq  with our result backend, too
    python -m tests.suites.celery --broker redis       the same on Kombu's Redis transport, to compare with

The suite needs a few packages that nothing else here does; they are installed beside it, in a
directory that goes when it is over.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.services.processes import tethered
from tests.suites.sources import NotFetchedError, fetch_tests

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[2]
#: What the suite imports beside what we test with.
PACKAGES = ("cryptography", "pydantic", "pytest-rerunfailures", "pytest-timeout", "sqlalchemy", "tblib")
#: What is left out, and why.
EXCLUDED_MODULES = {
    "test_backend.py": "tests a result backend of Azure's, and needs its packages to be read at all",
    "test_cache_backend.py": "tests memcached as result backend, and is skipped without one",
}
EXCLUDED = {
    "test_inspect.py::test_Inspect::test_scheduled": "wants an ETA in worker memory; ours is in the database",
}
#: Celery's own pytest plugin is not installed with it.
PLUGINS = ("-p", "celery.contrib.pytest", "-p", "no:randomly", "-p", "no:django", "-p", "no:cacheprovider")


def prepare(directory: Path) -> Path:
    """Fetch the suite and what it needs; return the folder it is run in. Raises NotFetchedError."""
    folder = fetch_tests("celery", directory)
    (folder / "pytest.ini").write_text("[pytest]\npython_classes = test_*\nmarkers =\n    flaky\n    celery\n")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*command, "--target", str(folder / "packages"), *PACKAGES],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise NotFetchedError(f"what Celery's suite needs could not be installed: {done.stderr.strip()[-500:]}")
    return folder


def command(modules: Iterable[str]) -> list[str]:
    """Return the pytest to run in the suite's folder. Nothing in it knows of us but the broker's URL."""
    left_out = [f"--ignore=t/integration/{module}" for module in EXCLUDED_MODULES]
    left_out += [f"--deselect=t/integration/{name}" for name in EXCLUDED]
    chosen = [f"t/integration/{module}" for module in modules] or ["t/integration"]
    return [sys.executable, "-m", "pytest", *PLUGINS, *left_out, "-q", "--tb=short", "--durations=20", *chosen]


def environment(folder: Path, broker: str, database_url: str, redis_url: str) -> dict[str, str]:
    """Return the environment of the suite: the broker, Redis for results, and PostgreSQL for us."""
    address, _, _ = redis_url.removeprefix("redis://").partition("/")
    host, _, port = address.partition(":")
    programs = Path(sys.executable).parent
    return {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "PYTHONPATH": os.pathsep.join(map(str, (folder, ROOT, folder / "packages"))),
        "DJANGO_SETTINGS_MODULE": "tests.settings.postgresql",
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "REDIS_HOST": host,
        "REDIS_PORT": port,
        "TEST_BROKER": broker,
        "TEST_BACKEND": f"redis://{address}/0",
    }


def start(modules: Iterable[str], folder: Path, variables: dict[str, str], **pipes: int) -> subprocess.Popen[str]:
    """Start the suite; it dies with us."""
    return subprocess.Popen(
        tethered(command(modules), death_signal=signal.SIGKILL),
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        text=True,
        **pipes,
    )
