"""The database: connection, migrations, clock, space."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import connections
from django.db.migrations.exceptions import NodeNotFoundError
from django.db.migrations.executor import MigrationExecutor

from django_mq.diagnosis.doctor.tables import APP, look_at_shape
from django_mq.diagnosis.state.question import Question
from django_mq.errors import StoreError
from django_mq.formats import PLAIN
from django_mq.seams.findings import notice, ok, problem
from django_mq.stores.connections import translating
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.seams.findings import Finding

#: Difference of the clocks from which times that a publisher computes are noticeably wrong.
SKEW_SECONDS = 2.0


def _anything(alias: str) -> None:
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT 1")


_question = Question(_anything)


def look_at_connection(alias: str, patience_seconds: float) -> Iterator[Finding]:
    try:
        _question.answer(alias, patience_seconds=patience_seconds)
        shared_store(alias)
        with translating(connections[alias]):
            connections[alias].ensure_connection()
    except StoreError as error:
        mend = f"Start the database, or correct DATABASES[{alias!r}]."
        yield problem("database", f"{alias!r} cannot be used: {error}", mend)
        return
    yield ok("database", f"{alias!r} is reachable: {connections[alias].display_name}.")


def unapplied_migrations(alias: str) -> list[str]:
    """Return the names of the migrations of django_mq that the database has not seen. Raises NodeNotFoundError."""
    executor = MigrationExecutor(connections[alias])
    leaves = [node for node in executor.loader.graph.leaf_nodes() if node[0] == APP]
    return [migration.name for migration, _ in executor.migration_plan(leaves) if migration.app_label == APP]


def look_at_tables(alias: str) -> Iterator[Finding]:
    """Compare the tables with the migrations."""
    try:
        missing = unapplied_migrations(alias)
    except NodeNotFoundError as error:
        remedy = (
            "Install the last version that has the migration 0017_queue_options, run manage.py migrate django_mq"
            " with it, and upgrade then."
        )
        yield problem("migrations", str(error), remedy)
        return
    if missing:
        mend = f"Run manage.py migrate {APP} --database {alias}."
        yield problem("migrations", f"Not applied: {', '.join(missing)}.", mend)
        return
    yield from look_at_shape(alias)


def look_at_clock(alias: str) -> Iterator[Finding]:
    """Compare the database's clock with the clock of this machine."""
    skew = shared_store(alias).database.now_skew_seconds()
    if abs(skew) > SKEW_SECONDS:
        side = "ahead of" if skew > 0 else "behind"
        mend = "Synchronise both (NTP): a deliver_at computed here is off by as much; delay= is not."
        yield problem("clock", f"The database's clock is {PLAIN.precise(abs(skew))} {side} this machine's.", mend)
    else:
        yield ok("clock", f"The database's clock differs by {PLAIN.precise(abs(skew))}.")


def look_at_space(alias: str) -> Iterator[Finding]:
    """Find tables that take more space than they need."""
    store = shared_store(alias)
    spaces = store.server.spaces()
    problems = store.server.space_problems(spaces)
    for sentence, mend in problems:
        yield notice("space", sentence, mend)
    if not problems:
        size = sum(space.size for space in spaces)
        dead = sum(space.dead_rows or 0 for space in spaces)
        rest = f", {PLAIN.number(dead)} dead rows among theirs" if dead else ""
        yield ok("space", f"The tables take {PLAIN.size(size)}{rest}.")
