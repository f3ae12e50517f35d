"""Stored headers in a query: what is no JSON, because it was written by hand, is read as an empty object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import F, Func, JSONField
from django.db.models.fields.json import HasKey

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.db.models.sql.compiler import SQLCompiler


class ReadableHeaders(Func):
    """The headers of a row. Asked for a key of a text that is no JSON, SQLite would fail the whole statement."""

    template = "CASE WHEN JSON_VALID(%(expressions)s) THEN %(expressions)s ELSE '{}' END"
    output_field = JSONField()

    def __init__(self, *expressions: Any, **extra: Any) -> None:
        super().__init__(*expressions or ("headers",), **extra)

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: Any) -> Any:
        """PostgreSQL stores nothing else."""
        return super().as_sql(compiler, connection, template="%(expressions)s")


def having(header: str) -> HasKey:
    """Return the condition that a message has a header of this name."""
    return HasKey(ReadableHeaders(F("headers")), header)
