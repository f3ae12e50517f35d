"""Find messages by their search keys, and the keys of messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.diagnosis.messages.terms import HEADER
from django_mq.engine.decisions.search_keys import VALUE_LENGTH
from django_mq.models import SearchKey

if TYPE_CHECKING:
    from collections.abc import Collection
    from uuid import UUID

    from django.db.models import QuerySet


def find(alias: str, words: str) -> QuerySet[Any, UUID]:
    """Return the ids of the messages with this value as a key, or this name:value, the newest first."""
    keys = SearchKey.objects.using(alias).order_by("-pk").values_list("message_id", flat=True)
    named = HEADER.fullmatch(words)
    if named is not None:
        found = keys.filter(name=named[1], value=named[2].strip()[:VALUE_LENGTH])
        if found.exists():
            return found
    return keys.filter(value=words[:VALUE_LENGTH])


def keys_by_message(alias: str, message_ids: Collection[UUID]) -> dict[UUID, list[tuple[str, str]]]:
    """Return the keys of each of these messages that has some, as (name, value)."""
    found: dict[UUID, list[tuple[str, str]]] = {}
    rows = SearchKey.objects.using(alias).filter(message_id__in=message_ids).order_by()
    for message_id, name, value in rows.values_list("message_id", "name", "value"):
        keys = found.setdefault(message_id, [])
        if (name, value) not in keys:
            keys.append((name, value))
    return {message_id: sorted(keys) for message_id, keys in found.items()}
