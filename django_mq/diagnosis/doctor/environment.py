"""The settings, and Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.core import checks

from django_mq import conf
from django_mq.notifications.registry import hints_of, notifier
from django_mq.seams.findings import notice, ok, problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.seams.findings import Finding


#: Part of the error of a pooler that does not know the options of a worker's connection.
REFUSED = "unsupported startup parameter"


def look_at_settings() -> Iterator[Finding]:
    """Run the system checks of this app."""
    found = checks.run_checks(tags=["django_mq"])
    for message in found:
        yield problem("settings", f"{message.id}: {message.msg}", message.hint or "Correct DJANGO_MQ.")
    if not found:
        yield ok("settings", "DJANGO_MQ is well formed.")


#: Checks of migrations and of drift, about which the doctor says more.
LOOKED_AT_LATER = ("django_mq.W004", "django_mq.W006")


def look_at_database_settings(alias: str) -> Iterator[Finding]:
    """Run the system checks of the database, and of the handlers."""
    for message in checks.run_checks(tags=[checks.Tags.database, "django_mq_handlers"], databases=[alias]):
        if (message.id or "").startswith("django_mq.") and message.id not in LOOKED_AT_LATER:
            kind = problem if message.is_serious() else notice
            yield kind("database", f"{message.id}: {message.msg}", message.hint or "See the documentation.")


def look_at_hints() -> Iterator[Finding]:
    """Send a hint to this process over the way that HINTS names."""
    kind = hints_of(conf.load())
    if kind == "redis":
        yield from look_at_redis()
    elif kind == "none":
        yield ok("hints", "Hints stay within a process, and workers look regularly.")
    elif error := notifier().problem():
        mend = "Do what the error says, or correct LISTEN_DATABASE or HINTS. Until then workers look regularly."
        if REFUSED in error:
            mend = (
                "A pooler refuses the options of a worker. Set DISABLE_SERVER_SIDE_CURSORS to True for the"
                " database, and name a direct connection in DJANGO_MQ['LISTEN_DATABASE'], or set HINTS to 'none'."
            )
        yield problem("hints", f"A notification did not come back: {error}", mend)
    else:
        yield ok("hints", "A notification went through PostgreSQL and came back.")


def look_at_redis() -> Iterator[Finding]:
    """Send a hint to this process through Redis, and register for hints as a worker does."""
    found = notifier()
    error = found.problem() if found.reaches_others else "REDIS_URL has an option that the client cannot read."
    if error:
        mend = (
            "Start Redis, correct DJANGO_MQ['REDIS_URL'], or allow its user the keys and channels of django_mq."
            " Until then messages are only found a little later."
        )
        yield problem("redis", f"Hints do not work: {error}", mend)
    else:
        yield ok("redis", "A hint went through Redis and came back, and a worker can register for hints.")
