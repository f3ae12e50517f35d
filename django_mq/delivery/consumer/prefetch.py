"""Keep what a worker has claimed and not begun, in order, within the credit of its handlers.

The messages of each queue, and of each selector, wait here until a thread is free. The credit of their handlers
says how many of them are handled at a time, and how many more to claim, and how many bytes all of them may have.
Messages of a group are handled one after the other: the others wait in a line behind the first. What has not begun
goes back for free slots of other workers, or for a paused queue.
"""

from __future__ import annotations

import threading
import time
from bisect import insort
from dataclasses import replace
from heapq import heapify, heappop, heappush, merge
from itertools import chain, dropwhile, islice, takewhile
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from django_mq import conf
from django_mq.delivery.consumer.group_lines import GroupLines
from django_mq.delivery.consumer.lease import RENEWALS
from django_mq.engine.decisions.bulk import BulkLine, gathered
from django_mq.engine.decisions.claim import REFILL_SHARE, ByteCredit, open_queues, order_of
from django_mq.engine.decisions.credit import PrefetchCredit, WindowCredit
from django_mq.engine.decisions.recall import surplus
from django_mq.engine.decisions.selection import Wanted, first_matching, selections_of
from django_mq.engine.selector import Selector
from django_mq.stores.queue_records import last_read
from django_mq.stores.records import ConsumerInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence

    from django_mq.delivery.consumer.attempt import Delivery
    from django_mq.delivery.consumer.handlers import Handler
    from django_mq.delivery.consumer.session import Session
    from django_mq.engine.decisions.claim import Order
    from django_mq.stores.records import Claimed, Receipt

    Begin = Callable[[Claimed, Handler, Any], Delivery]
    #: The place of a message, and its claim, which tells apart two claims of one row.
    Waiting = tuple[Order, int, Claimed]


