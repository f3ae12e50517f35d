"""Queues, bindings, and publishing, at once or with the commit of the open transaction."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import compress
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from django_mq.engine.decisions.dead_letters import MAXLEN, REJECTED, destination
from django_mq.engine.decisions.routing import Route
from django_mq.engine.options import QueueOptions
from django_mq.engine.states import CLAIMED, DEAD, QUEUE_DELETED, STEALABLE, Cause
from django_mq.errors import QueueInUse
from django_mq.inprocess.memory.broker import BrokerQueue, Part
from django_mq.inprocess.memory.row import new_message
from django_mq.inprocess.parts.control import UNDELIVERED
from django_mq.inprocess.rules import Rules
from django_mq.stores import errors, queue_records
from django_mq.stores.dead_letters import planned
from django_mq.stores.values import later

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set
    from datetime import datetime
    from typing import TypeAlias

    from django_mq.engine.message import Message
    from django_mq.inprocess.entries.entry import Entry
    from django_mq.inprocess.memory.row import LiveMessage
    from django_mq.stores.dead_letters import Copy, DeadLetter, Plan
    from django_mq.stores.records import NewMessage, QueueRecord

    #: The messages that come to each queue, by their position among those that are published together.
    Coming: TypeAlias = dict[BrokerQueue, dict[int, Message]]


class Queues(Part):
    def declare(self, name: str, options: Mapping[str, Any]) -> bool:
        queues = self.broker.queues
        if name in queues:
            return False
        settings = QueueOptions.of(options)
        if settings.dead_letter_queue not in queues:
            settings = replace(settings, dead_letter_queue=None)
        if settings.expiry_queue not in queues:
            settings = replace(settings, expiry_queue=None)
        queues[name] = BrokerQueue(
            next(self.broker.queue_numbers), name, settings, self.broker.engine, self.broker.now()
        )
        return True

    def link(self, name: str, *, dead_letter_queue: str | None = None, expiry_queue: str | None = None) -> None:
        queue = self.broker.existing(name)
        dead_letter_queue = dead_letter_queue or queue.settings.dead_letter_queue
        expiry_queue = expiry_queue or queue.settings.expiry_queue
        queue.settings = replace(queue.settings, dead_letter_queue=dead_letter_queue, expiry_queue=expiry_queue)
        queue.engine.control.change(Rules.of(queue.settings))
        queue_records.forget(self.store.alias, name)

    def queue(self, name: str) -> QueueRecord | None:
        queue = self.broker.queues.get(name)
        return None if queue is None else self.broker.record_of(queue)

    def paused(self, names: Sequence[str]) -> Set[str]:
        return {name for name in names if (queue := self.queue(name)) is not None and queue.paused}

    def delete_queue(self, name: str, *, force: bool = False) -> int:
        queue = self.broker.existing(name)
        self._check_deletable(queue, force=force)
        removed = self._empty(queue) if force else 0
        self.broker.engine.delete(name, self.broker.now().timestamp())
        queue_records.drop(self.store.alias, name)
        return removed

    def send_dead(self, rows: Iterable[LiveMessage], reason: str = REJECTED) -> set[int]:
        """Send dead messages where their queues say; return the rows that left, and those that stay as dead."""
        now = self.broker.now()
        found = sorted({row.id: row for row in rows}.items())
        plan = self._planned([row.dead_letter(now) for _, row in found], reason)
        left: set[int] = set()
        for name, copies in sorted(plan.copies.items()):
            left |= self._copy(name, copies, now, evicts=reason != MAXLEN)
        for id_ in sorted(left):
            row = self.broker.rows[id_]
            row.queue.engine.control.discard(row.entry, Cause.EXPIRED if id_ in plan.expiring else Cause.DEAD)
        return left | plan.kept

    def _planned(self, dead_letters: Sequence[DeadLetter], reason: str, *, is_last: bool = False) -> Plan:
        def message(letter: DeadLetter) -> Message:
            return self.broker.rows[letter.id].entry.message

        return planned(self.store, dead_letters, reason, message, is_last=is_last)

    def _copy(self, name: str, copies: Sequence[Copy], now: datetime, *, evicts: bool) -> set[int]:
        """Write copies into a queue by its rules; return the rows of those that it took."""
        queue = self.broker.queues.get(name)
        if queue is None:
            return set()
        messages = [(copy.id, self._new(copy, name, now)) for copy in copies]
        causes = {copy.id: copy.cause for copy in copies}
        fitting = queue.engine.arrivals.fitting([message for _, message in messages], now.timestamp())
        taken: dict[int, Entry] = {}
        for id_, message in compress(messages, fitting):
            taken[id_] = queue.engine.arrivals.enter(message, now.timestamp())
            taken[id_].cause = causes[id_]
        if taken and evicts:
            queue.engine.arrivals.entered([*taken.values()][-1])
        return set(taken)

    def _new(self, copy: Copy, name: str, now: datetime) -> Message:
        message = replace(
            self.broker.rows[copy.id].message,
            queue_name=name,
            headers=copy.headers,
            properties=copy.properties,
            deliver_at=None,
            delay_seconds=None,
            expires_at=None,
            ttl_seconds=None,
            dedup_id=None,
        )
        return new_message(message, now, is_constrained=False)

    def send_dropped(self) -> None:
        """Send on what rings have made dead letters of."""
        dropped, self.broker.dropped = self.broker.dropped, []
        here = [row for row in dropped if self.broker.rows.get(row.id) is row and row.entry.state is DEAD]
        if here:
            self.send_dead(here, MAXLEN)

    def _empty(self, queue: BrokerQueue) -> int:
        """Drop the messages if there is no dead-letter queue; else send all of them there."""
        if destination(queue.settings, REJECTED) is None:
            return self.purge(queue.name)
        now, rows = self.broker.now(), sorted(queue.rows, key=attrgetter("id"))
        dead_letters = [row.dead_letter(now, QUEUE_DELETED) for row in rows]
        plan = self._planned(dead_letters, REJECTED, is_last=True)
        # Asked first: what is sent cannot be undone here.
        if self._welcome(plan, now) < len(rows):
            options = queue.settings
            raise errors.not_taken(queue.name, options.dead_letter_queue or options.dead_letter_exchange)
        for name, copies in sorted(plan.copies.items()):
            self._copy(name, copies, now, evicts=True)
        for row in rows:
            row.queue.engine.control.discard(row.entry, Cause.DEAD)
        return len(rows)

    def _welcome(self, plan: Plan, now: datetime) -> int:
        """Return how many messages would be taken by a queue."""
        taken: set[int] = set()
        for name, copies in plan.copies.items():
            if (target := self.broker.queues.get(name)) is not None:
                coming = [self._new(copy, name, now) for copy in copies]
                fitting = target.engine.arrivals.fitting(coming, now.timestamp())
                taken |= {copy.id for copy in compress(copies, fitting)}
        return len(taken)

    def _check_deletable(self, queue: BrokerQueue, *, force: bool) -> None:
        name = queue.name
        others = [each.settings for each in self.broker.queues.values()]
        sources = [each for each in others if name in (each.dead_letter_queue, each.expiry_queue)]
        if sources:
            raise errors.linked(name, len(sources))
        if queue.engine.statistics.depth and not force:
            raise errors.not_empty(name, claimed=False)
        if any(entry.state is CLAIMED for entry in queue.engine.contents.everything()):
            raise errors.not_empty(name, claimed=True)

    def note_use(self, names: Sequence[str]) -> None:
        for queue in [self.broker.queues[name] for name in names if name in self.broker.queues]:
            queue.used_at = self.broker.now()

    def delete_unused(self) -> dict[str, int]:
        now, consumed = self.broker.now(), self.broker.consumed()
        queues = [queue for _, queue in sorted(self.broker.queues.items()) if not queue.settings.is_lasting]
        self.note_use([queue.name for queue in queues if queue.life.is_to_be_noted(consumed, now)])
        deleted: dict[str, int] = {}
        for queue in queues:
            if queue.life.is_over(consumed, now, partial(_is_empty, queue)):
                with suppress(QueueInUse):
                    deleted[queue.name] = self.delete_queue(queue.name, force=True)
        return deleted

    def purge(self, name: str, *, dead: bool = True) -> int:
        states = (*UNDELIVERED, STEALABLE, *([DEAD] if dead else []))
        return len(self.broker.existing(name).engine.control.purge(states))

    def set_paused(
        self,
        name: str,
        *,
        paused: bool,
        reason: str = "",  # noqa: ARG002 - no page shows it
        seconds: float | None = None,
    ) -> None:
        queue = self.broker.existing(name)
        queue.paused_until = None if seconds is None else later(self.broker.now(), seconds)
        if paused:
            queue.engine.control.pause()
        else:
            queue.engine.control.resume()

    def free_groups(self, name: str, group: str | None = None) -> int:
        queue = self.broker.existing(name)
        owned = queue.engine.subscribers.group_owners()
        if group is not None:
            queue.engine.control.close_group(group)
            return int(group in owned)
        queue.engine.control.reset_groups()
        return len(owned)

    def bind(self, *, exchange: str, exchange_type: str, pattern: str, queue: str, selector: str = "") -> None:
        self.broker.existing(queue)
        known = self.broker.bindings.get((exchange, pattern, queue))
        kind = exchange_type if known is None else known.exchange_type
        self.broker.bindings[exchange, pattern, queue] = Route(kind, pattern, queue, selector)

    def unbind(self, *, exchange: str, pattern: str, queue: str) -> bool:
        return self.broker.bindings.pop((exchange, pattern, queue), None) is not None

    def bindings(self, exchange: str) -> list[Route]:
        return [route for (name, *_), route in self.broker.bindings.items() if name == exchange]


def _is_empty(queue: BrokerQueue) -> bool:
    return not queue.engine.statistics.depth


class Publications(Part):
    def append(self, message: NewMessage, *, again: bool = False) -> int:
        return next(iter(self.append_many([message], again=again)), 0)

    def append_many(self, messages: Sequence[NewMessage], *, again: bool = False) -> list[int]:
        entered = self._append(messages, again=again, is_constrained=False)
        return [] if entered is None else [entered[at].arrival for at in sorted(entered)]

    def append_by_rules(self, messages: Sequence[NewMessage], *, again: bool = False) -> list[int]:
        entered = self._append(messages, again=again, is_constrained=True)
        places = range(len(messages))
        return [] if entered is None else [entered[at].arrival if at in entered else 0 for at in places]

    def _append(
        self, messages: Sequence[NewMessage], *, again: bool, is_constrained: bool
    ) -> dict[int, Entry] | None:
        """Return the entries of new messages by position; None if all had been written before."""
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
            waiting = [] if unit is None else unit.entering(queue.engine)
            queue.engine.arrivals.check_ids([*waiting, *mine.values()])
        for queue, mine in admitted.items():
            queue.dropped += len(arriving[queue]) - len(mine)
        entered = self._enter(admitted, now)
        for queue, mine in admitted.items() if is_constrained and entered else ():
            if mine:
                queue.engine.arrivals.entered(entered[max(mine)])
        return entered

    def _is_here(self, message: NewMessage) -> bool:
        queue = self.broker.queues.get(message.queue_name)
        return queue is not None and queue.engine.contents.find(str(message.message_id)) is not None

    def _was_written(self, message: NewMessage) -> bool:
        queue = self.broker.queues.get(message.queue_name)
        if queue is None or message.dedup_id is None:
            return self._is_here(message)
        user = queue.engine.duplicate_ids.user_of(message.dedup_id)
        return self._is_here(message) or user == str(message.message_id)

    def _arriving(self, messages: Sequence[NewMessage], now: datetime, *, is_constrained: bool) -> Coming:
        """Return the engine's messages of each queue. Raises UnknownQueue or QueueClosed."""
        found: Coming = {}
        for name in sorted({each.queue_name for each in messages}):
            queue = self.broker.queues.get(name)
            if queue is None:
                raise errors.undeclared(name)
            if queue.engine.closed:
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
                unit.enter(queue.engine, message)
            return {}
        return {at: queue.engine.arrivals.enter(message, now.timestamp()) for at, queue, message in in_order}


def _admitted(queue: BrokerQueue, messages: dict[int, Message], now: datetime) -> dict[int, Message]:
    welcome = queue.engine.arrivals.admit([*messages.values()], now.timestamp())
    return {at: message for (at, message), is_in in zip(messages.items(), welcome, strict=True) if is_in}
