"""Search by whole ids: each comparison has an index, whatever the size of the table."""

# ruff: noqa: ARG002 - Django calls these with arguments of its own

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from django_mq.admin.table import TableAdmin

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest


class IdSearch(TableAdmin):
    """For tables with a message id and a correlation id."""

    search_fields = ["message_id", "correlation_id"]
    search_help_text = _("A whole message id or correlation id; the id of a Celery task is a correlation id.")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        return (queryset.filter(_named(term)) if term else queryset), False


def _named(term: str) -> Q:
    named = Q(correlation_id=term)
    try:
        return named | Q(message_id=UUID(term))
    except ValueError:
        return named
