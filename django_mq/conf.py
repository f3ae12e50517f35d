"""The settings, read in one place into one frozen object.

``DJANGO_MQ`` is one dictionary. ``load()`` turns it into ``Settings`` and raises
``ConfigurationError`` with every problem found; ``checks.py`` reports the same
problems with codes and hints. Nothing else reads ``django.conf.settings``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import lru_cache
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeGuard
from urllib.parse import urlsplit

from django.conf import settings as django_settings

from django_mq.engine.backoff import Backoff
from django_mq.errors import ConfigurationError, ContradictoryOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

QUEUE_KINDS = ("priority", "fifo", "last_value")
OVERFLOWS = ("reject", "ring", "drop", "flow")
DUE_ORDERS = ("due_first", "keep_place")
GROUPINGS = ("none", "assigned", "shared", "sole")
NAME_LENGTH = 200
WHAT_A_NAME_IS = f"a queue's name is a text of 1 to {NAME_LENGTH} characters that a database can store"
#: Longest name of a header that messages are told by.
KEY_LENGTH = 255
#: Options of a queue that are numbers from 0.
NOT_NEGATIVE = (
    *("max_attempts", "backoff_seconds", "backoff_cap_seconds", "history_days", "wait_seconds"),
    *("ttl_seconds", "min_ttl_seconds", "max_ttl_seconds", "dedup_count", "dedup_seconds"),
)
#: The largest values: what fits into the columns, and what may be added to the clock.
LONGEST_SECONDS = 100 * 365 * 86400
MOST: dict[str, float] = {
    **dict.fromkeys(("max_attempts", "dedup_count", "max_in_flight", "max_consumers"), 2**31 - 1),
    **dict.fromkeys(("max_messages", "max_bytes"), 2**63 - 1),
    **dict.fromkeys(("ttl_seconds", "min_ttl_seconds", "max_ttl_seconds", "dedup_seconds"), LONGEST_SECONDS),
    **dict.fromkeys(("backoff_seconds", "backoff_cap_seconds", "wait_seconds"), LONGEST_SECONDS),
    "backoff_multiplier": 1000,
    "history_days": 300_000,
}
#: The longest time that a setting may be: a timer, a socket and PostgreSQL's statement_timeout take little more.
LONGEST_WAIT_SECONDS = 7 * 86400
#: The largest body: PostgreSQL takes none of a gibibyte.
LARGEST_BODY_BYTES = 2**30 - 2**20
#: Where Linux tells the state of a process; other systems have no such file.
PROCESS_STATE = Path("/proc/self/stat")
REDIS_SCHEMES = ("redis://", "rediss://", "unix://")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """What ``DJANGO_MQ["QUEUES"][name]`` may say about a queue; the defaults of every door.

    A queue declared here is created on first use and re-declared after a flush. What
    an operator changed in the admin since is kept: these values only start a queue off.
    """

    kind: str = "priority"
    #: Priority lists of a ``priority`` queue, 1 to 10; a ``fifo`` queue has one.
    levels: int = 10
    #: How messages whose time has come are placed: at the head of their level in due
    #: order (``due_first``), or where their arrival puts them (``keep_place``).
    due_order: str = "due_first"
    #: The header of which a ``last_value`` queue keeps one message per value.
    last_value_key: str = ""
    #: Failed deliveries after which a message is dead-lettered; 0 = never.
    max_attempts: int = 10
    #: Delay before the second delivery; the n-th waits base x multiplier^(n-1), at most the cap.
    backoff_seconds: float = 1.0
    backoff_multiplier: float = 2.0
    backoff_cap_seconds: float = 600.0
    #: Share of the delay that is drawn at random, 0 to 1, so that failures spread out.
    backoff_jitter: float = 0.1
    #: Name of the queue that takes dead letters; None keeps them in place as ``dead``.
    dead_letter_queue: str | None = None
    #: Most messages the queue holds, whatever their state; None = no limit.
    max_messages: int | None = None
    #: Most bytes of bodies the queue holds, whatever the state of their messages; None = no limit.
    max_bytes: int | None = None
    #: What becomes of a message too many: ``reject`` raises QueueFull, ``ring`` replaces the oldest
    #: ready ones of the lowest level, ``drop`` drops it in silence, ``flow`` lets the publisher wait.
    overflow: str = "reject"
    #: How long a publisher waits for room with ``flow``, outside a transaction; then QueueFull.
    wait_seconds: float = 5.0
    #: How many duplicate ids are remembered at least; 0 = none.
    dedup_count: int = 20_000
    #: How long a duplicate id is remembered at most; None = as long as it is among the last so many.
    dedup_seconds: float | None = None
    #: Time to live given to messages published without one; None = for ever. The only rule, if given.
    ttl_seconds: float | None = None
    #: A shorter time to live is prolonged to this; messages without one are left alone.
    min_ttl_seconds: float | None = None
    #: A longer time to live, or none, is cut to this.
    max_ttl_seconds: float | None = None
    #: Name of the queue that takes expired messages; None lets them end in the history.
    expiry_queue: str | None = None
    #: How long a finished message stays in the history; 0 keeps no history at all.
    history_days: float = 7.0
    #: Whether the history keeps the body as well.
    history_body: bool = False
    #: How messages with a group key are shared out: ``assigned`` (a group stays with its first worker),
    #: ``shared`` (any worker, one message of a group at a time), ``sole`` (the whole queue to one worker).
    grouping: str = "none"
    #: Claims never step over a message that cannot be had at that moment, and are made one after the other.
    strict: bool = False
    #: Most messages claimed at once, over all workers; None = no limit.
    max_in_flight: int | None = None
    #: Most workers that receive at a time, the others standing by; None = no limit.
    max_consumers: int | None = None
    #: Whether one worker has the queue to itself while it lives, and others are refused.
    exclusive: bool = False

    @property
    def backoff(self) -> Backoff:
        """How long a failed message waits."""
        return Backoff.of(self)

    def problems(self) -> Iterator[str]:
        """Yield one sentence for every value of the wrong type or out of range."""
        wrong = list(_wrong_types(self))
        yield from wrong or self._out_of_range()

    def _out_of_range(self) -> Iterator[str]:
        chosen = {"kind": QUEUE_KINDS, "due_order": DUE_ORDERS, "overflow": OVERFLOWS, "grouping": GROUPINGS}
        for name, known in chosen.items():
            if getattr(self, name) not in known:
                yield f"{name} is {getattr(self, name)!r}; use one of {', '.join(known)}"
        if not 1 <= self.levels <= 10:
            yield f"levels is {self.levels!r}; use 1 to 10"
        if not 0 <= self.backoff_jitter <= 1:
            yield f"backoff_jitter is {self.backoff_jitter!r}; use 0 to 1"
        for name in ("max_messages", "max_bytes", "max_in_flight", "max_consumers"):
            value = getattr(self, name)
            if value is not None and value < 1:
                yield f"{name} is {value!r}; use a positive number or None"
        if self.backoff_multiplier < 1:
            yield f"backoff_multiplier is {self.backoff_multiplier!r}; use 1 or more"
        for name in NOT_NEGATIVE:
            if (getattr(self, name) or 0) < 0:
                yield f"{name} is {getattr(self, name)!r}; it cannot be negative"
        yield from self._beyond_all_databases()

    def _beyond_all_databases(self) -> Iterator[str]:
        for name, most in MOST.items():
            if (getattr(self, name) or 0) > most:
                yield f"{name} is {getattr(self, name)!r}; at most {most} can be stored"
        for name in ("dead_letter_queue", "expiry_queue"):
            if getattr(self, name) and not is_name(getattr(self, name)):
                yield f"{name} is {getattr(self, name)!r}; {WHAT_A_NAME_IS}"
        if not is_storable(self.last_value_key, KEY_LENGTH):
            yield f"last_value_key is {self.last_value_key!r}; name a header, in at most {KEY_LENGTH} characters"

    def contradictions(self) -> Iterator[str]:
        """Yield one sentence for options that make no sense together."""
        if (self.kind == "last_value") != bool(self.last_value_key):
            yield "kind 'last_value' and last_value_key need each other"
        limited = self.max_messages is not None or self.max_bytes is not None
        if self.overflow != "reject" and not limited:
            yield f"overflow is {self.overflow!r}, and there is no limit: give max_messages or max_bytes"
        least, most = self.min_ttl_seconds, self.max_ttl_seconds
        if self.ttl_seconds is not None and (least is not None or most is not None):
            yield "ttl_seconds is the only rule where it is given: leave min_ttl_seconds and max_ttl_seconds out"
        if least is not None and most is not None and least > most:
            yield f"min_ttl_seconds is {least!r}, above max_ttl_seconds, {most!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of django_mq with their defaults."""

    #: Database alias of the queues. One alias holds all tables of django_mq.
    DATABASE: str = "default"
    #: Redis for hints, e.g. ``redis://localhost:6379/0``; None = hints stay within a process, and workers
    #: look regularly.
    REDIS_URL: str | None = None
    #: Put before every Redis channel, so that several sites may share one Redis.
    REDIS_PREFIX: str = "django_mq"
    #: Longest wait for Redis by a publisher before its breaker opens and hints are dropped.
    REDIS_TIMEOUT_SECONDS: float = 0.25
    #: Queues declared in code: name to options of QueueSettings.
    QUEUES: Mapping[str, QueueSettings] = field(default_factory=dict)
    #: Whether publishing to an unknown queue declares it.
    AUTO_DECLARE: bool = False
    #: Largest body in bytes.
    MAX_BODY_BYTES: int = 1024 * 1024
    #: A worker session that is not renewed for so long is reaped, and its messages are given back.
    SESSION_SECONDS: float = 15.0
    #: How long at most a second process renews the session of a worker whose own heartbeat cannot run; 0 = there
    #: is no such process.
    SIDECAR_SECONDS: float = 0.0
    #: Longest time between two looks of a worker that hears hints; a lost hint costs at most this.
    SAFETY_POLL_SECONDS: float = 7.0
    #: Time between two looks of an idle worker that hears no hints.
    POLL_SECONDS: float = 0.25
    #: Time between two rounds of upkeep (reap, expire, prune) in each worker.
    UPKEEP_SECONDS: float = 5.0
    #: Whether Celery workers on django-mq:// also run the handlers of native queues.
    CELERY_HANDLERS: bool = True
    #: Longest time one statement of a worker's own connection may take (PostgreSQL), in seconds.
    STATEMENT_TIMEOUT_SECONDS: float = 30.0

    #: What is hidden of messages in the admin and in commands: keys of JSON bodies and headers, or a
    #: function of a decoded body or headers and the queue's name, itself or its dotted path.
    MASK: Any = ()

    def problems(self) -> Iterator[str]:
        """Yield one sentence for every value that cannot work."""
        wrong = list(_wrong_types(self))
        yield from wrong or self._out_of_range()
        yield from self._queue_problems()

    def _out_of_range(self) -> Iterator[str]:
        if self.DATABASE not in django_settings.DATABASES:
            yield f"DATABASE names {self.DATABASE!r}, which is not in DATABASES"
        if not _is_mask(self.MASK):
            yield f"MASK is {self.MASK!r}; give a list of keys, or a function or its dotted path"
        if self.REDIS_URL:
            yield from _url_problems(self.REDIS_URL)
        if not is_storable(self.REDIS_PREFIX, NAME_LENGTH):
            yield f"REDIS_PREFIX is {self.REDIS_PREFIX!r}; give a text of at most {NAME_LENGTH} characters"
        yield from self._numbers_out_of_range()
        yield from self._sidecar_problems()
        if self.MAX_BODY_BYTES > LARGEST_BODY_BYTES:
            yield f"MAX_BODY_BYTES is {self.MAX_BODY_BYTES!r}; at most {LARGEST_BODY_BYTES} can be stored"
        if 0 < self.SESSION_SECONDS < 2:
            yield f"SESSION_SECONDS is {self.SESSION_SECONDS!r}; below 2 seconds a busy machine loses its sessions"

    def _numbers_out_of_range(self) -> Iterator[str]:
        for field_ in fields(self):
            optional = field_.name == "SIDECAR_SECONDS" and self.SIDECAR_SECONDS == 0
            if field_.type in ("float", "int") and getattr(self, field_.name) <= 0 and not optional:
                yield f"{field_.name} is {getattr(self, field_.name)!r}; it must be positive"
            if field_.name.endswith("_SECONDS") and getattr(self, field_.name) > LONGEST_WAIT_SECONDS:
                yield f"{field_.name} is {getattr(self, field_.name)!r}; at most {LONGEST_WAIT_SECONDS}, a week"

    def _sidecar_problems(self) -> Iterator[str]:
        if 0 < self.SIDECAR_SECONDS < self.SESSION_SECONDS:
            yield f"SIDECAR_SECONDS is {self.SIDECAR_SECONDS!r}; give 0, or no less than SESSION_SECONDS"
        if self.SIDECAR_SECONDS > 0 and not PROCESS_STATE.exists():
            yield f"SIDECAR_SECONDS needs {PROCESS_STATE}, which this system does not have; give 0"

    def _queue_problems(self) -> Iterator[str]:
        for name, queue in self.QUEUES.items():
            if not is_name(name):
                yield f"QUEUES[{name!r}]: {WHAT_A_NAME_IS}"
            for problem in queue.problems():
                yield f"QUEUES[{name!r}]: {problem}"
            if is_name(queue.dead_letter_queue) and name in self._dead_letters_of(queue):
                yield f"QUEUES[{name!r}]: its dead letters would come back to it"
            if name == queue.expiry_queue:
                yield f"QUEUES[{name!r}]: it is its own expiry_queue"

    def contradictions(self) -> Iterator[str]:
        """Yield one sentence for options of a queue that make no sense together."""
        for name, queue in self.QUEUES.items():
            yield from (f"QUEUES[{name!r}]: {sentence}" for sentence in queue.contradictions())

    def _dead_letters_of(self, queue: QueueSettings) -> set[str]:
        """Return the queues that dead letters of this one reach."""
        reached: set[str] = set()
        target = queue.dead_letter_queue
        while is_name(target) and target not in reached:
            reached.add(target)
            target = self.QUEUES[target].dead_letter_queue if target in self.QUEUES else None
        return reached


