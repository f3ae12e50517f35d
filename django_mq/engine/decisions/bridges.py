"""Which other brokers the settings name, how their addresses are shown, and whether bridges lead in a circle."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

from django_mq.engine.decisions.receivers import CARRIERS, Carrier
from django_mq.errors import ConfigurationError, shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

#: Where messages are, such as a queue of a broker.
Place = TypeVar("Place", bound=Hashable)
#: The most bytes of a name in the other broker: AMQP has no longer ones.
MOST_BYTES: Final = 255
NAME_OF_BRIDGE: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")
NAME_OF_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: The scheme of an address: Kombu has such as "sqla+sqlite", and "confluentkafka".
SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
#: The schemes of AMQP.
AMQP: Final = frozenset({"amqp", "amqps", "pyamqp"})
#: ``ssl.CERT_NONE``: the certificate is not looked at.
CERT_NONE: Final = 0
#: Stands for an address of which nothing can be shown.
HIDDEN: Final = "***"
#: The beginning of an address with credentials, in words.
WITH_CREDENTIALS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S*@")


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeOptions:
    """The options of a bridge that have a default: what it has besides its name and its address."""

    #: The exchange to which messages are published; "" is the default exchange, which routes by names of queues.
    exchange: str = ""
    #: None: the name of the queue here.
    routing_key: str | None = None
    #: Whether to declare the durable queue of this name, and to bind it, before anything is published.
    declare: bool = False
    #: The arguments of that queue, such as ``{"x-queue-type": "quorum"}``.
    arguments: Mapping[str, Any] = field(default_factory=dict)
    #: How many messages are on the way, and not confirmed.
    in_flight: int = 100
    #: Whether what no queue wants is returned.
    mandatory: bool = True
    #: How long to wait for a confirm, and for a connection.
    confirm_seconds: float = 30.0
    connect_seconds: float = 5.0
    #: The longest pause between two tries to reach the broker.
    pause_seconds: float = 30.0
    #: How the connection is encrypted: True, or the arguments of Kombu's ``ssl``.
    ssl: Any = field(default=False, repr=False)
    #: Kombu's options of the transport.
    transport_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    #: Which worker processes forward: a value of ``Carrier``. None: only those that are given the queues by name.
    workers: str = Carrier.ALL.value
    #: Whether the Celery workers of the other broker keep their results here, by which members of batches end.
    results: bool = False

    def is_carried_by(self, carrier: Carrier) -> bool:
        """Return whether worker processes of a kind forward without being told to."""
        return self.workers in (Carrier.ALL.value, carrier.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bridge:
    """Another broker, as the settings name it. Only ``url`` may have credentials, and ``repr`` leaves it out."""

    name: str
    #: The address, or a function that returns it, such as one that asks a vault. None: see ``url_variable``.
    url: str | Callable[[], str] | None = field(default=None, repr=False)
    #: The environment variable that has the address; empty: see ``url``.
    url_variable: str = ""
    options: BridgeOptions = BridgeOptions()

    def address(self, environment: Mapping[str, str]) -> str:
        """Return the address with its credentials. Raises ConfigurationError, which shows none."""
        if self.url_variable:
            given: Any = environment.get(self.url_variable, "")
            if not given:
                raise ConfigurationError(
                    f"The environment variable {self.url_variable} of the bridge {self.name!r} is not set."
                )
        else:
            given = self.url() if callable(self.url) else self.url
        if problem := fault_of_url(given):
            raise ConfigurationError(f"The URL of the bridge {self.name!r} {problem}.")
        return str(given)

    def shown_address(self, environment: Mapping[str, str]) -> str:
        """Return where it leads, for people: without credentials, and without calling a function."""
        if callable(self.url):
            return HIDDEN
        given = environment.get(self.url_variable, "") if self.url_variable else self.url or ""
        return without_credentials(given) if given else f"${self.url_variable}"


def without_credentials(url: str) -> str:
    """Return an address, or several with ";" between them, with nothing that may be secret.

    Users, passwords, and what follows a "?" or "#" are left out.
    """
    return ";".join(map(_without_credentials, url.split(";")))


def _without_credentials(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    if not separator or not SCHEME.fullmatch(scheme):
        return HIDDEN
    # The last "@" ends the credentials: a password may have "/", "?" or "#", which should have been quoted.
    rest = rest.rpartition("@")[2]
    return f"{scheme}://{re.split('[?#]', rest, maxsplit=1)[0]}"


def told(error: BaseException, url: str) -> str:
    """Return what an error of a driver says, without what the credentials of its address may have put there.

    A ``url`` may be several, with a semicolon between them.
    """
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return without_secrets(text, url)


def without_secrets(words: str, url: str) -> str:
    """Return words without the credentials of an address, or of several, and without those of any other."""
    users, secrets = set(), set()
    for each in url.split(";"):
        rest = each.partition("://")[2]
        user, _, password = rest.rpartition("@")[0].partition(":")
        query = rest.rpartition("?")[2] if "?" in rest else ""
        users.add(user)
        secrets |= {password, unquote(password), query, *(part.partition("=")[2] for part in query.split("&"))}
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        words = words.replace(secret, HIDDEN)
    for user in users:
        words = words.replace(f"{user}:{HIDDEN}@", "")
    return WITH_CREDENTIALS.sub(f"{HIDDEN}@", words)


def fault_of_url(given: Any) -> str | None:
    """Return what is wrong with an address, as the end of a sentence without a part of it; None if nothing is."""
    if not isinstance(given, str) or not given.strip():
        return "is no text; give one as 'amqp://USER:PASSWORD@HOST:5672/VHOST'"
    for each in given.split(";"):
        if not SCHEME.fullmatch(each.partition("://")[0]) or "://" not in each:
            return "has no scheme; write it as 'amqp://USER:PASSWORD@HOST:5672/VHOST'"
        try:
            _ = urlsplit(each).port
        except ValueError:
            return "cannot be read; in a user's name or a password write / as %2F, # as %23, [ as %5B"
    return None


def bridges_of(given: Any) -> dict[str, Bridge]:
    """Return the bridges of the setting BRIDGES by name. Raises ConfigurationError, which shows no address."""
    problems = list(_problems(given))
    if problems:
        raise ConfigurationError(f"DJANGO_MQ['BRIDGES'] is wrong: {'; '.join(problems)}.")
    return {name: _bridge(name, values) for name, values in given.items()}


def _bridge(name: str, values: Mapping[str, Any]) -> Bridge:
    options = {key: _frozen(value) for key, value in values.items() if key in OPTIONS_OF_BRIDGES}
    return Bridge(
        name=name,
        url=values.get("url"),
        url_variable=values.get("url_variable", ""),
        options=BridgeOptions(**options),
    )


def _frozen(value: Any) -> Any:
    return MappingProxyType(dict(value)) if isinstance(value, Mapping) else value


def _problems(given: Any) -> Iterator[str]:
    if not isinstance(given, Mapping):
        yield "give a dictionary of bridges by their names"
        return
    for name, values in given.items():
        if not (isinstance(name, str) and NAME_OF_BRIDGE.fullmatch(name)):
            yield f"{shown(name)} is no name; use 1 to 100 letters, digits, and . _ -"
        elif not isinstance(values, Mapping):
            # Without the value: it may be an address with a password.
            yield f"{name!r} has no dictionary; write {{'url': '...'}}"
        else:
            yield from (f"{name!r} {problem}" for problem in _problems_of(values))


def _problems_of(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a bridge, as the end of a sentence."""
    if unknown := sorted(map(str, values.keys() - KEYS)):
        yield f"has {', '.join(map(shown, unknown))}; use {', '.join(sorted(KEYS))}"
    if ("url" in values) == ("url_variable" in values):
        yield "needs either a url or a url_variable"
    elif "url" in values:
        problem = None if callable(values["url"]) else fault_of_url(values["url"])
        if problem:
            yield f"has a url that {problem}"
    elif not (isinstance(values["url_variable"], str) and NAME_OF_VARIABLE.fullmatch(values["url_variable"])):
        # Without the value: perhaps it is the address itself.
        yield "has a url_variable that is no name of an environment variable"
    if values.get("results") and str(values.get("url")).startswith("django-mq:"):
        yield "has results, which are those of Celery workers of another broker, and leads to a database"
    for key, (is_fit, what) in OPTIONS_OF_BRIDGES.items():
        if key in values and not is_fit(values[key]):
            value = "something else" if key in ("ssl", "transport_options") else shown(values[key])
            yield f"has {value} as {key}; give {what}"


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and len(value.encode(errors="replace")) <= MOST_BYTES and "\0" not in value


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MOST_SECONDS


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_IN_FLIGHT


