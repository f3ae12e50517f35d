"""Spark's conditions that the database can look up, as the ORM's.

A condition that is not taken stays with Spark, which checks every row itself. Only
those are taken that mean the same on both sides; texts are compared for equality alone,
since databases order them each in its own way.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from django.db.models import Q
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_mq.pipeline.datasets import Column

#: Kinds of condition to lookups of the ORM.
LOOKUPS: dict[type[Filter], str] = {
    EqualTo: "exact",
    In: "in",
    GreaterThan: "gt",
    GreaterThanOrEqual: "gte",
    LessThan: "lt",
    LessThanOrEqual: "lte",
}
ORDERED = frozenset({"bigint", "int", "timestamp"})


def translate(filters: Iterable[Filter], columns: Iterable[Column]) -> tuple[Q, list[Filter]]:
    """Return what the database is asked for, and what Spark has to check itself."""
    known = {column.name: column for column in columns}
    condition, left = Q(), []
    for given in filters:
        lookup = _lookup(given, known)
        if lookup is None:
            left.append(given)
        else:
            condition &= Q(**lookup)
    return condition, left


def _lookup(given: Any, known: dict[str, Column]) -> dict[str, Any] | None:
    kind = LOOKUPS.get(type(given))
    if kind is None or len(given.attribute) != 1 or given.attribute[0] not in known:
        return None
    column = known[given.attribute[0]]
    equal = kind in ("exact", "in")
    if column.type not in ORDERED and not (equal and column.name == "queue"):
        return None
    value = [_value(each) for each in given.value] if kind == "in" else _value(given.value)
    return {f"{column.source}__{kind}": value}


def _value(value: Any) -> Any:
    """Spark hands over times without a zone, in the session's: UTC."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return value
