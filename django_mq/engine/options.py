"""The options of a queue, each declared once in ``QueueOptions``, and its name.

The settings, the model, the admin's form, ``mq_queue``, the arguments of RabbitMQ, the statements of the stores
and the checks are made from these declarations; a test compares the reference page with them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import partial
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeGuard

from django_mq.engine.decisions.backoff import Backoff
from django_mq.engine.decisions.declared import problems_of
from django_mq.engine.decisions.fairness import Fairness, fairness_of
from django_mq.engine.decisions.fairness import problems_of as problems_of_weights
from django_mq.engine.decisions.sorting import Sorting
from django_mq.errors import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


#: The longest name of a queue or an exchange, in characters.
NAME_LENGTH: Final = 200
WHAT_A_NAME_IS: Final = f"a queue's name is a text of 1 to {NAME_LENGTH} characters that a database can store"


def is_name(value: object) -> TypeGuard[str]:
    """Whether every database can store this as the name of a queue."""
    return isinstance(value, str) and value != "" and is_storable(value, NAME_LENGTH)


def is_storable(text: str, limit: int) -> bool:
    """Whether every database can store the text: no null, no half of a surrogate pair, and not too long."""
    if len(text) > limit or "\x00" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


#: The longest time span, which every database can add to the current time.
LONGEST_SECONDS: Final = 100 * 365 * 86400
#: The largest numbers for columns of 32 and 64 bits.
LARGEST_INT: Final = 2**31 - 1
LARGEST_BIGINT: Final = 2**63 - 1
#: The default of ``Option.most``.
MOST: Final[Mapping[str, float]] = {"int": LARGEST_INT, "float": LONGEST_SECONDS}
#: The types that a value may have, for each annotation of an option.
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
    _("Finished messages"),
)


@dataclass(frozen=True, slots=True)
class Argument:
    """RabbitMQ's name for an option, and the meaning of RabbitMQ's values."""

    name: str
    #: Our value for each of RabbitMQ's values; None leaves our default. Empty: both have the same numbers.
    values: Mapping[Any, Any] = field(default_factory=dict)
    #: How many of RabbitMQ's units are one of our units; None: the units are the same, in whole numbers.
    units: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """The declaration of one option. The pages translate ``label``, ``help`` and the labels of choices."""

    label: str = ""
    help: str
    #: The section of the admin's form.
    section: str = ""
    #: Whether the admin's form shows the option beside the option before, in the same line.
    beside: bool = False
    #: The values to choose from, each with its label.
    choices: Mapping[str, str] = field(default_factory=dict)
    #: The smallest and the largest number.
    least: float = 0
    most: float | None = None
    #: Whether the value is the name of another queue.
    is_link: bool = False
    #: The most characters of a text, for options that have no choices and name no queue.
    length: int = 0
    #: The column in the table of queues; by default it has the option's name. None: the option is stored with
    #: others in one JSON column, which SQL does not read.
    column: str | None = None
    argument: Argument | None = None
    #: Whether the text is several names with spaces between them, which the settings may give as a list.
    is_names: bool = False
    #: Whether publishing to a queue with a value does more than to write the message: see ``Extension.written``.
    at_publishing: bool = False
    #: Says what else is wrong with a value, or None.
    refuse: Callable[[Any], str | None] | None = None
    #: Whether only queues in memory support the option. Other stores refuse a queue that has it.
    memory_only: bool = False
    # ``_declared`` sets these from the field of QueueOptions.
    name: str = ""
    #: int, float, str or bool; with "| None" if None is a value.
    type: str = ""
    default: Any = None

    def __post_init__(self) -> None:
        if self.most is None:
            object.__setattr__(self, "most", MOST.get(self.base_type, 0))

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
        return self.fault(value) is None

    def fault(self, value: Any) -> str | None:
        """Return what is wrong with a value, or None."""
        return self.problem(value) if _is_of_type(value, self.type) else f"it must be of type {self.type}"

    def problem(self, value: Any) -> str | None:
        """Return what is wrong with a value of the right type, or None."""
        if value is None or self.base_type == "bool":
            return None
        if self.length:
            return self._problem_of_text(value)
        if self.choices:
            return None if value in self.choices else f"use one of {', '.join(self.choices)}"
        if self.is_link:
            return None if is_name(value) else WHAT_A_NAME_IS
        if self.least <= value <= (self.most or 0):
            return None
        return f"use {self.least} to {self.most}" + (", or None" if self.optional else "")

    def _problem_of_text(self, value: str) -> str | None:
        if not is_storable(value, self.length):
            return f"use at most {self.length} characters that a database can store"
        return None if self.refuse is None else self.refuse(value)

    def value_in(self, holder: Extended) -> Any:
        """Return the value that an extension's option has in a queue, a handler or the settings."""
        value = holder.added.get(self.name, self.default)
        return value if self.takes(value) else self.default


