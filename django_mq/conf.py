"""The settings, read in one place into one frozen object.

``DJANGO_MQ`` is one dictionary. ``load()`` turns it into ``Settings`` and raises
``ConfigurationError`` with every problem found; ``checks.py`` reports the same
problems with codes and hints. Nothing else reads ``django.conf.settings``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.conf import settings as django_settings
from django.utils import timezone

from django_mq.engine.decisions.claim import is_byte_credit
from django_mq.engine.decisions.dead_letters import links_back
from django_mq.engine.options import (
    MEMORY_OPTIONS,
    NAME_LENGTH,
    OPTIONS,
    WHAT_A_NAME_IS,
    QueueOptions,
    is_name,
    is_storable,
    wrong_types,
)
from django_mq.errors import ConfigurationError, ContradictoryOptions, shown
from django_mq.seams.extension import Extension
from django_mq.seams.middleware import Chains, chains_of
from django_mq.seams.registry import imported, made

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from datetime import datetime

    from django_mq.engine.options import Option

#: The longest time that a setting may be: a timer, a socket and PostgreSQL's statement_timeout take little more.
LONGEST_WAIT_SECONDS = 7 * 86400
#: The largest body: PostgreSQL takes none of a gibibyte.
LARGEST_BODY_BYTES = 2**30 - 2**20
#: Where Linux tells the state of a process; other systems have no such file.
PROCESS_STATE = Path("/proc/self/stat")
#: The most characters of the version of the site.
VERSION_LENGTH = 100
#: What may carry hints.
HINTS = ("redis", "postgresql", "none")
#: What is wrong with a link by which a queue gets its own messages back.
WORDS_OF_LINKS = {
    "dead_letter_queue": "its dead letters would come back to it",
    "expiry_queue": "it is its own expiry_queue",
}
REDIS_SCHEMES = ("redis://", "rediss://", "unix://")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of django_mq with their defaults."""

    #: Database alias of the queues. One alias holds all tables of django_mq.
    DATABASE: str = "default"
    #: What wakes idle workers: "redis", "postgresql" (the database of the queues), "none" for nothing that
    #: reaches other processes, or the dotted path of a subclass of Notifier. None = Redis where REDIS_URL is set,
    #: else PostgreSQL where the queues are there.
    HINTS: str | None = None
    #: Database alias by which workers listen to PostgreSQL, where DATABASE leads through a pooler: a direct
    #: connection to the same database.
    LISTEN_DATABASE: str | None = None
    #: Redis for hints, e.g. ``redis://localhost:6379/0``.
    REDIS_URL: str | None = None
    #: Put before every Redis channel, so that several sites may share one Redis.
    REDIS_PREFIX: str = "django_mq"
    #: Longest wait for Redis by a publisher before its breaker opens and hints are dropped.
    REDIS_TIMEOUT_SECONDS: float = 0.25
    #: Queues declared in code: name to options of QueueOptions.
    QUEUES: Mapping[str, QueueOptions] = field(default_factory=dict)
    #: Whether publishing to an unknown queue declares it.
    AUTO_DECLARE: bool = False
    #: Largest body in bytes.
    MAX_BODY_BYTES: int = 1024 * 1024
    #: Largest result of a handler whose result is kept, as JSON, in bytes.
    MAX_RESULT_BYTES: int = 1024 * 1024
    #: A worker session that is not renewed for so long is reaped, and its messages are given back.
    SESSION_SECONDS: float = 15.0
    #: How long at most a second process renews the session of a worker whose own heartbeat cannot run; 0 = there
    #: is no such process.
    SIDECAR_SECONDS: float = 0.0
    #: Longest time between two looks of a worker that hears hints; a lost hint costs at most this.
    SAFETY_POLL_SECONDS: float = 7.0
    #: Mean time between two looks of an idle worker that hears no hints. It looks three times as often in the ten
    #: seconds after a message, and half as often later.
    POLL_SECONDS: float = 0.25
    #: Time between two rounds of maintenance (reap, expire, prune) in each worker.
    MAINTENANCE_SECONDS: float = 5.0
    #: How many bytes of bodies a worker holds at most for each consumer that names no number; None = no limit.
    CREDIT_BYTES: int | None = None
    #: How long a message waits that all consumers of its queue have declined, until it is dead.
    DECLINE_GRACE_SECONDS: float = 300.0
    #: Whether Celery workers on django-mq:// also run the handlers of native queues.
    CELERY_HANDLERS: bool = True
    #: How many messages a worker process handles at a time with handlers that are coroutine functions, and how
    #: many of these may use the database at a time, each in a thread that it keeps.
    ASYNC_SLOTS: int = 100
    ASYNC_THREADS: int = 20
    #: Longest time one statement of a worker's own connection may take (PostgreSQL), in seconds.
    STATEMENT_TIMEOUT_SECONDS: float = 30.0

    #: The version of the site, such as a tag or a commit. The first worker process of a new one is a deploy.
    VERSION: str | None = None

    #: What is hidden of messages in the admin and in commands: keys of JSON bodies and headers, or a
    #: function of a decoded body or headers and the queue's name, itself or its dotted path.
    MASK: Any = ()

    #: What is around publishing and around attempts: dotted paths of classes, the outermost first.
    MIDDLEWARE: tuple[str, ...] = ()

    #: The keys of ``django_mq.middleware.encryption`` by their ids; the first one encrypts.
    ENCRYPTION_KEYS: Mapping[str, str] = field(default_factory=dict, repr=False)

    #: Where alerts are sent: by the name of each target its webhook or its mail addresses, and what it wants.
    ALERTS: Any = field(default_factory=dict, repr=False)

    #: Other brokers, by the names that queues give to them: ``engine.decisions.bridges`` says what each may have.
    BRIDGES: Any = field(default_factory=dict, repr=False)
    #: The queues of other brokers from which workers receive, by name: see ``engine.decisions.receivers``.
    RECEIVERS: Any = field(default_factory=dict, repr=False)

    #: What other packages add: dotted paths of values of ``seams.extension.Extension``.
    EXTENSIONS: tuple[Extension, ...] = ()
    #: The values of settings that extensions declare.
    added: Mapping[str, Any] = field(default_factory=dict)

    def problems(self) -> Iterator[str]:
        """Yield one sentence for every value that cannot work."""
        wrong = list(wrong_types(self))
        yield from wrong or self._out_of_range()
        for option in all_of(self.EXTENSIONS).settings:
            value = self.added.get(option.name, option.default)
            if fault := option.fault(value):
                yield f"{option.name} is {shown(value)}; {fault}"
        yield from self._queue_problems()

    def _out_of_range(self) -> Iterator[str]:
        if self.DATABASE not in django_settings.DATABASES:
            yield f"DATABASE names {self.DATABASE!r}, which is not in DATABASES"
        yield from self._hint_problems()
        if not _is_mask(self.MASK):
            yield f"MASK is {self.MASK!r}; give a list of keys, or a function or its dotted path"
        if not isinstance(self.MIDDLEWARE, tuple) or not all(isinstance(path, str) for path in self.MIDDLEWARE):
            yield f"MIDDLEWARE is {shown(self.MIDDLEWARE)}; give a list of dotted paths"
        if not _are_keys(self.ENCRYPTION_KEYS):
            # Without the value: it has keys.
            yield "ENCRYPTION_KEYS is wrong; give keys by their ids, each of 1 to 40 letters, digits, or . _ -"
        if self.REDIS_URL:
            yield from _url_problems(self.REDIS_URL)
        yield from self._text_problems()
        yield from self._numbers_out_of_range()
        yield from self._sidecar_problems()
        for name in ("MAX_BODY_BYTES", "MAX_RESULT_BYTES"):
            if getattr(self, name) > LARGEST_BODY_BYTES:
                yield f"{name} is {getattr(self, name)!r}; at most {LARGEST_BODY_BYTES} can be stored"
        if self.CREDIT_BYTES is not None and not is_byte_credit(self.CREDIT_BYTES):
            yield f"CREDIT_BYTES is {shown(self.CREDIT_BYTES)}; give a number of bytes, 1 or more, or leave it out"
        if 0 < self.SESSION_SECONDS < 2:
            yield f"SESSION_SECONDS is {self.SESSION_SECONDS!r}; below 2 seconds a busy machine loses its sessions"

    def _text_problems(self) -> Iterator[str]:
        if not is_storable(self.REDIS_PREFIX, NAME_LENGTH):
            yield f"REDIS_PREFIX is {self.REDIS_PREFIX!r}; give a text of at most {NAME_LENGTH} characters"
        if self.VERSION is not None and not (self.VERSION.strip() and is_storable(self.VERSION, VERSION_LENGTH)):
            yield f"VERSION is {shown(self.VERSION)}; give a text of 1 to {VERSION_LENGTH} characters"

    def _hint_problems(self) -> Iterator[str]:
        if self.HINTS not in (None, *HINTS) and "." not in (self.HINTS or ""):
            named = ", ".join(HINTS)
            yield f"HINTS is {self.HINTS!r}; give one of {named}, the dotted path of a class, or leave it out"
        if self.HINTS == "redis" and not self.REDIS_URL:
            yield "HINTS is 'redis'; give REDIS_URL, too"
        if self.LISTEN_DATABASE is not None and self.LISTEN_DATABASE not in django_settings.DATABASES:
            yield f"LISTEN_DATABASE names {self.LISTEN_DATABASE!r}, which is not in DATABASES"

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
        added = all_of(self.EXTENSIONS).queue_options
        targets = {name: queue.dead_letter_queue for name, queue in self.QUEUES.items()}
        following = {name: target for name, target in targets.items() if is_name(target)}
        for name, queue in self.QUEUES.items():
            if not is_name(name):
                yield f"QUEUES[{name!r}]: {WHAT_A_NAME_IS}"
            for problem in queue.problems(added):
                yield f"QUEUES[{name!r}]: {problem}"
            for option in links_back(name, following, queue.expiry_queue):
                yield f"QUEUES[{name!r}]: {WORDS_OF_LINKS[option]}"

    def contradictions(self) -> Iterator[str]:
        """Yield one sentence for options of a queue that make no sense together."""
        for name, queue in self.QUEUES.items():
            yield from (f"QUEUES[{name!r}]: {sentence}" for sentence in queue.contradictions())