MOST_IN_FLIGHT: Final = 10_000
MOST_SECONDS: Final = 3600
SECONDS: Final = (_is_seconds, f"seconds, above 0 and at most {MOST_SECONDS}")
FLAG: Final = (_is_bool, "True or False")
TEXT: Final = f"a text of at most {MOST_BYTES} bytes"
#: By the name of each option of a bridge what its value may be: a function that says so, and the words for it.
OPTIONS_OF_BRIDGES: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "exchange": (_is_name, TEXT),
    "routing_key": (lambda value: value is None or _is_name(value), TEXT),
    "declare": FLAG,
    "arguments": (_is_mapping, "a dictionary"),
    "in_flight": (_is_number, f"a number from 1 to {MOST_IN_FLIGHT}"),
    "mandatory": FLAG,
    "confirm_seconds": SECONDS,
    "connect_seconds": SECONDS,
    "pause_seconds": SECONDS,
    "ssl": (lambda value: isinstance(value, bool) or _is_mapping(value), "True, False or a dictionary"),
    "transport_options": (_is_mapping, "a dictionary"),
    "workers": (lambda value: isinstance(value, str) and value in CARRIERS, f"one of {', '.join(CARRIERS)}"),
    "results": FLAG,
}
#: What a bridge may have.
KEYS: Final = frozenset({"url", "url_variable", *OPTIONS_OF_BRIDGES})


