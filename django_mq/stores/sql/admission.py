"""Admission: write messages by the rules of their queues: limits, unique keys, duplicate ids, last values,
sort keys.

The transaction that publishes writes the duplicate id. A unique constraint decides between two transactions that
publish the same id: the second one waits, and its message is a duplicate if the first one commits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from django_mq.engine.decisions.duplicates import id_taken, is_over, used_before
from django_mq.engine.decisions.last_value import check_value
from django_mq.stores.records import time_of
from django_mq.stores.sql.capacities import size_of
from django_mq.stores.sql.database import Part
from django_mq.stores.sql.messages import key_in
from django_mq.stores.sql.publications import has_time
from django_mq.stores.subjects import publications as subjects

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django_mq.stores.records import NewMessage
    from django_mq.stores.sql.capacities import QueueCapacities, QueueCapacity
    from django_mq.stores.sql.database import Rows
    from django_mq.stores.sql.declared import DeclaredSelectors
    from django_mq.stores.sql.fairness import FairPlaces
    from django_mq.stores.sql.last_values import LastValues
    from django_mq.stores.sql.moves import Moves
    from django_mq.stores.sql.publications import Publications
    from django_mq.stores.sql.unique_keys import UniqueKeys


@dataclass(eq=False)
class Admission(Part, subjects.Admission):
    publications: Publications
    capacities: QueueCapacities
    last_values: LastValues
    moves: Moves
    declared: DeclaredSelectors
    fairness: FairPlaces
    used_ids: UsedIds
    unique_keys: UniqueKeys

    def append(self, messages: Sequence[NewMessage], *, again: bool = False) -> list[int]:
        if len(messages) == 1 and not again and (row_id := self._append_fair(messages[0])) is not None:
            return [row_id]
        is_used = self.used_ids.is_used_by
        if again and all(self.publications.is_taken(message) or is_used(message) for message in messages):
            return []
        return self.publications.tried(lambda: self._append(messages, again=again), messages, again=again)

    def _append_fair(self, message: NewMessage) -> int | None:
        is_plain = message.unique is None and message.dedup_id is None
        return self.fairness.append(message) if is_plain else None

    def _append(self, messages: Sequence[NewMessage], *, again: bool) -> list[int]:
        """Append the messages that the limits and the unique keys admit. Raises IncompleteError."""
        given, messages = messages, self.unique_keys.admitted(messages, again=again)
        if not messages:
            return [0] * len(given)
        names = {message.queue_name for message in messages}
        capacities = self.last_values.capacities_of(filter(self.publications.queues.may_lock_publishers, names))
        keys = _value_keys(messages, capacities)
        self.used_ids.use(messages)
        kept = self.capacities.admitted(messages, capacities)
        if len(kept) < len(messages):
            self._give_up(messages, kept, capacities, again=again)
        row_ids = self.publications.append_complete(self.fairness.placed(kept))
        ids = dict(zip(map(id, kept), row_ids, strict=True))
        for name in {message.queue_name for message in kept}:
            mine = [each for each in kept if each.queue_name == name]
            self.fairness.place(name, [ids[id(each)] for each in mine if has_time(each)])
            self.declared.ask_new(name, [ids[id(each)] for each in mine])
        for name, capacity in capacities.items():
            here = [message for message in kept if message.queue_name == name]
            self.last_values.replace(
                capacity,
                {ids[id(each)]: keys[id(each)] for each in here if id(each) in keys},
                scheduled=any(map(has_time, here)),
            )
            if here:
                self.moves.settle_in(capacity, len(here), size_of(here), newest=ids[id(here[-1])])
        if len(kept) == len(given):
            return row_ids
        written = {(each.queue_name, each.message_id): ids[id(each)] for each in kept}
        return [written.get((each.queue_name, each.message_id), 0) for each in given]

    def _give_up(
        self,
        messages: Sequence[NewMessage],
        kept: Sequence[NewMessage],
        capacities: Mapping[str, QueueCapacity],
        *,
        again: bool,
    ) -> None:
        """Count messages that full queues drop, and forget their duplicate ids.

        Raises QueueClosed, and DuplicateMessage for a message that is in the queue, unless it is published again.
        """
        welcome = set(map(id, kept))
        for name, capacity in capacities.items():
            dropped = [each for each in messages if each.queue_name == name and id(each) not in welcome]
            if dropped:
                self.publications.check_open(name)
                if taken := [each for each in dropped if not again and self.publications.is_taken(each)]:
                    raise id_taken(name, taken[0].message_id)
                self.rows("count_dropped", queue_id=capacity.queue_id, dropped=len(dropped))
                self.used_ids.take_back(capacity.queue_id, dropped)
                self.unique_keys.take_back(dropped)


class UsedIds(Part):
    def use(self, messages: Sequence[NewMessage]) -> None:
        used = [message for message in messages if message.dedup_id is not None]
        # In one order for all, or two publishers of the same ids could wait for each other.
        for message in sorted(used, key=lambda each: (each.queue_name, each.dedup_id)):
            uses = [] if self._remember(message) else self._uses(message)
            for id_, by, used_at, now, seconds in uses:  # none, if the queue remembers no ids
                if is_new := is_over(time_of(used_at).timestamp(), time_of(now).timestamp(), seconds):
                    self.rows("forget_duplicate", id=id_)
                if not (is_new and self._remember(message)):
                    raise used_before(message.queue_name, message.dedup_id, UUID(str(by)))

    def _uses(self, message: NewMessage) -> Rows:
        return self.rows("duplicate_of", queue=message.queue_name, dedup_id=message.dedup_id)

    def _remember(self, message: NewMessage) -> bool:
        row = {"queue": message.queue_name, "dedup_id": message.dedup_id, "message_id": message.message_id}
        return bool(self.database.insert("remember_duplicate", **row))

    def is_used_by(self, message: NewMessage) -> bool:
        found = self._uses(message) if message.dedup_id is not None else []
        return bool(found) and UUID(str(found[0][1])) == message.message_id

    def take_back(self, queue_id: int, messages: Sequence[NewMessage]) -> None:
        """Forget the ids of messages that were dropped."""
        ids = [message.dedup_id for message in messages if message.dedup_id is not None]
        if ids:
            self.rows("take_back_duplicates", queue_id=queue_id, dedup_ids=ids)


def value_key(message: NewMessage, header: str) -> str | None:
    """Return the header's text, None without one. Raises InvalidMessage for what cannot be a value."""
    key = key_in(message.headers, header)
    if key is not None:
        check_value(header, key)
    return key


def _value_keys(messages: Sequence[NewMessage], capacities: Mapping[str, QueueCapacity]) -> dict[int, str]:
    headers = {name: capacity.last_value_key for name, capacity in capacities.items() if capacity.last_value_key}
    keyed = [(message, headers[message.queue_name]) for message in messages if message.queue_name in headers]
    return {id(message): key for message, header in keyed if (key := value_key(message, header)) is not None}
