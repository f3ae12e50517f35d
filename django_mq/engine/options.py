"""The options of a queue. Each option is declared once, in ``QueueOptions``.

The settings, the model, the admin's form, ``mq_queue``, the arguments that RabbitMQ knows, what the stores read
and write, and the checks are made from these declarations; a test compares the reference page with them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from django_mq.engine.backoff import Backoff
from django_mq.engine.names import WHAT_A_NAME_IS, is_name, is_storable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: The longest time span: what may be added to the clock in every database.
LONGEST_SECONDS: Final = 100 * 365 * 86400
#: The largest numbers that columns of 32 and 64 bits take.
LARGEST_INT: Final = 2**31 - 1
LARGEST_BIGINT: Final = 2**63 - 1
#: What the annotations of options mean for a value.
TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "bool": (bool,),
}


def _(text: str) -> str:
    """Mark a text for translation."""
    return text


#: The sections of the admin's form, in their order.
SECTIONS: Final = (
    _("Order"),
    _("Failures"),
    _("Consumers"),
    _("Limits"),
    _("Duplicates"),
    _("Time to live"),
    _("History"),
)


@dataclass(frozen=True, slots=True)
class Argument:
    """RabbitMQ's name for an option, and what RabbitMQ's values mean here."""

    name: str
    #: The value here for each of RabbitMQ's values, None where it changes nothing; empty: numbers are the same.
    values: Mapping[Any, Any] = field(default_factory=dict)
    #: How many of RabbitMQ's units are one unit here; None for whole numbers that are the same.
    units: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """The declaration of one option. ``label``, ``help`` and the labels of choices are translated by the pages."""

    label: str
    help: str
    section: str
    #: Whether the admin's form shows the option in one line with the option before.
    beside: bool = False
    #: Each value that can be chosen, and its label.
    choices: Mapping[str, str] = field(default_factory=dict)
    #: The smallest and the largest number.
    least: float = 0
    most: float = 0
    #: Whether the value is the name of another queue.
    is_link: bool = False
    #: The most characters of a text that is neither chosen nor the name of a queue.
    length: int = 0
    #: The column of the queue's table, called as the option where nothing else is said. None: the option is kept
    #: with others in one column of JSON, which SQL does not read.
    column: str | None = None
    argument: Argument | None = None
    #: Whether only queues in memory have the option: a store with tables refuses a queue that is given it.
    memory_only: bool = False
    # Read off the field of QueueOptions.
    name: str = ""
    type: str = ""
    default: Any = None

    @property
    def optional(self) -> bool:
        """Whether None is a value."""
        return self.type.endswith("| None")

    @property
    def base_type(self) -> str:
        """The type of a value that is not None: int, float, str or bool."""
        return self.type.partition(" | ")[0]

    def takes(self, value: Any) -> bool:
        """Whether the value is of the option's type and within its bounds."""
        return _is_of_type(value, self.type) and self.problem(value) is None

    def problem(self, value: Any) -> str | None:
        """Return what is wrong with a value of the right type, None if nothing is."""
        if value is None or self.base_type == "bool":
            return None
        if self.choices:
            return None if value in self.choices else f"use one of {', '.join(self.choices)}"
        if self.is_link:
            return None if is_name(value) else WHAT_A_NAME_IS
        if self.length:
            fits = is_storable(value, self.length)
            return None if fits else f"use at most {self.length} characters that a database can store"
        if self.least <= value <= self.most:
            return None
        return f"use {self.least} to {self.most}" + (", or None" if self.optional else "")


def _option(default: Any, **declared: Any) -> Any:
    return field(default=default, metadata={"option": declared})


def _in_memory(default: Any, help: str, **declared: Any) -> Any:  # noqa: A002 - as the field
    return _option(default, label="", help=help, section="", memory_only=True, **declared)


