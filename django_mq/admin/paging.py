"""Pages over tables of millions: counted up to a bound, never to the end."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.core.paginator import Paginator

if TYPE_CHECKING:
    from django.db.models import QuerySet

#: Rows counted, and so reachable by page number. Beyond it the page says "more" and filters help.
COUNT_LIMIT = 10_000


class BoundedPaginator(Paginator):  # type: ignore[type-arg] # not subscriptable at run time
    """Counts at most COUNT_LIMIT rows, which also bounds how far the last page must skip."""

    @cached_property
    def count(self) -> int:
        rows: QuerySet[Any] = self.object_list  # type: ignore[assignment] # the admin gives nothing else
        return rows.order_by().values("pk")[:COUNT_LIMIT].count()

    @property
    def cut(self) -> bool:
        """Whether there may be rows beyond those counted."""
        return self.count >= COUNT_LIMIT
