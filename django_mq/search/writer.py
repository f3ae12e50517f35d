"""Write the search keys of messages, in the transaction that publishes them.

What MASK hides is no key, and neither is a field of an encrypted body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.delivery.codecs import ENCRYPTED, decode_body, decode_headers
from django_mq.delivery.consumer.handlers import is_task
from django_mq.diagnosis.messages import masking
from django_mq.engine.decisions.search_keys import keys_of, names_in
from django_mq.errors import CorruptMessage
from django_mq.models import SearchKey
from django_mq.search.finder import keys_by_message
from django_mq.stores import queue_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from django_mq.engine.options import Option
    from django_mq.stores.base import Store
    from django_mq.stores.records import NewMessage

# Locks: the new row. Index: none. Returns: nothing.
INSERT = "INSERT INTO django_mq_searchkey (message_id, name, value) VALUES (%s, %s, %s)"


def write_keys(option: Option, store: Store, messages: Sequence[NewMessage]) -> None:
    """Write the keys of messages that have just been written. Raises StoreError."""
    rows = dict.fromkeys(
        (message.message_id, *key)
        for message in messages
        if (queue := queue_records.remembered(store.alias, message.queue_name)) is not None
        for key in _keys(message, names_in(option.value_in(queue)))
    )
    # Under an id that has keys already, each message of a unique key would add the same ones.
    changed = {each.message_id for each in messages if each.unique is not None and each.unique.changed_id}
    connection: Any = getattr(store.database, "connection", None)  # a queue in memory has none, and no admin
    if changed and connection is not None:
        known = keys_by_message(store.alias, changed)
        rows = dict.fromkeys(row for row in rows if row[1:] not in known.get(row[0], ()))
    if rows and connection is not None:
        as_stored = SearchKey._meta.get_field("message_id").get_db_prep_save
        with connection.cursor() as cursor:
            cursor.executemany(INSERT, [(as_stored(id_, connection), name, value) for id_, name, value in rows])


def _keys(message: NewMessage, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    if not names:
        return
    headers = masking.masked_headers(_decoded(decode_headers, message.headers), message.queue_name)
    known = headers if isinstance(headers, dict) else {}
    in_headers = names if known.keys() >= set(names) else ()
    sources = [known] if in_headers else [known, *_fields(message, known)]
    for name, value in keys_of(names, sources):
        if value != masking.HIDDEN:
            yield name, value


def _fields(message: NewMessage, headers: dict[str, Any]) -> list[Any]:
    """Return what a body has by name: its fields, or the keyword arguments of a task."""
    if message.content_encoding == ENCRYPTED:
        return []
    body = _decoded(decode_body, message.body, message.content_type, message.content_encoding)
    body = masking.masked(body, message.queue_name)
    if is_task(headers) and isinstance(body, list):
        return body[1:2]
    return [body, body.get("kwargs")] if isinstance(body, dict) else []


def _decoded(decode: Any, *stored: Any) -> Any:
    try:
        return decode(*stored)
    except CorruptMessage:
        return None
