"""Which targets are told of an alert, when it is over, and when a message that was not sent is tried again."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from django_mq.engine.decisions.backoff import Backoff
from django_mq.errors import ConfigurationError, shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

#: The levels of an alert, the least first.
LEVELS: Final = ("notice", "problem")
#: After how many tries a message is given up, and the waits between them: an hour in all.
MOST_TRIES: Final = 8
WAITS: Final = Backoff(base_seconds=30, multiplier=2, cap_seconds=1800)
#: How long before an alert something may have happened that explains it.
SHORTLY: Final = timedelta(minutes=30)
#: What a target may have.
KEYS: Final = frozenset({"webhook", "secret", "email", "level", "causes"})
MOST_CHARACTERS: Final = 100
MOST_ADDRESSES: Final = 50
#: As the specification of Standard Webhooks has it.
SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - the beginning of all secrets
SECRET_BYTES: Final = range(24, 65)
NAME: Final = re.compile(r"[\w.@+-]+( [\w.@+-]+)*")
#: Visible ASCII characters.
VISIBLE: Final = re.compile(r"[!-~]+")
ADDRESS: Final = re.compile(r"[^\s@<>,;]+@[^\s@<>,;]+")


class AlertNews(StrEnum):
    """What a target is told of an alert."""

    BEGAN = "began"
    OVER = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertTarget:
    """Where alerts are sent. Its texts have no secret but ``webhook`` and ``secret``."""

    name: str
    webhook: str = field(default="", repr=False)
    #: Signs what the webhook gets; empty: it is not signed.
    secret: bytes = field(default=b"", repr=False)
    email: tuple[str, ...] = ()
    level: str = "problem"
    #: The causes to tell; None: all.
    causes: frozenset[str] | None = None

    def wants(self, cause: str, level: str) -> bool:
        """Return whether to tell it of an alert with this cause, which has been so bad at its worst."""
        return LEVELS.index(level) >= LEVELS.index(self.level) and (self.causes is None or cause in self.causes)


def is_lasting(began_at: datetime, seen_at: datetime, after_seconds: float) -> bool:
    """Return whether an alert has been found for so long that targets are told."""
    return seen_at - began_at >= timedelta(seconds=after_seconds)


def is_over(seen_at: datetime, now: datetime, quiet_seconds: float) -> bool:
    """Return whether an alert that was last found then is over: one that comes and goes stays one alert."""
    return now - seen_at > timedelta(seconds=quiet_seconds)


def is_shortly_before(change: datetime, began_at: datetime) -> bool:
    """Return whether a change happened shortly before an alert began, so that it may explain the alert."""
    return began_at - SHORTLY <= change < began_at


def worse(first: str, second: str) -> str:
    """Return the worse one of two levels."""
    return max(first, second, key=LEVELS.index)


def next_try(tries: int, now: datetime) -> datetime | None:
    """Return when to send again what has failed so often; None: it is given up."""
    return None if tries >= MOST_TRIES else now + timedelta(seconds=WAITS.delay(tries))


def targets_of(given: Any, causes: Collection[str]) -> tuple[AlertTarget, ...]:
    """Return the targets of the setting ALERTS. Raises ConfigurationError, which shows no secret."""
    problems = list(_problems(given, causes))
    if problems:
        raise ConfigurationError(f"DJANGO_MQ['ALERTS'] is wrong: {'; '.join(problems)}.")
    return tuple(_target(name, values) for name, values in given.items())


def _target(name: str, values: Mapping[str, Any]) -> AlertTarget:
    secret, chosen = values.get("secret"), values.get("causes")
    return AlertTarget(
        name=name,
        webhook=values.get("webhook", ""),
        secret=_decoded(secret) or b"",
        email=tuple(values.get("email", ())),
        level=values.get("level", "problem"),
        causes=None if chosen is None else frozenset(chosen),
    )


def _problems(given: Any, causes: Collection[str]) -> Iterator[str]:
    if not isinstance(given, Mapping):
        yield "give a dictionary of targets by their names"
        return
    for name, values in given.items():
        if not (isinstance(name, str) and len(name) <= MOST_CHARACTERS and NAME.fullmatch(name)):
            yield f"{shown(name)} is no name; use at most {MOST_CHARACTERS} letters, digits, spaces, and . _ @ + -"
        elif not isinstance(values, Mapping):
            # Without the value: it may be an address with a secret.
            yield f"{name!r} has no dictionary; write {{'email': [...]}} or {{'webhook': '...'}}"
        else:
            yield from (f"{name!r} {problem}" for problem in _problems_of(values, causes))


def _problems_of(values: Mapping[str, Any], causes: Collection[str]) -> Iterator[str]:
    """Yield what is wrong with a target, as the end of a sentence."""
    if unknown := sorted(map(str, values.keys() - KEYS)):
        yield f"has {', '.join(map(shown, unknown))}; use {', '.join(sorted(KEYS))}"
    if ("webhook" in values) == ("email" in values):
        yield "needs either a webhook or an email"
    elif "webhook" in values:
        yield from _problems_of_webhook(values)
    elif not _are_addresses(values["email"]):
        yield f"has an email that is no list of 1 to {MOST_ADDRESSES} addresses"
    if "secret" in values and "webhook" not in values:
        yield "has a secret, which only a webhook uses"
    if values.get("level", LEVELS[0]) not in LEVELS:
        yield f"has the level {shown(values['level'])}; use one of {', '.join(LEVELS)}"
    chosen = values.get("causes", ())
    if not isinstance(chosen, (list, tuple, set, frozenset)) or not all(isinstance(each, str) for each in chosen):
        yield f"has causes that are no list of texts; use some of {', '.join(causes)}"
    elif wrong := sorted(set(chosen) - set(causes)):
        yield f"has the causes {', '.join(map(shown, wrong))}; use some of {', '.join(causes)}"


def _problems_of_webhook(values: Mapping[str, Any]) -> Iterator[str]:
    # Neither the address nor the secret may be in an error.
    if not _is_address(values["webhook"]):
        yield "has a webhook that is no http:// or https:// address without a user's name"
    if "secret" in values and _decoded(values["secret"]) is None:
        yield (
            f"has a secret that cannot be used; give {SECRET_PREFIX} and the base64 form of {SECRET_BYTES[0]} to"
            f" {SECRET_BYTES[-1]} random bytes"
        )


def _is_address(given: Any) -> bool:
    if not isinstance(given, str) or not VISIBLE.fullmatch(given):
        return False
    try:
        parts = urlsplit(given)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc


def _are_addresses(given: Any) -> bool:
    if not isinstance(given, (list, tuple)) or not 1 <= len(given) <= MOST_ADDRESSES:
        return False
    return all(isinstance(each, str) and ADDRESS.fullmatch(each) for each in given)


def _decoded(secret: Any) -> bytes | None:
    """Return the bytes of a secret; None for one that cannot be used."""
    if not isinstance(secret, str) or not secret.startswith(SECRET_PREFIX):
        return None
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) in SECRET_BYTES else None
