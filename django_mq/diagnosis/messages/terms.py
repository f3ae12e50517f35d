"""The meaning of a search term: an id, or, among the newest rows, the end of an id or a header."""

from __future__ import annotations

import json
import re
from typing import Any
from uuid import UUID

from django.db.models import Max, Q, QuerySet, TextField
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from django_mq import conf
from django_mq.diagnosis.messages import masking
from django_mq.models import Message
from django_mq.models.message import ReadableHeaders

#: The newest rows that are searched where no index helps.
HEADER_SAMPLE = 100_000
#: The end of an id as lists show it: from the random part after its last hyphen.
SHORT = re.compile(r"…?([0-9a-fA-F]{8,12})")
#: The most matches that are checked for hidden headers.
SHOWN = 2_000
#: A header as name:value.
HEADER = re.compile(r"([^\s:]{1,100}):\s*(.{1,500})", re.DOTALL)


def newest_of(queryset: QuerySet[Any]) -> QuerySet[Any]:
    """Return those of the rows that are among the newest of the table."""
    newest: int = queryset.model.objects.using(queryset.db).aggregate(newest=Max("pk"))["newest"] or 0
    return queryset.filter(pk__gt=newest - HEADER_SAMPLE)


def newest_by(queryset: QuerySet[Any], column: str) -> QuerySet[Any]:
    """Return those of the rows that are among the newest of the table by this column, which has an index."""
    values = queryset.model.objects.using(queryset.db).order_by(f"-{column}").values_list(column, flat=True)
    oldest = values[HEADER_SAMPLE : HEADER_SAMPLE + 1].first()
    return queryset if oldest is None else queryset.filter(**{f"{column}__gt": oldest})


def identified(queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
    """Return the rows with this id, or, of the newest, with an id that ends in it."""
    short = SHORT.fullmatch(term)
    if short is None:
        return queryset.filter(named(term))
    rows = queryset.model.objects.using(queryset.db).order_by().values_list("pk", flat=True)
    # With an OR, a database would read every row.
    ending = newest_of(rows).filter(message_id__endswith=short[1].lower())
    return queryset.filter(pk__in=ending.union(rows.filter(correlation_id=term), all=True).order_by())


def matching(queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
    """Return the messages with this id, with this search key, or with this header as name:value."""
    found = _matching(queryset, term)
    every = (keys.find(queryset.db, term) for keys in conf.extensions().searches)
    keyed = [ids.order_by() for ids in every if ids.exists()]
    if not keyed:
        return found
    pks = Message.objects.using(queryset.db).order_by().values_list("pk", flat=True)
    # By one index and by the other: with an OR, a database would read every row.
    parts = [pks.filter(message_id__in=ids) for ids in keyed]
    return queryset.filter(pk__in=found.order_by().values_list("pk", flat=True).union(*parts, all=True).order_by())


def _matching(queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
    header = HEADER.fullmatch(term.strip())
    if header is None or _is_id(term.strip()):
        return identified(queryset, term.strip())
    # In a transform, the name of the header is a key and never a lookup.
    carried = Cast(KeyTextTransform(header[1], ReadableHeaders()), TextField())
    recent: Any = newest_of(queryset).alias(carried=carried)
    if masking.is_masking():
        shown = _showing(recent.filter(carried=header[2]), header[1])
        return queryset.filter(Q(correlation_id=term) | Q(pk__in=shown))
    found: QuerySet[Any] = recent.filter(Q(carried=header[2]) | Q(correlation_id=term))
    return found


def _showing(rows: QuerySet[Any], name: str) -> list[int]:
    """Return the newest of these rows whose masked headers show this header: a hidden value cannot be guessed.

    A masking rule may depend on the queue, on other headers or on the value, so each row is masked.
    """
    newest = rows.order_by("-pk").values_list("pk", "queue__name", Cast("headers", TextField()))[:SHOWN]
    return [pk for pk, queue, headers in newest.iterator() if _is_seen(name, headers, queue)]


def _is_seen(name: str, headers: str, queue: str) -> bool:
    try:
        known = json.loads(headers)
        seen = masking.masked_headers(known, queue)
        return isinstance(seen, dict) and seen.get(name) == known[name]
    except (ValueError, RecursionError):
        return False


def _is_id(term: str) -> bool:
    """Return whether the term is a UUID, which may be written as urn:uuid:..."""
    try:
        UUID(term)
    except ValueError:
        return False
    return True


def named(term: str) -> Q:
    found = Q(correlation_id=term)
    try:
        return found | Q(message_id=UUID(term))
    except ValueError:
        return found
