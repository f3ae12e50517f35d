"""Claims: the facts for the engine's arbiter, and the lease."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import compress, takewhile
from typing import TYPE_CHECKING, NamedTuple, cast

from django_mq.engine.decisions.arbiter import LEFT_SECONDS, award, situation_of
from django_mq.engine.decisions.claim import allowed, fitting, limit_of, merged
from django_mq.engine.decisions.claim_limits import OpenLimits
from django_mq.engine.decisions.ends import End
from django_mq.engine.decisions.selection import Assignment
from django_mq.engine.states import CLAIMED, Cause
from django_mq.errors import SessionLost
from django_mq.inprocess.consumers.consumer import Consumer
from django_mq.inprocess.consumers.target import Target
from django_mq.inprocess.entries.timeline import NEVER
from django_mq.inprocess.memory.part import Part, locked
from django_mq.inprocess.memory.row import row_of
from django_mq.inprocess.memory.session import ReadyRow
from django_mq.stores import errors
from django_mq.stores.claim_limits import limits_of
from django_mq.stores.records import ClaimResult, Parked
from django_mq.stores.subjects import claims as subjects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from django_mq.engine.decisions.arbiter import Award, Subscription
    from django_mq.engine.message import Message
    from django_mq.inprocess.entries.entry import Entry
    from django_mq.inprocess.memory.broker import SharedBroker
    from django_mq.inprocess.memory.parking import Parking
    from django_mq.inprocess.memory.row import BrokerQueue, LiveMessage
    from django_mq.inprocess.memory.session import MemorySession
    from django_mq.inprocess.memory.settlements import Settlements
    from django_mq.inprocess.queue import Queue
    from django_mq.stores.records import Claimed, ClaimRequest, QueueRecord, Settlement


#: The most parked messages that one claim frees.
PROMOTE_LIMIT = 1000


class Head(NamedTuple):
    queue: BrokerQueue
    consumer: Consumer
    award: Award[ReadyRow]


@dataclass(eq=False)
class Claims(Part, subjects.Claims):
    settlements: Settlements
    parking: Parking

    @locked
    def settle_and_claim(
        self, session_id: int, settlements: Sequence[Settlement], request: ClaimRequest | None
    ) -> ClaimResult:
        if request is not None:  # nothing can be rolled back, so errors must come first
            self._claimant(session_id, request)
            self._let_values_arrive(request)
        void = self.settlements.settle(session_id, settlements) if settlements else frozenset()
        result = self.claim(session_id, request) if request is not None else ClaimResult()
        result.void = void
        return result

    @locked
    def claim(self, session_id: int, request: ClaimRequest) -> ClaimResult:
        claim, target = Claim(self.broker, self._claimant(session_id, request), self.parking), request.consumer
        if isinstance(target, Target):
            names = [queue.name for _, queue in claim.session.reading(target)]
            request = replace(request, queues=tuple(names))
        queues = [queue for name in request.queues if (queue := self.broker.queues.get(name)) is not None]
        for queue in queues:
            queue.inner.promote(claim.now.timestamp())
            queue.end_pause(claim.now)
        by_rules = [queue for queue in queues if self.broker.record_of(queue).has_claim_rules]
        self.parking.free_due(PROMOTE_LIMIT, [queue.name for queue in by_rules])
        if isinstance(target, Target):
            claim.bring_in_turn(target, request)
        else:
            given = cast("Consumer | None", target)
            claim.bring({queue: claim.session.consumer_of(queue, given) for queue in queues}, request)
        due = [at for queue in queues if (at := queue.inner.due.next_due()) is not None]
        woken = (queue.inner.contents.parked.waking.next_time for queue in by_rules)
        due += [at for at in woken if at != NEVER]
        times = [max(0.0, at - claim.now.timestamp()) for at in due] + [LEFT_SECONDS] * claim.left
        times += claim.looks
        return ClaimResult(
            claimed=claim.claimed,
            left=request.left_behind(claim.claimed, claim.seen),
            next_due_seconds=min(times, default=None),
            constrained=bool(by_rules),
            grouped=frozenset(queue.name for queue in queues if queue.settings.has_groups),
            declined=any(claim.session.has_declined(queue) for queue in queues),
        )

    @locked
    def resync(self, session_id: int, held: Sequence[int]) -> int:
        session, known = self.broker.sessions.get(session_id), set(held)
        unknown = [] if session is None else [row for row in session.held() if row.id not in known]
        for row in unknown:
            row.give_back(self.broker.now(), delivered=False)
            self.broker.note_end(row, End.GIVEN_BACK)
        return len(unknown)

    def _let_values_arrive(self, request: ClaimRequest) -> None:
        """Let last values arrive that are due, before settlements return others."""
        for queue in [self.broker.queues[name] for name in request.queues if name in self.broker.queues]:
            queue.inner.due.let_values_arrive(self.broker.now().timestamp())

    def _claimant(self, session_id: int, request: ClaimRequest) -> MemorySession:
        """Return the session. Raises the errors of a claim."""
        if isinstance(request.consumer, Target):
            if request.queues:
                raise errors.queues_of_target()
        elif request.consumer is not None and len(request.queues) > 1:
            raise errors.several_queues()
        for name in request.queues if request.consumer is None else ():
            queue = self.broker.queues.get(name)
            if queue is not None and queue.settings.nondestructive:
                raise errors.only_shown(name)
        return self._living(session_id)

    def _living(self, session_id: int) -> MemorySession:
        session = self.broker.sessions.get(session_id)
        if session is None:
            raise SessionLost
        return session

    @locked
    def subscribe(self, session_id: int, name: str, consumer: object | None = None) -> None:
        session, queue = self._living(session_id), self.broker.existing(name)
        if queue.settings.exclusive and queue.in_slots() - {session_id}:
            raise errors.exclusive(name)
        # Also without a consumer of its own, so that the session leaves the queue with its end.
        own = session.subscribed(queue, consumer) if isinstance(consumer, Consumer) else session.consumer_of(queue)
        if queue.settings.exclusive or consumer is not None:
            queue.inner.subscribers.take_slot(own)


class Claim:
    """One claim: its messages, how many it saw, and whether it left messages to sessions of higher priority."""

    def __init__(self, broker: SharedBroker, session: MemorySession, parking: Parking) -> None:
        self.broker = broker
        self.session = session
        self.parking = parking
        # One moment for the whole claim: a message that becomes due meanwhile must not come in between.
        self.now = broker.now()
        self.claimed: list[Claimed] = []
        self.seen = 0
        self.left = False
        #: In how many seconds limits may let something go on.
        self.looks: list[float] = []

    def bring_in_turn(self, target: Target, request: ClaimRequest) -> None:
        """Claim one message after the other, each for the consumer whose turn it is."""
        queues = dict(self.session.reading(target))

        def claim(_: Queue, consumer: Consumer) -> bool | None:
            queue = queues.get(consumer)
            if queue is None:  # it has been deleted
                return None
            mine = sum(item.queue_name == queue.name for item in self.claimed)
            if mine >= limit_of(request, queue.name):
                return None
            return self.bring({queue: consumer}, replace(request, credit=1, limits={}, consumer=consumer)) or None

        while len(self.claimed) < request.credit and target.ask(claim) is not None:
            pass

    def bring(self, consumers: Mapping[BrokerQueue, Consumer], request: ClaimRequest) -> bool:
        """Claim for these consumers, each from its queue; return whether there was a message."""
        before = len(self.claimed)
        opened = {queue: each for queue, each in consumers.items() if not queue.inner.paused}
        records = {queue: self.broker.record_of(queue) for queue in opened}
        constrained = any(records[queue].has_claim_rules and not each.browser for queue, each in opened.items())
        if request.consumer is None or constrained:
            heads = [self._head(queue, records[queue], each, request) for queue, each in opened.items()]
            self._award(heads, request)
        else:
            self._deliver(opened, request)
        return len(self.claimed) > before

    def _head(self, queue: BrokerQueue, record: QueueRecord, consumer: Consumer, request: ClaimRequest) -> Head:
        priorities_differ = record.priorities_differ or queue.inner.subscribers.priorities_differ
        situation = situation_of(
            record,
            self.session.number,
            in_slots=queue.in_slots(),
            claimed=queue.inner.counts()[CLAIMED],
            in_order=queue.name in request.in_order,
            keeping=_kept_groups(queue) if record.has_groups else (),
            subscriptions=self._subscriptions(queue) if priorities_differ else (),
        )
        assignment = None
        if wanted := request.wanted.get(queue.name):
            assignment = Assignment[ReadyRow](wanted, lambda item: item.row.entry.message)
        credit, limits = limit_of(request, queue.name), self._opened(queue.name, request)
        if limits is not None:
            credit = min(credit, limits.most)
        mine = self.session.number
        candidates: Iterator[ReadyRow] = (
            _candidate(queue, entry) for entry in queue.inner.browse() if consumer.wants(entry)
        )
        if limits is not None:
            candidates = self._learning(queue.name, limits, candidates)
        found = award(candidates, mine, credit, situation, assignment=assignment, limits=limits)
        return Head(queue, consumer, found)

    def _opened(self, name: str, request: ClaimRequest) -> OpenLimits[ReadyRow] | None:
        """Open the limits of a queue, and make ready what they let go on now; None without limits."""
        declared = limits_of(name)
        if not declared:
            return None
        store = self.broker.store
        facts = store.rates.page(name)
        opened = [each.opened(store, name, facts) for each in declared]
        limits = OpenLimits[ReadyRow](
            opened, lambda item: with_body(item.row), slots=request.slots, ahead=request.ahead
        )
        self._learn(name, limits)
        for limit, freed in list(limits.frees(max(0, min(limits.most, limit_of(request, name))))):
            limit.freed(freed, self.parking.free(name, freed.key, freed.most))
        return limits

    def _learn(self, name: str, limits: OpenLimits[ReadyRow], items: Sequence[ReadyRow] = ()) -> None:
        """Read what the limits must know of what waits and of these messages, beyond the facts."""
        if keys := limits.lacking(items):
            limits.learn(keys, self.broker.store.rates.of_keys(name, keys))

    def _learning(self, name: str, limits: OpenLimits[ReadyRow], items: Iterable[ReadyRow]) -> Iterator[ReadyRow]:
        for item in items:
            self._learn(name, limits, [item])
            yield item

    def _subscriptions(self, queue: BrokerQueue) -> list[Subscription]:
        now = self.broker.now()
        living = [
            other for other in self.broker.sessions.values() if other.deadline > now or other is self.session
        ]
        return [told for other in living for told in other.subscriptions(queue)]

    def _award(self, heads: list[Head], request: ClaimRequest) -> None:
        """Claim what the arbiter awards the session of all queues together, within the credit of a consumer."""
        found = [[((head, item), item.row.message.priority) for item in head.award.chosen] for head in heads]
        seen = merged(found, listed=request.listed)[: request.credit]
        in_bytes = ((head.queue.name, len(item.row.message.body)) for head, item in seen)
        within = list(compress(seen, allowed(in_bytes, request.byte_credit)))
        line = [(item.suspect, len(item.row.message.body)) for _, item in within]
        chosen = within[: max(0, self._fitting(line, request) - len(self.claimed))]
        for head in heads:
            for group in head.award.taken_over:
                head.queue.inner.control.assign_group(group, head.consumer)
        consumer = request.consumer
        if isinstance(consumer, Consumer):
            sizes = ((pair, pair[1].row.entry.message.size) for pair in chosen if not consumer.paused)
            chosen = [pair for pair, _ in takewhile(lambda each: consumer.credit.take(each[1]), sizes)]
        for head in heads if not chosen else ():
            head.queue.inner.deliveries.found_nothing(head.consumer)
        for head, item in chosen:
            head.queue.inner.deliveries.take(item.row.entry, head.consumer)
            self._hold(item.row)
        for head in heads:
            if (limits := head.award.limits) is not None:
                self.parking.park([Parked(item.row.id, key, after) for item, (key, after, _) in limits.parked])
                for item in limits.dropped:
                    head.queue.inner.control.discard(item.row.entry, Cause.LIMITED)
                for used in limits.writes([(item.row.receipt, item) for of, item in chosen if of is head]):
                    self.broker.store.rates.use(head.queue.name, *used)
                self.looks += [0.0] * limits.is_full
                self.looks += [after for after in (limits.next_seconds,) if after is not None]
        self.seen += len(seen)
        self.left |= any(head.award.left for head in heads)

    def _deliver(self, consumers: Mapping[BrokerQueue, Consumer], request: ClaimRequest) -> None:
        """Claim what the queue delivers to the consumer, where no other session matters."""
        before, at = len(self.claimed), self.now.timestamp()
        for queue, consumer in consumers.items():
            while len(self.claimed) - before < limit_of(request, queue.name):
                first = queue.inner.deliveries.first_for(consumer, at)
                line = [] if first is None else [(first.suspect, first.message.size)]
                if self._fitting(line, request) < len(self.claimed) + len(line):
                    self.seen += len(self.claimed) - before + 1
                    return
                entry = queue.inner.deliver(consumer, at)
                if entry is None:
                    break
                if consumer.browser:
                    self.claimed.append(row_of(entry).claimed(self.now))
                else:
                    self._hold(row_of(entry))
        self.seen += len(self.claimed) - before

    def _fitting(self, line: Sequence[tuple[object, int]], request: ClaimRequest) -> int:
        """Return how many messages a claim may bring, of those it has and of these."""
        had = [(item.suspect, len(item.body)) for item in self.claimed]
        return fitting([*had, *line], request.slots, request.max_bytes)

    def _hold(self, row: LiveMessage) -> None:
        row.session_id, row.claimed_at, row.ended = self.session.number, self.now, None
        self.claimed.append(row.claimed(self.now))


def _kept_groups(queue: BrokerQueue) -> Iterator[tuple[str, int | None]]:
    for row in queue.rows:
        if row.entry.keeps_group and row.message.group_key is not None:
            yield row.message.group_key, row.session_id


def with_body(row: LiveMessage) -> Message:
    """Return the message with its body as it is stored."""
    return replace(row.entry.message, body=row.message.body, content_type=row.message.content_type)


def _candidate(queue: BrokerQueue, entry: Entry) -> ReadyRow:
    row = row_of(entry)
    group = row.message.group_key
    return ReadyRow(row, entry.suspect, group, None if group is None else queue.owner_of(group))
