"""The filters of messages, for the pages of the admin, its operations and the commands.

A filter ignores a value that makes no sense.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import Exists, OuterRef

from django_mq.delivery.validation import read_time
from django_mq.diagnosis.messages import indexes
from django_mq.diagnosis.messages.terms import matching
from django_mq.errors import InvalidMessage
from django_mq.models import Attempt, GroupedFailure, Message, Queue
from django_mq.models.message import dead_letters, in_state

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from django.db.models import QuerySet

#: Borders of the filter of failed attempts.
ATTEMPTS = ("0", "1", "3", "10")
#: Spans of the filter of ages; "older" is beyond the longest.
AGES = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(days=7)}


def put_together(parts: Sequence[QuerySet[Any]]) -> QuerySet[Any]:
    """Return the union in no order: Django would sort it by the model's ordering."""
    first, *others = parts
    return first.union(*others, all=True).order_by()


def by_state(rows: QuerySet[Any], value: str) -> QuerySet[Any]:
    if value == indexes.DEAD_LETTERS:
        return rows.filter(dead_letters())
    if value == indexes.RETRYING:
        return rows.filter(in_state(Message.Status.SCHEDULED), attempts__gt=0)
    known = {str(state.value): state for state in Message.Status}
    if value not in known:
        return rows
    found = rows.filter(in_state(known[value]))
    return found.filter(attempts=0) if known[value] is Message.Status.SCHEDULED else found


def by_queue(rows: QuerySet[Any], value: str) -> QuerySet[Any]:
    # By its key, or no index has the rows in delivery order.
    found = Queue.objects.using(rows.db).filter(name=value).values_list("pk", flat=True).first()
    return rows.none() if found is None else rows.filter(queue_id=found)


def by_type(rows: QuerySet[Any], value: str) -> QuerySet[Any]:
    return rows.filter(type=value)


def by_priority(rows: QuerySet[Any], value: str) -> QuerySet[Any]:
    return rows.filter(priority=value) if value in set("0123456789") else rows


def by_attempts(rows: QuerySet[Any], value: str) -> QuerySet[Any]:
    if value not in ATTEMPTS:
        return rows
    return rows.filter(attempts=0) if value == "0" else rows.filter(attempts__gte=int(value))


def by_reason(rows: QuerySet[Any], value: str) -> QuerySet[Any]:
    """Return the dead letters of this reason."""
    return by_state(rows, indexes.DEAD_LETTERS).filter(dead_reason=value)


def by_error(rows: QuerySet[Any], value: str) -> QuerySet[Any]:
    """Return the messages with an attempt that failed with this exception."""
    return _of_failures(rows, Attempt.objects.using(rows.db).filter(error=value))


def by_failure(rows: QuerySet[Any], value: str) -> QuerySet[Any]:
    """Return the messages whose last failed attempt is in this failure group."""
    return _of_failures(rows, last_failures(value, rows.db)) if value.isdecimal() else rows


def last_failures(group: str, alias: str) -> QuerySet[GroupedFailure]:
    """Return the failures of a group after which their messages have not failed again."""
    later = Attempt.objects.filter(pk__gt=OuterRef("pk")).order_by()
    again = later.filter(message_id=OuterRef("message_id"))
    task_again = later.filter(correlation_id=OuterRef("correlation_id"))
    rows = GroupedFailure.objects.using(alias).filter(group_id=int(group[:18]))
    return rows.filter(~Exists(again), ~Exists(task_again))


def _of_failures(rows: QuerySet[Any], failed: QuerySet[Any]) -> QuerySet[Any]:
    """Return the messages of these failed attempts."""
    failed = failed.order_by()
    ids = Message.objects.using(rows.db).order_by().values_list("pk", flat=True)
    own = ids.filter(message_id__in=failed.exclude(message_id=None).values("message_id"))
    tasks = ids.filter(correlation_id__in=failed.exclude(correlation_id=None).values("correlation_id"))
    # By one index and by the other: with an OR, PostgreSQL reads every message.
    return rows.filter(pk__in=put_together([own, tasks]))


def by_worker(rows: QuerySet[Any], value: str) -> QuerySet[Any]:
    if not value.isdecimal():
        return rows
    return rows.filter(in_state(Message.Status.CLAIMED), session_id=int(value[:18]))


def by_end(rows: QuerySet[Any], value: str) -> QuerySet[Any]:
    return rows.filter(pk__lt=int(value[:18])) if value.isdecimal() else rows


def by_age(rows: QuerySet[Any], value: str, now: datetime) -> QuerySet[Any]:
    if value == "older":
        return rows.filter(published_at__lt=now - AGES["week"])
    span = AGES.get(value)
    return rows.filter(published_at__gte=now - span) if span else rows


def moment(text: str) -> datetime | None:
    """Return the time in a text, by default in the time zone of the site; None if there is none."""
    try:
        return read_time(text.strip().replace(" ", "T", 1), "")
    except InvalidMessage:
        return None


def by_span(rows: QuerySet[Any], field: str, since: str, until: str) -> QuerySet[Any]:
    """Return the rows from one time until before another; a text without a time bounds nothing."""
    begin, end = moment(since), moment(until)
    if begin is not None:
        rows = rows.filter(**{f"{field}__gte": begin})
    return rows if end is None else rows.filter(**{f"{field}__lt": end})


#: The filters by their URL parameters.
FILTERS: Mapping[str, Callable[[QuerySet[Any], str], QuerySet[Any]]] = {
    "state": by_state,
    "queue": by_queue,
    "type": by_type,
    "priority": by_priority,
    "attempts": by_attempts,
    "reason": by_reason,
    "worker": by_worker,
    "error": by_error,
    "failure": by_failure,
    "since": lambda rows, value: by_span(rows, "published_at", value, ""),
    "until": lambda rows, value: by_span(rows, "published_at", "", value),
    "due_since": lambda rows, value: by_span(rows, "deliver_at", value, ""),
    "due_until": lambda rows, value: by_span(rows, "deliver_at", "", value),
    "before": by_end,
    "q": matching,
}
#: The filter that needs the current time.
AGE = "published"
NAMES = frozenset({*FILTERS, AGE})


def narrowed(rows: QuerySet[Any], filters: Mapping[str, str], now: datetime) -> QuerySet[Any]:
    """Return the rows that match all these filters."""
    few = indexes.few(filters, rows.db)
    if few is not None:
        rows = rows.filter(pk__in=few)
    for name, value in filters.items():
        if name in FILTERS and value:
            rows = FILTERS[name](rows, value)
    return by_age(rows, filters[AGE], now) if filters.get(AGE) else rows


def known(address: Mapping[str, str]) -> dict[str, str]:
    """Return the filters in a URL, without its other parameters."""
    return {name: value for name, value in address.items() if name in NAMES and value}
