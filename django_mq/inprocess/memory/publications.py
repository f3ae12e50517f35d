"""Publishing, at once or with the commit of the open transaction."""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

from django_mq.inprocess.memory.part import Part, locked
from django_mq.inprocess.memory.row import new_message
from django_mq.stores import errors
from django_mq.stores.subjects import publications as subjects

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from typing import TypeAlias

    from django_mq.engine.message import Message
    from django_mq.inprocess.entries.entry import Entry
    from django_mq.inprocess.memory.broker import Transaction
    from django_mq.inprocess.memory.row import BrokerQueue
    from django_mq.inprocess.memory.unique_keys import UniqueKeys
    from django_mq.stores.records import NewMessage

    #: The messages that come to each queue, by their position among those that are published together.
    Coming: TypeAlias = dict[BrokerQueue, dict[int, Message]]


@dataclass(eq=False)
class Publications(Part, subjects.Publications):
    transaction: Transaction

    @locked
    def append(self, message: NewMessage, *, again: bool = False) -> int:
        return next(iter(self.append_many([message], again=again)), 0)

    @locked
    def append_many(self, messages: Sequence[NewMessage], *, again: bool = False) -> list[int]:
        entered = self.enter(messages, again=again, is_constrained=False)
        return [] if entered is None else [entered[at].arrival for at in sorted(entered)]

    def enter(
        self,
        messages: Sequence[NewMessage],
        *,
        again: bool,
        is_constrained: bool,
        before: Callable[[], object] = bool,
    ) -> dict[int, Entry] | None:
        """Return the entries of new messages by position; None if all had been written before.

        ``before`` is called when nothing can be refused any longer, and no message has entered yet.
        """
        if again and all(map(self._was_written if is_constrained else self._is_here, messages)):
            return None
        now = self.broker.now()
        arriving = admitted = self._arriving(messages, now, is_constrained=is_constrained)
        if is_constrained:
            admitted = {queue: _admitted(queue, mine, now) for queue, mine in arriving.items()}
        kept = [messages[at] for mine in admitted.values() for at in mine]
        if again and kept and all(self._is_here(message) for message in kept):
            return None
        unit = self.transaction.unit
        for queue, mine in (admitted if again else arriving).items():
            waiting = [] if unit is None else unit.entering(queue.inner)
            queue.inner.arrivals.check_ids([*waiting, *mine.values()])
        for queue, mine in admitted.items():
            queue.dropped += len(arriving[queue]) - len(mine)
        before()
        entered = self._enter(admitted, now)
        for queue, mine in admitted.items() if is_constrained and entered else ():
            if mine:
                queue.inner.arrivals.entered(entered[max(mine)])
        return entered

    def _is_here(self, message: NewMessage) -> bool:
        queue = self.broker.queues.get(message.queue_name)
        return queue is not None and queue.inner.contents.find(str(message.message_id)) is not None

    def _was_written(self, message: NewMessage) -> bool:
        queue = self.broker.queues.get(message.queue_name)
        if queue is None or message.dedup_id is None:
            return self._is_here(message)
        user = queue.inner.duplicate_ids.user_of(message.dedup_id)
        return self._is_here(message) or user == str(message.message_id)

    def _arriving(self, messages: Sequence[NewMessage], now: datetime, *, is_constrained: bool) -> Coming:
        """Return the engine's messages of each queue. Raises UnknownQueue or QueueClosed."""
        found: Coming = {}
        for name in sorted({each.queue_name for each in messages}):
            queue = self.broker.queues.get(name)
            if queue is None:
                raise errors.undeclared(name)
            if queue.inner.closed:
                raise errors.closed(name)
            found[queue] = {}
        for at, message in enumerate(messages):
            queue = self.broker.queues[message.queue_name]
            found[queue][at] = new_message(message, now, is_constrained=is_constrained)
        return found

    def _enter(self, coming: Coming, now: datetime) -> dict[int, Entry]:
        """Enter messages in the given order over all queues; return their entries by position.

        In a transaction they enter with its commit, and have no entries yet.
        """
        found = [(at, queue, message) for queue, mine in coming.items() for at, message in mine.items()]
        in_order = sorted(found, key=itemgetter(0))
        unit = self.transaction.unit
        if unit is not None:
            for _, queue, message in in_order:
                unit.enter(queue.inner, message)
            return {}
        return {at: queue.inner.arrivals.enter(message, now.timestamp()) for at, queue, message in in_order}


@dataclass(eq=False)
class Admission(Part, subjects.Admission):
    publications: Publications
    unique_keys: UniqueKeys

    @locked
    def append(self, messages: Sequence[NewMessage], *, again: bool = False) -> list[int]:
        with self.unique_keys.all_or_nothing():
            admitted = self.unique_keys.admitted(messages, again=again)
            entered = self.publications.enter(
                admitted, again=again, is_constrained=True, before=self.unique_keys.change_messages
            )
            if entered is None:
                return []
            if self.publications.transaction.unit is None:
                self.unique_keys.take_back([each for at, each in enumerate(admitted) if at not in entered])
        arrivals = {
            (each.queue_name, each.message_id): entered[at].arrival
            for at, each in enumerate(admitted)
            if at in entered
        }
        return [arrivals.get((each.queue_name, each.message_id), 0) for each in messages]


def _admitted(queue: BrokerQueue, messages: dict[int, Message], now: datetime) -> dict[int, Message]:
    welcome = queue.inner.arrivals.admit([*messages.values()], now.timestamp())
    return {at: message for (at, message), is_in in zip(messages.items(), welcome, strict=True) if is_in}
