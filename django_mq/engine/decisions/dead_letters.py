"""Where a message goes when it is rejected, expires, or is dropped by a full queue, and what its headers say.

A dead-letter queue takes what is rejected, and an expiry queue what expires. A dead-letter exchange takes both,
and what a ring replaces, as in RabbitMQ. The header ``x-death`` is RabbitMQ's: an entry for each queue and reason,
the latest first. It also ends cycles, which would deliver a message for ever.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from django_mq.engine.decisions.routing import DeliveryAddress, Exchange, address_in, queues_reached
from django_mq.engine.decisions.verdict import BY_EXPIRY
from django_mq.engine.message import Message

#: Why a message is dead-lettered, in RabbitMQ's words.
REJECTED: Final = "rejected"
EXPIRED: Final = BY_EXPIRY
MAXLEN: Final = "maxlen"

#: The name of the exchange that every queue is bound to by its name, which is nameless in AMQP.
DEFAULT_EXCHANGE: Final = "amq.default"

#: Headers of a message that died or expired in another queue. They name the last such queue only.
ORIGIN_QUEUE: Final = "x-origin-queue"
ORIGIN_ATTEMPTS: Final = "x-origin-attempts"
DEAD_REASON: Final = "x-dead-reason"
DEAD_AT: Final = "x-dead-at"
#: The header of all queues in which a message died, and the beginning of those that name the first.
DEATHS: Final = "x-death"
FIRST_DEATH: Final = "x-first-death-"
#: The property of AMQP with a message's time to live, in milliseconds.
EXPIRATION: Final = "expiration"


class Targets(Protocol):
    """The options of a queue that say where its messages go."""

    @property
    def dead_letter_queue(self) -> str | None: ...
    @property
    def dead_letter_exchange(self) -> str: ...
    @property
    def dead_letter_routing_key(self) -> str: ...
    @property
    def expiry_queue(self) -> str | None: ...
    @property
    def max_dead_letter_cycles(self) -> int | None: ...


class SendingOptions(Targets, Protocol):
    """The options of a queue that also say whether all of its messages expire."""

    @property
    def ttl_seconds(self) -> float | None: ...
    @property
    def max_ttl_seconds(self) -> float | None: ...
    @property
    def no_expiry(self) -> bool: ...


class Destination(NamedTuple):
    """Where a queue sends messages for one reason: to a queue, by the default exchange, or to an exchange."""

    exchange: str
    #: The routing key; blank for that of the message.
    routing_key: str


def destination(options: Targets, reason: str) -> Destination | None:
    """Return where the queue sends messages for this reason; None if it keeps or drops them."""
    if options.dead_letter_exchange:
        return Destination(options.dead_letter_exchange, options.dead_letter_routing_key)
    queues = {REJECTED: options.dead_letter_queue, EXPIRED: options.expiry_queue}
    queue = queues.get(reason)
    return None if queue is None else Destination(DEFAULT_EXCHANGE, queue)


def sends_on(options: SendingOptions) -> bool:
    """Whether what waits in a queue goes on by itself: it expires, and the queue says where to."""
    expires = (options.ttl_seconds is not None or options.max_ttl_seconds is not None) and not options.no_expiry
    return expires and destination(options, EXPIRED) is not None


def delays_retries(
    name: str, options: SendingOptions, origin: str, find: Callable[[str], Exchange | None]
) -> bool:
    """Whether what a queue gets from ``origin`` waits there for its retry, and goes back by itself.

    It is no dead letter. One in a dead-letter queue from which it expires to anywhere else is, until it expires.
    """
    return sends_on(options) and origin in targets_of(name, options, EXPIRED, find)


def keeps_dropped(options: Targets) -> bool:
    """Whether a message that a ring replaces becomes a dead letter of the queue."""
    return destination(options, MAXLEN) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dying:
    """A message at its end in a queue, without its body."""

    queue: str
    headers: Mapping[str, Any]
    properties: Mapping[str, Any]
    #: Failed deliveries there.
    attempts: int
    #: What an operator reads about the reason.
    cause: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Departure:
    """What becomes of a dying message: the queues that get a copy, the copy's headers and properties."""

    queues: tuple[str, ...]
    #: The queues to which it comes back: it is work there again, and no dead letter.
    returns: frozenset[str]
    headers: Mapping[str, Any]
    #: The properties by queue.
    properties: Mapping[str, Mapping[str, Any]]
    #: Whether it stays as dead if none of the queues takes it; else it is dropped.
    is_kept: bool
    #: Whether the history says that it has expired; else it is a dead letter.
    is_expiry: bool