class Subscriber:
    """A handler as a consumer of its queue: its credit, and how many messages it was given."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        bounded = handler.credit_bytes is not None
        self.credit = (PrefetchCredit if bounded else WindowCredit)(handler.credit, handler.credit_bytes)
        self.delivered = 0

    @property
    def limit(self) -> int:
        """How many messages the handler may hold."""
        return self.credit.messages or 0

    def resize(self, credit: int | None) -> None:
        """Let the handler hold so many messages from now on, None for its own number."""
        self.credit.resize(credit or self.handler.credit, self.handler.credit_bytes)

    def describe(self) -> ConsumerInfo:
        """Return what the operator sees."""
        used = self.credit.outstanding
        return ConsumerInfo(
            queue_name=self.handler.queue,
            handler=self.handler.label,
            priority=self.handler.priority,
            state="busy" if used >= self.limit else "interested",
            credit_limit=self.limit,
            credit_used=used,
            delivered=self.delivered,
            selector=self.handler.selector,
        )


class Prefetch:
    """The claimed messages of the handlers that share them, in a heap. Any thread may use it.

    Handlers of higher priority are served first, those of equal priority in turn. A handler may take only the
    first message that it has not declined: if its credit does not allow that one, it gets none.
    """

    def __init__(self, handlers: Iterable[Handler], begin: Begin) -> None:
        self.subscribers = tuple(Subscriber(handler) for handler in handlers)
        self.queue = self.subscribers[0].handler.queue
        self.selector = self.subscribers[0].handler.selector
        self._begin = begin
        #: The highest priority first; among equals, the one that has waited longest.
        self._turns = sorted(self.subscribers, key=_by_priority)
        #: By message, the handlers that have declined it.
        self._declined: dict[Receipt, set[Subscriber]] = {}
        self._waiting: list[Waiting] = []
        self._lock = threading.Lock()
        # How many bytes the handlers may hold together, None for any number; how many they hold, waiting or begun;
        # and how many came back since the last claim.
        bytes_ = [subscriber.handler.credit_bytes for subscriber in self.subscribers]
        self._most_bytes = None if None in bytes_ else sum(filter(None, bytes_))
        self._held_bytes = self._freed_bytes = 0

    @property
    def limit(self) -> int:
        """How many messages the handlers may hold together."""
        return sum(subscriber.limit for subscriber in self.subscribers)

    @property
    def refill(self) -> int:
        """How much credit should gather before a claim that no free slot waits for."""
        # Less than half: what was claimed last came while the other half was handled, and the two
        # halves are never quite equal. The smaller one is to be worth a claim, too.
        return max(1, self.limit * 2 // 5)

    @property
    def byte_credit(self) -> ByteCredit | None:
        """The byte credit of the handlers together, None for no limit."""
        return None if self._most_bytes is None else ByteCredit(self._most_bytes, self._held_bytes)

    def is_worth_a_claim(self, settled: int) -> bool:
        """Whether enough credit came back for a claim, after so many messages were settled."""
        if self._most_bytes is not None and self._freed_bytes >= self._most_bytes * REFILL_SHARE:
            return True
        return settled >= self.refill

    def keep(self, message: Claimed) -> None:
        """Count the bytes of a message that waits elsewhere for another of its group."""
        with self._lock:
            self._hold(message)

    def let_go(self, messages: Iterable[Claimed]) -> None:
        """Count such bytes no more."""
        with self._lock:
            self._let_go(*messages)

    def _hold(self, message: Claimed) -> None:
        """Count the bytes of a message that was claimed. Under the lock."""
        if self._most_bytes is not None:
            self._held_bytes += len(message.body)
            self._freed_bytes = 0

    def _let_go(self, *messages: Claimed) -> None:
        """Forget messages, and count the bytes that came back. Under the lock."""
        for message in messages if self._declined else ():
            self._declined.pop(message.receipt, None)
        if self._most_bytes is not None:
            size_bytes = sum(len(message.body) for message in messages)
            self._held_bytes -= size_bytes
            self._freed_bytes += size_bytes

    def offer(self, message: Claimed, *, is_kept: bool = False) -> None:
        """Take in a claimed message, at its place; its bytes count already if it ``is_kept``."""
        item = _place(message), message.claim, message
        with self._lock:
            heappush(self._waiting, item)
            if not is_kept:
                self._hold(message)

    def wanted(self) -> int:
        """Return how many more messages to claim."""
        with self._lock:  # a thread that begins a message moves it from one number to the other
            free = sum(subscriber.credit.free or 0 for subscriber in self.subscribers)
            return max(0, free - len(self._waiting))

    def resize(self, credit: int | None) -> None:
        """Give each handler so much credit from now on, None for its own."""
        with self._lock:
            for subscriber in self.subscribers:
                subscriber.resize(credit)

    def urgency(self) -> int:
        """Return the priority of the first message, -1 if there is none."""
        with self._lock:
            return self._waiting[0][-1].priority if self._waiting else -1

    def next_attempt(self) -> Delivery | None:
        """Give the first message to a handler, if credit allows."""
        with self._lock:
            for subscriber in self._turns if self._waiting else ():
                item = self._first_for(subscriber) if self._declined else self._waiting[0]
                if item is not None and subscriber.credit.take(len(item[-1].body)):
                    self._take(item)
                    subscriber.delivered += 1
                    if len(self._turns) > 1:
                        self._turns.remove(subscriber)
                        insort(self._turns, subscriber, key=_by_priority)
                    return self._begin(item[-1], subscriber.handler, subscriber)
        return None

    def _first_for(self, subscriber: Subscriber) -> Waiting | None:
        """Return the first message that the handler has not declined."""
        own = (item for item in self._waiting if subscriber not in self._declined.get(item[-1].receipt, ()))
        return min(own, default=None)

    def line(self) -> tuple[int, Claimed | None]:
        """Return how many messages were not begun, and the first one."""
        with self._lock:
            return len(self._waiting), self._waiting[0][-1] if self._waiting else None

    def next_attempts(self, most: int, behind: Iterable[Claimed] = ()) -> list[Delivery]:
        """Give the first messages together to the only handler, if credit allows; ``behind`` wait for others."""
        [subscriber] = self.subscribers
        with self._lock:
            own = {each.receipt for each in behind}
            line = [*self._waiting, *((_place(each), each.claim, each) for each in behind)]
            line.sort()
            messages = [item[-1] for item in line]
            size, take = gathered(messages, most), subscriber.credit.take
            begun = list(takewhile(lambda message: take(len(message.body)), messages[:size]))
            # What is sorted is a heap.
            rest = line[len(begun) :]
            self._waiting = [item for item in rest if item[-1].receipt not in own] if own else rest
            subscriber.delivered += len(begun)
            return [self._begin(message, subscriber.handler, subscriber) for message in begun]

    def _take(self, item: Waiting) -> None:
        if item is self._waiting[0]:
            heappop(self._waiting)
        else:
            self._waiting.remove(item)
            heapify(self._waiting)

    def finish(self, attempt: Delivery) -> None:
        """Give the attempt's credit back."""
        with self._lock:
            attempt.receipt.credit.give_back(len(attempt.claimed.body))
            self._let_go(attempt.claimed)

    def finish_all(self, messages: Sequence[Claimed]) -> None:
        """Give the credit of messages of the only handler back."""
        [subscriber] = self.subscribers
        with self._lock:
            for message in messages:
                subscriber.credit.give_back(len(message.body))
            self._let_go(*messages)

    def hand_on(self, attempt: Delivery) -> bool:
        """Keep a declined message for another handler of this prefetch; False if there is none."""
        message, subscriber = attempt.claimed, attempt.receipt
        with self._lock:
            declined = self._declined.get(message.receipt, set()) | {subscriber}
            if len(declined) == len(self.subscribers):
                return False
            self._declined[message.receipt] = declined
            subscriber.credit.give_back(len(message.body))
            heappush(self._waiting, (_place(message), message.claim, message))
        return True

    def waiting(self) -> list[Claimed]:
        """Return the messages that were not begun, in order."""
        with self._lock:
            return [message for *_, message in sorted(self._waiting)]

    def take_back(self, message: Claimed) -> bool:
        """Take out a message; False if it has begun."""
        with self._lock:
            left = [item for item in self._waiting if item[-1] is not message]
            if len(left) == len(self._waiting):
                return False
            self._waiting = left  # sorted or not, a heap is made of it
            heapify(left)
            self._let_go(message)
        return True

    def empty(self) -> list[Claimed]:
        """Take out, and return, the messages that were not begun, in order."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            self._let_go(*(message for *_, message in waiting))
        return [message for *_, message in sorted(waiting)]


def _by_priority(subscriber: Subscriber) -> int:
    return -subscriber.handler.priority


def _place(message: Claimed) -> Order:
    return order_of(message.level, message.place, message.id)


def prefetch_of(handlers: Sequence[Handler], begin: Begin) -> list[Prefetch]:
    """Return an empty prefetch for each queue and each selector of the handlers.

    ``begin`` makes the attempt of a message, its handler, and a receipt for the prefetch. A handler without a
    selector comes last in its queue.
    """
    parted: dict[tuple[str, str], list[Handler]] = {}
    for handler in sorted(handlers, key=lambda each: not each.selector):
        parted.setdefault((handler.queue, handler.selector), []).append(handler)
    return [Prefetch(some, begin) for some in parted.values()]


def _open_credit(prefetch: Prefetch | None) -> int:
    """Return how many more messages to claim, 0 while the bytes of the others are as many as allowed."""
    if prefetch is None:
        return 0
    credit = prefetch.byte_credit
    return prefetch.wanted() if credit is None or credit.is_open else 0


class Dispatcher:
    """What one worker has prefetched of all its queues."""

    def __init__(self, prefetched: Iterable[Prefetch], handlers: Iterable[Handler] = ()) -> None:
        """Prefetch for these; ``handlers`` are all of this process, in the order of declaration.

        Other workers of the process run those that have no prefetch here, and get the messages that are for these.
        """
        #: By queue, the messages behind others of their groups.
        self._lines: dict[str, GroupLines[Claimed]] = {}
        #: By queue and group, the messages that are on their way back to the queue.
        self._returning: dict[tuple[str, str], set[Receipt]] = {}
        self._lining = threading.Lock()
        # Sorted by turn; the dictionary itself is read by any thread.
        self._order = list(prefetched)
        self._prefetched: dict[str, list[Prefetch]] = {}
        for prefetch in self._order:
            self._prefetched.setdefault(prefetch.queue, []).append(prefetch)
        self._selecting = self._with_selectors(handlers)
        #: By queue and selector, which messages the prefetch gets: those that no other worker of the process does.
        self._selected = {
            name: selections_of({each.selector for each in self._prefetched[name]}, [one.text for one, _ in some])
            for name, some in self._selecting.items()
        }
        #: By queue, the prefetch that gets all its messages.
        self._sole = {
            name: some[0]
            for name, some in self._prefetched.items()
            if len(some) == 1 and len(self._selecting.get(name, some)) == 1
        }
        self._turns = threading.Lock()
        bounded = [prefetch.queue for prefetch in self._order if prefetch.byte_credit is not None]
        self._bounded = list(dict.fromkeys(bounded))

    def _with_selectors(self, handlers: Iterable[Handler]) -> dict[str, list[tuple[Selector, Prefetch | None]]]:
        """Return, of each queue with selectors, these with their prefetches; None for one of another worker."""
        own = {(each.queue, each.selector): each for each in self._order}
        blank_last = sorted(handlers, key=lambda each: not each.selector)
        every = dict.fromkeys([*((each.queue, each.selector) for each in blank_last), *own])
        selecting = {queue for queue, selector in every if selector}.intersection(self._prefetched)
        found: dict[str, list[tuple[Selector, Prefetch | None]]] = {queue: [] for queue in selecting}
        for queue, selector in every:
            if queue in selecting:
                found[queue].append((Selector(selector), own.get((queue, selector))))
        return found

    def wanted(self) -> dict[str, int]:
        """Return the queues that have credit, and how much."""
        wanted = {
            name: sum(each.wanted() for each in some) - len(self._lines.get(name, ()))
            for name, some in self._prefetched.items()
        }
        return open_queues(wanted, self.byte_credit())

    def byte_credit(self) -> dict[str, ByteCredit]:
        """Return the byte credit of each queue that has a limit: that of its handlers together."""
        found = {}
        for name in self._bounded:
            given = [credit for each in self._prefetched[name] if (credit := each.byte_credit) is not None]
            if len(given) == len(self._prefetched[name]):
                found[name] = ByteCredit(sum(each.most for each in given), sum(each.held for each in given))
        return found

    def selections(self) -> dict[str, tuple[Wanted, ...]]:
        """Return what the handlers want of the queues that they select messages from."""
        return {
            # A message behind others of its group counts for each handler: for which one, is not counted.
            name: tuple(
                Wanted(selector, max(0, _open_credit(each) - len(self._lines.get(name, ()))))
                for selector, each in some
            )
            for name, some in self._selecting.items()
        }

    def refills(self) -> dict[str, int]:
        """Return how much credit of each queue should gather before a claim that no free slot waits for."""
        return {name: min(each.refill for each in some) for name, some in self._prefetched.items()}

    def is_worth_a_claim(self, queue: str, settled: int) -> bool:
        """Whether enough credit of a queue came back for a claim, after so many messages were settled."""
        return any(each.is_worth_a_claim(settled) for each in self._prefetched[queue])

    @property
    def behind(self) -> int:
        """How many messages wait for others of their groups."""
        return sum(map(len, self._lines.values()))

    def offer(self, claimed: Iterable[Claimed], grouped: Collection[str] = ()) -> list[Claimed]:
        """Take in claimed messages; in the ``grouped`` queues, those of a group run one after the other.

        Return the messages to give back, because one before them in their group is on its way back.
        """
        refused: list[Claimed] = []
        for message in claimed:
            prefetch = self._prefetch_of(message)
            if message.queue_name not in grouped or message.group_key is None:
                prefetch.offer(message)
            elif not self._line_up(message, prefetch):
                refused.append(message)
        return refused

    def _line_up(self, message: Claimed, prefetch: Prefetch) -> bool:
        order, group = (_place(message), message.claim), message.group_key or ""
        with self._lining:
            lines = self._lines.setdefault(message.queue_name, GroupLines())
            if group in lines.closed:
                self._returning[message.queue_name, group].add(message.receipt)
                return False
            (prefetch.offer if lines.enter(group, order, message) else prefetch.keep)(message)
        return True

    def close_group(self, message: Claimed) -> list[Claimed]:
        """Return the messages to give back behind this one of their group, which is on its way back."""
        lines = self._lines.get(message.queue_name)
        if lines is None or message.group_key is None:
            return []
        with self._lining:
            behind = lines.close(message.group_key)
            self._let_go(behind)
            returning = self._returning.setdefault((message.queue_name, message.group_key), set())
            returning.update(each.receipt for each in (message, *behind))
        return behind

    def open_groups(self, held: Container[Receipt]) -> None:
        """Open the groups of which no message on its way back is ``held``. Call it before a claim.

        A claim that began before they were back may have brought messages that would overtake them.
        """
        with self._lining:
            for (queue, group), receipts in list(self._returning.items()):
                if not any(receipt in held for receipt in receipts):
                    del self._returning[queue, group]
                    self._lines[queue].closed.discard(group)

    @property
    def has_closed_groups(self) -> bool:
        """Whether messages of a group are on their way back."""
        return bool(self._returning)

    def _let_go(self, messages: Iterable[Claimed]) -> None:
        for message in messages:
            self._prefetch_of(message).let_go([message])

    def _prefetch_of(self, message: Claimed) -> Prefetch:
        """Return the prefetch of the first handler that wants the message."""
        if (sole := self._sole.get(message.queue_name)) is not None:
            return sole
        some = self._selecting[message.queue_name]
        number = first_matching((selector for selector, _ in some), message.as_message())
        # The claim has chosen by the same selectors, as SQL.
        return some[-1 if number is None else number][1] or self._prefetched[message.queue_name][-1]

    def next_attempt(self) -> Delivery | None:
        """Give out the most urgent message for which some handler has credit. Any thread may call this."""
        if len(self._order) == 1:
            return self._order[0].next_attempt()
        with self._turns:
            for prefetch in sorted(self._order, key=methodcaller("urgency"), reverse=True):
                attempt = prefetch.next_attempt()
                if attempt is not None:
                    # Queues with equally urgent heads take turns.
                    self._order.remove(prefetch)
                    self._order.append(prefetch)
                    return attempt
        return None

    def line(self) -> BulkLine:
        """Return what waits for the only handler."""
        [prefetch] = self._order
        number, first = prefetch.line()
        if first is None:
            return BulkLine()
        behind, given = self.behind, prefetch.byte_credit
        # No claim follows before this much credit has gathered.
        may_grow = prefetch.wanted() - behind >= prefetch.refill and (given is None or given.is_worth_a_claim)
        return BulkLine(number + behind, first.suspect, may_grow)

    def next_attempts(self, most: int) -> list[Delivery]:
        """Give the first messages together to the only handler: those of a group, too, in their order."""
        [prefetch] = self._order
        lines = self._lines.get(prefetch.queue)
        if not lines:
            return prefetch.next_attempts(most)
        with self._lining:
            groups = {each.group_key for each in prefetch.waiting()} - {None}
            behind = {each.receipt: each for group in groups for each in lines.behind(group or "")}
            attempts = prefetch.next_attempts(most, behind.values())
            for attempt in attempts:
                if attempt.claimed.receipt in behind:
                    lines.join(attempt.claimed.group_key or "")
        return attempts

    def finish(self, attempt: Delivery) -> None:
        """Give an attempt's credit back, and let the next message of its group begin."""
        message = attempt.claimed
        self._prefetch_for(attempt).finish(attempt)
        lines = self._lines.get(message.queue_name)
        if lines is None or message.group_key is None:
            return
        with self._lining:
            following = lines.leave(message.group_key)
            if following is not None:
                self._prefetch_of(following).offer(following, is_kept=True)

    def finish_all(self, attempts: Sequence[Delivery]) -> None:
        """Do the same for all of a call of the only handler."""
        if self._lines:
            for attempt in attempts:
                self.finish(attempt)
        else:
            self._order[0].finish_all([attempt.claimed for attempt in attempts])

    def hand_on(self, attempt: Delivery) -> bool:
        """Keep a declined message for another handler of this worker that wants it; False if there is none."""
        prefetch, message = self._prefetch_for(attempt), attempt.claimed
        if prefetch.hand_on(attempt):
            return True
        of_queue = dropwhile(lambda each: each[1] is not prefetch, self._selecting.get(message.queue_name, ()))
        for selector, other in islice(of_queue, 1, None):
            if other is not None and selector.matches(message.as_message()):
                prefetch.finish(attempt)
                other.offer(message)
                return True
        return False

    def _prefetch_for(self, attempt: Delivery) -> Prefetch:
        """Return the prefetch of an attempt's handler."""
        some = self._prefetched[attempt.claimed.queue_name]
        return next(each for each in some if each.selector == attempt.handler.selector)

    def resize(self, credit: int | None) -> None:
        """Give each handler so much credit, None for its own."""
        for prefetch in self._all():
            prefetch.resize(credit)

    def credit(self) -> int:
        """Return the credit of all handlers together."""
        return sum(prefetch.limit for prefetch in self._all())

    def waiting(self) -> dict[str, list[Claimed]]:
        """Return the messages that were not begun, in order, of each queue that has some."""
        waiting = {
            name: list(merge(*(each.waiting() for each in some), key=_place))
            for name, some in self._prefetched.items()
        }
        return {name: messages for name, messages in waiting.items() if messages}

    def take_all_back(self, queue: str) -> list[Claimed]:
        """Take out, and return, the messages of a queue that were not begun.

        Their groups are closed until the queue has them again, because others of them would overtake.
        """
        lines = self._lines.get(queue)
        with self._lining:
            behind = [] if lines is None else lines.empty()
            first = [message for prefetch in self._prefetched[queue] for message in prefetch.empty()]
            return self._return(queue, first, behind)

    def take_back(self, message: Claimed) -> list[Claimed]:
        """Take out a message and what is behind it in its group, and return them; none if it has begun."""
        lines = self._lines.get(message.queue_name)
        with self._lining:
            if not any(each.take_back(message) for each in self._prefetched[message.queue_name]):
                return []
            behind = [] if lines is None or message.group_key is None else lines.close(message.group_key)
            return self._return(message.queue_name, [message], behind)

    def _return(self, queue: str, first: list[Claimed], behind: list[Claimed]) -> list[Claimed]:
        """Close the groups of messages on their way back, of which the ``first`` could begin; return them all."""
        lines, returned = self._lines.get(queue), [*first, *behind]
        self._let_go(behind)
        if lines is None:
            return returned
        for message in returned:
            if message.group_key is not None:
                lines.closed.add(message.group_key)
                self._returning.setdefault((queue, message.group_key), set()).add(message.receipt)
        for message in first:
            if message.group_key is not None:
                lines.leave(message.group_key)
        return returned

    def empty(self) -> list[Claimed]:
        """Take out, and return, the messages that were not begun."""
        with self._lining:
            taken = [claimed for prefetch in self._all() for claimed in prefetch.empty()]
            for lines in self._lines.values():
                behind = lines.empty()
                self._let_go(behind)
                taken += behind
        return taken

    def describe(self) -> tuple[ConsumerInfo, ...]:
        """Return what the operator sees of all handlers."""
        return tuple(
            replace(
                subscriber.describe(), selector=self._selected.get(prefetch.queue, {}).get(prefetch.selector, "")
            )
            for prefetch in self._all()
            for subscriber in prefetch.subscribers
        )

    def _all(self) -> Iterator[Prefetch]:
        return chain.from_iterable(self._prefetched.values())


