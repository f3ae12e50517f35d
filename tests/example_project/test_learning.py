"""``demo --spark``: the demo's history is archived, counted, and played again under other settings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from django_mq.errors import SparkUnavailable
from django_mq.pipeline import preflight
from tests.conftest import skip_or_fail
from tests.services.server import UnavailableError

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

#: Three sessions of Spark, one after the other.
PATIENCE_SECONDS = 1600


@pytest.mark.once
@pytest.mark.timeout(1800)
def test_the_demo_learns_from_its_own_history(
    start_demo: Callable[..., AbstractContextManager[subprocess.Popen[str]]], tmp_path: Path
) -> None:
    try:
        preflight.check()
    except SparkUnavailable as missing:
        skip_or_fail(UnavailableError(str(missing)))

    with start_demo("--limit", "12", "--spark") as process:
        written, _ = process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 0, written
    archived = re.search(r"Batch 1: (\d+) rows in (\S+), (\d+) deleted from the history\.", written)
    assert archived, written
    assert archived[1] == archived[3]
    assert archived[2].startswith(str(tmp_path))
    assert re.search(r"^QUEUE +ARRIVED +DONE", written, re.MULTILINE)
    for scenario in ("what happened", "as recorded", "one consumer more", "half as fast", "no priorities"):
        assert scenario in written
    assert "The history has 0 rows left" in written


@pytest.mark.once
def test_the_demo_says_what_spark_lacks(
    start_demo: Callable[..., AbstractContextManager[subprocess.Popen[str]]], tmp_path: Path
) -> None:
    with start_demo("--limit", "5", "--spark", JAVA_HOME=str(tmp_path)) as process:
        written, _ = process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 1
    assert "CommandError: Spark needs Java, and there is none here" in written
