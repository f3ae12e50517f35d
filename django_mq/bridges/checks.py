"""System checks of bridges: wrong settings, and transports that cannot be used. No broker is asked."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.core import checks

from django_mq import conf
from django_mq.bridges.declared import bridges, links_of, shown_address
from django_mq.bridges.queues import bridge_of
from django_mq.engine.decisions.bridges import circles_of
from django_mq.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.engine.decisions.bridges import Bridge

CORRECT: Final = "Correct DJANGO_MQ['BRIDGES']. Until then, no message crosses the bridge."


def register() -> None:
    """Register the checks; called once by the app."""
    checks.register(check_bridges, "django_mq")


def check_bridges(**_: Any) -> list[checks.CheckMessage]:
    """E017: a bridge is wrong; W013: its environment variable is not set; W015: its results are kept nowhere."""
    try:
        found = bridges()
    except ConfigurationError as error:
        if "BRIDGES" not in str(error):
            return []  # the check of the settings says it
        return [checks.Error(str(error), hint=CORRECT, id="django_mq.E017")]
    except TypeError:
        return []
    problems = (message for bridge in found.values() for message in _problems(bridge))
    return [*problems, *_without_backend(found), *_circles(found)]


def _without_backend(found: dict[str, Bridge]) -> Iterator[checks.CheckMessage]:
    """Yield a warning for each bridge that awaits results which no result backend keeps."""
    backends = (getattr(settings, name) for name in dir(settings) if name.endswith("RESULT_BACKEND"))
    if any(str(each).partition(":")[0] == "django-mq" for each in backends):
        return
    for bridge in found.values():
        if bridge.options.results:
            yield checks.Warning(
                f"The bridge {bridge.name!r} has results, and no result backend is django-mq://.",
                hint="Set CELERY_RESULT_BACKEND to django-mq://, also for the remote workers, or remove it.",
                id="django_mq.W015",
            )


def _circles(found: dict[str, Bridge]) -> Iterator[checks.CheckMessage]:
    """Yield an error for each circle of bridges between databases, as far as the settings show it."""
    known = conf.load()
    named = {name: bridge_of(options) for name, options in known.QUEUES.items()}
    queues = {name: bridge for name, bridge in named.items() if bridge is not None}
    for circle in circles_of(links_of(known.DATABASE, queues, found)):
        way = " > ".join(f"{place} {queue}" for place, queue in [*circle, circle[0]])
        yield checks.Error(f"Bridges lead in a circle: {way}.", hint=CORRECT, id="django_mq.E017")


def _problems(bridge: Bridge) -> Iterator[checks.CheckMessage]:
    if bridge.url_variable and not os.environ.get(bridge.url_variable):
        yield checks.Warning(
            f"The environment variable {bridge.url_variable} of the bridge {bridge.name!r} is not set.",
            hint="Set it where workers run.",
            id="django_mq.W013",
        )
    elif not callable(bridge.url) and (problem := _fault(bridge)):
        yield checks.Error(f"The bridge {bridge.name!r} {problem}.", hint=CORRECT, id="django_mq.E017")


def _fault(bridge: Bridge) -> str | None:
    """Return why the address cannot be used, as the end of a sentence without credentials."""
    from kombu.transport import TRANSPORT_ALIASES  # noqa: PLC0415 - projects without bridges need no Kombu

    try:
        bridge.address(os.environ)
    except ConfigurationError:
        return "has a URL that cannot be read"
    for shown in shown_address(bridge).split(";"):
        scheme = shown.partition("://")[0].partition("+")[0]
        if scheme != "django-mq" and scheme not in TRANSPORT_ALIASES:
            return f"has a URL that begins with {scheme}://, which is no transport of Kombu"
    return None
