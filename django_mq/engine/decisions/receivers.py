"""What receivers take from the queues of other brokers: what the settings say, and what a message becomes here."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID, uuid5

from django_mq.engine.options import WHAT_A_NAME_IS, is_name
from django_mq.errors import ConfigurationError, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: The most bytes of a name in the other broker.
MOST_BYTES: Final = 255
NAME_OF_RECEIVER: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")
#: How many messages are on their way to a receiver at most, and how many it writes in a transaction.
MOST_PREFETCHED: Final = 10_000
#: The ids of this package for messages whose own ids are no UUIDs.
NAMESPACE: Final = UUID("6f0f3a0e-0b53-5c3c-9d5e-0f6a52f1b8a7")
#: The longest duplicate id.
ID_LENGTH: Final = 255
#: Headers that a broker adds to a message, or changes: they are not what was sent.
OF_THE_BROKER: Final = re.compile(r"x-(death|first-death-.*|last-death-.*|delivery-count|acquired-count|opt-.*)")


class Carrier(Enum):
    """Which processes run a receiver."""

    #: Each worker process tries to; one at a time does.
    ALL = "all"
    MQ_WORKER = "mq_worker"
    CELERY = "celery"
    #: ``manage.py mq_receive`` only.
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """A queue of another broker, and where its messages go here."""

    name: str
    #: The bridge of ``DJANGO_MQ["BRIDGES"]`` that has the address.
    bridge: str
    #: The queue of the other broker.
    source: str
    #: The queue here; None: the routing key of each message names it.
    queue: str | None = None
    #: The database; blank for that of the setting ``DATABASE``.
    database: str = ""
    #: The queue here that keeps what cannot be read; blank for ``queue``.
    dead_letter_queue: str = ""
    #: Whether the handler of the queue is called at once, in the transaction that notes the id.
    direct: bool = False
    #: The header that has the id; blank: the property ``message_id`` has it.
    id_header: str = ""
    #: "refuse" or "hash": what is the id of a message without one.
    without_id: str = "refuse"
    #: What a message is that does not say it.
    content_type: str = "application/octet-stream"
    #: What may come in; a message of another type cannot be read.
    content_types: tuple[str, ...] = ("application/json", "text/plain", "application/octet-stream")
    #: How many messages are on their way at most.
    prefetch: int = 1000
    #: How many messages are written in a transaction at most.
    together: int = 500
    #: Whether to declare the durable queue, with these arguments, before it is consumed.
    declare: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict)
    #: Which processes run it: a value of ``Carrier``.
    workers: str = Carrier.ALL.value

    @property
    def keeps_in(self) -> str:
        """The queue that keeps what cannot be read."""
        return self.dead_letter_queue or self.queue or ""


def receivers_of(given: Any, bridges: Iterable[str]) -> dict[str, Receiver]:
    """Return the receivers of the setting RECEIVERS by name. Raises ConfigurationError."""
    if problems := list(_problems(given, set(bridges))):
        raise ConfigurationError(f"DJANGO_MQ['RECEIVERS'] is wrong: {'; '.join(problems)}.")
    return {name: Receiver(name=name, **_frozen(values)) for name, values in given.items()}


def _frozen(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}


def _problems(given: Any, bridges: set[str]) -> Iterator[str]:
    if not isinstance(given, Mapping):
        yield "give a dictionary of receivers by their names"
        return
    for name, values in given.items():
        if not (isinstance(name, str) and NAME_OF_RECEIVER.fullmatch(name)):
            yield f"{shown(name)} is no name; use 1 to 100 letters, digits, and . _ -"
        elif not isinstance(values, Mapping):
            yield f"{name!r} has no dictionary; write {{'bridge': '...', 'source': '...', 'queue': '...'}}"
        else:
            problems = list(_problems_of(values, bridges)) or list(_contradictions(values))
            yield from (f"{name!r} {problem}" for problem in problems)


def _problems_of(values: Mapping[str, Any], bridges: set[str]) -> Iterator[str]:
    """Yield what is wrong with a receiver, as the end of a sentence."""
    if unknown := sorted(map(str, values.keys() - OPTIONS_OF_RECEIVERS.keys())):
        yield f"has {', '.join(map(shown, unknown))}; use {', '.join(sorted(OPTIONS_OF_RECEIVERS))}"
    if missing := sorted({"bridge", "source"} - values.keys()):
        yield f"has no {' and no '.join(missing)}"
    for key, (is_fit, what) in OPTIONS_OF_RECEIVERS.items():
        if key in values and not is_fit(values[key]):
            yield f"has {shown(values[key])} as {key}; give {what}"
    bridge = values.get("bridge")
    if isinstance(bridge, str) and bridge not in bridges:
        known = ", ".join(sorted(bridges)) or "none"
        yield f"names the bridge {shown(bridge)}; BRIDGES has: {known}"


def _contradictions(values: Mapping[str, Any]) -> Iterator[str]:
    if values.get("queue") is None and not values.get("dead_letter_queue"):
        yield "has no queue and no dead_letter_queue; without a queue, give the one that keeps what cannot be read"
    if values.get("queue") is None and values.get("direct"):
        yield "is direct and has no queue; give the queue of the handler"
    if "prefetch" in values and "together" in values and values["together"] > values["prefetch"]:
        yield f"writes {values['together']} messages together, and prefetches {values['prefetch']}"


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value.encode(errors="replace")) <= MOST_BYTES and "\0" not in value


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_PREFETCHED


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_types(value: Any) -> bool:
    return (
        isinstance(value, list | tuple) and bool(value) and all(isinstance(each, str) and each for each in value)
    )


TEXT: Final = (_is_text, f"a text of 1 to {MOST_BYTES} bytes")
NUMBER: Final = (_is_number, f"a number from 1 to {MOST_PREFETCHED}")
FLAG: Final = (_is_bool, "True or False")
CARRIERS: Final = tuple(each.value for each in Carrier)
#: By the name of each option what its value may be: a function that says so, and the words for it.
OPTIONS_OF_RECEIVERS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "bridge": TEXT,
    "source": TEXT,
    "queue": (lambda value: value is None or is_name(value), f"the name of a queue ({WHAT_A_NAME_IS})"),
    "database": (lambda value: isinstance(value, str), "an alias of DATABASES"),
    "dead_letter_queue": (lambda value: value == "" or is_name(value), f"the name of a queue ({WHAT_A_NAME_IS})"),
    "direct": FLAG,
    "id_header": (lambda value: value == "" or _is_text(value), "the name of a header"),
    "without_id": (lambda value: value in ("refuse", "hash"), "'refuse' or 'hash'"),
    "content_type": TEXT,
    "content_types": (_is_types, "a list of content types"),
    "prefetch": NUMBER,
    "together": NUMBER,
    "declare": FLAG,
    "arguments": (lambda value: isinstance(value, Mapping), "a dictionary"),
    "workers": (lambda value: value in CARRIERS, f"one of {', '.join(CARRIERS)}"),
}


# The ids of messages.


def duplicate_id_of(receiver: Receiver, message_id: Any, headers: Mapping[str, Any], digest: str) -> str | None:
    """Return the id by which a message is received once; None if it has none, and its digest may not be it.

    An id that is too long is replaced by its hash.
    """
    given = headers.get(receiver.id_header) if receiver.id_header else message_id
    if isinstance(given, str | int | UUID) and not isinstance(given, bool) and (text := str(given).strip()):
        fits = len(text) <= ID_LENGTH and text.isprintable()
        return text if fits else f"sha256:{hashlib.sha256(text.encode(errors='replace')).hexdigest()}"
    return f"sha256:{digest}" if receiver.without_id == "hash" else None


def digest_of(parts: Iterable[bytes]) -> str:
    """Return the hash of these parts, each with its length."""
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "big"))
        found.update(part)
    return found.hexdigest()


def message_id_of(duplicate_id: str) -> UUID:
    """Return the id of the row: the same one if it is a UUID, else one that follows from it."""
    try:
        return UUID(duplicate_id)
    except ValueError:
        return uuid5(NAMESPACE, duplicate_id)


def sent_headers(headers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the headers without those that a broker adds or changes on the way."""
    return {name: value for name, value in headers.items() if not OF_THE_BROKER.fullmatch(str(name))}