#: The names of the settings.
SETTINGS = tuple(item.name for item in fields(Settings) if item.name != "added")


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


#: What the id of a key may be: it stands in rows, reasons and logs.
KEY_ID = re.compile(r"[A-Za-z0-9._-]{1,40}")


def _are_keys(given: Any) -> bool:
    """Whether it is a dictionary of keys by their ids. The middleware says whether the keys can be used."""
    if not isinstance(given, Mapping):
        return False
    return all(
        isinstance(key_id, str) and KEY_ID.fullmatch(key_id) and isinstance(key, str | bytes)
        for key_id, key in given.items()
    )


def uses_time_zones() -> bool:
    """Return the project's ``USE_TZ``."""
    return bool(django_settings.USE_TZ)


def aware(time: datetime) -> datetime:
    """Return an aware time. A naive one is in the site's time zone, as in Django."""
    return timezone.make_aware(time, timezone.get_default_timezone()) if timezone.is_naive(time) else time


def as_django(time: datetime | None) -> datetime | None:
    """Return an aware time as Django's own tables have it: without ``USE_TZ`` naive, as ``timezone.now()`` is."""
    return time if time is None or uses_time_zones() else time.astimezone().replace(tzinfo=None)


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
    """Return the unknown settings and queue options, so that a check reports misspelt names."""
    given, added = raw(), all_of(_extensions())
    known = {*SETTINGS, *(option.name for option in added.settings)}
    known_options = {*OPTIONS, *MEMORY_OPTIONS, *(option.name for option in added.queue_options)}
    names = sorted(str(name) for name in set(given) - known)
    for queue_name, queue in given.get("QUEUES", {}).items():
        names += [f"QUEUES[{queue_name!r}][{option!r}]" for option in sorted(set(queue) - known_options, key=str)]
    return names


