"""The messages that a list shows: by an index where the filters allow it, else slice by slice."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from django.db.models import Q

from django_mq.diagnosis.messages import indexes, slices
from django_mq.diagnosis.messages.criteria import narrowed
from django_mq.diagnosis.messages.slices import BEFORE, Look, as_listed, newest
from django_mq.models import Attempt, Message

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from django.db.models import QuerySet

#: The newest failed attempts that are read for an exception, and ids that one statement looks up.
ATTEMPTS, IDS = 10_000, 1_000
#: An attempt has two kinds of ids: its message's and its task's.
KINDS = 2
#: The first ready messages of a queue that other filters are applied to, in delivery order.
LINE = 5_000


def of_messages(
    rows: QuerySet[Any], filters: Mapping[str, str], limit: int, now: datetime, *, among: Q | None = None
) -> Look:
    """Return the newest of the rows, which these filters have narrowed already, that are in ``among``."""
    among = among or Q()
    rows = rows.filter(among).order_by("-pk")
    if filters.get("error"):
        keys, whole = _failed(filters["error"], rows.db)
        others = {name: value for name, value in filters.items() if name != "error"}
        matching = narrowed(Message.objects.using(rows.db), others, now).order_by("-pk")
        return as_listed(matching.filter(among, pk__in=keys), limit)._replace(whole=whole)
    if filters.get("q"):
        return as_listed(rows, limit)  # a search is bounded
    few = indexes.few(filters, rows.db)
    if few is not None:
        return as_listed(rows.filter(pk__in=few), limit)
    if among or not indexes.are_answered(filters):
        return newest(rows, limit, filters.get(BEFORE, ""))
    look = newest(rows, limit, patience=0)
    return look if look.whole else Look(indexes.newest(indexes.parts(filters, rows.db) or [], limit))


def in_line(rows: QuerySet[Any], filters: Mapping[str, str], limit: int) -> Look:
    """Return the first ready messages of a queue that match, in delivery order."""
    if indexes.are_answered(filters):
        return as_listed(rows, limit)
    line = [key for part in indexes.parts(filters, rows.db) or [] for key in part[: LINE + 1]]
    return as_listed(rows.filter(pk__in=line[:LINE]), limit)._replace(whole=len(line) <= LINE)


def _failed(error: str, alias: str) -> tuple[list[int], bool]:
    """Return the messages of the newest failed attempts with this error, and whether these are all."""
    end = time.monotonic() + slices.PATIENCE
    keys = Attempt.objects.using(alias).order_by("-pk")
    bottom = next(iter(keys.values_list("pk", flat=True)[ATTEMPTS : ATTEMPTS + 1]), None)
    failed = keys.filter(error=error) if bottom is None else keys.filter(error=error, pk__gt=bottom)
    ids = list(failed.values_list("message_id", "correlation_id"))
    found: set[int] = set()
    whole = bottom is None
    for number, (name, values) in enumerate(_by_name(ids)):
        # The first ids of each kind are always looked up.
        if len(found) >= indexes.FEW or (number >= KINDS and time.monotonic() >= end):
            whole = False
            break
        messages = Message.objects.using(alias).filter(**{f"{name}__in": values}).order_by("-pk")
        found.update(messages.values_list("pk", flat=True)[: indexes.FEW])
    return sorted(found, reverse=True), whole and len(found) < indexes.FEW


def _by_name(ids: Sequence[tuple[Any, str | None]]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the ids of each kind, without duplicates, the newest first, IDS at a time."""
    own = list(dict.fromkeys(message_id for message_id, _ in ids if message_id is not None))
    tasks = list(dict.fromkeys(correlation_id for _, correlation_id in ids if correlation_id is not None))
    for start in range(0, max(len(own), len(tasks)), IDS):
        for name, values in (("message_id", own), ("correlation_id", tasks)):
            if values[start : start + IDS]:
                yield name, values[start : start + IDS]