def _seconds(default: float | None, **declared: Any) -> Any:
    return _option(default, **{"most": LONGEST_SECONDS} | declared)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """The options of one queue, and what follows from them. The defaults hold for every door."""

    kind: str = _option(
        "priority",
        label=_("kind"),
        help=_(
            "Order of the queue. Messages that are already there keep their level; change their priority or move "
            "them to place them anew."
        ),
        section="Order",
        choices={
            "priority": _("priority"),
            "fifo": _("first in, first out"),
            "last_value": _("last value of each key"),
        },
    )
    levels: int = _option(
        10,
        label=_("levels"),
        help=_(
            "Priority lists of a priority queue, 1 to 10; a first-in-first-out queue ignores it. Another number "
            "places new messages only."
        ),
        section="Order",
        least=1,
        most=10,
    )
    due_order: str = _option(
        "due_first",
        label=_("due order"),
        help=_("Where a message stands whose time has come: at the head of its level, or where it arrived."),
        section="Order",
        choices={"due_first": _("due messages first"), "keep_place": _("keep place of arrival")},
    )
    last_value_key: str = _option(
        "",
        label=_("key of last values"),
        help=_("The header of which a last-value queue keeps one message per value."),
        section="Order",
        length=255,
    )

    max_attempts: int = _option(
        10,
        label=_("maximum attempts"),
        help=_("Failed deliveries after which a message is dead-lettered; 0 = never."),
        section="Failures",
        most=LARGEST_INT,
    )
    backoff_seconds: float = _seconds(
        1.0,
        label=_("backoff seconds"),
        help=_("Delay before the second delivery."),
        section="Failures",
    )
    backoff_multiplier: float = _option(
        2.0,
        label=_("backoff multiplier"),
        help=_("Factor from one delay to the next."),
        section="Failures",
        beside=True,
        least=1,
        most=1000,
    )
    backoff_cap_seconds: float = _seconds(
        600.0,
        label=_("backoff cap seconds"),
        help=_("Longest delay."),
        section="Failures",
    )
    backoff_jitter: float = _option(
        0.1,
        label=_("backoff jitter"),
        help=_("Share of the delay that is drawn at random, 0 to 1."),
        section="Failures",
        beside=True,
        most=1,
    )
    backoff_ticks_per_second: int = _option(
        0,
        label=_("backoff ticks per second"),
        help=_("Delays are cut to whole ticks, before jitter and cap; 0 = not cut. Artemis has 1000."),
        section="Failures",
        most=1_000_000,
        column=None,
    )
    dead_letter_queue: str | None = _option(
        None,
        label=_("dead-letter queue"),
        help=_("Where dead letters go; without one they stay here as dead."),
        section="Failures",
        is_link=True,
        column="dead_letter_queue_id",
    )

    grouping: str = _option(
        "none",
        label=_("grouping"),
        help=_("How messages with a group key are shared out; one of a group is delivered at a time."),
        section="Consumers",
        choices={
            "none": _("none"),
            "assigned": _("assigned to a worker"),
            "shared": _("shared by all workers"),
            "sole": _("all to one worker"),
        },
        # "grouping" and "groups" are words of MySQL's own.
        column="group_rule",
        argument=Argument("x-single-active-consumer", {True: "sole", False: None}),
    )
    strict: bool = _option(
        False,
        label=_("strict order"),
        help=_("Claims are made one by one, and never past a message that cannot be had just then."),
        section="Consumers",
    )
    exclusive: bool = _option(
        False,
        label=_("exclusive"),
        help=_("One worker receives as long as it lives; others are refused."),
        section="Consumers",
        beside=True,
    )
    max_consumers: int | None = _option(
        None,
        label=_("most consumers"),
        help=_("Most workers that receive; the others stand by."),
        section="Consumers",
        least=1,
        most=LARGEST_INT,
    )
    max_in_flight: int | None = _option(
        None,
        label=_("most in flight"),
        help=_("Most messages claimed at once, over all workers."),
        section="Consumers",
        beside=True,
        least=1,
        most=LARGEST_INT,
    )

    max_messages: int | None = _option(
        None,
        label=_("maximum messages"),
        help=_("Most messages held, whatever their state."),
        section="Limits",
        least=1,
        most=LARGEST_BIGINT,
        argument=Argument("x-max-length"),
    )
    max_bytes: int | None = _option(
        None,
        label=_("maximum bytes"),
        help=_("Most bytes of bodies held, whatever the state of their messages."),
        section="Limits",
        beside=True,
        least=1,
        most=LARGEST_BIGINT,
        argument=Argument("x-max-length-bytes"),
    )
    overflow: str = _option(
        "reject",
        label=_("overflow"),
        help=_("What to do when the queue is full."),
        section="Limits",
        choices={
            "reject": _("refuse the new message"),
            "ring": _("replace the oldest"),
            "drop": _("drop the new message"),
            "flow": _("let the publisher wait"),
        },
        argument=Argument(
            "x-overflow", {"drop-head": "ring", "reject-publish": "reject", "reject-publish-dlx": "reject"}
        ),
    )
    wait_seconds: float = _seconds(
        5.0,
        label=_("wait for room in seconds"),
        help=_("How long a publisher waits, if it is let wait, before it is refused."),
        section="Limits",
        beside=True,
    )

    dedup_count: int = _option(
        20_000,
        label=_("duplicate ids"),
        help=_("How many duplicate ids are remembered at least; 0 = none."),
        section="Duplicates",
        most=LARGEST_INT,
    )
    dedup_seconds: float | None = _seconds(
        None,
        label=_("duplicate ids in seconds"),
        help=_("How long a duplicate id is remembered at most."),
        section="Duplicates",
        beside=True,
    )

    ttl_seconds: float | None = _seconds(
        None,
        label=_("time to live in seconds"),
        help=_("Given to messages published without one."),
        section="Time to live",
    )
    min_ttl_seconds: float | None = _seconds(
        None,
        label=_("shortest time to live in seconds"),
        help=_("A shorter one is prolonged."),
        section="Time to live",
        beside=True,
    )
    max_ttl_seconds: float | None = _seconds(
        None,
        label=_("longest time to live in seconds"),
        help=_("A longer one, or none, is cut to this."),
        section="Time to live",
        beside=True,
        argument=Argument("x-message-ttl", units=1000),
    )
    expiry_queue: str | None = _option(
        None,
        label=_("expiry queue"),
        help=_("Where expired messages go; without one they end in the history."),
        section="Time to live",
        is_link=True,
        column="expiry_queue_id",
    )

    history_days: float = _option(
        7.0,
        label=_("days of history"),
        help=_("How long finished messages are remembered; 0 = not at all."),
        section="History",
        most=300_000,
    )
    history_body: bool = _option(
        False,
        label=_("keep bodies in history"),
        help=_("Whether the history keeps bodies."),
        section="History",
    )

    # What tables do not know yet.

    sort_key: str = _in_memory(
        "",
        "The header by whose text messages stand in order, those without it first. For kind fifo.",
        length=255,
    )
    values_in_advance: bool = _in_memory(
        False,
        "Whether a last-value queue takes messages for a later time; they replace others when they are due.",
    )
    auto_delete: bool = _in_memory(
        False,
        "Whether the queue goes with the last worker that receives from it; what is left becomes dead letters.",
    )
    nondestructive: bool = _in_memory(
        False,
        "Whether consumers only look: each is shown every message, and none is taken.",
    )

    # What follows from them.

    @property
    def backoff(self) -> Backoff:
        """How long a failed message waits."""
        return Backoff(
            self.backoff_seconds,
            self.backoff_multiplier,
            self.backoff_cap_seconds,
            self.backoff_jitter,
            self.backoff_ticks_per_second,
        )

    @property
    def seats(self) -> int | None:
        """How many sessions may receive at a time; None if all may."""
        return 1 if self.exclusive or self.grouping == "sole" else self.max_consumers

    @property
    def has_groups(self) -> bool:
        """Whether messages of one group go one after the other."""
        return self.grouping in {"assigned", "shared"}

    @property
    def groups_stay(self) -> bool:
        """Whether a group belongs to the session that first claims one of its messages."""
        return self.grouping == "assigned"

    @property
    def is_constrained(self) -> bool:
        """Whether a claim must know what other sessions have."""
        limited = self.seats is not None or self.max_in_flight is not None
        return self.has_groups or self.strict or limited

    @property
    def has_publish_rules(self) -> bool:
        """Whether a publish must look at what the queue holds already."""
        return self.is_limited or bool(self.last_value_key)

    @property
    def is_limited(self) -> bool:
        """Whether there are limits at all."""
        return self.max_messages is not None or self.max_bytes is not None

    # What cannot be.

    def problems(self) -> Iterator[str]:
        """Yield one sentence for every value of the wrong type or out of range."""
        wrong = list(wrong_types(self))
        yield from wrong or self._out_of_range()

    def _out_of_range(self) -> Iterator[str]:
        for name, option in _ALL.items():
            value = getattr(self, name)
            problem = option.problem(value)
            if problem is not None:
                yield f"{name} is {shown(value)}; {problem}"

    def contradictions(self) -> Iterator[str]:
        """Yield one sentence for options that make no sense together."""
        if (self.kind == "last_value") != bool(self.last_value_key):
            yield "kind 'last_value' and last_value_key need each other"
        if self.values_in_advance and not self.last_value_key:
            yield "values_in_advance is for queues of kind 'last_value'"
        if self.sort_key and self.kind != "fifo":
            yield f"sort_key needs kind 'fifo', not {self.kind!r}: nothing else decides the order"
        if self.overflow != "reject" and not self.is_limited:
            yield f"overflow is {self.overflow!r}, and there is no limit: give max_messages or max_bytes"
        base, cap = self.backoff_seconds, self.backoff_cap_seconds
        if cap < base:
            yield f"backoff_cap_seconds is {cap!r}, below backoff_seconds, {base!r}"
        least, most = self.min_ttl_seconds, self.max_ttl_seconds
        if self.ttl_seconds is not None and (least is not None or most is not None):
            yield "ttl_seconds is the only rule where it is given: leave min_ttl_seconds and max_ttl_seconds out"
        if least is not None and most is not None and least > most:
            yield f"min_ttl_seconds is {least!r}, above max_ttl_seconds, {most!r}"