def in_turn(url: str, turn: int) -> list[str]:
    """Return the addresses of a URL in the order in which they are tried, which begins with another one each turn.

    A node that answers, and then serves nothing, must not be the first one for ever.
    """
    addresses = url.split(";")
    first = turn % len(addresses)
    return [*addresses[first:], *addresses[:first]]


def tls_of(given: Any, address: str) -> Any:
    """Return the ``ssl`` of a connection to an address, as Kombu takes it.

    AMQP's client compares the name in the certificate with the host only if it is asked to.
    """
    scheme = address.partition("://")[0]
    if scheme not in AMQP or not (given or scheme == "amqps"):
        return dict(given) if isinstance(given, Mapping) else given
    options = dict(given) if isinstance(given, Mapping) else {}
    if "context" in options or options.get("cert_reqs") == CERT_NONE:
        return options
    # Kombu would ask for 127.0.0.1 instead of localhost.
    return {"server_hostname": urlsplit(address).hostname, **options}


def circles_of(links: Iterable[tuple[Place, Place]]) -> list[list[Place]]:
    """Return each circle among links from one place to another, as the places in their order, each circle once."""
    after: dict[Place, list[Place]] = {}
    for source, target in links:
        after.setdefault(source, []).append(target)
    found: dict[frozenset[Place], list[Place]] = {}
    for place in after:
        for circle in _circles_from(place, after):
            found.setdefault(frozenset(circle), circle)
    return list(found.values())


def _circles_from(start: Place, after: Mapping[Place, Collection[Place]]) -> Iterator[list[Place]]:
    """Yield the shortest way from a place back to it, if there is one."""
    ways: list[list[Place]] = [[start]]
    seen: set[Place] = set()
    for way in ways:
        for following in after.get(way[-1], ()):
            if following == start:
                yield way
                return
            if following not in seen:
                seen.add(following)
                ways.append([*way, following])


# What a bridge is said to do.


class BridgeCondition(Enum):
    """What a bridge does, by the connections of its workers."""

    FORWARDS = "forwards"
    #: It forwards, and messages have waited for long all the same.
    LATE = "late"
    #: The broker takes no messages for now.
    BLOCKED = "blocked"
    #: The broker cannot be reached.
    AWAY = "away"
    #: No worker forwards.
    STOPPED = "stopped"
    #: Queues name it, and the settings do not have it.
    UNKNOWN = "unknown"


def condition_of(connections: Collection[str], *, is_known: bool, is_late: bool) -> BridgeCondition:
    """Return what a bridge does, by the states of its connections: "connected", "blocked" or "away"."""
    if not is_known:
        return BridgeCondition.UNKNOWN
    if "connected" in connections:
        return BridgeCondition.LATE if is_late else BridgeCondition.FORWARDS
    if not connections:
        return BridgeCondition.STOPPED
    return BridgeCondition.BLOCKED if "blocked" in connections else BridgeCondition.AWAY


def is_bridge_problem(condition: BridgeCondition, *, is_late: bool) -> bool:
    """Whether messages cannot cross until something is mended. A bridge without a worker is one if it is late."""
    if condition is BridgeCondition.STOPPED:
        return is_late
    return condition in (BridgeCondition.BLOCKED, BridgeCondition.AWAY, BridgeCondition.UNKNOWN)
