"""The most telling modules of Celery's own integration suite; ``python -m tests.suites.celery`` runs them all."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.conftest import skip_or_fail
from tests.suites import celery_suite
from tests.suites.sources import NotFetchedError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.journeys.conftest import Templates
    from tests.services.redis import Redis

#: Remote control as each worker answers it, and groups whose members come in crowds.
MODULES = ("test_inspect.py", "test_group_chains.py")
#: As many as they have in the oldest Celery we take; fewer would mean that they were not found.
FEWEST = 15
SECONDS = 840.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The suite, unpacked, with what it needs; a laptop without network skips it."""
    try:
        return celery_suite.prepare(tmp_path)
    except NotFetchedError as missing:
        skip_or_fail(missing)


@pytest.mark.once
@pytest.mark.timeout(1800)
def test_celerys_integration_suite_passes(folder: Path, templates: Templates, redis_server: Redis) -> None:
    variables = celery_suite.environment(folder, "django-mq://", templates.fresh("postgresql"), redis_server.url)

    with celery_suite.start(
        MODULES, folder, variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            said, _ = process.communicate(timeout=SECONDS)
        finally:
            process.kill()

    assert process.returncode == 0, said[-8000:]
    passed = re.search(r"(\d+) passed", said)
    assert passed, said
    assert int(passed[1]) >= FEWEST
