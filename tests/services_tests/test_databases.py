"""The fixtures of ``tests/conftest.py`` give each test the database it asked for."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import Group
from django.db import connections
from django.db.transaction import get_connection

from django_mq import conf
from tests.conftest import ALIASES

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.on("sqlite", once="postgresql")

COUNT = """
import django
django.setup()
from django.contrib.auth.models import Group
from django.db import connection
print(connection.display_name.lower(), Group.objects.count())
"""


def test_a_test_runs_on_each_kind_of_database(database: str) -> None:
    assert connections[database].display_name.lower() == ALIASES[database]


def test_the_queues_are_on_the_database_of_the_test(database: str) -> None:
    assert database == conf.load().DATABASE


def test_a_database_is_rolled_back_after_the_test(database: str) -> None:
    assert get_connection(database).in_atomic_block


def test_a_committed_database_really_commits(committed_database: str) -> None:
    assert not get_connection(committed_database).in_atomic_block


@pytest.mark.once
def test_a_process_sees_what_the_test_committed(
    committed_database: str, process_environment: Callable[[str], dict[str, str]]
) -> None:
    Group.objects.using(committed_database).create(name="one")

    seen = subprocess.run(
        [sys.executable, "-c", COUNT],
        env=process_environment(committed_database),
        capture_output=True,
        text=True,
        check=True,
    )

    assert seen.stdout.split() == [ALIASES[committed_database], "1"]
