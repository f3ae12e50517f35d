"""All questions, in an order in which each answer is the ground of the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import DatabaseError

from django_mq.diagnosis.doctor import database, environment, tables, work
from django_mq.diagnosis.doctor.findings import Level, problem
from django_mq.diagnosis.state.space import look_at_space
from django_mq.errors import MQError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from django_mq.diagnosis.doctor.findings import Finding


def examine(alias: str, *, patience_seconds: float) -> Iterator[Finding]:
    """Yield what is found; never raises for what is wrong with the patient.

    A database that does not answer a first question in ``patience_seconds`` is asked no other.
    """
    if not (yield from _passed_on("settings", environment.look_at_settings())):
        return
    yield from _passed_on("redis", environment.look_at_redis())
    if not (yield from _passed_on("database", database.look_at_connection(alias, patience_seconds))):
        return
    yield from _passed_on("database", environment.look_at_database_settings(alias))
    yield from _passed_on("clock", database.look_at_clock(alias))
    if not (yield from _passed_on("tables", database.look_at_tables(alias))):
        return
    if not (yield from _passed_on("privileges", tables.look_at_privileges(alias))):
        return
    yield from _passed_on("space", look_at_space(alias))
    for look in (
        *(work.look_at_leases, work.look_at_orphans, work.look_at_states),
        *(work.look_at_queues, work.look_at_operations),
    ):
        yield from _passed_on("work", look(alias))


def _passed_on(about: str, findings: Iterable[Finding]) -> Generator[Finding, None, bool]:
    """Pass the findings on and return whether all was well; what breaks an examination is a finding too."""
    well = True
    try:
        for finding in findings:
            well = well and finding.level is not Level.PROBLEM
            yield finding
    except (MQError, DatabaseError) as error:
        yield problem(about, f"It could not be examined: {error}", "Mend what is said above, and ask again.")
        return False
    return well
