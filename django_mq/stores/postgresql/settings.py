"""Settings of a worker's connection, so that no statement or dead socket freezes the worker, and advice."""

from __future__ import annotations

import os
import re
import socket
from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg import IsolationLevel

from django_mq.formats import PLAIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from django_mq.stores.records import Space


#: Seconds until a silent connection is probed, seconds between two probes, and the number of probes.
KEEPALIVE_IDLE_SECONDS, KEEPALIVE_INTERVAL_SECONDS, KEEPALIVE_COUNT = 10, 5, 3
CONNECT_SECONDS = 10
#: A worker waits for an answer for so many seconds longer than a statement may take. A peer that acknowledges each
#: packet and never answers is within all limits above.
SILENCE_SECONDS = 5
#: Runs after which a statement is prepared on a worker's connection. The statements of a round trip are prepared
#: at once, as planning them takes longer than running them.
PREPARE_THRESHOLD = 5
#: One plan for any values and any number of rows: PostgreSQL makes it while a queue is empty, perhaps, and keeps
#: it until the statistics of the table change. So the plan must never read the whole table, and never read and
#: sort all messages of a queue before it takes a few. Without sorts, the index that has the order is read. Without
#: incremental sorts, an index that has the order only in part is not: it would lead over all messages.
#: Bitmap scans stay allowed: a settlement finds an old and a new version of each row, which lie on different
#: pages, and a bitmap reads each page once.
PLANNING = (
    " -c plan_cache_mode=force_generic_plan -c enable_seqscan=off"
    " -c enable_sort=off -c enable_incremental_sort=off -c jit=off"
)

#: The first version that Django 5.2 supports; our statements ask for no more.
OLDEST = 14
#: Isolations under which a statement sees what was committed before it, and not before its transaction.
FITTING_ISOLATIONS = {"read committed", "read uncommitted"}


def problems(
    settings: dict[str, Any], version: int, isolation: str, *, pooled: bool, listened: bool
) -> Iterator[tuple[str, str]]:
    """Yield (problem, hint) for settings that make the queue slow or fragile; ``pooled`` is what was found."""
    if version // 10_000 < OLDEST:
        yield f"PostgreSQL {version // 10_000} is too old.", f"Use PostgreSQL {OLDEST} or later."
    if isolation not in FITTING_ISOLATIONS:
        yield (
            f"Transactions are isolated as {isolation}: those that meet at a queue fail, and must be repeated.",
            "Take 'isolation_level' out of the OPTIONS of the database: read committed is the default.",
        )
    if pooled and not settings.get("DISABLE_SERVER_SIDE_CURSORS"):
        yield (
            "Connections lead through a pooler, and workers would prepare statements on them.",
            "Set DISABLE_SERVER_SIDE_CURSORS to True for the database. Workers then prepare no statements.",
        )
    if pooled and listened:
        yield (
            "Connections lead through a pooler, so no notification of PostgreSQL wakes workers: they poll.",
            "Name a direct connection to the database in DJANGO_MQ['LISTEN_DATABASE'], or set HINTS to 'none'.",
        )


def isolation_in(settings: dict[str, Any]) -> str | None:
    given = settings.get("OPTIONS", {}).get("isolation_level")
    return None if given is None else IsolationLevel(given).name.replace("_", " ").lower()


