"""mq_health and a database that answers, and refuses: one sentence that says why, and code 1."""

from __future__ import annotations

import io
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.db import connections

from tests.settings.databases import from_url
from tests.support.site import an_alias_of

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_django import DjangoDbBlocker, Settings


def said_of(entry: dict[str, Any], settings: Settings, blocker: DjangoDbBlocker) -> str:
    """Return what the probe says of a database that is not well."""
    out = io.StringIO()
    with an_alias_of(entry, settings, blocker), pytest.raises(SystemExit) as ended:
        call_command("mq_health", "--timeout", "60", stdout=out)
    assert ended.value.code == 1
    (line,) = out.getvalue().splitlines()
    return line


def like(alias: str, **changes: Any) -> dict[str, Any]:
    """Return the entry of an alias, with changes."""
    return deepcopy({**connections[alias].settings_dict, **changes})


def test_tables_that_nobody_has_migrated(
    tmp_path: Path, settings: Settings, django_db_blocker: DjangoDbBlocker
) -> None:
    said = said_of(from_url(f"sqlite:///{tmp_path}/new.sqlite3"), settings, django_db_blocker)

    assert said.startswith("A table or column of django_mq is missing; run manage.py migrate")


@pytest.mark.django_db(databases=["postgresql"], transaction=True)
def test_a_standby_takes_no_writes(settings: Settings, django_db_blocker: DjangoDbBlocker) -> None:
    standby = like("postgresql", OPTIONS={"options": "-c default_transaction_read_only=on"})

    assert said_of(standby, settings, django_db_blocker).startswith("The database is read-only now: ")


@pytest.mark.django_db(databases=["default"], transaction=True)
def test_a_file_that_may_not_be_written(settings: Settings, django_db_blocker: DjangoDbBlocker) -> None:
    path = f"file:{connections['default'].settings_dict['NAME']}?mode=ro"
    file = like("default", NAME=path, OPTIONS={"uri": True})

    assert "readonly" in said_of(file, settings, django_db_blocker)


@pytest.mark.django_db(databases=["postgresql"], transaction=True)
def test_too_many_connections(settings: Settings, django_db_blocker: DjangoDbBlocker) -> None:
    with connections["postgresql"].cursor() as cursor:
        cursor.execute("CREATE ROLE crowded LOGIN CONNECTION LIMIT 0 PASSWORD 'pass-word'")
    try:
        crowded = like("postgresql", USER="crowded", PASSWORD="pass-word")
        said = said_of(crowded, settings, django_db_blocker)
    finally:
        with connections["postgresql"].cursor() as cursor:
            cursor.execute("DROP ROLE crowded")

    assert said.startswith("The database cannot be used now: ")
    assert "too many connections" in said
    assert "pass-word" not in said


@pytest.mark.django_db(databases=["postgresql"], transaction=True)
def test_a_user_whom_nobody_knows(settings: Settings, django_db_blocker: DjangoDbBlocker) -> None:
    stranger = like("postgresql", USER="stranger", PASSWORD="pass-word")

    said = said_of(stranger, settings, django_db_blocker)

    assert "stranger" in said
    assert "pass-word" not in said
