"""Routing from an exchange to queues by bindings, as in AMQP 0-9-1: direct, topic, fanout and headers."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from django_mq.engine.message import Message
from django_mq.engine.selector import Selector
from django_mq.errors import ConfigurationError

#: The types of exchanges whose bindings have no pattern.
WITHOUT_PATTERN: Final = frozenset({"fanout", "headers"})
#: The exchanges that every broker has, each with its type.
PREDECLARED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "amq.direct": "direct",
        "amq.topic": "topic",
        "amq.fanout": "fanout",
        "amq.headers": "headers",
        "amq.match": "headers",
    }
)
#: The most characters of a binding's selector.
SELECTOR_LENGTH: Final = 1000


class Route(NamedTuple):
    """One binding of an exchange, and the queue that it leads to."""

    exchange_type: str
    pattern: str
    queue: str
    #: Which messages take the route, in the language of ``Selector``; blank for all.
    selector: str = ""


class Exchange(NamedTuple):
    """An exchange, with all that is bound to it."""

    name: str
    type: str
    #: Whether it was declared; the type of another exchange is that of its bindings.
    is_declared: bool = True
    #: The exchange that gets the messages that no binding matches; blank for none.
    alternate: str = ""
    #: The bindings of durable queues, and those of transient queues.
    routes: tuple[Route, ...] = ()
    transient: tuple[Route, ...] = ()
    #: The bindings of other exchanges, each named in the place of a queue.
    exchanges: tuple[Route, ...] = ()


def exchange_of(
    name: str,
    declared: tuple[str, str] | None = None,
    *,
    routes: Sequence[Route] = (),
    transient: Sequence[Route] = (),
    exchanges: Sequence[Route] = (),
) -> Exchange | None:
    """Return the exchange with these bindings, or None if it does not exist.

    ``declared`` are its type and its alternate exchange. An exchange that was bound by the previous version, or by
    an operator, has the type of its bindings.
    """
    if declared is None and name in PREDECLARED:
        declared = PREDECLARED[name], ""
    bound = next((route.exchange_type for route in (*routes, *transient)), None)
    kind, alternate = declared or (bound, "")
    if kind is None:
        return None
    typed = tuple(route._replace(exchange_type=kind) for route in exchanges)
    return Exchange(name, kind, declared is not None, alternate, tuple(routes), tuple(transient), typed)


class Reached(NamedTuple):
    """The queues that a message goes to."""

    durable: list[str]
    transient: list[str]


def queues_reached(
    exchange: Exchange,
    routing_key: str,
    message: Callable[[], Message],
    find: Callable[[str], Exchange | None],
) -> Reached:
    """Return the queues that a message to an exchange goes to, each once, also through other exchanges.

    ``find`` returns an exchange by its name, or None. An exchange passes the message to its alternate exchange if
    none of its own bindings matches. A message passes each exchange once.
    """
    durable: dict[str, None] = {}
    transient: dict[str, None] = {}
    visited, ahead = {exchange.name}, [exchange]
    for each in ahead:
        bound, listeners, exchanges = (
            queues_matching(routes, routing_key, message)
            for routes in (each.routes, each.transient, each.exchanges)
        )
        durable.update(dict.fromkeys(bound))
        transient.update(dict.fromkeys(listeners))
        if each.alternate and not (bound or listeners or exchanges):
            exchanges = [each.alternate]
        for name in exchanges:
            if name not in visited and (found := find(name)) is not None:
                ahead.append(found)
            visited.add(name)
    return Reached([*durable], [queue for queue in transient if queue not in durable])


def queues_matching(routes: Iterable[Route], routing_key: str, message: Callable[[], Message]) -> list[str]:
    """Return the queues of the matching routes, each once. ``message`` is called if a selector has to be asked."""
    known: Message | None = None
    queues: dict[str, None] = {}
    for kind, pattern, queue, selector in routes:
        if queue in queues or not matches(kind, pattern, routing_key):
            continue
        if selector.strip():
            known = message() if known is None else known
            if not _parsed(selector).matches(known):
                continue
        queues[queue] = None
    return list(queues)


_parsed = lru_cache(maxsize=1024)(Selector)


def headers_selector(arguments: Mapping[str, object]) -> str:
    """Return the selector that means the same as the arguments of a binding to a headers exchange of AMQP.

    All headers have to match, or one with ``x-match: any``. A header without a value has to be there. Raises
    ConfigurationError for another ``x-match``, and for a value that no selector can express.
    """
    match = arguments.get("x-match", "all")
    if match not in ("all", "any"):
        raise ConfigurationError(f"x-match is {match!r}; use 'all' or 'any'.")
    parts = [_condition(name, value) for name, value in arguments.items() if not name.startswith("x-")]
    return (" AND " if match == "all" else " OR ").join(parts)


def _condition(header: str, value: object) -> str:
    name = '"' + header.replace('"', '""') + '"'
    match value:
        case None:
            return f"{name} IS NOT NULL"
        case bool():
            return f"{name} = {str(value).upper()}"
        case int() | float():
            return f"{name} = {value}"
        case str():
            return f"{name} = '" + value.replace("'", "''") + "'"
    raise ConfigurationError(
        f"The header {header!r} has the value {value!r}; use a text, a number, true, false or nothing."
    )


def matches(exchange_type: str, pattern: str, routing_key: str) -> bool:
    """Whether the pattern of a binding matches this routing key."""
    if exchange_type in WITHOUT_PATTERN:
        return True
    if exchange_type == "topic":
        return _topic(pattern).fullmatch(_dotted(routing_key)) is not None
    return pattern == routing_key


#: Any word of a routing key, with the dot before it.
_WORD: Final = r"\.[^.]++"


@lru_cache(maxsize=1024)
def _topic(pattern: str) -> re.Pattern[str]:
    """Return a regular expression for a dotted key: ``*`` is exactly one word, ``#`` any number of words.

    The pattern is cut at its ``#``. Each run of words between two of them is searched once, as in
    ``expressions.matcher_of``, so a match takes at most as many steps as pattern times key.
    """
    runs = [""]
    for word in _dotted(pattern).split(".")[1:]:
        if word == "#":
            runs.append("")
        else:
            runs[-1] += _WORD if word == "*" else rf"\.{re.escape(word)}(?![^.])"
    first, *others = runs
    if not others:
        return re.compile(first)
    *inner, last = others
    searched = "".join(f"(?>(?:{_WORD})*?{run})" for run in inner if run)
    return re.compile(f"{first}{searched}(?:{_WORD})*{last}")


def _dotted(words: str) -> str:
    """Return the words with a dot before each; the empty text has no words."""
    return f".{words}" if words else ""


class DeliveryAddress(NamedTuple):
    """How a message came to its queue, as AMQP's delivery says."""

    exchange: str
    routing_key: str


def address_in(properties: Mapping[str, Any], queue: str) -> DeliveryAddress:
    """Return how the message came to this queue: as it was published or dead-lettered, or moved by an operator."""
    about = properties.get("delivery_info")
    if not isinstance(about, dict) or about.get("queue", queue) != queue:
        return DeliveryAddress("", queue)
    exchange, key = about.get("exchange"), about.get("routing_key")
    return DeliveryAddress(
        exchange if isinstance(exchange, str) else "", key if isinstance(key, str) and key else queue
    )
