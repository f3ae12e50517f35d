"""Delete rows whose time is over, a bounded number at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django.db.models import QuerySet


def delete_first(rows: QuerySet[Any], limit: int) -> int:
    """Delete the first of these rows, ``limit`` at most; return how many were chosen.

    A row that is no longer among them when the statement comes to it stays.
    """
    # By their keys: MariaDB deletes no rows that a subquery with a limit chooses.
    keys = list(rows.values_list("pk", flat=True)[:limit])
    if keys:
        rows.order_by().filter(pk__in=keys).delete()
    return len(keys)
