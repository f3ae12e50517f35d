"""Empty the tables after a test that commits."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from django.apps import apps
from django.core.management.color import no_style
from django.db import connections

if TYPE_CHECKING:
    from django.test import TransactionTestCase

#: Django writes their rows after a migration. To write them again after each test takes longer than most tests.
KEPT = {"django_content_type", "auth_permission"}


def empty_tables(case: TransactionTestCase) -> None:
    """Empty the tables of a test's databases, in place of Django's ``flush``."""
    for alias in connections:
        if alias in case.databases:
            empty(alias)


def empty(alias: str) -> None:
    """Delete all rows but those of Django's own."""
    connection = connections[alias]
    if tables := written(alias):
        flush = connection.ops.sql_flush(no_style(), tables, allow_cascade=connection.vendor == "postgresql")
        connection.ops.execute_sql_flush(flush)


@cache
def tables_of(alias: str) -> list[str]:
    """Return the tables of all models that are in a database, independent of the routers."""
    connection = connections[alias]
    models = {model._meta.db_table for model in apps.get_models(include_auto_created=True)}
    return sorted(models.intersection(connection.introspection.table_names()) - KEPT)


def written(alias: str) -> list[str]:
    """Return the tables that hold rows; PostgreSQL's also if all their rows are dead."""
    if connections[alias].vendor == "postgresql":
        holds = "pg_relation_size('{0}') > 0"
    else:
        holds = "EXISTS (SELECT 1 FROM {0})"
    with connections[alias].cursor() as cursor:
        cursor.execute(
            " UNION ALL ".join(f"SELECT '{name}' WHERE {holds.format(name)}" for name in tables_of(alias))
        )
        return [name for (name,) in cursor]
