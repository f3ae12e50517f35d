"""Search by whole ids, which have an index whatever the size of the table, or by a header of the newest rows."""

# ruff: noqa: ARG002 - Django calls these with arguments of its own

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import Max, Q, TextField
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast
from django.utils.translation import gettext_lazy as _

from django_mq.admin.arguments import carrying
from django_mq.admin.table import TableAdmin, alias
from django_mq.diagnosis import masking

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest

#: Newest rows among which headers are compared: no index serves that.
HEADER_SAMPLE = 100_000
#: A header's name, a colon, its value.
HEADER = re.compile(r"([^\s:]{1,100}):\s*(.{1,500})", re.DOTALL)

#: An argument's name, an equals sign, its value.
ARGUMENT = re.compile(r"([^\s:=]{1,100})=\s*(.{1,500})", re.DOTALL)


class IdSearch(TableAdmin):
    """For tables with a message id and a correlation id."""

    search_fields = ["message_id", "correlation_id"]
    search_help_text = _("A whole message id or correlation id; the id of a Celery task is a correlation id.")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        return (self.search(queryset, term) if term else queryset), False

    def search(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        """Return the rows that a term names."""
        return queryset.filter(_named(term))


class HeaderSearch(IdSearch):
    """For tables that have headers, too."""

    search_help_text = _(
        "A whole message id or correlation id (of a Celery task: its id), or a header as name:value, "
        "looked for among the newest 100,000; or an argument as name=value, looked for in the newest 2,000 bodies."
    )

    def search(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        return matching(queryset, term)


class PastSearch(IdSearch):
    """For the history, which has an index for message ids only."""

    search_help_text = _("A whole message id; or a correlation id, looked for among the newest 100,000.")

    def search(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        try:
            return queryset.filter(message_id=UUID(term)) | _newest(queryset).filter(correlation_id=term)
        except ValueError:
            return _newest(queryset).filter(correlation_id=term)


def _newest(queryset: QuerySet[Any]) -> QuerySet[Any]:
    """Return the newest rows of the table: without an index no more can be looked through."""
    newest: int = queryset.model.objects.using(alias()).aggregate(newest=Max("pk"))["newest"] or 0
    return queryset.filter(pk__gt=newest - HEADER_SAMPLE)


def matching(queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
    """Return the rows that an id, or a header as name:value, names."""
    argument = ARGUMENT.fullmatch(term.strip())
    if argument is not None:
        return queryset.filter(Q(correlation_id=term) | Q(pk__in=carrying(queryset, *argument.groups())))
    header = HEADER.fullmatch(term.strip())
    if header is None or _is_id(term.strip()):
        return queryset.filter(_named(term.strip()))
    if _is_hidden(header[1], header[2]):
        return queryset.filter(correlation_id=term)  # or values that nobody may see could be guessed
    # As a transform and not as a lookup's name, the header's name is a key and nothing else.
    carried = Cast(KeyTextTransform(header[1], "headers"), TextField())
    recent: Any = _newest(queryset)
    found: QuerySet[Any] = recent.alias(carried=carried).filter(Q(carried=header[2]) | Q(correlation_id=term))
    return found


def _is_hidden(name: str, value: str) -> bool:
    """Return whether a header may not be seen, in any queue."""
    header = {name: value}
    return bool(masking.masked_headers(header, "") != header)


def _is_id(term: str) -> bool:
    """Return whether a term with a colon is an id after all: a UUID may be written as urn:uuid:..."""
    try:
        UUID(term)
    except ValueError:
        return False
    return True


def _named(term: str) -> Q:
    named = Q(correlation_id=term)
    try:
        return named | Q(message_id=UUID(term))
    except ValueError:
        return named
