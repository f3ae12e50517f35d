"""One connection to a file: a transaction takes the write lock when it begins.

The clock is this machine's, which all processes with the file share.
"""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from django.db import transaction

from django_mq.stores.connections import close_at_forks, translating
from django_mq.stores.records import EPOCH, later
from django_mq.stores.sql.database import PARAMETER, Database
from django_mq.stores.sql.publications import parameters_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from django.db.backends.base.base import BaseDatabaseWrapper

    from django_mq.stores.records import NewMessage
    from django_mq.stores.sql.database import Rows


#: What takes several statements here, in this order and in one transaction, where PostgreSQL has one statement.
#: The rows are those of the statement with the name.
STEPS = {
    "remove": ("remember_removed", "remove"),
    "settle_finished": ("remember_finished", "settle_finished"),
    "move": ("remember_moved", "move", "mark_tail"),
    "prioritise": ("prioritise", "mark_tail"),
    "arrive_again": ("arrive_again", "mark_tail"),
    "release_held_by_expired": ("release_held_by_expired", "give_back_held_by_expired"),
}


#: The names that look in this process, with their alias.
_looking: set[tuple[str, str]] = set()
#: Steps of a statement after which SQLite asks whether to end it.
PROGRESS = 10_000


class NotDoneError(Exception):
    """A statement has returned no rows: what was done before must be undone."""


class SQLiteDatabase(Database):
    package = "django_mq.stores.sqlite"
    # A transaction that reads first may be refused the write lock later, for good.
    begin: ClassVar[str] = "BEGIN IMMEDIATE"

    def __init__(self, connection: BaseDatabaseWrapper, *, private: bool = False) -> None:
        super().__init__(connection, private=private)
        if private:
            close_at_forks(connection)
            settings = connection.settings_dict
            patience = {"timeout": PATIENCE_SECONDS, **settings["OPTIONS"]}
            connection.settings_dict = {**settings, "OPTIONS": patience}
        self._marked: Any = None
        self._reopened = 0

    def now(self) -> str:
        return "%(now)s"

    def moment(self) -> datetime:
        return datetime.now(UTC) + self.offset()

    def fitted(self, params: dict[str, Any]) -> dict[str, Any]:
        return parameters(params, self.moment())

    def rows(self, name: str, /, **params: Any) -> Rows:
        if name not in STEPS:
            return super().rows(name, **params)
        with self.transaction():
            # Fitted once: writing a thousand ids as text costs a third of what finding them does.
            fitted = self.fitted(params)
            return {step: self.run(step, fitted) for step in STEPS[name]}[name]

    def run_at_once(self, name: str, fitted: dict[str, Any]) -> Rows:
        """Run a statement without Django's cursor, which builds the text again each time."""
        connection = self.connection
        if self.is_watched:
            return self.run(name, fitted)
        with self.alone(), translating(connection):
            connection.ensure_connection()
            connection.validate_no_broken_transaction()
            rows: Rows = connection.connection.execute(as_driver_reads(self.text(name, fitted)), fitted).fetchall()
            return rows

    @contextmanager
    def _shared_transaction(self) -> Iterator[None]:
        outermost = not self.connection.in_atomic_block
        with transaction.atomic(using=self.connection.alias):
            if outermost:
                # Django's BEGIN takes no lock unless the site's settings say so.
                self.rows("lock_for_writing")
            yield

    def run_all_at_once(self, names: Sequence[str], fitted: dict[str, Any]) -> bool:
        """Run statements in this order in a transaction, all or none: return whether each has returned rows.

        They run without Django's cursor, as in ``run_at_once``, and their transaction without its blocks.
        """
        connection = self.connection
        if self.is_watched:
            return self._all_or_none(names, fitted)
        with self.alone(), translating(connection):
            connection.ensure_connection()
            driver = connection.connection
            driver.execute(self.begin)
            try:
                is_done = all(
                    driver.execute(as_driver_reads(self.text(name)), fitted).fetchall() for name in names
                )
            except BaseException:
                driver.rollback()
                raise
            (driver.commit if is_done else driver.rollback)()
            return is_done

    def _all_or_none(self, names: Sequence[str], fitted: dict[str, Any]) -> bool:
        with suppress(NotDoneError), self.transaction():
            if all(self.run(name, fitted) for name in names):
                return True
            raise NotDoneError
        return False

    @contextmanager
    def looking(self, name: str, seconds: float) -> Iterator[bool]:
        is_alone = (self.alias, name) not in _looking
        _looking.add((self.alias, name))
        self.connection.ensure_connection()
        driver, end = self.connection.connection, time.monotonic() + seconds
        driver.set_progress_handler(lambda: time.monotonic() > end, PROGRESS)
        try:
            yield is_alone
        finally:
            driver.set_progress_handler(None, PROGRESS)
            if is_alone:
                _looking.discard((self.alias, name))

    def _plan(self, text: str) -> list[str]:
        with self.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {text}", dict.fromkeys(PARAMETER.findall(text)))
            steps = cursor.fetchall()
        indents = {0: ""}
        for step, parent, _, _ in steps:
            indents[step] = f"  {indents[parent]}"
        return [f"{indents[parent]}{detail}" for _, parent, _, detail in steps]

    def now_skew_seconds(self) -> float:
        return self.offset().total_seconds()

    def change_marker(self) -> int:
        version = self.rows("change_marker")[0][0]
        if self.connection.connection is not self._marked:
            # SQLite counts for each connection: a reopened one must not look unchanged.
            self._marked = self.connection.connection
            self._reopened += 1
        return int(self._reopened << 32 | version)


