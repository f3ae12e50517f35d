"""The consumers of a queue, by their interest in entries (Qpid's consumer manager).

Among idle consumers of one priority, the longest idle is woken first: a consumer that becomes
interested goes to the end of the line. Every move between the sets costs the same however
many consumers there are.
"""

from bisect import insort
from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain, takewhile
from typing import TYPE_CHECKING

from django_mq.engine.decisions.arbiter import first_taker
from django_mq.inprocess.consumers.consumer import (
    BLOCKED,
    INTERESTED,
    NON_ACQUIRING,
    NOT_INTERESTED,
    NOTIFIED,
    REMOVED,
    Consumer,
    Interest,
)

if TYPE_CHECKING:
    from django_mq.inprocess.consumers.groups import Groups
    from django_mq.inprocess.entries.entry import Entry
    from django_mq.inprocess.entries.view import View

#: A set with an order: O(1) to append, to remove, and to find the first.
Line = OrderedDict[Consumer, None]


class Rank:
    """The consumers of one priority that compete for entries."""

    def __init__(self, priority: int) -> None:
        self.priority = priority
        #: All consumers of this priority, the resting ones included, in order of subscription.
        self.members: list[Consumer] = []
        #: The index of the next member in turn; turns begin anew when a consumer comes or goes.
        self.turn = 0
        self.interested: Line = OrderedDict()
        self.notified: Line = OrderedDict()


class Consumers:
    """The subscribed consumers, each in the one set of its interest."""

    def __init__(self) -> None:
        self.all: Line = OrderedDict()
        self.resting: Line = OrderedDict()
        self.blocked: Line = OrderedDict()
        self.browsers: Line = OrderedDict()
        #: The view of every consumer with a position. A resting consumer, too, must see what arrives.
        self.views: dict[Consumer, View] = {}
        #: Consumers with entries behind the position of their view.
        self.looking_back: Line = OrderedDict()
        #: The queue's groups, if it has any: a consumer may not take an entry of another's group.
        self.groups: Groups | None = None
        self._by_priority: dict[int, Rank] = {}
        self._ranks: list[Rank] = []
        #: The highest priority: a consumer that has it need not look for better ones.
        self.top_priority = 0
        #: How many consumers pull.
        self.awake = 0
        #: How many consumers wait to be woken.
        self.idle = 0

    def add(self, consumer: Consumer) -> bool:
        """Subscribe a consumer as not interested; False if it is subscribed already."""
        if consumer.interest is not REMOVED:
            return False
        rank = self._by_priority.get(consumer.priority)
        if rank is None:
            rank = self._by_priority[consumer.priority] = Rank(consumer.priority)
            insort(self._ranks, rank, key=lambda rank: -rank.priority)
        rank.members.append(consumer)
        self._ranks_changed(rank)
        self.all[consumer] = None
        self._move(consumer, NOT_INTERESTED, self.resting)
        return True

    def remove(self, consumer: Consumer) -> bool:
        """Unsubscribe a consumer; False if it was not subscribed."""
        if consumer not in self.all:
            return False
        del self.all[consumer]
        self.views.pop(consumer, None)
        self.looking_back.pop(consumer, None)
        self._move(consumer, REMOVED, None)
        rank = self._by_priority[consumer.priority]
        rank.members.remove(consumer)
        if not rank.members:
            self._ranks.remove(self._by_priority.pop(rank.priority))
        self._ranks_changed(rank)
        return True

    def _ranks_changed(self, rank: Rank) -> None:
        rank.turn = 0
        self.top_priority = self._ranks[0].priority if self._ranks else 0

    def become_interested(self, consumer: Consumer) -> None:
        """Note that the consumer is idle and wants entries; it goes to the end of its line."""
        if consumer.browser:
            self._move(consumer, NON_ACQUIRING, self.browsers)
        else:
            self._move(consumer, INTERESTED, self._by_priority[consumer.priority].interested)

    def become_notified(self, consumer: Consumer) -> None:
        """Note that the consumer has entries to pull."""
        self._move(consumer, NOTIFIED, self._by_priority[consumer.priority].notified)

    def block(self, consumer: Consumer, entry: "Entry") -> None:
        """Note that the consumer's credit does not cover the entry."""
        self._move(consumer, BLOCKED, self.blocked)
        consumer.waiting_for = entry

    def rest(self, consumer: Consumer) -> None:
        """Note that the consumer wants no entries for now."""
        self._move(consumer, NOT_INTERESTED, self.resting)

    def _move(self, consumer: Consumer, interest: Interest, home: Line | None) -> None:
        old = consumer.interest
        if old is not interest:
            consumer.interest = interest
            self.awake += (interest is NOTIFIED) - (old is NOTIFIED)
            self.idle += (interest is INTERESTED) - (old is INTERESTED)
        if consumer.home is not None:
            del consumer.home[consumer]
        if home is not None:
            home[consumer] = None
        consumer.home = home
        consumer.waiting_for = None

    def to_wake(self, entry: "Entry") -> Consumer | None:
        """Return the consumer to wake for this entry: the longest idle of the highest priority.

        None if no idle consumer wants it, or if a busy one of higher priority will take it.
        """
        for rank in self._ranks:
            for consumer in rank.interested:
                if not consumer.wants(entry):
                    continue
                if self.groups is None or self.groups.may_take(consumer, entry):
                    return None if self.above(consumer, entry) else consumer
                self.groups.skipped(entry)
        return None

    def above(self, consumer: Consumer, entry: "Entry") -> bool:
        """Whether a consumer of higher priority wants the entry and has the credit for it.

        Qpid requires only "some credit", so that one byte of it blocks all lower consumers from
        an entry of a kilobyte, for ever.
        """
        if consumer.priority >= self.top_priority:
            return False
        better = takewhile(lambda rank: rank.priority > consumer.priority, self._ranks)
        others = chain.from_iterable((*rank.interested, *rank.notified) for rank in better)
        return first_taker(others, lambda other: self.could_take(other, entry)) is not None

    def expects(self, entry: "Entry") -> bool:
        """Whether a busy consumer could take the entry."""
        return any(self.could_take(consumer, entry) for rank in self._ranks for consumer in rank.notified)

    def could_take(self, consumer: Consumer, entry: "Entry") -> bool:
        """Whether the consumer wants the entry, has the credit for it, and may have its group."""
        if not consumer.could_take(entry):
            return False
        return self.groups is None or consumer.browser or self.groups.may_take(consumer, entry)

    def sleepers(self) -> Iterator[Consumer]:
        """Yield the idle consumers by priority, the longest idle first."""
        for rank in self._ranks:
            yield from rank.interested

    @property
    def priorities_differ(self) -> bool:
        return len(self._ranks) > 1

    def in_turn(self) -> Iterator[Consumer]:
        """Yield the consumers that compete for entries, by priority, in turn within a priority."""
        for rank in self._ranks:
            for consumer in rank.members[rank.turn :] + rank.members[: rank.turn]:
                if consumer.interest is INTERESTED or consumer.interest is NOTIFIED:
                    yield consumer

    def served(self, consumer: Consumer) -> None:
        """Give the next turn to the next consumer of the same priority."""
        rank = self._by_priority[consumer.priority]
        rank.turn = rank.members.index(consumer) + 1
