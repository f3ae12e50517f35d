"""The store for SQLite: one writer at a time, so a call takes the write lock only if it has something to write."""

from __future__ import annotations

import json
import re
import time
from dataclasses import fields
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django_mq.engine.decisions.claim import fitting
from django_mq.errors import StoreUnavailable
from django_mq.formats import PLAIN
from django_mq.stores.base import Features
from django_mq.stores.claim_limits import limits_of
from django_mq.stores.connections import translating
from django_mq.stores.records import Claimed, Space, later, time_or_none
from django_mq.stores.sql.claims import SEEN_COLUMN, Claims
from django_mq.stores.sql.database import first_of
from django_mq.stores.sql.exchanges import VolatileMessages
from django_mq.stores.sql.fairness import FairPlaces
from django_mq.stores.sql.messages import MOVED, Messages
from django_mq.stores.sql.publications import (
    Publications,
    are_placed,
    is_keyed_at_once,
    is_ready_at_once,
    parameters_of,
)
from django_mq.stores.sql.server import DatabaseServer
from django_mq.stores.sql.sessions import Sessions
from django_mq.stores.sql.store import Parts, SQLStore
from django_mq.stores.sql.unique_keys import UniqueKeys, key_columns
from django_mq.stores.sqlite.database import SQLiteDatabase, at_once, parameters, problems, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence, Set

    from django_mq.engine.decisions.unique import UniqueClaim
    from django_mq.stores.records import ClaimRequest, ClaimResult, Moved, NewMessage, Reaped
    from django_mq.stores.sql.database import Rows, Statement
    from django_mq.stores.sql.fairness import LevelCounters


#: The columns of a claimed row that say if it is suspect, and that have its body.
SUSPECT_COLUMN, BODY_COLUMN = (
    [field.name for field in fields(Claimed)].index(name) for name in ("suspect", "body")
)


def _key(claim: UniqueClaim, now: datetime) -> dict[str, Any]:
    """Return the parameters of a key, but for those that its message has, too."""
    rule = claim.rule
    end = None if rule.seconds is None else text_of(later(now, rule.seconds))
    return {
        "digest": claim.digest,
        "label": claim.label,
        "until": rule.until,
        "owner": claim.owner,
        "seconds_from_now": end,
    }


class SQLitePublications(Publications):
    database: SQLiteDatabase

    def append_one(self, message: NewMessage) -> Rows:
        if not is_ready_at_once(message):
            return super().append_one(message)
        return self.database.run_at_once("append_at_once", at_once(message, self.database.moment()))

    def append_first(self, message: NewMessage, claim: UniqueClaim) -> bool:
        if not is_keyed_at_once(message, claim):
            return False
        now = self.database.moment()
        database, fitted = self.database, at_once(message, now) | _key(claim, now)
        if not (database.begun or database.in_transaction):
            return database.run_all_at_once(("take_first_key", "append_at_once"), fitted)
        if not database.run_at_once("take_first_key", fitted):
            return False
        if database.run_at_once("append_at_once", fitted):
            return True
        database.rows("take_back_key", digest=claim.digest, message_id=message.message_id)
        return False

    def append_all(self, messages: Sequence[NewMessage]) -> list[int]:
        if not messages:
            return []
        database, now = self.database, self.database.moment()
        placed = are_placed(messages)
        rows = [parameters(parameters_of(message, placed=placed), now) for message in messages]
        with database.alone(), translating(database.connection), database.connection.cursor() as cursor:
            # A body cannot travel as JSON.
            cursor.executemany(database.text("append_many", rows[0]), rows)
            written = cursor.rowcount
        if written < len(rows):
            return []
        # No other connection has written meanwhile, and no row was refused, so there is no gap.
        last = database.rows("last_id")[0][0]
        return list(range(last - written + 1, last + 1))


class SQLiteUniqueKeys(UniqueKeys):
    def insert_many(self, keyed: Sequence[tuple[NewMessage, UniqueClaim]]) -> Set[str]:
        return set(first_of(self.rows("take_keys", **key_columns(keyed))))


class SQLiteFairPlaces(FairPlaces):
    def _lock(self, level: LevelCounters) -> None:
        """Take the first counter of each key: no other connection writes meanwhile."""
        level.own = {key: min(counters) for key, counters in level.counters.items()}


class SQLiteMessages(Messages):
    def _move_rows(self, ids: Sequence[int], target: str) -> list[Moved]:
        """Move, and look which rows have gone: no other connection writes meanwhile."""
        with self.database.transaction():
            before = self.standing(ids)
            self.rows("move", ids=list(ids), target=target, outcome=MOVED)
            left = self.standing(ids)
            gone = {id_: (message_id, target) for id_, (message_id, _) in before.items() if id_ not in left}
            return sorted(self.moved(gone), key=attrgetter("new_id"))


