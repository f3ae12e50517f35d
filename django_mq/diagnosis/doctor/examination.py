"""All checks, in an order in which later checks rely on earlier ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import DatabaseError

from django_mq.diagnosis.doctor import database, environment, tables, work
from django_mq.diagnosis.state.extensions import found_by_extensions
from django_mq.errors import MQError
from django_mq.notifications.registry import notifier
from django_mq.seams.findings import Level, problem

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from django_mq.seams.findings import Finding


def examine(alias: str, *, patience_seconds: float) -> Iterator[Finding]:
    """Yield the findings. An error of a check is a finding, too.

    If the database does not answer within ``patience_seconds``, the other checks are left out.
    """
    if not (yield from _checked("settings", environment.look_at_settings())):
        return
    yield from _checked("hints", notifier().findings())
    if not (yield from _checked("database", database.look_at_connection(alias, patience_seconds))):
        return
    yield from _checked("database", environment.look_at_database_settings(alias))
    yield from _checked("clock", database.look_at_clock(alias))
    if not (yield from _checked("tables", database.look_at_tables(alias))):
        return
    if not (yield from _checked("privileges", tables.look_at_privileges(alias))):
        return
    yield from _checked("space", database.look_at_space(alias))
    for look in work.LOOKS:
        yield from _checked("work", look(alias))
    yield from (found.finding for found in found_by_extensions(using=alias))


def examine_site(alias: str) -> Iterator[Finding]:
    """Yield what is found of the whole site in the database, except what alerts say of queues."""
    yield from _checked("clock", database.look_at_clock(alias))
    yield from _checked("space", database.look_at_space(alias))
    for look in work.LOOKS:
        if look is not work.look_at_queues:
            yield from _checked("work", look(alias))


def _checked(about: str, findings: Iterable[Finding]) -> Generator[Finding, None, bool]:
    """Yield the findings, with an error as the last one; return whether none is a problem."""
    well = True
    try:
        for finding in findings:
            well = well and finding.level is not Level.PROBLEM
            yield finding
    except (MQError, DatabaseError) as error:
        yield problem(about, f"It could not be examined: {error}", "Correct the problems above, and check again.")
        return False
    return well