@lru_cache(maxsize=1)
def load() -> Settings:
    """Return the settings, checked. Cached until Django signals a changed setting.

    Raises ConfigurationError naming every unknown or impossible value.
    """
    unknown = unknown_names()
    if unknown:
        raise ConfigurationError(f"Unknown settings in DJANGO_MQ: {', '.join(unknown)}")
    given = dict(raw()) | {"EXTENSIONS": _extensions()}
    names = {option.name for option in all_of(given["EXTENSIONS"]).queue_options if option.is_names}
    declared = given.pop("QUEUES", {}).items()
    queues = {name: QueueOptions.of(_without_lists(options, names)) for name, options in declared}
    added = {name: given.pop(name) for name in given.keys() - set(SETTINGS)}
    if isinstance(given.get("MASK"), (list, set, frozenset)):
        given["MASK"] = tuple(given["MASK"])
    if isinstance(given.get("MIDDLEWARE"), list):
        given["MIDDLEWARE"] = tuple(given["MIDDLEWARE"])
    loaded = Settings(**given, QUEUES=MappingProxyType(queues), added=MappingProxyType(added))
    problems = list(loaded.problems())
    if problems:
        raise ConfigurationError("DJANGO_MQ is wrong: " + "; ".join(problems))
    contradictions = list(loaded.contradictions())
    if contradictions:
        raise ContradictoryOptions("DJANGO_MQ contradicts itself: " + "; ".join(contradictions))
    return loaded