class Extended(Protocol):
    """What has values of options that extensions declare."""

    @property
    def added(self) -> Mapping[str, Any]:
        """The values by name; an option that is not there has its default."""


def _option(default: Any, label: str, help: str, section: str, **declared: Any) -> Any:  # noqa: A002 - as the field
    option = {"label": label, "help": help, "section": section} | declared
    return field(default=default, metadata={"option": option})


_order, _failures, _consumers, _limits, _duplicates, _ttl, _history = (
    partial(_option, section=section) for section in SECTIONS
)
#: An option that only queues in memory support yet.
_in_memory = partial(_option, label="", section="", memory_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """The options of one queue, and what follows from them. Every interface has these defaults."""

    kind: str = _order(
        "priority",
        _("kind"),
        _(
            "Order of the queue. A change affects new messages. To place older messages anew, change their "
            "priority or move them."
        ),
        choices={
            "priority": _("priority"),
            "fifo": _("first in, first out"),
            "last_value": _("last value of each key"),
        },
    )
    levels: int = _order(
        10,
        _("levels"),
        _("Number of priority lists, 1 to 10; a first-in-first-out queue has one. A change affects new messages."),
        least=1,
        most=10,
    )
    due_order: str = _order(
        "due_first",
        _("due order"),
        _("Where a due message stands: at the head of its level, or where it arrived."),
        choices={"due_first": _("due messages first"), "keep_place": _("keep place of arrival")},
    )
    last_value_key: str = _order(
        "",
        _("key of last values"),
        _("A last-value queue keeps one message for each value of this header."),
        length=255,
    )

    sort_key: str = _order(
        "",
        _("sort key"),
        _("The queue delivers by the value of this header, least first. For kind fifo."),
        length=255,
    )
    sort_type: str = _order(
        "number",
        _("sort type"),
        _("What the header has: a number, or a time as a text with its offset from UTC."),
        choices={"number": _("number"), "time": _("time")},
        beside=True,
        column=None,
    )

    fair_by: str = _order(
        "",
        _("fair by"),
        _(
            "The values of this header, or of the argument with its name, share the queue: within a level, a "
            "message waits for one message of each other value at most. Needs the due order 'keep place of "
            "arrival'."
        ),
        length=255,
    )
    fair_weights: str = _order(
        "",
        _("fair weights"),
        _("Values with another weight than 1, one in each line: acme=4 gets four times the share."),
        length=2000,
        column=None,
    )

    max_attempts: int = _failures(
        10, _("maximum attempts"), _("Failed deliveries after which a message is dead-lettered; 0 = never.")
    )
    backoff_seconds: float = _failures(1.0, _("backoff seconds"), _("Delay before the second delivery."))
    backoff_multiplier: float = _failures(
        2.0, _("backoff multiplier"), _("Factor from one delay to the next."), beside=True, least=1, most=1000
    )
    backoff_cap_seconds: float = _failures(600.0, _("backoff cap seconds"), _("Longest delay."))
    backoff_jitter: float = _failures(
        0.1, _("backoff jitter"), _("Share of the delay that is drawn at random, 0 to 1."), beside=True, most=1
    )
    backoff_ticks_per_second: int = _failures(
        0,
        _("backoff ticks per second"),
        _("Delays are rounded down to whole ticks, before jitter and cap; 0 = not rounded. Artemis has 1000."),
        most=1_000_000,
        column=None,
    )
    dead_letter_queue: str | None = _failures(
        None,
        _("dead-letter queue"),
        _("The queue that dead letters go to; without one they stay in this queue as dead."),
        is_link=True,
        column="dead_letter_queue_id",
    )

    dead_letter_exchange: str = _failures(
        "",
        _("dead-letter exchange"),
        _(
            "The exchange that takes what is rejected, expires, or is replaced by a newer message, instead of a "
            "dead-letter queue and an expiry queue. What no queue takes stays in this queue as dead."
        ),
        length=200,
        argument=Argument("x-dead-letter-exchange"),
    )
    dead_letter_routing_key: str = _failures(
        "",
        _("dead-letter routing key"),
        _("The routing key of these dead letters; blank for the routing key of the message."),
        beside=True,
        length=200,
        argument=Argument("x-dead-letter-routing-key"),
    )
    max_dead_letter_cycles: int | None = _failures(
        20,
        _("most dead-letter cycles"),
        _(
            "How often a message that was rejected here and has come back is sent away again; afterwards it stays "
            "in this queue as dead."
        ),
        least=1,
        column=None,
    )

    grouping: str = _consumers(
        "none",
        _("grouping"),
        _("Which workers get the messages of a group. Messages of one group are delivered one at a time."),
        choices={
            "none": _("none"),
            "assigned": _("assigned to a worker"),
            "balanced": _("assigned, with a share for new workers"),
            "shared": _("shared by all workers"),
            "sole": _("all to one worker"),
        },
        # "grouping" and "groups" are words of MySQL's own.
        column="group_rule",
        argument=Argument("x-single-active-consumer", {True: "sole", False: None}),
    )
    strict: bool = _consumers(
        False,
        _("strict order"),
        _("Claims wait for each other, and never skip a message that cannot be claimed now."),
    )
    exclusive: bool = _consumers(
        False, _("exclusive"), _("One worker receives as long as it lives; others are refused."), beside=True
    )
    max_consumers: int | None = _consumers(
        None, _("most consumers"), _("How many workers may receive at a time; the others wait."), least=1
    )
    max_in_flight: int | None = _consumers(
        None, _("most in flight"), _("Most messages claimed at once, over all workers."), beside=True, least=1
    )
    selectors: str = _consumers(
        "",
        _("selectors"),
        _(
            "Selectors of handlers, one in each line. A claim by one of them is quick behind any number of "
            "messages that do not match."
        ),
        length=2000,
    )
    auto_delete: bool = _consumers(
        False,
        _("auto-delete"),
        _("Whether the queue is deleted when it is empty and the last worker that receives from it has left."),
    )
    expires_seconds: float | None = _consumers(
        None,
        _("expires in seconds"),
        _(
            "How long the queue exists without a worker before it is deleted. Publishing does not count. Its "
            "messages become dead letters, or are removed if there is no dead-letter queue."
        ),
        beside=True,
        least=1,
        argument=Argument("x-expires", units=1000),
    )

    max_messages: int | None = _limits(
        None,
        _("maximum messages"),
        _("Most messages in the queue, in all states together."),
        least=1,
        most=LARGEST_BIGINT,
        argument=Argument("x-max-length"),
    )
    max_bytes: int | None = _limits(
        None,
        _("maximum bytes"),
        _("Most bytes of message bodies in the queue, in all states together."),
        beside=True,
        least=1,
        most=LARGEST_BIGINT,
        argument=Argument("x-max-length-bytes"),
    )
    overflow: str = _limits(
        "reject",
        _("overflow"),
        _("What to do when the queue is full."),
        choices={
            "reject": _("refuse the new message"),
            "ring": _("replace the oldest"),
            "drop": _("drop the new message"),
            "flow": _("let the publisher wait"),
        },
        argument=Argument("x-overflow", {"drop-head": "ring", "reject-publish": "reject"}),
    )
    wait_seconds: float = _limits(
        5.0,
        _("wait for room in seconds"),
        _("How long a publisher waits for room before its message is refused."),
        beside=True,
    )

    dedup_count: int = _duplicates(
        20_000, _("duplicate ids"), _("How many duplicate ids are remembered at least; 0 = none.")
    )
    dedup_seconds: float | None = _duplicates(
        None, _("duplicate ids in seconds"), _("How long a duplicate id is remembered at most."), beside=True
    )

    ttl_seconds: float | None = _ttl(
        None, _("time to live in seconds"), _("Time to live of messages that are published without one.")
    )
    min_ttl_seconds: float | None = _ttl(
        None, _("shortest time to live in seconds"), _("A shorter time to live is raised to this."), beside=True
    )
    max_ttl_seconds: float | None = _ttl(
        None,
        _("longest time to live in seconds"),
        _("A longer time to live, or none, is reduced to this."),
        beside=True,
        argument=Argument("x-message-ttl", units=1000),
    )
    no_expiry: bool = _ttl(
        False, _("no expiry"), _("Messages never expire here, even if they are published with a time to live.")
    )
    expiry_queue: str | None = _ttl(
        None,
        _("expiry queue"),
        _("The queue that expired messages go to; without one they are removed."),
        is_link=True,
        column="expiry_queue_id",
    )

    history_days: float = _history(
        7.0,
        _("days of history"),
        _("How many days finished messages stay in the history; 0 = none."),
        most=300_000,
    )
    history_body: bool = _history(False, _("keep bodies in history"), _("Whether the history keeps bodies."))

    sort_as_text: bool = _in_memory(
        False, help="Whether to sort by the text of the header sort_key; messages without it come first."
    )
    nondestructive: bool = _in_memory(
        False, help="Whether each consumer gets every message, and no message is removed."
    )

    #: The values of options that extensions declare.
    added: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> QueueOptions:
        """Return the options with these values by name; the others have their defaults."""
        own = {name: value for name, value in values.items() if name in _ALL}
        return cls(**own, added={name: value for name, value in values.items() if name not in _ALL})

    def as_dict(self) -> dict[str, Any]:
        """Return the values by name."""
        return {name: getattr(self, name) for name in _ALL} | dict(self.added)

    # Derived from the options.

    @property
    def backoff(self) -> Backoff:
        """The delays after failed attempts."""
        return Backoff(
            self.backoff_seconds,
            self.backoff_multiplier,
            self.backoff_cap_seconds,
            self.backoff_jitter,
            self.backoff_ticks_per_second,
        )

    @property
    def slots(self) -> int | None:
        """How many sessions may receive at a time; None if all may."""
        return 1 if self.exclusive or self.grouping == "sole" else self.max_consumers

    @property
    def slots_option(self) -> str:
        """The option that limits ``slots``, as an operator writes it."""
        if self.exclusive:
            return "exclusive=True"
        return "grouping='sole'" if self.grouping == "sole" else f"max_consumers={self.max_consumers}"

    @property
    def is_lasting(self) -> bool:
        """Whether the queue exists until an operator deletes it."""
        return not self.auto_delete and self.expires_seconds is None

    @property
    def has_groups(self) -> bool:
        """Whether only one session has messages of a group at a time."""
        return self.grouping in {"assigned", "balanced", "shared"}

    @property
    def groups_stay(self) -> bool:
        """Whether a group belongs to the session that first claims one of its messages."""
        return self.grouping in {"assigned", "balanced"}

    @property
    def is_for_any(self) -> bool:
        """Whether any session may begin a message that another gives back; a shared group has no owner then."""
        limited = self.slots is not None or self.max_in_flight is not None
        return not (self.groups_stay or self.strict or limited)

    def depends_on_sessions(self, *, priorities_differ: bool) -> bool:
        """Whether a claim depends on other sessions; ``priorities_differ`` says whether those of consumers do."""
        return priorities_differ or self.has_groups or not self.is_for_any

    @property
    def has_publish_rules(self) -> bool:
        """Whether publishing does more than to write the message."""
        return self.locks_publishers or bool(self.selectors) or self.sorting is not None or bool(self.fair_by)

    @property
    def locks_publishers(self) -> bool:
        """Whether publishers wait for each other; ``_locks_publishers`` says the same in SQL."""
        return self.is_limited or bool(self.last_value_key)

    @property
    def sorting(self) -> Sorting | None:
        """The header that says the place of a message, and its type."""
        return Sorting(self.sort_key, self.sort_type) if self.sort_key and not self.sort_as_text else None

    @property
    def fairness(self) -> Fairness | None:
        """How keys share the queue; None if they do not."""
        return fairness_of(self.fair_by, self.fair_weights) if self.fair_by else None

    @property
    def is_limited(self) -> bool:
        """Whether the queue has limits."""
        return self.max_messages is not None or self.max_bytes is not None

    # Validation.

    def problems(self, added: Iterable[Option] = ()) -> Iterator[str]:
        """Yield a sentence for each value that its option does not take; ``added`` are those of extensions."""
        return (sentence for _name, sentence in self.wrong_values(added))

    def contradictions(self) -> Iterator[str]:
        """Yield a sentence for each combination of options that makes no sense."""
        return (sentence for _name, sentence in self.wrong_combinations())

    def wrong_values(self, added: Iterable[Option] = ()) -> Iterator[tuple[str, str]]:
        """Yield the same as ``problems``, with the name of the option."""
        known = _ALL | {option.name: option for option in added}
        for name, value in self.as_dict().items():
            problem = known[name].fault(value) if name in known else "there is no such option"
            if problem is not None:
                yield name, f"{name} is {shown(value)}; {problem}"

    def wrong_combinations(self) -> Iterator[tuple[str, str]]:
        """Yield the same as ``contradictions``, with the name of the option to change first."""
        if (self.kind == "last_value") != bool(self.last_value_key):
            needs = "kind 'last_value' needs last_value_key, and last_value_key needs kind 'last_value'"
            yield "last_value_key", needs
        yield from self._wrong_sorting()
        yield from self._wrong_fairness()
        if self.selectors:
            yield from (("selectors", sentence) for sentence in problems_of(self.selectors))
        if self.overflow != "reject" and not self.is_limited:
            unlimited = f"overflow is {self.overflow!r}, but the queue has no limit: set max_messages or max_bytes"
            yield "overflow", unlimited
        base, cap = self.backoff_seconds, self.backoff_cap_seconds
        if cap < base:
            yield "backoff_cap_seconds", f"backoff_cap_seconds is {cap!r}, below backoff_seconds, {base!r}"
        yield from self._wrong_dead_letters()
        yield from self._wrong_lives()

    def _wrong_sorting(self) -> Iterator[tuple[str, str]]:
        if self.sort_key and self.kind != "fifo":
            yield "sort_key", f"sort_key needs kind 'fifo', not {self.kind!r}"
        if self.sort_key and self.overflow == "ring":
            ring = "sort_key is not for a queue with overflow 'ring', which replaces the oldest message"
            yield "sort_key", ring
        if self.sort_as_text and not self.sort_key:
            yield "sort_as_text", "sort_as_text needs sort_key"

    def _wrong_fairness(self) -> Iterator[tuple[str, str]]:
        if self.fair_weights and not self.fair_by:
            yield "fair_weights", "fair_weights needs fair_by"
        yield from (("fair_weights", sentence) for sentence in problems_of_weights(self.fair_weights))
        if not self.fair_by:
            return
        if self.sort_key:
            yield "fair_by", "fair_by cannot be combined with sort_key: remove one of them"
        if self.kind == "last_value":
            yield "fair_by", "fair_by is not for kind 'last_value'"
        if self.due_order != "keep_place":
            yield "fair_by", f"fair_by needs due_order 'keep_place', not {self.due_order!r}"
        if self.overflow == "ring":
            ring = "fair_by is not for a queue with overflow 'ring', which replaces the oldest message"
            yield "fair_by", ring

    def _wrong_dead_letters(self) -> Iterator[tuple[str, str]]:
        exchange = "dead_letter_exchange"
        if self.dead_letter_exchange:
            for name in ("dead_letter_queue", "expiry_queue"):
                if getattr(self, name):
                    yield exchange, f"{exchange} cannot be combined with {name}: remove one of them"
            if self.overflow == "drop":
                drop = f"{exchange} takes nothing from a queue with overflow 'drop': use 'ring'"
                yield exchange, drop
        if self.dead_letter_routing_key and not self.dead_letter_exchange:
            yield "dead_letter_routing_key", f"dead_letter_routing_key needs {exchange}"

    def _wrong_lives(self) -> Iterator[tuple[str, str]]:
        least, most = self.min_ttl_seconds, self.max_ttl_seconds
        if self.no_expiry and (self.ttl_seconds, least, most) != (None, None, None):
            others = "ttl_seconds, min_ttl_seconds or max_ttl_seconds: remove these"
            yield "no_expiry", f"no_expiry cannot be combined with {others}"
        if self.ttl_seconds is not None and (least is not None or most is not None):
            others = "min_ttl_seconds or max_ttl_seconds: remove these"
            yield "ttl_seconds", f"ttl_seconds cannot be combined with {others}"
        if least is not None and most is not None and least > most:
            yield "min_ttl_seconds", f"min_ttl_seconds is {least!r}, above max_ttl_seconds, {most!r}"


def _declared() -> Iterator[tuple[str, Option]]:
    for item in fields(QueueOptions):
        if "option" in item.metadata:
            found = {"column": item.name} | item.metadata["option"]
            yield item.name, Option(**found, name=item.name, type=str(item.type), default=item.default)


def _of_stores(*, memory_only: bool) -> Mapping[str, Option]:
    return MappingProxyType({name: each for name, each in _ALL.items() if each.memory_only is memory_only})


_ALL: Final = dict(_declared())
#: The options of all stores by name, in the order of their declarations.
OPTIONS: Final = _of_stores(memory_only=False)
#: The options that only queues in memory have.
MEMORY_OPTIONS: Final = _of_stores(memory_only=True)
#: The options without a column.
OTHERS: Final = tuple(name for name, option in OPTIONS.items() if option.column is None)
#: The options that name another queue.
LINKS: Final = tuple(name for name, option in OPTIONS.items() if option.is_link)


def others_in(stored: Any, added: Iterable[Option] = ()) -> dict[str, Any]:
    """Return the options without a column from a stored JSON value; ``added`` are those of extensions.

    Unknown options and wrong values are left out: another version, or a person, may have written them.
    """
    given = stored if isinstance(stored, dict) else {}
    options = (*(OPTIONS[name] for name in OTHERS), *added)
    return {each.name: given[each.name] for each in options if each.name in given and each.takes(given[each.name])}


def added_in(stored: Any) -> dict[str, Any]:
    """Return what a stored JSON value has besides: options of extensions, or of another version."""
    return {name: stored[name] for name in stored if name not in OTHERS} if isinstance(stored, dict) else {}


def wrong_types(given: Any) -> Iterator[str]:
    """Yield a sentence for each value of a dataclass that is not of its field's type, or is NaN."""
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
