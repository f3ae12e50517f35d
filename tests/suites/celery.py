"""Runs Celery's integration suite by hand; see ``celery_suite.py``."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.services.environment import Services
from tests.services.server import UnavailableError
from tests.suites import celery_suite
from tests.suites.sources import NotFetchedError


def parse() -> argparse.Namespace:
    """Return ``broker``, ``results`` and ``modules``."""
    parser = argparse.ArgumentParser(prog="python -m tests.suites.celery", description=celery_suite.__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--broker", choices=["django-mq", "redis"], default="django-mq")
    parser.add_argument("--results", choices=["django-mq", "redis"], default="redis")
    parser.add_argument("modules", nargs="*", help="such as test_inspect.py, or test_tasks.py::test_tasks")
    return parser.parse_args()


def main() -> int:
    """Fetch, start PostgreSQL and Redis, run."""
    arguments = parse()
    try:
        with tempfile.TemporaryDirectory() as directory, Services() as services:
            folder = celery_suite.prepare(Path(directory))
            redis_url = services.url("redis")
            broker = "django-mq://" if arguments.broker == "django-mq" else redis_url
            variables = celery_suite.environment(folder, broker, services.url("postgresql"), redis_url)
            if arguments.results == "django-mq":
                variables["TEST_BACKEND"] = "django-mq://"
            migrate = [sys.executable, "-m", "django", "migrate", "--verbosity", "0"]
            subprocess.run(migrate, env=variables, stdin=subprocess.DEVNULL, check=True)
            return celery_suite.start(arguments.modules, folder, variables).wait()
    except (NotFetchedError, UnavailableError) as missing:
        sys.stderr.write(f"{missing}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