class SQLiteClaims(Claims):
    """Look before taking the write lock; read rows, choose, and lease them by a second statement."""

    database: SQLiteDatabase

    def _promote_and_lease(self, session_id: int, request: ClaimRequest) -> ClaimResult:
        return self._idle(session_id, request) or super()._promote_and_lease(session_id, request)

    def _idle(self, session_id: int, request: ClaimRequest) -> ClaimResult | None:
        """Return an empty result if a look without a lock finds nothing to claim."""
        queues = {"queues": list(request.queues)}
        rows = self.database.rows
        if rows("claimable", **queues) or not rows("session_alive", session=session_id):
            return None
        due = rows("next_due", **queues)[0][0]
        if by_rules := [name for name in request.queues if self.queues.has_claim_rules(name)]:
            if any(map(limits_of, by_rules)):
                return None  # what is parked may be over its limit no more
            woken = rows("next_woken", queues=by_rules)[0][0]
            if woken is not None and woken <= 0:
                return None
            due = min((each for each in (due, woken) if each is not None), default=None)
        return self._result_of([], request, due)

    def _claim_statement(self, session_id: int, request: ClaimRequest) -> tuple[str, dict[str, Any]]:
        name, params = super()._claim_statement(session_id, request)
        meets = params.pop("meets", None)
        params.pop("met_by", None)
        if meets and name == "claim":
            return "claim_declared", params | {"meets": json.dumps(meets)}
        # A claim for several handlers, or from several queues, asks all messages.
        return name, params

    def _claim_rows(self, session_id: int, request: ClaimRequest) -> Rows:
        name, params = self._claim_statement(session_id, request)
        if name in {"claim", "claim_declared"}:
            most, first = params["max_bytes"], params["first_bytes"]
            read = self._first_rows(name, params, most)
            line = ((row[SUSPECT_COLUMN], len(row[BODY_COLUMN])) for row in read)
            rows = read[: fitting(line, request.slots, most, first)]
            rows[:1] = [(*row, len(read)) for row in rows[:1]]  # the first row says how many were seen
        else:
            rows = self.rows(name, **params)
        if rows:
            self.rows("lease", ids=first_of(rows), session=session_id, claim=params["claim"])
        return rows

    def _first_rows(self, name: str, params: dict[str, Any], max_bytes: int) -> Rows:
        """Return a statement's first rows, up to the one whose body exceeds the bytes, and at least two."""
        found: Rows = []
        total, database = 0, self.database
        with database.alone(), translating(database.connection), database.cursor() as cursor:
            # A row that is not asked for is not read.
            for row in cursor.execute(database.text(name, params), database.fitted(params)):
                found.append(row)
                total += len(row[BODY_COLUMN])
                if total > max_bytes and len(found) > 1:
                    break
        return found

    def _locking(self, _: Sequence[str]) -> list[Statement]:
        """Return nothing: the transaction holds the write lock, which no other connection has."""
        return []

    def _claimed(self, row: tuple[Any, ...]) -> Claimed:
        values = list(row[:SEEN_COLUMN])
        # By number, not by name: this is done for every message.
        values[7:11] = row[7] == 1, row[8] == 1, row[9] == 1, UUID(int=int(row[10], 16))
        values[14] = datetime.fromisoformat(f"{row[14]}+00:00")
        values[15:17] = time_or_none(row[15]), time_or_none(row[16])
        return Claimed(*values)


class SQLiteSessions(Sessions):
    #: Seconds of waiting for the write lock that are an outage: sessions could not be renewed meanwhile.
    outage_seconds: float = 1.0

    def reap(self, *, spare: int = 0) -> list[Reaped]:
        begin = time.monotonic()
        with self.database.transaction():
            waited = time.monotonic() - begin
            if waited > self.outage_seconds:
                raise StoreUnavailable(
                    f"Another program kept the database locked for {waited:.1f} seconds or more."
                )
            return super().reap(spare=spare)


class SQLiteVolatileMessages(VolatileMessages):
    def _taken(self, queues: list[str], limit: int) -> Rows:
        return super()._taken(queues, limit) if self.is_waiting(queues) else []


#: Finds the names of constraints in a CREATE TABLE of Django.
CONSTRAINT = re.compile(r'CONSTRAINT "(\w+)"')
#: The names in place of tables: SQLite has one file for all of them.
FILE, JOURNAL = "database file", "write-ahead log"
#: Checkpoints keep the log at a few MiB, unless a reader blocks them.
MOST_JOURNAL = 256 * 1024 * 1024


def journal_size(settings: Mapping[str, Any]) -> int:
    """Return the bytes of the write-ahead log; 0 where there is none."""
    try:
        return Path(f"{settings['NAME']}-wal").stat().st_size
    except OSError:
        return 0


def untended(spaces: Sequence[Space]) -> Iterator[tuple[str, str]]:
    for space in spaces:
        if space.table == JOURNAL and space.size > MOST_JOURNAL:
            yield (
                f"The write-ahead log has {PLAIN.size(space.size)}: a long reader keeps it from being emptied.",
                "End that reader, then PRAGMA wal_checkpoint(TRUNCATE);",
            )
        if space.is_mostly_loose:
            yield (
                f"{PLAIN.size(space.loose)} of the database file are unused.",
                "VACUUM; with the workers stopped: it blocks all other writers, and takes as much room again.",
            )


class SQLiteServer(DatabaseServer):
    database: SQLiteDatabase

    def shape(self) -> Set[tuple[str, str]]:
        definitions = self.rows("definitions")
        constraints = {(table, name) for table, text in definitions for name in CONSTRAINT.findall(text)}
        return super().shape() | constraints

    def spaces(self) -> list[Space]:
        [(size, loose)] = self.rows("space")
        return [Space(FILE, size, loose), Space(JOURNAL, journal_size(self.database.connection.settings_dict))]

    def space_problems(self, spaces: Sequence[Space]) -> list[tuple[str, str]]:
        return list(untended(spaces))

    def setting_problems(self) -> list[tuple[str, str]]:
        return problems(self.database.connection.settings_dict, self.rows("journal_mode")[0][0])


class SQLiteStore(SQLStore):
    """The store for SQLite 3.35 and later."""

    features = Features(notices_changes=True, concurrent_writers=False)
    parts = Parts(
        database=SQLiteDatabase,
        server=SQLiteServer,
        messages=SQLiteMessages,
        fairness=SQLiteFairPlaces,
        publications=SQLitePublications,
        unique_keys=SQLiteUniqueKeys,
        claims=SQLiteClaims,
        sessions=SQLiteSessions,
        volatile=SQLiteVolatileMessages,
    )
