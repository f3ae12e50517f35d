"""What each filter of the message list means, apart from the page: an operation in the background asks the same.

A value that makes no sense narrows nothing.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import Q

from django_mq.admin.search import matching
from django_mq.admin.table import alias
from django_mq.models import Message, Queue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from django.db.models import QuerySet

#: Value of the state filter for dead letters of both sorts: dead in place, and moved to a dead-letter queue.
DEAD_LETTERS = "letters"
#: Borders of the filter of failed attempts.
ATTEMPTS = ("0", "1", "3", "10")
#: Spans of the filter of ages; what is older than the longest is "older".
AGES = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(days=7)}


def by_state(rows: QuerySet[Any], value: str) -> QuerySet[Any]:
    if value == DEAD_LETTERS:
        takers = Queue.objects.using(alias()).filter(dead_letter_sources__isnull=False)
        in_takers = Q(queue__in=list(takers.values_list("pk", flat=True).distinct()))
        return rows.filter(Q(state=Message.Status.DEAD) | in_takers)
    known = {str(state.value) for state in Message.Status}
    return rows.filter(state=value) if value in known else rows


def by_queue(rows: QuerySet[Any], value: str) -> QuerySet[Any]:
    return rows.filter(queue__name=value)


def by_type(rows: QuerySet[Any], value: str) -> QuerySet[Any]:
    return rows.filter(type=value)


def by_priority(rows: QuerySet[Any], value: str) -> QuerySet[Any]:
    return rows.filter(priority=value) if value in set("0123456789") else rows


def by_attempts(rows: QuerySet[Any], value: str) -> QuerySet[Any]:
    if value not in ATTEMPTS:
        return rows
    return rows.filter(attempts=0) if value == "0" else rows.filter(attempts__gte=int(value))


def by_reason(rows: QuerySet[Any], value: str) -> QuerySet[Any]:
    return rows.filter(dead_reason=value)


def by_worker(rows: QuerySet[Any], value: str) -> QuerySet[Any]:
    if not value.isdecimal():
        return rows
    return rows.filter(session_id=int(value[:18]), state=Message.Status.CLAIMED)


def by_age(rows: QuerySet[Any], value: str, now: datetime) -> QuerySet[Any]:
    if value == "older":
        return rows.filter(published_at__lt=now - AGES["week"])
    span = AGES.get(value)
    return rows.filter(published_at__gte=now - span) if span else rows


#: Filter by the name it has in the list's address.
FILTERS: Mapping[str, Callable[[QuerySet[Any], str], QuerySet[Any]]] = {
    "state": by_state,
    "queue": by_queue,
    "type": by_type,
    "priority": by_priority,
    "attempts": by_attempts,
    "reason": by_reason,
    "worker": by_worker,
    "q": matching,
}
#: The one that needs to know when.
AGE = "published"


def narrowed(rows: QuerySet[Any], filters: Mapping[str, str], now: datetime) -> QuerySet[Any]:
    """Return the rows that the list shows under an address with these filters."""
    for name, value in filters.items():
        if name in FILTERS and value:
            rows = FILTERS[name](rows, value)
    return by_age(rows, filters[AGE], now) if filters.get(AGE) else rows


def known(address: Mapping[str, str]) -> dict[str, str]:
    """Return the filters of an address; what is none of them, such as a page's number, is left out."""
    return {name: value for name, value in address.items() if (name in FILTERS or name == AGE) and value}
