"""Live figures come from tables: no page imports Spark or starts a program."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.django_db(databases=["default"], transaction=True)
def test_every_page_is_served_where_spark_cannot_be_imported(
    process_environment: Callable[[str], dict[str, str]],
) -> None:
    command = [sys.executable, "-m", "tests.admin.every_page"]
    environment = process_environment("default") | {"REDIS_URL": ""}

    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    *pages, imported, started = done.stdout.splitlines()
    assert len(pages) > 20
    assert [page for page in pages if page[:3] not in {"200", "403"}] == []
    assert [page for page in pages if page[:3] == "403" and "/add/" not in page] == []
    assert any("queue=orders&format=csv" in page for page in pages)
    assert imported == "imported: []"
    assert started == "started: []"