# Nothing is written for a message that begins in time: the worker asks once for each heartbeat, if messages wait
# for its slots.


class Recall:
    """What one session gives back of its prefetched messages. The worker's loop calls it while some wait."""

    def __init__(self, session: Session, dispatcher: Dispatcher) -> None:
        self._session = session
        self._dispatcher = dispatcher
        # The messages that waited at the last look for free slots, and when the next look is due.
        self._before: frozenset[Receipt] = frozenset()
        self._look_at = 0.0
        self._yields_until = 0.0

    @property
    def yields(self) -> bool:
        """Whether to claim no more than can begin: other workers had free slots."""
        return time.monotonic() < self._yields_until

    def give_back(self, queues: Iterable[str]) -> None:
        """Give back what has not begun of these queues."""
        for name in queues:
            for message in self._dispatcher.take_all_back(name):
                self._session.release(message)

    def drop_stopped(self) -> None:
        """Let go of what has not begun and was cancelled: the session does not give it back."""
        if stops := self._session.stops:
            waiting = [message for messages in self._dispatcher.waiting().values() for message in messages]
            self._take_back([message for message in waiting if message.receipt in stops])

    def give_to_others(self) -> None:
        """Give back, for each heartbeat, what others could begin. Raises StoreError."""
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + conf.load().SESSION_SECONDS / RENEWALS
            self._give_to_others()

    def _give_to_others(self) -> None:
        load, waiting = self._session.driver.describe(), self._dispatcher.waiting()
        before, self._before = (
            self._before,
            frozenset(item.receipt for items in waiting.values() for item in items),
        )
        queues = [
            name
            for name in waiting
            if (record := last_read(self._session.alias, name)).is_for_any and not record.priorities_differ
        ]
        free_slots = (load.slots or 0) - (load.busy or 0)
        if not queues or not before & self._before or self._session.id is None:
            return
        free = self._session.store.sessions.free_slots(self._session.id, queues)
        for name, elsewhere in free.items():
            receipts = {item.receipt: item for item in waiting[name]}
            chosen = surplus(
                [*receipts],
                before,
                free_slots=free_slots,
                elsewhere=elsewhere,
                message_of=lambda receipt, receipts=receipts: receipts[receipt].as_message(),  # type: ignore[misc]
            )
            self._take_back([receipts[receipt] for receipt in chosen])
            if chosen:
                self._yields_until = self._look_at

    def _take_back(self, messages: list[Claimed]) -> None:
        for message in messages:
            for taken in self._dispatcher.take_back(message):
                self._session.release(taken)
