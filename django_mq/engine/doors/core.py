"""What stands behind the doors of a queue: its parts, its lock, and how an entry leaves."""

from collections.abc import Callable
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Final

from django_mq.engine.afterlife import Afterlife
from django_mq.engine.contents import Contents
from django_mq.engine.duplicates import DuplicateIds
from django_mq.engine.exclusivity import Admission
from django_mq.engine.gate import Gate
from django_mq.engine.lists.base import EntryList
from django_mq.engine.lists.registry import make_list
from django_mq.engine.live import LiveConsumers
from django_mq.engine.policy import IN_PROCESS, QueuePolicy
from django_mq.engine.room import Room
from django_mq.engine.rules import Rules
from django_mq.engine.timeline import UNTOLD
from django_mq.errors import QueueDeleted

if TYPE_CHECKING:
    from django_mq.engine.departing import Cause, Listener
    from django_mq.engine.entry import Entry
    from django_mq.engine.groups.base import Groups
    from django_mq.engine.queue import Queue

#: Finds another queue by its name; None if there is none.
Resolve = Callable[[str], "Queue | None"]

_DEFAULT_RULES: Final = Rules()


def _knows_no_other(_: str) -> None:
    """The answer of a queue that stands alone."""


class Arrivals:
    """The number of the last arrival, in one queue or in all that share it."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = 0


class Core:
    """A queue without doors."""

    def __init__(
        self,
        name: str = "",
        rules: Rules = _DEFAULT_RULES,
        *,
        entries: "EntryList | None" = None,
        lock: "RLock | None" = None,
        resolve: Resolve = _knows_no_other,
        policy: QueuePolicy = IN_PROCESS,
        arrivals: Arrivals | None = None,
        listener: "Listener | None" = None,
    ) -> None:
        self.name = name
        #: Queues that dead letters or targets join share one lock; it must be reentrant.
        self.lock = RLock() if lock is None else lock
        # For the three calls that every message needs: the same as a with statement, at half its price.
        self._acquire, self._release = self.lock.acquire, self.lock.release
        self.deleted = False
        #: Whether it takes no more messages.
        self.closed = False
        self.policy = policy
        self._paused = False
        self._arrivals = Arrivals() if arrivals is None else arrivals
        self._listener = listener
        #: The latest time this queue was told.
        self._now = UNTOLD
        if entries is None:
            entries = make_list(rules.kind, key=rules.key, levels=rules.levels)
        arrived = None if listener is None else partial(listener.arrived, name)
        self._contents = Contents(entries, self._gone, self._expired, arrived, policy)
        self._dispatch = self._contents.dispatch
        self._calendar = self._contents.calendar
        self._room = Room(self._contents)
        self._duplicates = DuplicateIds(
            rules.duplicates, rules.duplicates_seconds, at_least=policy.remembers_at_least
        )
        self._admission = Admission(rules.exclusivity, rules.max_consumers)
        self._expired_unasked: list[Entry] = []
        #: The groups with their owners, which may outlast that the queue has groups.
        self._groups: Groups | None = None
        self._resolve = resolve
        self._follow(rules)

    def _follow(self, rules: Rules) -> None:
        old, self.rules = getattr(self, "rules", None), rules
        self._plain = rules.plain and not self.deleted and not self.policy.ids_once
        #: Whether a delivery and its settlement concern nobody but the consumer and the entry.
        self._short = (
            rules.short
            and not self._contents.holding
            and not self._list_remembers
            and not self.policy.ids_once
            and self._listener is None
        )
        if old is None or old.groups is not rules.groups:
            self._regroup(rules)
        if old is None or old.max_live != rules.max_live:
            self._limit_live(rules.max_live)
        self.placement = rules.placement
        self._afterlife = Afterlife(self.name, rules, self._resolve)
        if old is None or (old.consumers_before, old.delay_before) != (rules.consumers_before, rules.delay_before):
            self._gate = Gate(rules.consumers_before, rules.delay_before)
        self._duplicates.resize(rules.duplicates, rules.duplicates_seconds)
        self._admission.change(rules.exclusivity, rules.max_consumers, self._dispatch.consumers.all)
        self._room.set(rules.overflow, rules.limits, rules.resume_percent, ready_only=rules.ring_of_ready)

    @property
    def _list_remembers(self) -> bool:
        """Whether the list wants to know what has gone for good."""
        return type(self._dispatch.ready).forget is not EntryList.forget

    def _regroup(self, rules: Rules) -> None:
        old = self._groups
        if old is None or not self.policy.owns_until_it_leaves:
            self._groups = None if rules.groups is None else rules.groups(position=self._dispatch.ready.position)
        self._dispatch.consumers.groups = None if rules.groups is None else self._groups
        if old is not None and old is not self._groups:
            self._dispatch.look_again(old.reset())

    def _limit_live(self, most: int | None) -> None:
        dispatch, lasting = self._dispatch, self.policy.owns_until_it_leaves
        if dispatch.live is not None and (lasting or most is not None):
            dispatch.live.resize(most)
            return
        dispatch.live = live = None if most is None else LiveConsumers(most, lasting=lasting)
        if live is not None and not lasting:
            for consumer in dispatch.consumers.all:
                live.add(consumer)

    @property
    def _is_deserted(self) -> bool:
        """Whether its messages need somebody who consumes, and nobody does."""
        return self.rules.purge_on_no_consumers and not self._dispatch.consumers.all

    def _refuse_if_deleted(self) -> None:
        if self.deleted:
            raise QueueDeleted

    def _gone(self, entry: "Entry", cause: "Cause") -> None:
        """An entry has left for good."""
        dispatch = self._dispatch
        dispatch.ready.forget(entry)
        if dispatch.groups is not None:
            dispatch.groups.gone(entry)
        if self._room.flow.stopped:
            self._room.freed()
        if self._listener is not None:
            self._listener.departed(self.name, entry, cause)

    def _expired(self, entry: "Entry") -> None:
        """An entry has left because its time had passed."""
        if not self._afterlife.expired(entry, self._now):
            self._expired_unasked.append(entry)

    def _promote(self, now: float, most: int | None = None) -> "list[Entry]":
        due = self._contents.promote(now, most)
        self._calendar.look_again()
        if not self._plain:
            for _ in due:  # the latest stays; the others are as old as they are
                self._room.look_again(due[-1])
        return due

    def entries(self) -> "list[Entry]":
        """Every entry, whatever its state, in the order of the queue."""
        with self.lock:
            return sorted(self.everything(), key=self._dispatch.ready.position)

    def everything(self) -> "list[Entry]":
        """Every entry, whatever its state, in no order."""
        with self.lock:
            return [*self._contents.waiting(), *self._contents.held()]

    def find(self, message_id: str) -> "Entry | None":
        """The entry of the message with this id, in a queue where an id stands once; None if it is not here."""
        with self.lock:
            return None if self._contents.ids is None else self._contents.ids.get(message_id)

    def _look_at_gate(self) -> None:
        self._gate.look(len(self._dispatch.consumers.all), self._contents.claimed, self._now)
        self._halt_or_go()

    def _halt_or_go(self) -> None:
        """Deliver if the queue is neither paused nor waiting for consumers."""
        if self._paused or not self._gate.is_open:
            self._dispatch.halted = True
        elif self._dispatch.halted:
            self._dispatch.resume()
