"""Publishing: at once, or with the commit of the transaction that is open."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from django_mq.stores import refusals
from django_mq.stores.memory.declaring import Declaring
from django_mq.stores.memory.row import engine_message
from django_mq.stores.memory.runner import locked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from typing import TypeAlias

    from django_mq.engine.entry import Entry
    from django_mq.engine.message import Message
    from django_mq.stores.memory.queue import BrokerQueue
    from django_mq.stores.records import NewMessage

    #: The messages that come to each queue, by their position among those that are published together.
    Coming: TypeAlias = dict[BrokerQueue, dict[int, Message]]


class Appending(Declaring):
    """Append one or many messages."""

    @locked
    def append(self, message: NewMessage, *, again: bool = False) -> int:
        return next(iter(self.append_many([message], again=again)), 0)

    @locked
    def append_many(self, messages: Sequence[NewMessage], *, again: bool = False) -> list[int]:
        if again and all(self._is_here(message) for message in messages):
            return []
        now = self._now()
        arriving = self._arriving(messages, now, is_ruled=False)
        for queue, mine in arriving.items():
            self._check_ids(queue, mine)
        return [entry.arrival for _, entry in sorted(self._enter(arriving, now).items())]

    @locked
    def append_by_rules(self, messages: Sequence[NewMessage], *, again: bool = False) -> list[int]:
        if again and all(self._was_written(message) for message in messages):
            return []
        now = self._now()
        arriving = self._arriving(messages, now, is_ruled=True)
        admitted = {queue: _admitted(queue, mine, now) for queue, mine in arriving.items()}
        kept = [messages[at] for mine in admitted.values() for at in mine]
        if again and kept and all(self._is_here(message) for message in kept):
            return []
        for queue, mine in (admitted if again else arriving).items():
            self._check_ids(queue, mine)
        for queue, mine in admitted.items():
            queue.dropped += len(arriving[queue]) - len(mine)
        entered = self._enter(admitted, now)
        for queue, mine in admitted.items():
            if entered and mine:
                queue.engine.entered(entered[max(mine)])
        return [entered[at].arrival if at in entered else 0 for at in range(len(messages))]

    def _is_here(self, message: NewMessage) -> bool:
        queue = self.broker.queues.get(message.queue_name)
        return queue is not None and queue.knows(message.message_id)

    def _was_written(self, message: NewMessage) -> bool:
        queue = self.broker.queues.get(message.queue_name)
        if queue is None or message.dedup_id is None:
            return self._is_here(message)
        user = queue.engine.duplicate_ids.user_of(message.dedup_id)
        return self._is_here(message) or user == str(message.message_id)

    def _arriving(self, messages: Sequence[NewMessage], now: datetime, *, is_ruled: bool) -> Coming:
        """Return the engine's messages of each queue. Raises UnknownQueue or QueueClosed."""
        found: Coming = {self._open_queue(name): {} for name in sorted({each.queue_name for each in messages})}
        for at, message in enumerate(messages):
            queue = self.broker.queues[message.queue_name]
            found[queue][at] = engine_message(message, now, is_ruled=is_ruled)
        return found

    def _open_queue(self, name: str) -> BrokerQueue:
        queue = self.broker.queues.get(name)
        if queue is None:
            raise refusals.undeclared(name)
        if queue.closed:
            raise refusals.closed(name)
        return queue

    def _check_ids(self, queue: BrokerQueue, messages: Mapping[int, Message]) -> None:
        unit = self._transaction.unit
        waiting = [] if unit is None else unit.entering(queue.engine)
        queue.engine.check_ids([*waiting, *messages.values()])

    def _enter(self, coming: Coming, now: datetime) -> dict[int, Entry]:
        """Let messages arrive, in the given order over all queues; return their entries by position.

        In a transaction they arrive with its commit, and have no entries yet.
        """
        for queue in coming:
            if queue.settings.values_in_advance:  # a value that was due before is the older one
                queue.engine.promote(now.timestamp())
        found = [(at, queue, message) for queue, mine in coming.items() for at, message in mine.items()]
        in_order = sorted(found, key=itemgetter(0))
        unit = self._transaction.unit
        if unit is not None:
            for _, queue, message in in_order:
                unit.enter(queue.engine, message)
            return {}
        return {at: queue.engine.enter(message, now.timestamp()) for at, queue, message in in_order}


def _admitted(queue: BrokerQueue, messages: dict[int, Message], now: datetime) -> dict[int, Message]:
    """Return the messages that come in. Raises QueueFull or DuplicateMessage."""
    welcome = queue.engine.admit_all([*messages.values()], now.timestamp())
    return {at: message for (at, message), is_in in zip(messages.items(), welcome, strict=True) if is_in}
