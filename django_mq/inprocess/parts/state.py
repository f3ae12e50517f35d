"""What the parts of one queue share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.engine.decisions.dead_letters import keeps_dropped
from django_mq.errors import QueueDeleted
from django_mq.inprocess.consumers.admission import ConsumerAdmission, Gate, LiveConsumers
from django_mq.inprocess.entries.afterlife import Afterlife
from django_mq.inprocess.entries.capacity import Capacity
from django_mq.inprocess.entries.contents import Contents
from django_mq.inprocess.entries.duplicates import DuplicateIds
from django_mq.inprocess.entries.lists import EntryList
from django_mq.inprocess.entries.timeline import UNTOLD

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.inprocess.consumers.groups import Groups
    from django_mq.inprocess.entries.afterlife import Station
    from django_mq.inprocess.entries.contents import EntryListener
    from django_mq.inprocess.entries.entry import Entry
    from django_mq.inprocess.rules import QueuePolicy, Rules


class ArrivalNumbers:
    """The number of the last arrival, in one queue or in all that share it."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = 0

    def next(self) -> int:
        self.last += 1
        return self.last


class CommonState:
    """The rules of a queue, what it holds, and its time."""

    def __init__(
        self,
        queue: object,
        name: str,
        rules: Rules,
        *,
        entries: EntryList,
        resolve: Callable[[str], Station | None],
        policy: QueuePolicy,
        numbers: ArrivalNumbers,
        listener: EntryListener | None,
    ) -> None:
        #: The queue itself, to tell its consumers from those of others.
        self.queue = queue
        self.name = name
        self.policy = policy
        self.numbers = numbers
        self.listener = listener
        self._resolve = resolve
        #: Whether it refuses new messages.
        self.closed = False
        self.deleted = False
        #: Whether an operator has paused delivery.
        self.paused = False
        #: The latest ``now`` of a call.
        self.now = UNTOLD
        #: What has expired since the last call of ``DueEntries.expire``.
        self.expired: list[Entry] = []
        self.contents = Contents(name, entries, policy, listener, self.note_expired)
        self.dispatch = self.contents.dispatch
        self.capacity = Capacity(self.contents)
        #: The remembered duplicate ids, which a store may keep over a restart.
        self.duplicate_ids = DuplicateIds(at_least=policy.remembers_at_least)
        #: Which consumers may subscribe, and which client owns the queue.
        self.admission = ConsumerAdmission()
        #: The groups with their owners; kept after a change to rules without groups.
        self.groups: Groups | None = None
        self._follow(rules, None)

    def change(self, rules: Rules) -> None:
        """Use other rules from now on."""
        self._follow(rules, self.rules)

    def _follow(self, rules: Rules, old: Rules | None) -> None:
        self.rules = rules
        #: Whether an arrival affects only the entry.
        self.plain = rules.has_plain_arrivals and not self.deleted and not self.policy.ids_once
        list_forgets = type(self.dispatch.ready).forget is not EntryList.forget
        #: Whether a delivery and its settlement affect only the consumer and the entry.
        self.short = (
            rules.has_plain_deliveries
            and not self.contents.holding
            and not list_forgets
            and not self.policy.ids_once
            and self.listener is None
        )
        if old is None or old.groups is not rules.groups:
            self._regroup(rules)
        if old is None or old.max_live != rules.max_live:
            self._limit_live(rules.max_live)
        self.placement = rules.placement
        self._share(rules)
        self.afterlife = Afterlife(self.name, rules, self._resolve)
        if old is None or (old.consumers_before, old.delay_before) != (rules.consumers_before, rules.delay_before):
            self.gate = Gate(rules.consumers_before, rules.delay_before)
        self.duplicate_ids.resize(rules.duplicates, rules.duplicates_seconds)
        self.admission.change(rules.exclusivity, rules.max_consumers, self.dispatch.consumers.all)
        self.capacity.set(
            rules.overflow,
            rules.limits,
            rules.resume_percent,
            ready_only=rules.ring_of_ready,
            buries=keeps_dropped(rules),
        )

    def _share(self, rules: Rules) -> None:
        fair = self.contents.fair
        before, fair.fairness = fair.fairness, rules.fairness
        if before is None and rules.fairness is not None:
            self.contents.place_unplaced()

    def _regroup(self, rules: Rules) -> None:
        old = self.groups
        if old is None or not self.policy.owns_until_it_leaves:
            self.groups = None if rules.groups is None else rules.groups(position=self.dispatch.ready.position)
        self.dispatch.consumers.groups = None if rules.groups is None else self.groups
        if old is not None and old is not self.groups:
            self.dispatch.look_again(old.reset())

    def _limit_live(self, most: int | None) -> None:
        dispatch, lasting = self.dispatch, self.policy.owns_until_it_leaves
        if dispatch.live is not None and (lasting or most is not None):
            dispatch.live.resize(most)
            return
        dispatch.live = live = None if most is None else LiveConsumers(most, lasting=lasting)
        if live is not None and not lasting:
            for consumer in dispatch.consumers.all:
                live.add(consumer)

    def note_expired(self, entry: Entry) -> None:
        """Send an expired entry on, or keep it for the next call of ``DueEntries.expire``."""
        if not self.afterlife.expired(entry, self.now):
            self.expired.append(entry)

    @property
    def is_deserted(self) -> bool:
        """Whether its messages need a consumer, and there is none."""
        return self.rules.purge_on_no_consumers and not self.dispatch.consumers.all

    def refuse_if_deleted(self) -> None:
        if self.deleted:
            raise QueueDeleted

    def look_at_gate(self) -> None:
        self.gate.look(len(self.dispatch.consumers.all), self.contents.claimed, self.now)
        self.halt_or_go()

    def halt_or_go(self) -> None:
        """Deliver unless the queue is paused or waits for consumers."""
        if self.paused or not self.gate.is_open:
            self.dispatch.halted = True
        elif self.dispatch.halted:
            self.dispatch.resume()

    def arrive_again(self, entry: Entry) -> None:
        """Add an entry that stood elsewhere, as the newest arrival."""
        entry.stand_at(entry.place, self.numbers.next())
        self.contents.arrive(entry)