def is_name(value: object) -> TypeGuard[str]:
    """Whether a queue can be called so, in every database."""
    return isinstance(value, str) and value != "" and is_storable(value, NAME_LENGTH)


def is_storable(text: str, limit: int) -> bool:
    """Whether every database takes the text: no null, no half of a surrogate pair, and not too long."""
    if len(text) > limit or "\x00" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


#: What the annotations of settings mean for a value.
TYPES: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "str": (str,), "bool": (bool,)}


def _wrong_types(settings: QueueSettings | Settings) -> Iterator[str]:
    """Yield a sentence for every value that is not what its field says; a NaN is no number."""
    for item in fields(settings):
        wanted, _, optional = str(item.type).partition(" | ")
        value = getattr(settings, item.name)
        if wanted not in TYPES or (optional and value is None):
            continue
        fits = isinstance(value, TYPES[wanted]) and (wanted == "bool" or not isinstance(value, bool))
        if not fits or (isinstance(value, float) and not isfinite(value)):
            yield f"{item.name} is {value!r}; it must be of type {item.type}"


def _url_problems(url: str) -> Iterator[str]:
    if not url.startswith(REDIS_SCHEMES):
        yield f"REDIS_URL is not of the form {', '.join(REDIS_SCHEMES)}..."
        return
    try:
        _ = urlsplit(url).port
    except ValueError:
        # Neither the URL nor the error: parts of a password may be in both.
        yield "REDIS_URL cannot be read; in a user's name or a password write / as %2F, # as %23, [ as %5B"


