"""Write a member for each message that is published in a batch, in one transaction with the messages.

It is the innermost middleware of publishing while the code of a batch runs.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.db import transaction

from django_mq.batches.ends import member_of
from django_mq.delivery.codecs import FREE_BITS, VERSION_AND_VARIANT, from_value
from django_mq.delivery.publisher import waiting_for_capacity
from django_mq.engine.decisions.batches import BATCH_HEADER, BATCHES, MEMBER_HEADER
from django_mq.errors import BatchMisused
from django_mq.models import Message
from django_mq.seams.ends import with_mark
from django_mq.stores import queue_records
from django_mq.stores.records import headers_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from uuid import UUID

    from django_mq.seams.middleware import Proceed, Publication
    from django_mq.stores.base import Store
    from django_mq.stores.records import NewMessage, QueueRecord


class Membership:
    """Middleware that makes members of a batch of what is published."""

    def __init__(self, batch: UUID, alias: str, check: Callable[[Store], None]) -> None:
        self._batch = batch
        self._alias = alias
        self._check = check

    def __call__(self, publication: Publication, proceed: Proceed) -> Any:
        """Publish, and write the members. Raises BatchClosed and BatchMisused."""
        store = publication.store
        new = [not is_retry(each) for each in publication.messages]
        if not any(new):
            return proceed()
        if store.alias != self._alias:
            raise BatchMisused(
                f"The batch is in the database {self._alias!r}, and its messages must be, too: this one goes"
                f" to {store.alias!r}. Publish it outside of the batch, or begin the batch with"
                f" using={store.alias!r}."
            )
        keys = new_keys(len(new))
        members = [
            (self._member(each, key) if is_new else each, key, is_new)
            for each, key, is_new in zip(publication.messages, keys, new, strict=True)
        ]
        changed = replace(publication, messages=[message for message, _, _ in members])
        return self._write(
            store,
            [(message, key) for message, key, is_new in members if is_new],
            lambda: proceed(changed),
        )

    def _member(self, message: NewMessage, key: UUID) -> NewMessage:
        headers = with_member(message.headers, self._batch, key)
        return replace(message, headers=headers, told_to=with_mark(message.told_to, BATCHES))

    def _write(self, store: Store, members: Sequence[tuple[NewMessage, UUID]], publish: Callable[[], Any]) -> Any:
        found: list[Any] = []

        database: Any = store.database

        def write() -> None:
            if database.connection.in_atomic_block:
                # Without a savepoint: if the members cannot be written, the caller's transaction cannot commit.
                self._check(store)
                found[:] = [publish()]
                with transaction.atomic(using=self._alias, savepoint=False):
                    self._insert(store, members)
                return
            with database.transaction():
                self._check(store)
                found[:] = [publish()]
                self._insert(store, members)

        # A full queue lets its publishers wait outside of transactions only, and ours is one.
        waiting_for_capacity(store, dict(records_of(store, members)), write)
        return found[0]

    def _insert(self, store: Store, members: Sequence[tuple[NewMessage, UUID]]) -> None:
        database: Any = store.database
        rows = [self._row(message, key) for message, key in written(store, members)]
        # The ORM takes longer than the database.
        database.insert_many("append_member", rows)

    def _row(self, message: NewMessage, key: UUID) -> dict[str, Any]:
        return {
            "member": key,
            "batch": self._batch,
            "message_id": message.message_id,
            "queue": message.queue_name,
            "task": (message.correlation_id or "") if message.properties is not None else "",
        }


def is_retry(message: NewMessage) -> bool:
    """Whether a message is a further run of a Celery task that is a member, by its headers."""
    if message.properties is None or MEMBER_HEADER not in message.headers:
        return False
    headers = headers_in(message.headers)
    return bool(headers.get("retries")) and member_of(headers) is not None


def with_member(headers: str, batch: UUID, member: UUID) -> str:
    """Return headers, as JSON, that say which member a message is."""
    mine = f'"{BATCH_HEADER}": "{batch}", "{MEMBER_HEADER}": "{member}"'
    if headers == "{}":
        return f"{{{mine}}}"
    if BATCH_HEADER in headers:  # published again with the headers of another member
        return json.dumps(headers_in(headers) | json.loads(f"{{{mine}}}"))
    return f"{headers[:-1]}, {mine}}}"


def new_keys(count: int) -> Iterator[UUID]:
    """Yield ids for members, in ascending order: the newest ones end last."""
    milliseconds = time.time_ns() // 1_000_000 << 80
    dice = os.urandom(6 * count)
    for number in range(count):
        order = (number >> 14 & 0xFFF) << 64 | (number & 0x3FFF) << 48
        value = milliseconds | order | int.from_bytes(dice[6 * number : 6 * number + 6], "big")
        yield from_value(value & FREE_BITS | VERSION_AND_VARIANT)


def written(store: Store, members: Sequence[tuple[NewMessage, UUID]]) -> Sequence[tuple[NewMessage, UUID]]:
    """Return the members whose messages were written: limits and unique keys drop some."""
    dropping = {name for name, record in records_of(store, members) if record.overflow == "drop"}
    if not dropping and all(message.unique is None for message, _ in members):
        return members
    asked = [
        message.message_id
        for message, _ in members
        if message.queue_name in dropping or message.unique is not None
    ]
    rows = Message.objects.using(store.alias).filter(message_id__in=asked)
    there = set(rows.values_list("message_id", "queue__name"))
    known = set(asked)
    return [
        (message, key)
        for message, key in members
        if message.message_id not in known or (message.message_id, message.queue_name) in there
    ]


def records_of(store: Store, members: Sequence[tuple[NewMessage, UUID]]) -> Iterator[tuple[str, QueueRecord]]:
    """Yield the queues of messages, as was last read."""
    for name in {message.queue_name for message, _ in members}:
        if (record := queue_records.remembered(store.alias, name)) is not None:
            yield name, record
