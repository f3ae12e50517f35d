"""Messages by what stands in their bodies: without an index, so among the newest and small ones only."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.db.models.functions import Length

from django_mq.diagnosis import masking
from django_mq.diagnosis.slices import newest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.db.models import QuerySet

#: Newest messages that are looked into, and the largest body among them: together, what a page may read.
SAMPLE = 2_000
LARGEST_BYTES = 16_384


def carrying(rows: QuerySet[Any], name: str, value: str) -> list[int]:
    """Return those of the newest of these rows whose JSON body has the key with this value, at any depth.

    Compared is what may be seen of the body: what is hidden cannot be guessed.
    """
    small = rows.annotate(size=Length("body")).filter(size__lte=LARGEST_BYTES)
    found = rows.model.objects.using(rows.db).filter(pk__in=newest(small, SAMPLE).ids)
    read = found.order_by("-pk").values_list("pk", "queue__name", "body")
    return [pk for pk, queue, body in read.iterator() if _has(body, queue, name, value)]


def _has(body: Any, queue: str, name: str, value: str) -> bool:
    try:
        seen = masking.masked(json.loads(bytes(body) if not isinstance(body, str) else body), queue)
        return any(_says(item, value) for item in _under(seen, name))
    except (ValueError, RecursionError):
        return False


def _under(value: Any, name: str) -> Iterator[Any]:
    """Yield what stands under a key, wherever it is."""
    if isinstance(value, dict):
        if name in value:
            yield value[name]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _under(item, name)


def _says(item: Any, text: str) -> bool:
    return text == (item if isinstance(item, str) else json.dumps(item))
