"""The settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.core import checks

from django_mq.seams.findings import notice, ok, problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.seams.findings import Finding


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
