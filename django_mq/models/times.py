"""Storage of times: always in UTC, and always aware in Python, with any time zone settings of the site.

Workers write times in UTC, in SQL. Django's own field would read them by ``USE_TZ``, ``TIME_ZONE`` and
the ``TIME_ZONE`` of the database, which are for the times in the site's own tables.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models.functions import Now
from django.utils import timezone

from django_mq.conf import aware

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.db.models.sql.compiler import SQLCompiler


class UTCDateTimeField(models.DateTimeField):  # type: ignore[type-arg]  # cannot be subscripted
    """A DateTimeField with aware values that are stored in UTC."""

    def deconstruct(self) -> tuple[str, str, Sequence[Any], dict[str, Any]]:
        """Name Django's field in migrations: the column is the same."""
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.DateTimeField", args, kwargs

    def get_prep_value(self, value: Any) -> Any:
        """Return an aware time. A naive one is in the site's time zone, as in Django."""
        value = models.DateField.get_prep_value(self, value)
        return aware(value) if isinstance(value, datetime) else value

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:
        """Return the value for the driver."""
        value = value if prepared else self.get_prep_value(value)
        if not isinstance(value, datetime) or connection.features.supports_timezones:
            return value
        # With all digits, as the stores write it, because SQLite compares texts.
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")

    def from_db_value(self, value: datetime | None, _: Any, connection: BaseDatabaseWrapper) -> datetime | None:
        """Return the time of a column as an aware one."""
        if value is None:
            return None
        if not connection.features.supports_timezones:
            value = value.replace(tzinfo=UTC)
        if connection.timezone is not None:
            return value.astimezone(UTC)
        # Without USE_TZ, templates convert no times, and Django drops the time zone of PostgreSQL's session.
        zone = timezone.get_default_timezone()
        return value.replace(tzinfo=zone) if timezone.is_naive(value) else value.astimezone(zone)


class UTCNow(Now):
    """The database's clock, comparable with the columns."""

    output_field = UTCDateTimeField()

    def as_mysql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any) -> Any:
        """Return UTC: CURRENT_TIMESTAMP is in the time zone of the session."""
        return self.as_sql(compiler, connection, template="UTC_TIMESTAMP(6)", **extra)


class UTCDate(models.Func):
    """The date of a column, in UTC."""

    template = "DATE(%(expressions)s)"
    output_field = models.DateField()

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any) -> Any:
        """Name the zone: a cast uses the session's."""
        return self.as_sql(compiler, connection, template="(%(expressions)s AT TIME ZONE 'UTC')::date", **extra)
