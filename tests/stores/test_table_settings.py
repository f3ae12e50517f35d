"""PostgreSQL keeps the tables as the migration says, and the page about big tables says so."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from django.db import connections

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "databases" / "big-tables.md"
MIGRATION = import_module("django_mq.migrations.0002_whole_indexes")


@pytest.mark.django_db(databases=["postgresql"])
@pytest.mark.parametrize("table", MIGRATION.SETTINGS)
def test_each_table_has_its_settings_on_postgresql(table: str) -> None:
    with connections["postgresql"].cursor() as cursor:
        cursor.execute("SELECT unnest(reloptions) FROM pg_class WHERE oid = %s::regclass", [table])
        found = dict(row[0].split("=") for row in cursor.fetchall())

    assert {name: float(value) for name, value in found.items()} == MIGRATION.SETTINGS[table]


def test_the_page_about_big_tables_names_every_table_with_settings() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert [name for name in MIGRATION.SETTINGS if f"`{name}`" not in page] == []
