"""Find the messages of a list, by an index if its filters allow it, otherwise slice by slice."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from django.db.models import Q

from django_mq.diagnosis.messages import indexes, slices
from django_mq.diagnosis.messages.criteria import last_failures, narrowed
from django_mq.diagnosis.messages.slices import BEFORE, FoundKeys, as_listed, newest
from django_mq.models import Attempt, Message

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from django.db.models import QuerySet

#: How many of the newest failed attempts are read to find an error.
ATTEMPTS = 10_000
#: How many ids one statement looks up.
IDS = 1_000
#: How many kinds of ids an attempt has: the message id and the id of the Celery task.
KINDS = 2
#: How many ready messages of a queue, in delivery order, the other filters are applied to.
LINE = 5_000


def of_messages(
    rows: QuerySet[Any], filters: Mapping[str, str], limit: int, now: datetime, *, among: Q | None = None
) -> FoundKeys:
    """Return the newest of these rows, at most ``limit``.

    The rows match ``filters`` already, which tell the index to use. ``among`` is a further condition.
    """
    among = among or Q()
    rows = rows.filter(among).order_by("-pk")
    failures, name, is_whole = _failures(filters, rows.db)
    if failures is not None:
        keys, is_complete = _messages_of(failures)
        is_complete = is_complete and is_whole
        others = {other: value for other, value in filters.items() if other != name}
        matching = narrowed(Message.objects.using(rows.db), others, now).order_by("-pk")
        return as_listed(matching.filter(among, pk__in=keys), limit)._replace(is_complete=is_complete)
    if filters.get("q"):
        return as_listed(rows, limit)  # a search has limited the rows already
    few = indexes.few(filters, rows.db)
    if few is not None:
        return as_listed(rows.filter(pk__in=few), limit)
    if among or not indexes.are_answered(filters):
        return newest(rows, limit, filters.get(BEFORE, ""))
    look = newest(rows, limit, patience=0)
    return look if look.is_complete else FoundKeys(indexes.newest(filters, limit, rows.db))


def in_line(rows: QuerySet[Any], filters: Mapping[str, str], limit: int) -> FoundKeys:
    """Return the first ready messages of a queue that match, in delivery order."""
    if indexes.are_answered(filters):
        return as_listed(rows, limit)
    line = [key for part in indexes.parts(filters, rows.db) or [] for key in part[: LINE + 1]]
    return as_listed(rows.filter(pk__in=line[:LINE]), limit)._replace(is_complete=len(line) <= LINE)


def _failures(filters: Mapping[str, str], alias: str) -> tuple[QuerySet[Any] | None, str, bool]:
    """Return the failed attempts that these filters name, the name of the filter, and whether these are all.

    The newest come first. None if the filters name none.
    """
    if filters.get("error"):
        newest = Attempt.objects.using(alias).order_by("-pk")
        bottom = next(iter(newest.values_list("pk", flat=True)[ATTEMPTS : ATTEMPTS + 1]), None)
        failed = newest.filter(error=filters["error"])
        return (failed if bottom is None else failed.filter(pk__gt=bottom)), "error", bottom is None
    if filters.get("failure", "").isdecimal():
        return last_failures(filters["failure"], alias).order_by("-pk"), "failure", True
    return None, "", True


def _messages_of(failures: QuerySet[Any]) -> tuple[list[int], bool]:
    """Return the keys of messages with these failed attempts, and whether these are all."""
    end = time.monotonic() + slices.PATIENCE
    ids = list(failures.values_list("message_id", "correlation_id")[: ATTEMPTS + 1])
    alias = failures.db
    found: set[int] = set()
    is_complete = len(ids) <= ATTEMPTS
    for number, (name, values) in enumerate(_by_name(ids[:ATTEMPTS])):
        # The first ids of each kind are looked up even if the time is over.
        if len(found) >= indexes.FEW or (number >= KINDS and time.monotonic() >= end):
            is_complete = False
            break
        messages = Message.objects.using(alias).filter(**{f"{name}__in": values}).order_by("-pk")
        found.update(messages.values_list("pk", flat=True)[: indexes.FEW])
    return sorted(found, reverse=True), is_complete and len(found) < indexes.FEW


def _by_name(ids: Sequence[tuple[Any, str | None]]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the ids of each kind, without duplicates, the newest first, IDS at a time."""
    own = list(dict.fromkeys(message_id for message_id, _ in ids if message_id is not None))
    tasks = list(dict.fromkeys(correlation_id for _, correlation_id in ids if correlation_id is not None))
    for start in range(0, max(len(own), len(tasks)), IDS):
        for name, values in (("message_id", own), ("correlation_id", tasks)):
            if values[start : start + IDS]:
                yield name, values[start : start + IDS]