# What AMQP's properties are here.


def priority_of(given: Any) -> int:
    """Return the priority: 0 to 9, larger ones are 9, and 4 for none."""
    if not isinstance(given, int) or isinstance(given, bool):
        return 4
    return max(0, min(9, given))


def ttl_seconds_of(expiration: Any) -> float | None:
    """Return the time to live, which AMQP has as milliseconds in a text; None for none."""
    try:
        return max(0, int(expiration)) / 1000
    except (TypeError, ValueError, OverflowError):
        return None


# When a batch is written, and what a receiver is said to do.


def is_complete(number: int, together: int, *, is_idle: bool) -> bool:
    """Whether a batch of so many messages is written now: it is full, or no other message comes."""
    return number >= together or (number > 0 and is_idle)


class ReceiverCondition(Enum):
    """What a receiver does, as its row says."""

    RECEIVES = "receives"
    #: The other broker cannot be reached or used.
    AWAY = "away"
    #: What has come cannot be written: the queue is full, closed or missing.
    BLOCKED = "blocked"
    STOPPED = "stopped"


class ShownReceiver(NamedTuple):
    """What operators see of a receiver: whether it is a problem, and the word for it."""

    condition: ReceiverCondition
    is_problem: bool


def shown_condition(condition: ReceiverCondition | None, *, is_held: bool, carrier: Carrier) -> ShownReceiver:
    """Return what a receiver does, by its row: None for none yet. One that no process holds is stopped."""
    if condition is None or not is_held or condition is ReceiverCondition.STOPPED:
        return ShownReceiver(ReceiverCondition.STOPPED, carrier is not Carrier.NONE)
    return ShownReceiver(condition, condition is not ReceiverCondition.RECEIVES)
