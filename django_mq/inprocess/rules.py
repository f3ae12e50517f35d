"""The settings of a queue of the in-process broker.

``Rules`` are the settings of one queue. ``QueuePolicy`` has the differences between a queue in one process and a
queue that worker sessions share through a table. In a shared table, a message that another process handles cannot
be taken from it, a dead process is noticed later, and several processes change rows at the same time.
"""

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Final

from django_mq.engine.bounds import check_bounds
from django_mq.engine.decisions.duplicates import DEFAULT_SIZE as DEFAULT_DUPLICATES
from django_mq.engine.decisions.expiry import UNBOUNDED, Lifetime
from django_mq.engine.decisions.limits import DEFAULT_RESUME_PERCENT, Limits, Overflow
from django_mq.engine.decisions.places import MOST_LEVELS, ONE_LEVEL, check_levels, levels_of
from django_mq.inprocess.consumers.admission import Exclusivity
from django_mq.inprocess.consumers.groups import AssignedGroups
from django_mq.inprocess.entries.entry import Placement

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.engine.decisions.backoff import Backoff
    from django_mq.engine.decisions.fairness import Fairness
    from django_mq.engine.decisions.sorting import Sorting
    from django_mq.engine.options import QueueOptions
    from django_mq.inprocess.consumers.groups import Groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The settings of a queue. The defaults are a priority queue of ten levels without limits.

    Raises OutOfRange for a number that is out of range.
    """

    #: The order of the messages: fifo, priority, sorted, last_value, or a registered kind.
    kind: str = "priority"
    #: The header that a sorted queue sorts by. A last-value queue keeps one message for each value of this header.
    key: str | None = None
    #: The header of numbers or times that says the place of a message in its level; None for the order of arrival.
    sorting: "Sorting | None" = None
    #: How keys share the queue; None if they do not.
    fairness: "Fairness | None" = None
    levels: int = MOST_LEVELS
    #: Whether a due message moves to the head of its level (Artemis); else it stands where it arrived.
    due_first: bool = True
    #: Whether a message that is not due yet takes its place at once, in the state ``held`` (Qpid); else it is
    #: ``scheduled``.
    hold: bool = False

    #: Failed deliveries after which a message is dead; None is unlimited.
    max_attempts: int | None = None
    #: The delay after a failure; None is no delay.
    backoff: "Backoff | None" = None
    #: The queue that dead letters go to; None: they stay in this queue, in the state ``dead``.
    dead_letter_queue: str | None = None
    #: Whether dead letters are kept if there is no dead-letter queue.
    keep_dead: bool = True
    #: The queue that expired messages go to; None: they are dropped.
    expiry_queue: str | None = None
    #: The exchange that takes what is rejected, expires, or is replaced in a ring, instead of these queues. A
    #: broker without a store has only the default exchange.
    dead_letter_exchange: str = ""
    dead_letter_routing_key: str = ""
    #: How often a message may be rejected in this queue and leave; None is unlimited.
    max_dead_letter_cycles: int | None = None
    #: Whether a dead letter or an expired message loses its ``expires_at`` when it goes to another queue.
    drops_expiry: bool = True
    lifetime: Lifetime = UNBOUNDED

    limits: Limits = field(default_factory=Limits)
    overflow: Overflow = Overflow.NONE
    #: Whether a ring counts only ready messages, and evicts at most one message when another becomes ready
    #: (Artemis); else it counts all messages, and evicts until it is within its limits (Qpid).
    ring_of_ready: bool = False
    resume_percent: float = DEFAULT_RESUME_PERCENT
    #: How many duplicate ids are remembered. 0: none, or all of the last ``duplicates_seconds`` if these are set.
    duplicates: int = DEFAULT_DUPLICATES
    duplicates_seconds: float | None = None

    #: The class of the queue's groups, called with the sort key of the queue's list. None: no groups.
    groups: "Callable[..., Groups] | None" = None
    exclusivity: Exclusivity = Exclusivity.NONE
    max_consumers: int | None = None
    #: How many consumers may receive at a time; the others wait.
    max_live: int | None = None
    #: How many consumers must have subscribed before delivery begins.
    consumers_before: int = 0
    #: How many seconds after the first consumer delivery begins in any case.
    delay_before: float | None = None
    #: Whether every consumer is a browser.
    nondestructive: bool = False
    #: Whether the queue is deleted when its last consumer leaves.
    auto_delete: bool = False
    #: Whether a queue without consumers keeps no messages.
    purge_on_no_consumers: bool = False

    @classmethod
    def of(cls, options: "QueueOptions") -> "Rules":
        """Return the rules for these options, without the options that the arbiter or a session applies."""
        kind = options.kind if options.kind in ONE_LEVEL else "priority"
        kind = "last_value" if options.last_value_key else "sorted" if options.sort_as_text else kind
        return cls(
            kind=kind,
            key=options.last_value_key or (options.sort_key if options.sort_as_text else None) or None,
            sorting=options.sorting,
            fairness=options.fairness,
            levels=levels_of(options.kind, options.levels),
            due_first=options.due_order == "due_first",
            max_attempts=options.max_attempts or None,
            dead_letter_queue=options.dead_letter_queue,
            expiry_queue=options.expiry_queue,
            dead_letter_exchange=options.dead_letter_exchange,
            dead_letter_routing_key=options.dead_letter_routing_key,
            max_dead_letter_cycles=options.max_dead_letter_cycles,
            lifetime=Lifetime.of(options),
            limits=Limits(options.max_messages, options.max_bytes),
            overflow=Overflow(options.overflow) if options.is_limited else Overflow.NONE,
            duplicates=options.dedup_count,
            duplicates_seconds=options.dedup_seconds,
            nondestructive=options.nondestructive,
            groups=AssignedGroups if options.groups_stay else None,
            max_live=options.slots,
        )

    @property
    def placement(self) -> Placement:
        """The settings that decide where and for how long messages stand."""
        levels = levels_of(self.kind, self.levels)
        return Placement(levels, self.due_first, self.hold, self.lifetime, self.sorting)

    @property
    def has_plain_arrivals(self) -> bool:
        """Whether every message is accepted, even if the queue is full or has no consumers."""
        return self.overflow is Overflow.NONE and not self.purge_on_no_consumers

    @property
    def has_plain_deliveries(self) -> bool:
        """Whether arrivals are plain, and a delivery affects only its consumer: no groups, holding or gate."""
        gated = self.consumers_before > 0 or self.delay_before is not None
        return self.has_plain_arrivals and self.groups is None and not self.hold and not gated

    def __post_init__(self) -> None:
        check_levels(self.levels)
        check_bounds(1, 100, resume_percent=self.resume_percent)
        check_bounds(1, max_attempts=self.max_attempts, max_consumers=self.max_consumers, max_live=self.max_live)
        check_bounds(1, max_dead_letter_cycles=self.max_dead_letter_cycles)
        check_bounds(0, duplicates=self.duplicates, consumers_before=self.consumers_before)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePolicy:
    """The choices of one kind of queue. Each comment says what True means, and after "else" what False means."""

    #: A message id is unique in a queue, and a second message with it is refused; else ids are not checked.
    ids_once: bool = False
    #: A scheduled message may expire; else it becomes due first.
    expires_scheduled: bool = False
    #: An expired message may be delivered, marked, until maintenance removes it; else it never is.
    delivers_expired: bool = False
    #: A ring is trimmed when messages are published or moved into it, and by maintenance; else whenever a message
    #: becomes ready.
    trims_for_arrivals: bool = False
    #: A message moved into a full ring evicts another; else a full ring refuses it.
    moves_into_rings: bool = False
    #: A moved message keeps its expiry; else it gets a new one by the other queue's rules.
    keeps_end: bool = False
    #: A dead message that is redriven never expires; else it keeps its expiry.
    redrives_for_ever: bool = False
    #: The priority of a scheduled message may be changed; else only that of a ready one.
    reprioritises_scheduled: bool = False
    #: A full queue with the overflow ``FLOW`` refuses the message until there is room; else it takes the message,
    #: and its producer waits before the next one.
    refuses_while_full: bool = False
    #: A replaced value is never delivered again, even if the later value has left the queue. A value that waits
    #: for its next attempt is replaced at once. Else an older value is delivered if no later one is in the queue.
    replaces_for_good: bool = False
    #: A scheduled value of a last-value queue arrives anew when it is due, and none moves in from another queue;
    #: else it stands in its place, and counts as the later value if due messages stand first.
    values_arrive_when_due: bool = False
    #: After a rollback, a consumer still holds the entries that it had settled in the unit of work; else these
    #: entries count as failed.
    holds_on_rollback: bool = False
    #: A consumer takes a slot with its first message, or when it asks for one, and keeps its slot and its groups
    #: until it leaves, even if the queue's options change; else it takes a slot when it subscribes, loses the slot
    #: as soon as the queue has fewer slots, and a change of the grouping removes all owners.
    owns_until_it_leaves: bool = False
    #: Only maintenance forgets duplicate ids above the number; else the oldest id is forgotten at once.
    remembers_at_least: bool = False


#: A queue in the memory of one process.
IN_PROCESS: Final = QueuePolicy()
#: A queue that worker sessions share through a table, or a queue in memory that behaves like one.
SHARED_TABLE: Final = QueuePolicy(**{item.name: True for item in fields(QueuePolicy)})
