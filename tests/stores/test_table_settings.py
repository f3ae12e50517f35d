"""Settings of tables on PostgreSQL, which the page about big tables names, and the indexes of MariaDB."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from django.apps import apps
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


#: Indexes of messages that MariaDB needs not: others begin with the same columns, or it has no such claim.
NEEDLESS = {"django_mq_message_dead", "django_mq_message_ending", "django_mq_message_meets"}


@pytest.mark.django_db(databases=["mariadb"])
def test_mariadb_has_the_indexes_that_django_leaves_out_there() -> None:
    connection = connections["mariadb"]
    missing = set()
    with connection.cursor() as cursor:
        for model in apps.get_app_config("django_mq").get_models():
            found = connection.introspection.get_constraints(cursor, model._meta.db_table)
            missing |= {index.name for index in model._meta.indexes} - set(found)

    assert missing == NEEDLESS


#: No key of these tables is a text.
NOT_SPELT = {"django_mq_act", "django_mq_operation", "django_mq_taskresult"}


@pytest.mark.django_db(databases=["mariadb"])
def test_mariadb_tells_texts_apart_by_case_in_every_table() -> None:
    tables = {model._meta.db_table for model in apps.get_app_config("django_mq").get_models()} - NOT_SPELT
    with connections["mariadb"].cursor() as cursor:
        cursor.execute(
            "SELECT table_name, column_name FROM information_schema.columns"
            " WHERE table_schema = DATABASE() AND table_name IN %s AND collation_name <> 'utf8mb4_bin'",
            [sorted(tables)],
        )
        assert cursor.fetchall() == ()


def test_the_page_about_big_tables_names_every_table_with_settings() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert [name for name in MIGRATION.SETTINGS if f"`{name}`" not in page] == []
