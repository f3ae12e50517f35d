"""The methods of a stored queue, named as the engine's."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from django_mq.delivery import publisher
from django_mq.delivery.hints import news_of
from django_mq.delivery.operator.redrives import send
from django_mq.engine.decisions.verdict import Verdict
from django_mq.engine.states import CLAIMED, DEAD, HELD, READY, SCHEDULED, STEALABLE, Fate
from django_mq.errors import IllegalMove, QueueDeleted
from django_mq.inprocess.consumers.groups import SoleReceiver
from django_mq.integrations.celery.message import urgency
from django_mq.models import History
from django_mq.stores.records import NewMessage
from tests.scenarios.errors import UnfitError
from tests.scenarios.stored.consumer import ERRORS, StoredConsumer
from tests.scenarios.stored.entry import StoredEntry
from tests.scenarios.stored.rows import outcomes, owners_of, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.engine.message import Message
    from django_mq.engine.states import State
    from django_mq.inprocess.entries.capacity import Producer
    from django_mq.inprocess.rules import Rules
    from django_mq.stores.records import Browsed, Claimed, QueueRecord
    from tests.scenarios.stored.broker import StoredBroker
    from tests.scenarios.stored.rows import StoredRow
    from tests.scenarios.stored.site import Site

Outcome = History.Outcome
#: The header of a dead letter that names the queue it comes from.
ORIGIN = "x-origin-queue"


class StoredQueue:
    """One queue of a store."""

    def __init__(self, broker: StoredBroker, name: str, rules: Rules) -> None:
        self.broker = broker
        self.site: Site = broker.site
        self.name = name
        self.rules = rules
        self.deleted = False
        self._consumers: list[StoredConsumer] = []
        self._published_bytes: dict[int, int] = {}
        self._forgotten: Counter[int] = Counter()
        #: Scheduled messages that were taken away count as accepted.
        self.taken_away = 0

    @property
    def control(self) -> StoredQueue:
        """The queue itself, which has the methods of each part of a queue in process."""
        return self

    subscribers = due = control

    @property
    def statistics(self) -> Statistics:
        """What its rows and its history say."""
        finished = outcomes(self.site.store, self.name)
        finished.subtract(self._forgotten)
        return Statistics(self._rows(), finished, self)

    def reset_statistics(self) -> None:
        """Count from zero."""
        self._forgotten = outcomes(self.site.store, self.name)
        self.taken_away = 0

    def record(self) -> QueueRecord:
        """Its row. By the stretched clock a tick is longer than a second, which no row can say."""
        found = self.site.store.queues.find(self.name)
        assert found is not None
        ticks = 0 if self.rules.backoff is None else self.rules.backoff.ticks_per_second
        return replace(found, backoff_ticks_per_second=ticks / self.site.scale)  # type: ignore[arg-type]

    # Publishing.

    def publish(
        self, message: Message, now: float, *, producer: Producer | None = None, immediate: bool = False
    ) -> StoredEntry:
        """Write a message."""
        if immediate:
            raise UnfitError("a stored message is claimed, not handed over")
        self._refuse_if_deleted()
        self.site.move_clock(now)
        self.broker.refuse_to_wait(self, message)
        if message.duplicate_id is not None:
            self.site.store.retention.prune()  # maintenance forgets duplicate ids that are too many
        new = self.new_message(message)
        publisher.append(self.site.store, [new])
        self.site.notifier.announce(news_of([new]))
        return self._entry(message.id)

    def new_message(self, message: Message) -> NewMessage:
        """A message as the publisher hands it to the store."""
        return NewMessage(
            queue_name=self.name,
            message_id=self.site.know(message),
            body=b"x" * message.size,
            content_type="application/octet-stream",
            priority=urgency(message.priority),
            group_key=self.broker.group_of(self, message),
            dedup_id=message.duplicate_id,
            headers=json.dumps(dict(message.headers)),
            deliver_at=self.site.moment(message.deliver_at),
            expires_at=self.site.moment(message.expires_at),
        )

    def _refuse_if_deleted(self) -> None:
        if self.deleted:
            raise QueueDeleted

    # Consumers.

    def add_consumer(self, consumer: StoredConsumer) -> None:
        """Subscribe."""
        self._refuse_if_deleted()
        if consumer.queue is None:
            consumer.queue = self
            consumer.open(self.site, self)
            self.broker.sessions[consumer.session_id] = consumer
        consumer.subscribe(self)
        self._consumers.append(consumer)

    def forget_consumer(self, consumer: StoredConsumer) -> None:
        """It reads this queue no more."""
        self._consumers = [each for each in self._consumers if each is not consumer]

    def remove_consumer(
        self, consumer: StoredConsumer, *, failed: bool = False, give_back: bool = True, now: float = 0.0
    ) -> None:
        """Close its session; or let it die."""
        self.forget_consumer(consumer)
        self.site.move_clock(now)
        if not give_back:
            consumer.retire(self)
        elif failed:
            consumer.lose(self.site)
        else:
            consumer.close(self.site)
        self.look_again()

    def look_again(self) -> None:
        """A consumer has left: the queue may have gone with it."""
        self.deleted = self.deleted or self.site.store.queues.find(self.name) is None

    def consumers(self) -> list[StoredConsumer]:
        """Its consumers."""
        return list(self._consumers)

    def refresh(self, consumer: StoredConsumer) -> None:
        """Its credit was changed, or it was paused."""
        if not consumer.departed and not self.deleted:
            consumer.subscribe(self)

    def deliver_next(self, now: float) -> tuple[StoredConsumer, StoredEntry] | None:
        """Let the consumers claim: the highest priority first, in turn. A message of an owned group is no turn."""
        owners = {} if self.rules.groups in {None, SoleReceiver} else self.group_owners()
        for consumer in sorted(self._consumers, key=lambda each: -each.priority):
            entry = consumer.claim({self.name: self}, now)
            if entry is not None:
                if owners.get(self.broker.group_of(self, entry.message) or "") is not consumer:
                    self.forget_consumer(consumer)
                    self._consumers.append(consumer)
                return consumer, entry
        return None

    # Settling.

    def accept(self, entry: StoredEntry, consumer: StoredConsumer) -> Fate:
        """Done."""
        return self._settle("accept", entry, consumer)

    def release(self, entry: StoredEntry, consumer: StoredConsumer) -> Fate:
        """Back to its place, uncounted."""
        return self._settle("release", entry, consumer)

    def fail(self, entry: StoredEntry, consumer: StoredConsumer, *, now: float) -> Fate:
        """Back to its place, counted, or dead."""
        self.site.move_clock(now)
        return self._settle("fail", entry, consumer)

    def reject(self, entry: StoredEntry, consumer: StoredConsumer, *, now: float) -> Fate:
        """Dead."""
        self.site.move_clock(now)
        return self._settle("reject", entry, consumer)

    def decline(self, entry: StoredEntry, consumer: StoredConsumer) -> Fate:
        """Not for this consumer."""
        return Fate.RETURNED if consumer.decline(entry.queue, entry) else Fate.VOID

    def begin_settle(self, entry: StoredEntry, consumer: StoredConsumer) -> bool:
        """From now on it cannot be taken back."""
        return consumer.begin_settle(entry.queue, entry)

    def _settle(self, verdict: str, entry: StoredEntry, consumer: StoredConsumer) -> Fate:
        queue = entry.queue  # a consumer of several says the first of its own
        settlement = consumer.settle(queue, entry, ERRORS[verdict]())
        if settlement is None:
            return Fate.VOID
        if settlement.verdict is Verdict.ACCEPT:
            return Fate.ACCEPTED
        if settlement.verdict is Verdict.RELEASE:
            return Fate.RETURNED
        return Fate.DEAD if queue.record().dead_letter_queue is None else Fate.DEAD_LETTERED

    # Looking.

    def _rows(self) -> list[StoredRow]:
        return rows_of(self.site.store, self.name)

    def entries(self) -> Iterator[StoredEntry]:
        """Everything that is here, in order."""
        for row in self._rows():
            yield StoredEntry(self, self.site.messages[row.message_id], row)

    def _in_state(self, state: State) -> list[StoredEntry]:
        return [entry for entry in self.entries() if entry.state is state]

    def _entry(self, name: str) -> StoredEntry:
        for entry in self.entries():
            if entry.message.id == name:
                return entry
        return StoredEntry(self, next(each for each in self.site.messages.values() if each.id == name), None)

    def entry_of(self, claimed: Claimed) -> StoredEntry:
        """The entry that was claimed."""
        entry = self._entry(self.site.messages[claimed.message_id].id)
        entry.receipt = claimed
        return entry

    def shown_entry(self, shown: Browsed) -> StoredEntry:
        """The entry that a browser was shown."""
        return self._entry(self.site.messages[shown.message_id].id)

    def browse(self) -> list[StoredEntry]:
        """What is ready, in order."""
        return self._in_state(READY)

    def scheduled(self) -> list[StoredEntry]:
        """What is to come, in due order."""
        return sorted(self._in_state(SCHEDULED), key=lambda entry: (entry.due_at or 0.0, entry.id))

    def next_due(self) -> float | None:
        """When the first of these comes."""
        return min((entry.due_at for entry in self.scheduled() if entry.due_at is not None), default=None)

    def counts(self) -> Counter[State]:
        """How many are in each state; what is held counts as ready, and what could be taken back as claimed."""
        seen = {HELD: READY, STEALABLE: CLAIMED}
        return Counter(seen.get(entry.state, entry.state) for entry in self.entries())

    @property
    def flow_stopped(self) -> bool:
        """Whether a producer is told to wait."""
        return False

    @property
    def paused(self) -> bool:
        """Whether nothing is delivered."""
        return self.record().paused

    def group_owners(self) -> dict[str, StoredConsumer]:
        """The owner of each group."""
        owners = owners_of(self.site.store, self.name)
        return {group: self.broker.sessions[session] for group, session in owners.items()}

    def group_owner(self, group: str) -> StoredConsumer | None:
        """The owner of a group."""
        return self.group_owners().get(group)

    # Time.

    def promote(self, now: float) -> None:
        """Let what is due be ready."""
        self.site.move_clock(now)
        self.site.store.maintenance.promote()

    def expire(self, now: float) -> None:
        """Take away what has expired."""
        self.site.move_clock(now)
        self.site.store.maintenance.expire()

    def keep_house(self, now: float) -> None:
        """Do what time has brought."""
        self.promote(now)
        self.expire(now)

    # Steering.

    def pause(self) -> None:
        """Deliver nothing."""
        self.site.store.queues.set_paused(self.name, paused=True)

    def resume(self) -> None:
        """Deliver again."""
        self.site.store.queues.set_paused(self.name, paused=False)

    def clear(self) -> int:
        """Remove the messages that no consumer holds; return how many."""
        return self.site.store.deletions.purge(self.name)

    def discard(self, entry: StoredEntry) -> bool:
        """Remove one message, unless a consumer holds it."""
        if self.site.store.operations.cancel([entry.id]):
            return True
        raise UnfitError("a claimed message cannot be removed")

    def remove(self, entry: StoredEntry) -> None:
        """Remove one message, even if a consumer holds it."""
        self.site.store.operations.release_held([entry.id])
        self.site.store.operations.cancel([entry.id])

    def cancel(self, entry: StoredEntry) -> bool:
        """Take a scheduled message away."""
        cancelled = self.site.store.operations.cancel([entry.id])
        self.taken_away += len(cancelled)
        return bool(cancelled)

    def deliver_now(self, entry: StoredEntry) -> None:
        """Make a scheduled message ready."""
        self.site.store.operations.deliver_now([entry.id])

    def change_priority(
        self, entry: StoredEntry, priority: int, now: float, *, new_id: str | None = None
    ) -> StoredEntry | None:
        """Let a message arrive again with another priority."""
        self.site.move_clock(now)
        if not self.site.store.operations.prioritise([entry.id], priority):
            return None
        if new_id is not None:
            self.broker.rename(entry.message, new_id)
        return self._entry(new_id or entry.message.id)

    def move(self, entry: StoredEntry, target: StoredQueue, now: float) -> bool:
        """Move a message. Raises IllegalMove for one that a consumer holds."""
        self.site.move_clock(now)
        if entry.is_claimed:
            raise IllegalMove
        return bool(self.site.store.operations.move([entry.id], target.name))

    def redrive_all(self, now: float) -> int:
        """Redrive the dead letters of a dead-letter queue."""
        self.site.move_clock(now)
        origins: dict[str, list[int]] = {}
        for row in self._rows():
            if row.state is READY and row.headers.get(ORIGIN):
                origins.setdefault(row.headers[ORIGIN], []).append(row.id)
        return sum([len(send(self.site.store, ids, self.name, origin)) for origin, ids in origins.items()])

    def reset_groups(self) -> None:
        """Let every group find a new owner."""
        self.site.store.queues.free_groups(self.name)

    def delete(self, now: float) -> None:
        """Delete it."""
        self.broker.delete(self.name, now)


class Statistics:
    """The engine's counters, from the rows that are there and the history of those that were."""

    def __init__(self, rows: list[StoredRow], finished: Counter[int], queue: StoredQueue) -> None:
        self._finished = finished
        self.depth = len(rows)
        self.depth_bytes = sum(queue.site.messages[row.message_id].size for row in rows)
        self.accepted = finished[Outcome.ACCEPTED] + queue.taken_away
        self.expired = finished[Outcome.EXPIRED]
        self.replaced = finished[Outcome.REPLACED]
        gone = sum(finished[each] for each in (Outcome.DEAD, Outcome.CANCELLED, Outcome.PURGED))
        self.killed = gone - queue.taken_away + sum(row.state is DEAD for row in rows)

    @property
    def dequeued(self) -> int:
        """Everything that has finished."""
        return sum(self._finished.values())

    @property
    def enqueued(self) -> int:
        """What is here, and what was."""
        return self.depth + self.dequeued
