"""The stored queues of one scenario, by name."""

from __future__ import annotations

from dataclasses import replace
from threading import RLock
from typing import TYPE_CHECKING, Any

from django_mq import process
from django_mq.errors import QueueInUse, UnknownQueue, UnsupportedRule
from django_mq.inprocess.consumers.groups import SoleReceiver
from tests.scenarios.errors import UnfitError
from tests.scenarios.stored.options import read_options
from tests.scenarios.stored.queue import StoredQueue
from tests.scenarios.stored.rows import editor
from tests.scenarios.stored.work import OpenUnit, StoredUnit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.engine.message import Message
    from django_mq.inprocess.rules import Rules
    from tests.scenarios.stored.consumer import StoredConsumer
    from tests.scenarios.stored.site import Site


class StoredBroker:
    """Queues of a store, and the worker sessions that claim from them."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.lock = RLock()
        self.sessions: dict[int, StoredConsumer] = {}
        self._queues: dict[str, StoredQueue] = {}
        self._units: list[StoredUnit] = []

    def declare(self, name: str, rules: Rules) -> StoredQueue:
        """The queue of that name, made if there is none; other rules are followed from now on."""
        options = self._options(rules)
        known = self._queues.get(name)
        if known is None or known.deleted:
            try:
                self.site.store.queues.declare(name, options | {"dead_letter_queue": None, "expiry_queue": None})
            except UnsupportedRule as error:
                raise UnfitError(str(error)) from error
            known = self._queues[name] = StoredQueue(self, name, rules)
            self._link(name)
        elif rules != known.rules:
            known.rules = rules
            self._edit(known)
        process.reset()
        return known

    def _link(self, newest: str) -> None:
        """Let messages go where they should: some queues are declared before those that take theirs."""
        for queue in self:
            targets = {queue.rules.dead_letter_queue, queue.rules.expiry_queue} & self._queues.keys()
            if newest in targets or (targets and queue.name == newest):
                self._edit(queue)

    def _edit(self, queue: StoredQueue) -> None:
        editor(self.site.store)(self.site.store, queue.name, **self._options(queue.rules))

    def _options(self, rules: Rules) -> dict[str, Any]:
        return read_options(rules, self.site.scale, in_memory=not self.site.store.features.durable)

    def queue(self, name: str) -> StoredQueue:
        """The queue of that name. Raises UnknownQueue."""
        queue = self._queues.get(name)
        if queue is None or queue.deleted:
            raise UnknownQueue
        return queue

    def __iter__(self) -> Iterator[StoredQueue]:
        return iter([queue for queue in self._queues.values() if not queue.deleted])

    def delete(self, name: str, now: float) -> None:
        """Delete a queue that holds nothing. Raises QueueInUse while another sends messages to it."""
        queue = self.queue(name)
        if any(each.rules.dead_letter_queue == name for each in self if each is not queue):
            raise QueueInUse
        self.site.move_clock(now)
        try:
            self.site.store.deletions.delete_queue(name)
        except QueueInUse as error:
            raise UnfitError("a queue that holds messages is not deleted") from error
        queue.deleted = True

    def begin(self) -> StoredUnit:
        """A new unit of work."""
        unit = (OpenUnit if self.site.store.features.concurrent_writers else StoredUnit)(self.site)
        self._units.append(unit)
        return unit

    def refuse_to_wait(self, queue: StoredQueue, message: Message) -> None:
        """Raise UnfitError if publishing would wait for an open transaction of this thread."""
        if any(unit.is_waited_for(queue, message) for unit in self._units):
            raise UnfitError("a publisher waits for the open transaction of another one")

    def abandon(self) -> None:
        """Roll back what is open, and let no consumer listen any more."""
        while self._units:
            self._units.pop().abandon()
        for consumer in self.sessions.values():
            consumer.hush()

    def keep_house(self, now: float) -> None:
        """Do what time has brought."""
        for queue in self:
            queue.keep_house(now)

    def session_owner(self, session_id: int | None) -> StoredConsumer | None:
        """Whose session that is."""
        return None if session_id is None else self.sessions.get(session_id)

    def group_of(self, queue: StoredQueue, message: Message) -> str | None:
        """The group that a message belongs to, by the rules of its queue."""
        groups = queue.rules.groups
        if groups is None or groups is SoleReceiver:
            return None
        group: str | None = groups(position=lambda _: 0).group_of(message)
        return group

    def rename(self, message: Message, name: str) -> None:
        """From now on the scenario calls a message otherwise."""
        number = next(each for each, known in self.site.messages.items() if known is message)
        self.site.messages[number] = replace(message, id=name)

    def restart(self, now: float) -> None:
        """Every worker dies, and is reaped."""
        self.abandon()
        self.site.move_clock(now)
        for consumer in self.sessions.values():
            if not consumer.departed:
                consumer.lose(self.site)
        for queue in self:
            for consumer in queue.consumers():
                queue.forget_consumer(consumer)
            queue.reset_statistics()
