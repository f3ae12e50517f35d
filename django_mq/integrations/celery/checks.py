"""The checks of Celery's broker URLs and result backends."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core import checks
from django.db import DatabaseError

from django_mq import conf
from django_mq.errors import BrokerURLError, ConfigurationError
from django_mq.integrations.celery.url import SCHEME, check_alias, parse
from django_mq.stores.registry import MEMORY

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The most names in a message.
SHOWN = 10
#: A broker URL that means this transport, however it is spelt.
BROKER_URL = re.compile(r"django[-_. ]?mq\b:?", re.IGNORECASE)

#: What to write instead of a wrong result backend.
RESULTS_HINT = f"Write {SCHEME}:// for the default database, or {SCHEME}:///ALIAS for another one."


def register() -> None:
    """Register the checks; called once by the app."""
    checks.register(check_broker_url, "django_mq")
    checks.register(check_result_backend, "django_mq")
    checks.register(check_beat, checks.Tags.database)


def check_broker_url(**_: Any) -> list[checks.CheckMessage]:
    """E010: a broker URL that Kombu reads as the URL of another broker, or that the transport refuses."""
    found: list[checks.CheckMessage] = []
    for name in sorted(dir(settings)):
        if not name.endswith("BROKER_URL"):
            continue
        value = getattr(settings, name)
        options = getattr(settings, f"{name.removesuffix('URL')}TRANSPORT_OPTIONS", None)
        for url in value.split(";") if isinstance(value, str) else [str(item) for item in value or () if item]:
            problem = _problem(url, options if isinstance(options, dict) else {})
            if problem is not None:
                hint = f"Write {SCHEME}:// for the default database, or {SCHEME}:///ALIAS for another one."
                found.append(checks.Error(f"{name} is {url!r}{problem}", hint=hint, id="django_mq.E010"))
    return found


def check_result_backend(**_: Any) -> list[checks.CheckMessage]:
    """E012: a result backend of ours that keeps no results: in memory, or with a wrong URL."""
    return [
        checks.Error(f"{name} is {value!r}{problem}", hint=RESULTS_HINT, id="django_mq.E012")
        for name in sorted(dir(settings))
        if name.endswith("RESULT_BACKEND") and (problem := _result_problem(value := getattr(settings, name)))
    ]


def check_beat(databases: Sequence[str] | None = None, **_: Any) -> list[checks.CheckMessage]:
    """W012: celery beat publishes what workers publish."""
    from django_mq.periodic.beat import published_too  # noqa: PLC0415 - models need the loaded apps

    try:
        alias = conf.load().DATABASE
        names = published_too(alias) if alias in (databases or ()) else []
    except (ConfigurationError, TypeError, DatabaseError):
        return []  # other checks say it
    if not names:
        return []
    shown = ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
    problem = f"celery beat publishes what the workers publish as periodic messages, and is dropped: {shown}."
    hint = "Stop celery beat, or delete the periodic messages."
    return [checks.Warning(problem, hint=hint, id="django_mq.W012")]


def _result_problem(value: Any) -> str | None:
    if not _is_ours(value):
        return None
    if not value.startswith(f"{SCHEME}://"):
        return None if value == SCHEME else ", which Celery does not read as the URL of django_mq."
    try:
        address = parse(value)
        check_alias(address)
    except BrokerURLError as error:
        return f": {error}"
    in_memory = (address.alias or conf.load().DATABASE) == MEMORY
    return ", and the queues in memory keep no results." if in_memory else None


def _is_ours(value: Any) -> bool:
    return isinstance(value, str) and bool(BROKER_URL.match(value)) and ("://" in value or value == SCHEME)


def _problem(url: str, options: dict[str, Any]) -> str | None:
    if not BROKER_URL.match(url):
        return None  # another broker
    if not url.startswith(f"{SCHEME}://"):
        return ", which Kombu does not read as the URL of django_mq."
    try:
        check_alias(parse(url, options))
    except BrokerURLError as error:
        return f": {error}"
    return None
