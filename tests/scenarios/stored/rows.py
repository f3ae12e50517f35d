"""What stands in the tables of a store of any kind."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from django_mq.engine.options import OPTIONS
from django_mq.engine.states import State
from django_mq.inprocess.memory.row import row_of
from django_mq.inprocess.memory.store import MemoryStore
from django_mq.inprocess.rules import Rules
from django_mq.models import History, Message, Queue
from django_mq.models.session import Ownership

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from uuid import UUID

    from django_mq.stores.base import Store


@dataclass(frozen=True, slots=True)
class StoredRow:
    """One live message."""

    id: int
    message_id: UUID
    state: State
    attempts: int
    redelivered: bool
    suspect: bool
    deliver_at: datetime | None
    session_id: int | None
    headers: Any

    @property
    def deliveries(self) -> int:
        """The attempts, that under way included, as the engine counts them."""
        return self.attempts + (self.state in (State.CLAIMED, State.STEALABLE) and not self.suspect)


FIELDS = ("id", "message_id", "state", "attempts", "redelivered", "suspect", "deliver_at", "session_id", "headers")


def rows_of(store: Store, queue: str) -> list[StoredRow]:
    """Every message of a queue, in its order."""
    return _rows_in_memory(store, queue) if isinstance(store, MemoryStore) else _rows_in_tables(store, queue)


def _rows_in_tables(store: Store, queue: str) -> list[StoredRow]:
    found = Message.objects.using(store.alias).filter(queue__name=queue).order_by("-level", "place", "id")
    return [_row(dict(zip(FIELDS, values, strict=True))) for values in found.values_list(*FIELDS)]


def _rows_in_memory(store: MemoryStore, queue: str) -> list[StoredRow]:
    known = store.broker.queues.get(queue)
    rows = [row_of(entry) for entry in known.inner.entries()] if known is not None else []
    own = ("id", "attempts", "deliver_at", "session_id")
    return [
        _row(
            {name: getattr(row, name) for name in own}
            | {"message_id": row.message.message_id}
            | {name: getattr(row.entry, name) for name in ("state", "redelivered", "suspect")}
            | {"headers": json.loads(row.message.headers)}
        )
        for row in rows
    ]


def _row(values: dict[str, Any]) -> StoredRow:
    return StoredRow(**values | {"state": State(values["state"])})


def outcomes(store: Store, queue: str) -> Counter[int]:
    """How many messages of a queue have finished, by outcome."""
    if isinstance(store, MemoryStore):
        return Counter(int(item.outcome) for item in store.broker.history if item.queue_name == queue)
    finished = History.objects.using(store.alias).filter(queue_name=queue)
    return Counter(finished.values_list("outcome", flat=True))


def owners_of(store: Store, queue: str) -> dict[str, int]:
    """The groups of a queue that stay with a session, each with the number of that."""
    if isinstance(store, MemoryStore):
        known = store.broker.queues[queue]
        return {group: known.sessions[owner] for group, owner in known.inner.subscribers.group_owners().items()}
    number = Queue.objects.using(store.alias).get(name=queue).pk
    owners = Ownership.objects.using(store.alias).filter(queue_id=number, group_key__isnull=False)
    return dict(owners.values_list("group_key", "session_id"))


def editor(store: Store) -> Callable[..., None]:
    """What an operator does in the admin: change a queue's row."""
    return _edit_in_memory if isinstance(store, MemoryStore) else _edit_in_tables


def _edit_in_tables(store: Store, name: str, **options: Any) -> None:
    for key in ("dead_letter_queue", "expiry_queue"):
        options[key] = Queue.objects.using(store.alias).filter(name=options.get(key)).first()
    queue = Queue.objects.using(store.alias).get(name=name)
    changed = {key: value for key, value in options.items() if key in OPTIONS} | {"counted_at": None}
    for key, value in changed.items():
        setattr(queue, key, value)
    queue.save(update_fields=[*changed])


def _edit_in_memory(store: MemoryStore, name: str, **options: Any) -> None:
    queue = store.broker.queues[name]
    queue.settings = replace(queue.settings, **options)
    queue.inner.control.change(Rules.of(queue.settings))