def _without_lists(options: Any, names: Collection[str]) -> Any:
    """Return the options of a queue; those that are several names are texts, as queues store them."""
    if not isinstance(options, Mapping):
        return options
    return {
        name: " ".join(value) if name in names and _is_list_of_words(value) else value
        for name, value in options.items()
    }


def _is_list_of_words(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(
        isinstance(each, str) and each.split() == [each] for each in value
    )


#: Extensions that the settings do not name, by name.
_added: dict[str, Extension] = {}


def add_extension(extension: Extension) -> None:
    """Add an extension that the settings do not name, in this process, unless one of its name is there."""
    if extension.name not in _added:
        _added[extension.name] = extension
        _forget()


def remove_extension(name: str) -> None:
    """Remove an extension that was added, if it was."""
    _added.pop(name, None)
    _forget()


def _extensions() -> tuple[Extension, ...]:
    """Return the extensions of the settings, then those that were added. Raises UnusableExtension."""
    named = imported(raw()["EXTENSIONS"]) if "EXTENSIONS" in raw() else ()
    names = {extension.name for extension in named}
    return (*named, *(extension for name, extension in _added.items() if name not in names))


@lru_cache(maxsize=1)
def extensions() -> Extension:
    """Return what all extensions add, in their order, as one extension. Cached as the settings are."""
    return all_of(load().EXTENSIONS)


@lru_cache(maxsize=1)
def middleware() -> Chains:
    """Return the middleware of the settings, then that of extensions. Cached as the settings are.

    Raises UnusableMiddleware.
    """
    return chains_of((*made(load().MIDDLEWARE), *extensions().middleware))


def queue_options() -> dict[str, Option]:
    """Return the options of queues by name: those of django_mq, then those of extensions."""
    return {**OPTIONS, **{option.name: option for option in extensions().queue_options}}


def all_of(given: Iterable[Extension]) -> Extension:
    """Return what these extensions add, as one extension."""
    every = tuple(given)
    added = [item.name for item in fields(Extension) if item.name != "name"]
    return Extension(
        name="all", **{name: tuple(chain.from_iterable(getattr(each, name) for each in every)) for name in added}
    )


def forget(*, setting: str, **_: object) -> None:
    """Drop the cached settings when a test or a tool overrides them."""
    if setting in {"DJANGO_MQ", "DATABASES"}:
        _forget()


def _forget() -> None:
    load.cache_clear()
    extensions.cache_clear()
    middleware.cache_clear()