def bounded(settings: dict[str, Any], statement_seconds: float) -> dict[str, Any]:
    """Return the connection's settings with time limits; the project's own settings are kept.

    A half-open connection would otherwise stop the worker's loop until the kernel gives up, after 15 minutes.
    """
    milliseconds = round(statement_seconds * 1000)
    given = settings.get("OPTIONS", {})
    limits = {
        "connect_timeout": CONNECT_SECONDS,
        "keepalives": 1,
        "keepalives_idle": KEEPALIVE_IDLE_SECONDS,
        "keepalives_interval": KEEPALIVE_INTERVAL_SECONDS,
        "keepalives_count": KEEPALIVE_COUNT,
        "tcp_user_timeout": milliseconds,
    }
    # By this setting a project tells Django of a pooler that may give each transaction another connection.
    pooled = bool(settings.get("DISABLE_SERVER_SIDE_CURSORS"))
    if not pooled:
        limits["prepare_threshold"] = PREPARE_THRESHOLD
    # Later options win, so a project's own statement_timeout stays in force.
    start_up = f"-c statement_timeout={milliseconds}{PLANNING} {given.get('options', '')}".strip()
    # A pool belongs to the project's threads: a worker holds its connection for life.
    kept = {name: value for name, value in given.items() if name != "pool"}
    # Poolers refuse start-up options they do not know.
    return settings | {"OPTIONS": limits | kept | ({} if pooled else {"options": start_up})}


#: The beginning of each statement of a worker's connection; the host and process follow.
MARK = "/* django_mq "


def mark_of_process() -> str:
    """Return the comment by which the server's list of its processes names the worker of a statement."""
    host = re.sub(r"[^\w.-]", "", socket.gethostname())
    return f"{MARK}{host}:{os.getpid()} */ "


def impatient(settings: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Return the connection's settings with a limit on each wait for a lock; the project's own limit is kept."""
    if settings.get("DISABLE_SERVER_SIDE_CURSORS"):
        return settings  # as above
    given = settings.get("OPTIONS", {})
    start_up = f"-c lock_timeout={round(seconds * 1000)} {given.get('options', '')}".strip()
    return settings | {"OPTIONS": given | {"options": start_up}}


#: Dead rows, and their share of all rows, from which a table needs a vacuum.
MOST_DEAD_ROWS, DEAD_SHARE = 100_000, 0.2
#: Autovacuum cleans such a table within minutes; after so long something holds it back.
LATE_SECONDS = 3600.0
#: The age of a transaction that holds a vacuum back.
LONG_SECONDS = 600.0
#: The settings that migration 0005 gives the message table.
SETTINGS = "autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 10000"


class OpenTransaction(NamedTuple):
    """An open transaction: the process, its age, and the application name."""

    pid: int
    seconds: float
    name: str


def untended(spaces: Sequence[Space], longest: OpenTransaction | None) -> Iterator[tuple[str, str]]:
    """Yield (problem, hint) for tables that grow without need."""
    for space in spaces:
        dead, rows = space.dead_rows or 0, space.rows or 0
        if dead > MOST_DEAD_ROWS and dead > DEAD_SHARE * (dead + rows):
            yield from _uncleaned(space, longest)
        if space.is_mostly_loose:
            yield (
                f"The indexes of {space.table} take some {PLAIN.size(space.loose)} more than new ones would.",
                f"REINDEX TABLE CONCURRENTLY {space.table};",
            )


def _uncleaned(space: Space, longest: OpenTransaction | None) -> Iterator[tuple[str, str]]:
    table, dead = (
        space.table,
        f"{PLAIN.number(space.dead_rows or 0)} dead rows of {space.table} are not cleaned up",
    )
    if "autovacuum_enabled=false" in space.settings or "autovacuum_enabled=off" in space.settings:
        yield f"{dead}: its autovacuum is off.", f"ALTER TABLE {table} RESET (autovacuum_enabled);"
    elif longest is not None and longest.seconds > LONG_SECONDS:
        age = PLAIN.duration(longest.seconds)
        process = f"process {longest.pid} ({longest.name or 'without a name'})"
        yield (
            f"{dead}: the transaction of {process} is {age} old and may still see them.",
            f"Let it end, or call pg_terminate_backend({longest.pid}).",
        )
    elif space.tended_seconds is not None and space.tended_seconds > LATE_SECONDS:
        given = (
            "" if "autovacuum_vacuum_scale_factor" in space.settings else f"ALTER TABLE {table} SET ({SETTINGS}); "
        )
        yield (
            f"{dead}, and the last vacuum was {PLAIN.duration(space.tended_seconds)} ago.",
            f"{given}VACUUM (ANALYZE) {table};",
        )
