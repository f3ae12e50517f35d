"""Search by whole ids, which have an index whatever the size of the table, or by less among the newest rows."""

# ruff: noqa: ARG002 - Django calls these with arguments of its own

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.utils.translation import gettext_lazy as _

from django_mq.admin.table import TableAdmin, alias
from django_mq.diagnosis import indexed, narrowing
from django_mq.diagnosis.narrowing import put_together
from django_mq.diagnosis.terms import SHORT, identified, matching, newest_of

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest

#: Rows of the past that one id may name: whoever sends so many messages by one id looks for none of them.
MOST_FOUND = 1_000


class IdSearch(TableAdmin):
    """For tables with a message id and a correlation id."""

    search_fields = ["message_id", "correlation_id"]
    search_help_text = _(
        "A message id or correlation id; the id of a Celery task is a correlation id. Of a message id the 8 "
        "characters that lists show will do, among the newest 100,000."
    )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        return (self.search(queryset, term) if term else queryset), False

    def search(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        """Return the rows that a term names."""
        return identified(queryset, term)


class HeaderSearch(IdSearch):
    """For tables that have headers, too."""

    search_help_text = _(
        "A message id or a correlation id (of a Celery task: its id). Among the newest 100,000 also the 8 "
        "characters of an id that lists show, or a header as name:value; in the newest 2,000 bodies an argument "
        "as name=value."
    )

    def search(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        return matching(queryset, term)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Search among few, where an index says which: the newest of all may not be among them."""
        few = indexed.few(narrowing.known(request.GET.dict()), alias()) if search_term.strip() else None
        rows = queryset if few is None else queryset.filter(pk__in=few)
        return super().get_search_results(request, rows, search_term)


class PastSearch(IdSearch):
    """For the history, which has an index for message ids only."""

    search_help_text = _(
        "A message id; or the 8 characters of it that lists show, or a correlation id, among the newest 100,000."
    )

    def search(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        """Look by each id apart: asked for both at once, a database may read the whole table."""
        newest, short = newest_of(queryset), SHORT.fullmatch(term)
        found = _ids(newest.filter(correlation_id=term))
        if short is not None:
            found = put_together([_ids(newest.filter(message_id__endswith=short[1].lower())), found])
        with suppress(ValueError):  # no message has such an id
            found = put_together([_ids(queryset.filter(message_id=UUID(term))), found])
        return queryset.filter(pk__in=list(found[:MOST_FOUND]))


def _ids(rows: QuerySet[Any]) -> QuerySet[Any]:
    return rows.order_by().values_list("pk", flat=True)
