"""Duplicate ids: what makes two publications the same message, however their ids differ.

An id is written in the transaction that publishes. A unique constraint decides between two
that publish at the same moment: the second waits, and is a duplicate if the first commits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django_mq.engine.duplicates import is_over, used_before
from django_mq.stores.sql.replacing import Replacing
from django_mq.stores.values import time_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.stores.records import NewMessage


class Deduplicating(Replacing):
    """Use an id once."""

    def _use_dedup_ids(self, messages: Sequence[NewMessage]) -> None:
        """Remember the duplicate ids of these messages. Raises DuplicateMessage."""
        used = [message for message in messages if message.dedup_id is not None]
        # In one order for all, or two publishers of the same ids could wait for each other.
        for message in sorted(used, key=lambda each: (each.queue_name, each.dedup_id)):
            self._use_dedup_id(message)

    def _use_dedup_id(self, message: NewMessage) -> None:
        if self._remember_duplicate(message):
            return
        for id_, by, used_at, now, seconds in self._uses(message):  # none, if the queue remembers no ids
            if is_new := is_over(time_of(used_at).timestamp(), time_of(now).timestamp(), seconds):
                self._rows("forget_duplicate", id=id_)
            if not (is_new and self._remember_duplicate(message)):
                raise used_before(message.queue_name, message.dedup_id, UUID(str(by)))

    def _uses(self, message: NewMessage) -> list[tuple[Any, ...]]:
        return self._rows("duplicate_of", queue=message.queue_name, dedup_id=message.dedup_id)

    def _remember_duplicate(self, message: NewMessage) -> bool:
        row = {"queue": message.queue_name, "dedup_id": message.dedup_id, "message_id": message.message_id}
        return bool(self._rows("remember_duplicate", **row))

    def _is_used_by(self, message: NewMessage) -> bool:
        """Whether the message has used its duplicate id itself."""
        found = self._uses(message) if message.dedup_id is not None else []
        return bool(found) and UUID(str(found[0][1])) == message.message_id

    def _take_back_dedup_ids(self, queue_id: int, messages: Sequence[NewMessage]) -> None:
        """Forget the ids of messages that were dropped: they are as good as new."""
        ids = [message.dedup_id for message in messages if message.dedup_id is not None]
        if ids:
            self._rows("take_back_duplicates", queue_id=queue_id, dedup_ids=ids)