def departure(
    options: Targets,
    reason: str,
    dying: Dying,
    find: Callable[[str], Exchange | None],
    message: Callable[[], Message],
) -> Departure | None:
    """Return what becomes of a message that dies for this reason; None if its queue sends it nowhere.

    ``find`` returns an exchange by its name. ``message`` is called if a selector has to be asked.
    """
    goal = destination(options, reason)
    if goal is None:
        return None
    came = address_in(dying.properties, dying.queue)
    key = goal.routing_key or came.routing_key
    headers = _headers(dying, reason, came)
    found = queues_of(goal.exchange, key, find, message)
    most, deaths = options.max_dead_letter_cycles, deaths_in(headers)
    queues = tuple(name for name in found if name != dying.queue and not _is_cycle(name, reason, most, deaths))
    info = {"exchange": "" if is_default(goal.exchange) else goal.exchange, "routing_key": key}
    kept = {name: value for name, value in dying.properties.items() if name != EXPIRATION}
    return Departure(
        queues,
        frozenset(queues) & {death.get("queue") for death in deaths},
        headers,
        {name: kept | {"delivery_info": info | {"queue": name}} for name in queues},
        is_kept=reason == REJECTED or bool(options.dead_letter_exchange) or not queues,
        is_expiry=reason == EXPIRED and not options.dead_letter_exchange,
    )


def is_default(exchange: str) -> bool:
    """Whether this is the exchange that every queue is bound to by its name."""
    return exchange == DEFAULT_EXCHANGE


def queues_of(
    exchange: str, routing_key: str, find: Callable[[str], Exchange | None], message: Callable[[], Message]
) -> list[str]:
    """Return the durable queues that an exchange leads to. They may not exist: a default binding has no row."""
    if is_default(exchange):
        return [routing_key]
    known = find(exchange)
    found = [] if known is None else queues_reached(known, routing_key, message, find).durable
    is_direct = known is None or known.type == "direct"
    return [*found, *([exchange] if exchange == routing_key and is_direct and exchange not in found else [])]


# Cycles.