def _declared() -> Iterator[tuple[str, Option]]:
    for item in fields(QueueOptions):
        declared = item.metadata["option"]
        found = {"column": item.name} | declared
        yield item.name, Option(**found, name=item.name, type=str(item.type), default=item.default)


def _of_stores(*, memory_only: bool) -> Mapping[str, Option]:
    return MappingProxyType({name: each for name, each in _ALL.items() if each.memory_only is memory_only})


_ALL: Final = dict(_declared())
#: Every option that all stores know, by its name, in the order in which it is declared.
OPTIONS: Final = _of_stores(memory_only=False)
#: The options that only queues in memory have.
MEMORY_OPTIONS: Final = _of_stores(memory_only=True)
#: Options that have no column.
OTHERS: Final = tuple(name for name, option in OPTIONS.items() if option.column is None)
#: Options that name another queue.
LINKS: Final = tuple(name for name, option in OPTIONS.items() if option.is_link)


def others_in(stored: Any) -> dict[str, Any]:
    """Return the options without a column that a stored JSON value gives.

    Another version, or a person, may have written the value. What this version does not know or take is left out.
    """
    given = stored if isinstance(stored, dict) else {}
    return {name: given[name] for name in OTHERS if name in given and OPTIONS[name].takes(given[name])}


def wrong_types(given: Any) -> Iterator[str]:
    """Yield a sentence for each value of a dataclass that is not of its field's type; a NaN is no number."""
    for item in fields(given):
        value = getattr(given, item.name)
        if not _is_of_type(value, str(item.type)):
            yield f"{item.name} is {shown(value)}; it must be of type {item.type}"


def _is_of_type(value: Any, annotation: str) -> bool:
    wanted, _, optional = annotation.partition(" | ")
    if wanted not in TYPES or (optional and value is None):
        return True
    fits = isinstance(value, TYPES[wanted]) and (wanted == "bool" or not isinstance(value, bool))
    return fits and not (isinstance(value, float) and not isfinite(value))


def shown(value: Any) -> str:
    """Return a value as an error names it; Python refuses to spell the longest whole numbers."""
    try:
        return repr(value)
    except ValueError:
        return "a number of thousands of digits"
