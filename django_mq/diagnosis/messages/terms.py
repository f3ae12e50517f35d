"""What a word that somebody looks for may name: a whole id, which has an index whatever the size of the table, or
the end of an id or a header of the newest rows.
"""

from __future__ import annotations

import json
import re
from typing import Any
from uuid import UUID

from django.db.models import Max, Q, QuerySet, TextField
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from django_mq.diagnosis.messages import masking
from django_mq.models.message import ReadableHeaders

#: Newest rows among which headers are compared: no index serves that.
HEADER_SAMPLE = 100_000
#: The end of an id as lists show it: of the part after its last hyphen, which is random.
SHORT = re.compile(r"…?([0-9a-fA-F]{8,12})")
#: Most of them that are found where some headers are hidden: each has to be asked whether it shows this one.
SHOWN = 2_000
#: A header's name, a colon, its value.
HEADER = re.compile(r"([^\s:]{1,100}):\s*(.{1,500})", re.DOTALL)


def newest_of(queryset: QuerySet[Any]) -> QuerySet[Any]:
    """Return the newest rows of the table: without an index no more can be looked through."""
    newest: int = queryset.model.objects.using(queryset.db).aggregate(newest=Max("pk"))["newest"] or 0
    return queryset.filter(pk__gt=newest - HEADER_SAMPLE)


def identified(queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
    """Return the rows with this id, or, of the newest, with an id that ends so."""
    short = SHORT.fullmatch(term)
    if short is None:
        return queryset.filter(named(term))
    rows = queryset.model.objects.using(queryset.db).order_by().values_list("pk", flat=True)
    # Apart: asked for both at once, a database would read every row for the index that serves one of them.
    ending = newest_of(rows).filter(message_id__endswith=short[1].lower())
    return queryset.filter(pk__in=ending.union(rows.filter(correlation_id=term), all=True).order_by())


def matching(queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
    """Return the rows that an id, or a header as name:value, names."""
    header = HEADER.fullmatch(term.strip())
    if header is None or _is_id(term.strip()):
        return identified(queryset, term.strip())
    # As a transform and not as a lookup's name, the header's name is a key and nothing else.
    carried = Cast(KeyTextTransform(header[1], ReadableHeaders()), TextField())
    recent: Any = newest_of(queryset).alias(carried=carried)
    if masking.is_masking():
        shown = _showing(recent.filter(carried=header[2]), header[1])
        return queryset.filter(Q(correlation_id=term) | Q(pk__in=shown))
    found: QuerySet[Any] = recent.filter(Q(carried=header[2]) | Q(correlation_id=term))
    return found


def _showing(rows: QuerySet[Any], name: str) -> list[int]:
    """Return the newest of these rows in which the whole header may be seen: what is hidden cannot be guessed.

    Asked row by row, as a rule may go by the queue, by the other headers, or by what stands within the value.
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
    """Return whether a term with a colon is an id after all: a UUID may be written as urn:uuid:..."""
    try:
        UUID(term)
    except ValueError:
        return False
    return True


def named(term: str) -> Q:
    """Return the condition that a row has this id."""
    found = Q(correlation_id=term)
    try:
        return found | Q(message_id=UUID(term))
    except ValueError:
        return found