def _is_mask(given: Any) -> bool:
    """Whether it is a rule of what to hide: a function, a path, or keys."""
    if isinstance(given, str):
        return "." in given.strip(".")
    if isinstance(given, tuple):
        return all(isinstance(key, str) and key for key in given)
    return callable(given)


def uses_time_zones() -> bool:
    """Return the project's ``USE_TZ``."""
    return bool(django_settings.USE_TZ)


def raw() -> dict[str, Any]:
    """Return the project's ``DJANGO_MQ`` as written, an empty dictionary if there is none."""
    value = getattr(django_settings, "DJANGO_MQ", {})
    if not isinstance(value, dict):
        raise ConfigurationError(f"DJANGO_MQ must be a dictionary, not {type(value).__name__}")
    queues = value.get("QUEUES", {})
    if not isinstance(queues, dict) or not all(isinstance(options, dict) for options in queues.values()):
        raise ConfigurationError("DJANGO_MQ['QUEUES'] must be a dictionary of dictionaries, one per queue")
    return value


def unknown_names() -> list[str]:
    """Return the settings nobody reads, queue options included: a misspelt name must not pass silently."""
    known = {item.name for item in fields(Settings)}
    options = {item.name for item in fields(QueueSettings)}
    given = raw()
    names = sorted(str(name) for name in set(given) - known)
    for queue_name, queue in given.get("QUEUES", {}).items():
        names += [f"QUEUES[{queue_name!r}][{option!r}]" for option in sorted(set(queue) - options, key=str)]
    return names


@lru_cache(maxsize=1)
def load() -> Settings:
    """Return the settings, checked. Cached until Django signals a changed setting.

    Raises ConfigurationError naming every unknown or impossible value.
    """
    unknown = unknown_names()
    if unknown:
        raise ConfigurationError(f"Unknown settings in DJANGO_MQ: {', '.join(unknown)}")
    given = dict(raw())
    queues = {name: QueueSettings(**options) for name, options in given.pop("QUEUES", {}).items()}
    if isinstance(given.get("MASK"), (list, set, frozenset)):
        given["MASK"] = tuple(given["MASK"])
    loaded = Settings(**given, QUEUES=MappingProxyType(queues))
    problems = list(loaded.problems())
    if problems:
        raise ConfigurationError("DJANGO_MQ is wrong: " + "; ".join(problems))
    contradictions = list(loaded.contradictions())
    if contradictions:
        raise ContradictoryOptions("DJANGO_MQ contradicts itself: " + "; ".join(contradictions))
    return loaded


def forget(*, setting: str, **_: object) -> None:
    """Drop the cached settings when a test or a tool overrides them."""
    if setting in {"DJANGO_MQ", "DATABASES"}:
        load.cache_clear()
