"""What one queue does with its messages: everything that can be chosen for it.

``Rules`` are a queue's own. ``QueuePolicy`` is what differs between a queue in one process and a queue that
sessions share through a table: what a worker of another process has begun cannot be taken from it, its
death is noticed later, and rows are changed by statements, not by one thread.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from django_mq.engine.admission import Exclusivity
from django_mq.engine.duplicates import DEFAULT_SIZE as DEFAULT_DUPLICATES
from django_mq.engine.entry import Placement
from django_mq.engine.expiry import UNBOUNDED, Lifetime
from django_mq.engine.groups import AssignedGroups
from django_mq.engine.names import check_bounds
from django_mq.engine.overflow import DEFAULT_RESUME_PERCENT, Limits, Overflow
from django_mq.engine.places import MOST_LEVELS, ONE_LEVEL, check_levels, levels_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.engine.groups import Groups
    from django_mq.engine.options import QueueOptions
    from django_mq.engine.verdict import Backoff


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The settings of a queue. The defaults are a priority queue of ten levels without limits.

    Raises OutOfRange for what cannot be.
    """

    #: The order it stands in: fifo, priority, sorted, last_value, or a registered kind.
    kind: str = "priority"
    #: The header a sorted queue sorts by, or a last-value queue keeps one message per value of.
    key: str | None = None
    #: Whether a last-value queue takes values for a later time: such a value replaces others when it becomes due.
    values_in_advance: bool = True
    levels: int = MOST_LEVELS
    #: Whether due messages stand at the head of their level (Artemis), or where they arrived.
    due_first: bool = True
    #: Whether a message whose time is to come stands in line, held (Qpid), or is scheduled.
    hold: bool = False

    #: Failed deliveries after which a message is dead; None is unlimited.
    max_attempts: int | None = None
    #: The wait after a failure; None is none.
    backoff: "Backoff | None" = None
    #: The queue that dead letters go to; without one they stay here, as ``dead``.
    dead_letter_queue: str | None = None
    #: Whether dead letters that have nowhere to go are kept.
    keep_dead: bool = True
    #: The queue that expired messages go to; without one they are dropped.
    expiry_queue: str | None = None
    #: Whether a dead letter or an expired message forgets when it expires.
    ends_forgotten: bool = True
    lifetime: Lifetime = UNBOUNDED

    limits: Limits = field(default_factory=Limits)
    overflow: Overflow = Overflow.NONE
    #: Whether a ring counts ready messages only, and drives out one for each that comes to stand
    #: in it (Artemis), or counts all, and is never left too full (Qpid).
    ring_of_ready: bool = False
    resume_percent: float = DEFAULT_RESUME_PERCENT
    #: How many duplicate ids are remembered; 0 is none, or, with a time, as many as come in that time.
    duplicates: int = DEFAULT_DUPLICATES
    duplicates_seconds: float | None = None

    #: Makes the queue's groups, given ``position``: what is early in its list. None: there are no groups.
    groups: "Callable[..., Groups] | None" = None
    exclusivity: Exclusivity = Exclusivity.NONE
    max_consumers: int | None = None
    #: How many consumers may receive at a time; the others stand by.
    max_live: int | None = None
    #: How many consumers must be there before anything is delivered, or how long to wait for them.
    consumers_before: int = 0
    delay_before: float | None = None
    #: Whether consumers only look.
    nondestructive: bool = False
    #: Whether the queue goes when its last consumer goes.
    auto_delete: bool = False
    #: Whether messages need somebody who consumes.
    purge_on_no_consumers: bool = False

    @classmethod
    def of(cls, options: "QueueOptions") -> "Rules":
        """Return the rules of a queue with these options, as far as they are not the arbiter's or a session's."""
        kind = options.kind if options.kind in ONE_LEVEL else "priority"
        kind = "last_value" if options.last_value_key else "sorted" if options.sort_key else kind
        return cls(
            kind=kind,
            key=options.last_value_key or options.sort_key or None,
            levels=levels_of(options.kind, options.levels),
            due_first=options.due_order == "due_first",
            max_attempts=options.max_attempts or None,
            dead_letter_queue=options.dead_letter_queue,
            expiry_queue=options.expiry_queue,
            lifetime=Lifetime.of(options),
            limits=Limits(options.max_messages, options.max_bytes),
            overflow=Overflow(options.overflow) if options.is_limited else Overflow.NONE,
            duplicates=options.dedup_count,
            duplicates_seconds=options.dedup_seconds,
            values_in_advance=options.values_in_advance,
            auto_delete=options.auto_delete,
            nondestructive=options.nondestructive,
            groups=AssignedGroups if options.groups_stay else None,
            max_live=options.slots,
        )

    @property
    def placement(self) -> Placement:
        """Where and for how long messages stand."""
        return Placement(levels_of(self.kind, self.levels), self.due_first, self.hold, self.lifetime)

    @property
    def plain(self) -> bool:
        """Whether an arrival needs no look at how full the queue is and who is there."""
        return self.overflow is Overflow.NONE and not self.purge_on_no_consumers

    @property
    def short(self) -> bool:
        """Whether a delivery, too, concerns nobody else: no group, no held entry, no gate."""
        gated = self.consumers_before > 0 or self.delay_before is not None
        return self.plain and self.groups is None and not self.hold and not gated

    def __post_init__(self) -> None:
        check_levels(self.levels)
        check_bounds(1, 100, resume_percent=self.resume_percent)
        check_bounds(1, max_attempts=self.max_attempts, max_consumers=self.max_consumers, max_live=self.max_live)
        check_bounds(0, duplicates=self.duplicates, consumers_before=self.consumers_before)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePolicy:
    """The choices of one kind of queue; each comment says what the choice means, and what its absence means."""

    #: A message's id stands in a queue once, and a second message with it is refused; else ids are not looked at.
    ids_once: bool = False
    #: A scheduled message expires where it is; else it becomes due first.
    expires_scheduled: bool = False
    #: An expired message may be delivered, marked, until maintenance removes it; else no delivery meets it.
    delivers_expired: bool = False
    #: A ring is trimmed when messages are published or moved into it, and by maintenance; else whenever a message
    #: comes to stand in it.
    trims_for_arrivals: bool = False
    #: A message is moved into a full ring, and drives out another; else no limit is passed by a move.
    moves_into_rings: bool = False
    #: A moved message keeps its end; else the other queue's rules give it one.
    keeps_end: bool = False
    #: A dead message that is made ready again lives for ever; else until its end.
    redrives_for_ever: bool = False
    #: A scheduled message may get another priority; else only a ready one.
    reprioritises_scheduled: bool = False
    #: A full queue whose producers are to wait refuses the message until there is room; else it takes the message,
    #: and its producer waits before the next.
    refuses_while_full: bool = False
    #: A replaced value is over, even if the later one is gone when it is given back, and one that waits for its
    #: next attempt is replaced at once; else a value counts as long as no later one is here.
    replaces_for_good: bool = False
    #: What was settled in a unit of work that is rolled back is held as before; else it has failed.
    holds_on_rollback: bool = False
    #: A consumer takes a slot with its first message, or when it asks for one, and keeps its slot and its groups
    #: until it leaves, even if the queue's options change; else it takes a slot when it comes, too many are cut
    #: at once, and other groups begin without owners.
    owns_until_it_leaves: bool = False
    #: Duplicate ids are remembered at least so long, and forgotten by maintenance; else exactly so long.
    remembers_at_least: bool = False


#: A queue in the memory of one process, which decides everything at once.
IN_PROCESS: Final = QueuePolicy()
#: A queue that worker sessions share through a table, or as if through one.
SHARED_TABLE: Final = QueuePolicy(
    ids_once=True,
    expires_scheduled=True,
    delivers_expired=True,
    trims_for_arrivals=True,
    moves_into_rings=True,
    keeps_end=True,
    redrives_for_ever=True,
    reprioritises_scheduled=True,
    refuses_while_full=True,
    replaces_for_good=True,
    holds_on_rollback=True,
    owns_until_it_leaves=True,
    remembers_at_least=True,
)