def _is_cycle(queue: str, reason: str, most: int | None, deaths: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a message must not go to a queue, because it could go round for ever."""
    if reason == REJECTED:
        return most is not None and count_of(deaths[0]) > most
    return is_automatic_cycle(queue, deaths)


def is_automatic_cycle(queue: str, deaths: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a message has left this queue, and was rejected nowhere since, by its deaths, the latest first."""
    for death in deaths:
        if death.get("reason") == REJECTED:
            return False
        if death.get("queue") == queue:
            return True
    return False


# Headers.


def _headers(dying: Dying, reason: str, came: DeliveryAddress) -> dict[str, Any]:
    """Return the headers of a message as it leaves the queue in which it died."""
    at = dying.at.astimezone(UTC)
    death: dict[str, Any] = {
        "count": 1,
        "reason": reason,
        "queue": dying.queue,
        "time": at.isoformat(timespec="seconds"),
        "exchange": came.exchange,
        "routing-keys": [came.routing_key],
    }
    if dying.properties.get(EXPIRATION) not in (None, ""):
        death["original-expiration"] = str(dying.properties[EXPIRATION])
    before = deaths_in(dying.headers)
    again = [each for each in before if _names(each, dying.queue, reason)]
    if again:
        death = {**again[0], "count": count_of(again[0]) + 1}
    deaths = [death, *(each for each in before if not _names(each, dying.queue, reason))]
    first = {} if before else {FIRST_DEATH + name: death[name] for name in ("exchange", "queue", "reason")}
    return {
        **dying.headers,
        ORIGIN_QUEUE: dying.queue,
        ORIGIN_ATTEMPTS: dying.attempts,
        DEAD_REASON: dying.cause,
        DEAD_AT: at.isoformat(timespec="microseconds"),
        DEATHS: deaths,
        **first,
    }


def deaths_in(headers: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the entries of ``x-death``, the latest first. A publisher may have written anything there."""
    found = headers.get(DEATHS)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list | tuple) else []


def count_of(death: Mapping[str, Any]) -> int:
    """Return how often a message died so."""
    count = death.get("count")
    return count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else 1


def _names(death: Mapping[str, Any], queue: str, reason: str) -> bool:
    return death.get("queue") == queue and death.get("reason") == reason


# What an operator is told.


def targets_of(name: str, options: Targets, reason: str, find: Callable[[str], Exchange | None]) -> list[str]:
    """Return the queues that messages of a queue may go to for this reason; they may not exist.

    A message's routing key and headers are not known: where they count, all bindings do.
    """
    goal = destination(options, reason)
    if goal is None:
        return []
    if is_default(goal.exchange):
        found = [goal.routing_key] if goal.routing_key else []
    else:
        anything = partial(_of_any_message, find, has_key=bool(goal.routing_key))
        found = queues_of(goal.exchange, goal.routing_key, anything, partial(Message, id=""))
    return [queue for queue in found if queue != name]


def _of_any_message(find: Callable[[str], Exchange | None], name: str, *, has_key: bool) -> Exchange | None:
    """Return an exchange as if all its bindings matched, or all whose pattern matches."""
    found = find(name)
    if found is None:
        return None
    every = {"selector": ""} if has_key else {"selector": "", "exchange_type": "fanout"}
    routes = tuple(route._replace(**every) for route in found.routes)
    exchanges = tuple(route._replace(**every) for route in found.exchanges)
    return found._replace(routes=routes, exchanges=exchanges, transient=())


def cycles(queues: Mapping[str, Targets], find: Callable[[str], Exchange | None]) -> list[tuple[str, ...]]:
    """Return the ways on which messages may come back to a queue, each once, from its first queue by name."""
    following = {
        name: {queue for reason in (REJECTED, EXPIRED) for queue in targets_of(name, options, reason, find)}
        & queues.keys()
        for name, options in queues.items()
    }
    ways = (_way_back(name, following, least=name) for name in sorted(following))
    return [way for way in ways if way is not None]


def links_back(name: str, dead_letter_queues: Mapping[str, str | None], expiry_queue: str | None) -> list[str]:
    """Return the options by which a queue would get its own messages back.

    ``dead_letter_queues`` has the dead-letter queue of each queue: a chain of them may lead back.
    """
    following = {queue: () if target is None else (target,) for queue, target in dead_letter_queues.items()}
    found = {"dead_letter_queue": _way_back(name, following) is not None, "expiry_queue": expiry_queue == name}
    return [option for option, is_back in found.items() if is_back]


def _way_back(name: str, following: Mapping[str, Collection[str]], *, least: str = "") -> tuple[str, ...] | None:
    """Return the shortest way from a queue back to it, if there is one without names below ``least``."""
    ways: list[tuple[str, ...]] = [(name,)]
    seen = set[str]()
    while ways:
        way = ways.pop(0)
        for queue in sorted(following.get(way[-1], ())):
            if queue == name:
                return (*way, name)
            if queue > least and queue not in seen:
                seen.add(queue)
                ways.append((*way, queue))
    return None