#: The first version with RETURNING and MATERIALIZED.
OLDEST = (3, 35, 0)
#: Seconds that a worker waits for the write lock by default: less than a session's deadline, so that the worker
#: can still renew its session afterwards.
PATIENCE_SECONDS = 10.0


def problems(settings: Mapping[str, Any], journal_mode: str) -> list[tuple[str, str]]:
    found = []
    if sqlite3.sqlite_version_info < OLDEST:
        found.append((f"SQLite {sqlite3.sqlite_version} is too old.", "Use SQLite 3.35 or later."))
    if journal_mode not in {"wal", "memory"}:
        hint = "Add 'init_command': 'PRAGMA journal_mode=WAL;' to the OPTIONS of the database."
        found.append(("SQLite runs without write-ahead logging: readers and the writer block each other.", hint))
    if str(settings["OPTIONS"].get("transaction_mode")).upper() not in {"IMMEDIATE", "EXCLUSIVE"}:
        hint = "Add 'transaction_mode': 'IMMEDIATE' to the OPTIONS of the database."
        found.append(("A transaction that reads before it publishes may fail with 'database is locked'.", hint))
    return found


MICROSECOND = timedelta(microseconds=1)


def parameters(params: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Fit a statement's parameters to the driver, ``now`` among them.

    Each parameter ``..._seconds`` gets another one, ``..._seconds_from_now``, the time so far ahead. A single
    list becomes a JSON array; ids and claims alone become one object, ``held``; other lists become one array of
    objects, ``given``.
    """
    fitted = {"now": text_of(now), "now_microseconds": (now - EPOCH) // MICROSECOND}
    columns = {}
    for name, value in params.items():
        if isinstance(value, list):
            columns[name] = value
        else:
            fitted |= _scalar(name, value, now)
    if columns.keys() == {"ids", "claims"}:  # the most frequent batch
        return fitted | {"held": _by_claim(**columns)}
    if len(columns) > 1:
        rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
        return fitted | {"given": json.dumps([_object(row, now) for row in rows])}
    return fitted | {name: json.dumps(value) for name, value in columns.items()}


@cache
def as_driver_reads(text: str) -> str:
    """Return a statement with the driver's form of parameters, ``:name``."""
    return PARAMETER.sub(r":\1", text).replace("%%", "%")


def at_once(message: NewMessage, now: datetime) -> dict[str, Any]:
    """Return the parameters of append_at_once, in half of the time that ``parameters`` takes."""
    fitted = {
        "message_id": message.message_id.hex,
        "now": text_of(now),
        "now_microseconds": (now - EPOCH) // MICROSECOND,
    }
    return parameters_of(message, placed=message.place is not None) | fitted


def _object(row: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    return {key: value for name, item in row.items() for key, value in _scalar(name, item, now).items()}


def _scalar(name: str, value: Any, now: datetime) -> dict[str, Any]:
    if name.endswith("seconds"):
        return {name: value, f"{name}_from_now": None if value is None else text_of(later(now, value))}
    if isinstance(value, datetime):
        return {name: text_of(value)}
    if isinstance(value, UUID):
        return {name: value.hex}
    return {name: value}


def _by_claim(ids: Sequence[int], claims: Sequence[int]) -> str:
    """Return the ids by claim as JSON: a batch has few claims and many ids."""
    found: dict[int, list[int]] = {}
    for id_, claim in zip(ids, claims, strict=True):
        found.setdefault(claim, []).append(id_)
    # An id that was given twice is remembered once.
    return json.dumps({claim: list(dict.fromkeys(ids)) for claim, ids in found.items()})


def text_of(time: datetime) -> str:
    return time.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")
