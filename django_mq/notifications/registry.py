"""The notifier of this process, chosen by the settings."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING

from django.db import connections
from django.utils.module_loading import import_string

from django_mq import conf
from django_mq.errors import UnsupportedDatabase
from django_mq.notifications.base import Notifier
from django_mq.notifications.local import LocalNotifier, Unusable
from django_mq.seams.findings import problem
from django_mq.stores.registry import kind_of, wanted_hints

if TYPE_CHECKING:
    from django_mq.seams.findings import Finding

logger = logging.getLogger("django_mq.notifications")


def notifier() -> Notifier:
    """Return the notifier that ``HINTS`` names. Opens nothing."""
    settings = conf.load()
    kind = hints_of(settings)
    if kind == "redis":
        return _redis(
            settings.REDIS_URL or "",
            settings.REDIS_PREFIX,
            settings.REDIS_TIMEOUT_SECONDS,
            # Renewed at every safety poll; one that is late for four is hung.
            max(4 * settings.SAFETY_POLL_SECONDS, 10.0),
        )
    if kind == "postgresql":
        return _postgresql(settings.DATABASE, settings.LISTEN_DATABASE)
    return _local() if kind == "none" else _imported(kind)


def hints_of(settings: conf.Settings) -> str:
    """Return what carries hints: what is wanted, or nothing if the database cannot."""
    wanted = wanted_hints(settings)
    return wanted if wanted != "postgresql" or carries_hints(settings.DATABASE) else "none"


def carries_hints(alias: str) -> bool:
    """Whether the database of an alias can notify sessions itself."""
    try:
        return kind_of(connections[alias]).features.carries_hints
    except UnsupportedDatabase:
        return False


@lru_cache(maxsize=1)
def _local() -> LocalNotifier:
    return LocalNotifier()


@lru_cache(maxsize=8)
def _postgresql(alias: str, listen_alias: str | None) -> Notifier:
    from django_mq.notifications.postgresql import PostgreSQLNotifier  # noqa: PLC0415 - only where it is used

    return PostgreSQLNotifier(alias, listen_alias=listen_alias)


@lru_cache(maxsize=8)
def _redis(url: str, prefix: str, timeout_seconds: float, registration_seconds: float) -> Notifier:
    from django_mq.notifications.redis import MEND, RedisNotifier  # noqa: PLC0415 - Redis only where it is used

    try:
        return RedisNotifier(
            url, prefix=prefix, timeout_seconds=timeout_seconds, registration_seconds=registration_seconds
        )
    except ValueError:
        # The error may hold a part of a password.
        return _unusable(
            problem("redis", "Hints do not work: the client cannot read an option of REDIS_URL.", MEND)
        )


@lru_cache(maxsize=8)
def _imported(path: str) -> Notifier:
    """Return a notifier of the class with this dotted path."""
    try:
        return class_named(path)()
    except Exception as error:  # noqa: BLE001 - a class of the project may raise anything
        mend = "Correct DJANGO_MQ['HINTS']. Until then workers look regularly."
        return _unusable(problem("hints", f"HINTS is {path!r}, which cannot be used: {error}", mend))


def class_named(path: str) -> type[Notifier]:
    """Return the class of notifiers with this dotted path. Raises TypeError, and what its import raises."""
    found = import_string(path)
    if not (isinstance(found, type) and issubclass(found, Notifier)):
        raise TypeError(f"{path} is no class of notifiers")
    return found


def _unusable(finding: Finding) -> Notifier:
    """Return a notifier for this process alone: a publisher comes here when its message has been written."""
    logger.error("%s No hint leaves this process.", finding.sentence)
    return Unusable(finding)
