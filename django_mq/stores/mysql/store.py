"""The store for MariaDB and MySQL, which need several statements where PostgreSQL needs one."""

from __future__ import annotations

import json
from base64 import b64encode
from contextlib import contextmanager, suppress
from dataclasses import fields
from itertools import compress
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from django_mq.engine.decisions.claim import allowed, fitting, merged, next_batch
from django_mq.engine.decisions.worker_mode import WorkerMode
from django_mq.engine.states import READY
from django_mq.errors import StoreError
from django_mq.formats import PLAIN
from django_mq.stores.base import Features
from django_mq.stores.mysql.database import DUPLICATE, MySQLDatabase, code_of, parameters, problems, retried
from django_mq.stores.records import AGES_READ, Claimed, LockHolder, Moved, Space, time_or_none
from django_mq.stores.sql.admission import Admission
from django_mq.stores.sql.browser import Browser
from django_mq.stores.sql.claims import Claims, Facts, Portion, conditioned
from django_mq.stores.sql.database import first_of
from django_mq.stores.sql.deletions import DELETION_WAIT_SECONDS, Deletions
from django_mq.stores.sql.exchanges import VolatileMessages
from django_mq.stores.sql.maintenance import Maintenance
from django_mq.stores.sql.messages import MOVED, Messages, named
from django_mq.stores.sql.parking import Parking, parking, stored_key
from django_mq.stores.sql.publications import NEW_MESSAGE_FIELDS, Publications, are_placed, parameters_of
from django_mq.stores.sql.queues import Queues
from django_mq.stores.sql.retention import Retention
from django_mq.stores.sql.rollups import Rollups
from django_mq.stores.sql.server import DatabaseServer
from django_mq.stores.sql.sessions import Sessions
from django_mq.stores.sql.settlements import Leases, Settlements
from django_mq.stores.sql.store import Parts, SQLStore
from django_mq.stores.sql.unique_keys import (
    UniqueKeys,
    found_in,
    holder_in,
    key_parameters,
    refusing,
    returning,
)
from django_mq.stores.subjects.unique_keys import NO_HOLDER

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence, Set

    from django_mq.engine.decisions.unique import UniqueClaim
    from django_mq.stores.dead_letters import Copy
    from django_mq.stores.records import (
        ClaimRequest,
        ClaimResult,
        Failure,
        Heartbeat,
        NewMessage,
        Parked,
        Receipt,
        Renewal,
        Settlement,
    )
    from django_mq.stores.sql.database import Asking, Rows, Statement
    from django_mq.stores.subjects.unique_keys import Found


#: The positions in a claimed row of the queue's name, the suspect flag and the body.
QUEUE, SUSPECT, BODY = (
    [field.name for field in fields(Claimed)].index(name) for name in ("queue_name", "suspect", "body")
)
#: The position of the size of the body, which is given even if the body is not.
SIZE = BODY + 1
#: States of ``models.Message.Status``: scheduled and ready, all states that no session holds, and parked.
WAITING, UNHELD, PARKED = [0, 1], [0, 1, 3, 7], [7]
#: The states of the messages that a statement changes, and whether it leaves those out that have a value key.
CHANGED = {
    "release_held": ([2], False),
    "deliver_now": ([0], False),
    "reschedule": (WAITING, True),
    "redrive_dead": ([3], False),
    "bury": ([*WAITING, *PARKED], False),
    "free_chosen": (PARKED, False),
}


class MySQLMessages(Messages):
    """Lock, then write: MySQL has no RETURNING, and MariaDB has none for UPDATE."""

    def _locked(self, ids: Sequence[int], states: list[int], reason: str | None = None) -> Rows:
        return self.rows("lock_unheld", ids=list(ids), states=states, reason=reason) if ids else []

    def _remove(self, ids: Sequence[int], outcome: int, reason: str | None) -> list[int]:
        with self.database.transaction():
            found = first_of(self._locked(ids, UNHELD, reason))
            self.finish(found, outcome, "remember_removed")
        return found

    def finish(self, ids: Sequence[int], outcome: int, remember: str) -> None:
        if ids:
            self.rows(remember, ids=list(ids), outcome=outcome)
            self.rows("drop_messages", ids=list(ids))

    def changed(self, statement: str, ids: Sequence[int], **given: Any) -> list[int]:
        with self.database.transaction():
            states, timed = CHANGED[statement]
            locked = first_of(self.rows("lock_to_change", ids=list(ids), states=states, timed=timed))
            if locked:
                self.rows(statement, ids=locked, **given)
        return locked

    def _move_rows(self, ids: Sequence[int], target: str) -> list[Moved]:
        """Copy one by one: if a copy cannot be written, its original stays."""
        with self.database.transaction():
            moved = [
                Moved(id_, new_id, target)
                for id_ in first_of(self._locked(ids, UNHELD))
                for (new_id,) in self.database.insert("move", id=id_, target=target)
            ]
            self.finish([each.id for each in moved], MOVED, "remember_removed")
        return moved

    def copy_dead(self, copies: Sequence[Copy], target: str) -> set[int]:
        return {copy.id for copy in copies if self.database.insert("copy_dead", target=target, **copy._asdict())}

    def _prioritise_rows(self, ids: Sequence[int], priority: int) -> list[Moved]:
        with self.database.transaction():
            changed = [row[0] for row in self._locked(ids, WAITING) if row[1] != priority]
            before = self.standing(changed)
            for step in ("stand_aside", "prioritise", "drop_messages") if changed else ():
                self.rows(step, ids=changed, priority=priority)
            return self.moved(before)

    def set_places(self, places: Mapping[int, int]) -> None:
        if places:
            self.rows("set_places", placed=json.dumps([*places.items()]))

    def _bury(self, ids: Sequence[int], reason: str) -> list[int]:
        return self.changed("bury", ids, reason=reason)

    def numbered_anew(self, ids: Sequence[int]) -> list[int]:
        locked = first_of(self._locked(ids, [0]))
        if not locked:
            return []
        self.rows("stand_aside", ids=locked)
        new = [row[0] for id_ in ids if id_ in locked for row in self.rows("arrive_again", id=id_)]
        self.rows("drop_messages", ids=locked)
        return new

    def set_expired_aside(self, ids: Sequence[int]) -> None:
        with self.database.transaction():
            if found := first_of(self._locked(ids, [*WAITING, *PARKED])):
                super().set_expired_aside(found)

    def record_attempts(self, session_id: int, failed: Sequence[tuple[int, bool, Failure]]) -> None:
        with self.database.transaction():
            for id_, counted, failure in failed:
                self.rows("record_attempts", **named(session_id), id=id_, counted=counted, **failure.storable())


class MySQLParking(Parking):
    """Lock, then write, and leave out what others have locked."""

    def park(self, parked: Sequence[Parked]) -> frozenset[int]:
        with self.database.transaction():
            found = self.parking(self.database.each, parked)
            self.database.each(found)
            return frozenset(id_ for _, given in found for id_ in given["ids"])

    def parking(self, ask: Asking, parked: Sequence[Parked]) -> list[Statement]:  # noqa: ARG002 - the steps are those of ``rows``
        ready = {*first_of(self._locked([item.id for item in parked], [READY]))}
        return parking([item for item in parked if item.id in ready])

    def free_with(
        self, ask: Asking, frees: Sequence[tuple[str, str, int]], then: Sequence[Statement]
    ) -> tuple[list[int], list[Rows]]:
        return [self.free(*each) for each in frees], ask(then)

    def free(self, queue: str, key: str, limit: int) -> int:
        with self.database.transaction():
            return self._free(first_of(self.rows("first_parked", queue=queue, key=stored_key(key), limit=limit)))

    def free_due(self, limit: int, queues: Collection[str] | None = None) -> int:
        given = {"every": queues is None, "queues": list(queues or ())}
        with self.database.transaction():
            found = first_of(self.rows("woken", limit=limit, **given))
            return self._free(first_of(self._locked(found, PARKED)))

    def _locked(self, ids: Sequence[int], states: list[int]) -> Rows:
        return self.rows("lock_unheld", ids=list(ids), states=states, reason=None) if ids else []

    def _free(self, ids: list[int]) -> int:
        if ids:
            self.rows("free", ids=ids)
        return len(ids)


class MySQLLeases(Leases):
    def _retake(self, session_id: int, receipts: Sequence[Receipt]) -> set[int]:
        given = sorted({id_ for id_, _ in receipts})
        found = self.rows("lock_given_back", ids=given, session=session_id)
        ids = {id_ for id_, _ in set(found).intersection(receipts)}
        if ids:
            self.rows("retake", ids=sorted(ids), session=session_id)
        return ids

    def _release_held_by_expired(self, sessions: Sequence[int]) -> Rows:
        given = {"sessions": list(sessions)}
        with self.database.transaction():
            held = first_of(self.rows("find_held_by_expired", **given))
            found = self.rows("lock_held_by_expired", ids=held, **given) if held else []
            if found:
                self.rows("release_held_by_expired", ids=[row[1] for row in found])
        return found


class MySQLDeletions(Deletions):
    def delete_queue(self, name: str, *, force: bool = False) -> int:
        before = self.rows("waiting_limit")[0][0]
        self.rows("limit_waiting", limit=DELETION_WAIT_SECONDS)
        try:
            return super().delete_queue(name, force=force)
        finally:
            with suppress(StoreError):  # raise the deadlock that ended the transaction instead
                self.rows("limit_waiting", limit=before)


class MySQLPublications(Publications):
    database: MySQLDatabase

    append = retried(Publications.append)
    append_many = retried(Publications.append_many)

    @retried
    def append_first(self, message: NewMessage, claim: UniqueClaim) -> bool:
        if claim.rule.debounce_seconds is not None:
            return False
        connection = self.database.connection
        over = connection in returning
        written, was_over = self._first(message, claim, over=over)
        if not written and not over:
            returning.add(connection)
            written, was_over = self._first(message, claim, over=True)
        if written and over and not was_over:
            returning.discard(connection)
        return written

    def _first(self, message: NewMessage, claim: UniqueClaim, *, over: bool) -> tuple[bool, bool]:
        """Return whether the message was written, and whether its key was taken over.

        An error leaves the transaction of the caller as it was.
        """
        key = key_parameters(message, claim)
        steps = [
            limiting(claim),
            ("take_first_key", key | {"queue_name": message.queue_name}),
            *([("take_over_key", key)] if over else []),
            ("append_keyed", parameters_of(message) | {"digest": claim.digest}),
            RESTORING,
        ]
        is_own = not self.database.is_inside
        try:
            with refusing(claim), undoing(self.database, is_own=is_own):
                answers = self.database.together(steps, alone=is_own)
        except StoreError as error:
            if code_of(error) != DUPLICATE:
                raise
            # The message id is taken. In a transaction of its own, the key was given back.
            if not is_own:
                self.rows("take_back_key", digest=claim.digest, message_id=message.message_id)
            return False, False
        return bool(answers[-2]), over and bool(answers[2])

    def append_all(self, messages: Sequence[NewMessage]) -> list[int]:
        names = sorted({message.queue_name for message in messages})
        queue_ids: dict[str, int] = dict(self.rows("hold_queues", names=names))
        if any(message.queue_name not in queue_ids for message in messages):
            return []
        for portion in portions(messages):
            given: dict[str, Any] = {"messages": document(portion, queue_ids)}
            written = self.database.insert("append_many", **given | PLACED if are_placed(portion) else given)
            if len(written) < len(portion):
                return []
        found = self.rows("written", message_ids=[message.message_id.hex for message in messages])
        ids = {(UUID(str(message_id)), queue_id): id_ for message_id, queue_id, id_ in found}
        return [ids[message.message_id, queue_ids[message.queue_name]] for message in messages]


class MySQLSessions(Sessions):
    renew = retried(Sessions.renew)
    send_command = retried(Sessions.send_command)
    revive = retried(Sessions.revive)
    close = retried(Sessions.close)
    reap = retried(Sessions.reap)

    def _answer(self, session_id: int, heartbeat: Heartbeat, _: tuple[Any, ...]) -> Renewal:
        [command] = self.rows("told", session=session_id) or [(WorkerMode.WORK.value, None, False)]
        return super()._answer(session_id, heartbeat, (session_id, *command))

    def grace(self) -> dict[str, Any]:
        running = float(self.rows("uptime")[0][1]) + self.database.offset().total_seconds()
        return super().grace() | {"running_seconds": running}


class MySQLClaims(Claims):
    """Lock rows, read the bodies that the credit allows, then lease."""

    database: MySQLDatabase

    subscribe = retried(Claims.subscribe)
    settle_and_claim = retried(Claims.settle_and_claim)
    claim = retried(Claims.claim)
    resync = retried(Claims.resync)

    def by_rules(
        self, session_id: int, request: ClaimRequest, settling: Sequence[Statement] = ()
    ) -> tuple[ClaimResult, list[Rows]]:
        self.database.speak_for(session_id)
        return super().by_rules(session_id, request, settling)

    def _claim_rows(self, session_id: int, request: ClaimRequest) -> Rows:
        name, params = self._claim_statement(session_id, request)
        # A body within its share always fits. Larger bodies are read when it is known which of them fit.
        params["share_bytes"] = params["max_bytes"] // max(1, request.credit)
        locked = self.rows(name, **params) if name == "claim" else self._locked_across(request, params)
        within = locked
        if request.byte_credit:
            sizes = ((row[QUEUE], row[SIZE]) for row in locked)
            within = list(compress(locked, allowed(sizes, request.byte_credit)))
        line = ((row[SUSPECT], row[SIZE]) for row in within)
        chosen = self._with_bodies(within[: fitting(line, request.slots, request.max_bytes)])
        if chosen:
            ids = [row[0] for row in chosen]
            self.rows("lease", ids=ids, session=session_id, claim=params["claim"])
        return [(*row, len(locked), rank) for rank, row in enumerate(chosen)]

    def _with_bodies(self, rows: Rows) -> Rows:
        missing = [row[0] for row in rows if row[BODY] is None]
        bodies: dict[int, bytes] = dict(self.rows("bodies", ids=missing)) if missing else {}
        return [(*row[:BODY], bodies.get(row[0], row[BODY])) for row in rows]

    def portions(self, request: ClaimRequest) -> list[Portion] | None:
        # Messages for several handlers of one queue are read separately, and would have to be sorted.
        several = any(len(wanted) > 1 for wanted in request.wanted.values())
        return None if several else super().portions(request)

    def _locked_across(self, request: ClaimRequest, params: dict[str, Any]) -> Rows:
        """Lock the first messages of several queues. Skip those that other transactions have locked."""
        portions = self.portions(request) or []
        most, left = params["candidates"], {number: each.limit for number, each in enumerate(portions)}
        given = {name: params[name] for name in ("claim", "share_bytes")}
        heads = [
            self.rows("candidates", queue=each.queue, candidates=most, **conditioned([each])) for each in portions
        ]
        queue_of = {row[0]: number for number, head in enumerate(heads) for row in head}
        ranked: list[int] = merged(heads, listed=request.listed)
        untried, locked = dict.fromkeys(ranked), dict[int, tuple[Any, ...]]()
        while batch := next_batch(untried, request.credit - len(locked), queue_of, left):
            found = {row[0]: row for row in self.rows("lock_chosen", **given, ids=batch)}
            locked |= found
            for id_ in batch:
                del untried[id_]
                left[queue_of[id_]] += id_ not in found
        return [locked[id_] for id_ in ranked if id_ in locked]

    def _claimed(self, row: tuple[Any, ...]) -> Claimed:
        claimed = super()._claimed(row)
        for flag in ("redelivered", "suspect", "expired"):
            setattr(claimed, flag, bool(getattr(claimed, flag)))
        for time in ("published_at", "deliver_at", "expires_at"):
            setattr(claimed, time, time_or_none(getattr(claimed, time)))
        claimed.message_id = UUID(str(claimed.message_id))
        return claimed

    def _facts_of(self, rows: Rows, page_size: int) -> Facts:
        """Convert numbers to int: a union of signed and unsigned columns returns decimals."""
        whole = [(*(None if number is None else int(number) for number in row), word) for *row, word in rows]
        return Facts.of(whole, page_size)


class MySQLSettlements(Settlements):
    messages: MySQLMessages

    settle = retried(Settlements.settle)

    def _held(self, session_id: int, settlements: Sequence[Settlement]) -> Sequence[Settlement]:
        ids = sorted({item.id for item in settlements})
        held = set(self.rows("lock_held", ids=ids, session=session_id)) if ids else set()
        return [item for item in settlements if item.receipt in held]

    def _write(self, name: str, **fenced: Any) -> list[int]:
        """Run a statement once for all locked messages that get the same values."""
        ids: list[int] = fenced.pop("ids")
        if "outcome" in fenced:
            self.messages.finish(ids, fenced["outcome"], "remember_finished")
            return ids
        columns = {column: fenced[column] for column in fenced.keys() - {"session", "claims"}}
        alike: dict[tuple[Any, ...], list[int]] = {}
        for id_, *own in zip(ids, *columns.values(), strict=True):
            alike.setdefault(tuple(own), []).append(id_)
        for written, chosen in sorted(alike.items()):
            self.rows(name, ids=chosen, **dict(zip(columns, written, strict=True)))
        return ids

    @retried
    def give_back(self, session_id: int, settlements: Sequence[Settlement]) -> None:
        with self.database.transaction():
            super().give_back(session_id, settlements)


class MySQLQueues(Queues):
    """Read the ages of a queue with many messages by a statement of their own."""

    def _count(self, names: Sequence[str] | None, limit: int) -> Rows:
        return [self._aged(row, limit) for row in super()._count(names, limit)]

    def _aged(self, row: tuple[Any, ...], limit: int) -> tuple[Any, ...]:
        """Return a row of counts with the age of the oldest of more messages than one subquery reads."""
        name, scheduled, ready, claimed, dead, age, *rest = row
        if ready <= AGES_READ:
            return row
        found = self.rows("longest_waiting", queue=name, read=AGES_READ)
        ages = [age, *(seconds for _, _, seconds, _ in found)]
        for level, part in ((level, part) for level, part, _, all_came_back in found if all_came_back):
            statement = "longest_due" if part == "due" else "longest_arrived"
            ages += first_of(self.rows(statement, queue=name, level=level, limit=limit))
        return name, scheduled, ready, claimed, dead, max(each for each in ages if each is not None), *rest

    def promote(self, limit: int = 1000, queues: Sequence[str] | None = None) -> int:
        promoted = 0
        with self.database.transaction():
            for (queue_id,) in self.rows("due_queues", queues=list(queues or ()), every=queues is None):
                due = self.rows("lock_due", queue_id=queue_id, limit=limit)
                if due:
                    self.rows("make_ready", ids=first_of(due))
                promoted += len(due)
        return promoted


class MySQLRollups(Rollups):
    write = retried(Rollups.write)
    prune = retried(Rollups.prune)


class MySQLRetention(Retention):
    prune = retried(Retention.prune)


class MySQLMaintenance(Maintenance):
    promote = retried(Maintenance.promote)
    expire = retried(Maintenance.expire)
    trim = retried(Maintenance.trim)
    bury_unwanted = retried(Maintenance.bury_unwanted)

    def cover(self) -> bool:
        return False  # there are no partial indexes, and an index of all messages would slow down plain queues


class MySQLBrowser(Browser):
    def _uncommitted(self, statement: str, _: frozenset[str] | None, after: int, last: int) -> frozenset[str]:
        # Not remembered: a row gets its number a moment before any transaction can see the row.
        numbers = {"after": after, "last": last}
        self.rows("see_unfinished")
        try:
            written = set(first_of(self.rows(statement, **numbers)))
        finally:
            self.rows("see_committed")
        committed = set(first_of(self.rows(statement, **numbers)))
        return frozenset(str(number) for number in written - committed)


class MySQLVolatileMessages(VolatileMessages):
    """Lock the oldest messages, then delete them; write copies one by one."""

    take = retried(VolatileMessages.take)

    def put(self, queues: Sequence[str], payload: str, *, seconds: float) -> None:
        with self.database.transaction():
            for queue in queues:
                self.rows("volatile_put", queue=queue, payload=payload, seconds=seconds)

    def _taken(self, queues: list[str], limit: int) -> Rows:
        if not self.is_waiting(queues):
            return []
        with self.database.transaction():
            taken = self.rows("volatile_take", queues=queues, limit=limit)
            if taken:
                self.rows("volatile_drop", ids=first_of(taken))
        return taken


#: A document ends with so many messages, or so many bytes of bodies and headers.
MESSAGES, BYTES = 1000, 256 * 1024
#: Chooses the form of the statement that writes places; the document has them.
PLACED = {"place": None}


def portions(messages: Sequence[NewMessage]) -> Iterator[list[NewMessage]]:
    """Yield the messages of each document, in order."""
    portion: list[NewMessage] = []
    size = 0
    for message in messages:
        portion.append(message)
        size += len(message.body) + len(message.headers)
        if len(portion) == MESSAGES or size >= BYTES:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def document(messages: Sequence[NewMessage], queue_ids: Mapping[str, int]) -> str:
    """Return the messages as JSON, without values that are null."""
    rows = []
    for message in messages:
        names = (*NEW_MESSAGE_FIELDS, "place")
        given = {name: value for name in names if (value := getattr(message, name)) is not None}
        own = {"queue_id": queue_ids[message.queue_name], "body": b64encode(message.body).decode("ascii")}
        rows.append(parameters(given) | own)
    return json.dumps(rows, ensure_ascii=False)


class MySQLServer(DatabaseServer):
    database: MySQLDatabase

    def spaces(self) -> list[Space]:
        rows = self.rows("space")
        return [Space(table, int(size), int(loose), int(count)) for table, size, loose, count in rows]

    def space_problems(self, spaces: Sequence[Space]) -> list[tuple[str, str]]:
        return [
            (
                f"{space.table} has {PLAIN.size(space.loose)} of unused space.",
                f"Run OPTIMIZE TABLE {space.table}. This rebuilds the table and needs as much space again.",
            )
            for space in spaces
            if space.is_mostly_loose
        ]

    def lock_holders(self, seconds: float) -> list[LockHolder]:
        with suppress(StoreError):  # the role may not see the server's transactions
            return [LockHolder(*row) for row in self.rows("lock_holders", seconds=seconds)]
        return []

    def setting_problems(self) -> list[tuple[str, str]]:
        wrapper: Any = self.database.connection
        variables = {name.lower(): value for name, value in self.rows("variables")}
        return list(problems(wrapper.display_name, wrapper.mysql_version, variables))


class MySQLAdmission(Admission):
    append = retried(Admission.append)


class MySQLUniqueKeys(UniqueKeys):
    database: MySQLDatabase

    @contextmanager
    def patient(self, claim: UniqueClaim) -> Iterator[None]:
        self.rows("limit_lock_waits", wait_seconds=wait_of(claim))
        try:
            with refusing(claim):
                yield
        finally:
            self.rows("restore_lock_waits")

    def meet(self, message: NewMessage, claim: UniqueClaim) -> Found | None:
        taking = ("take_key", key_parameters(message, claim))
        [(had_row,)], [row] = self._within(claim, [taking, ("key_of", {"digest": claim.digest})])
        if not had_row:
            return None
        taker = UUID(str(row[0]))
        # What runs is not locked: its worker would wait for this transaction.
        asking = [(name, {"message_id": taker}) for name in ("lock_waiting_holder", "key_holders")]
        waiting, others = map(holder_in, self._within(claim, asking))
        return found_in(row, others if waiting is NO_HOLDER else waiting)

    def insert_many(self, keyed: Sequence[tuple[NewMessage, UniqueClaim]]) -> Set[str]:
        patient = max((claim for _, claim in keyed), key=lambda claim: claim.rule.wait_seconds)
        keys = json.dumps([parameters(key_parameters(*each)) for each in keyed], ensure_ascii=False)
        asking: Statement = ("takers_of", {"digests": [claim.digest for _, claim in keyed]})
        steps = [asking, ("take_keys", {"keys": keys}), asking]
        before, _, after = self._within(patient, steps, several=True)
        # What had its key before is published again, and meets itself.
        takers = {digest: UUID(str(message_id)) for digest, message_id in set(after) - set(before)}
        return {claim.digest for message, claim in keyed if takers.get(claim.digest) == message.message_id}

    def _within(self, claim: UniqueClaim, steps: Sequence[Statement], *, several: bool = False) -> list[Rows]:
        """Run statements that wait for locks as long as the claim says."""
        with refusing(claim, several=several), undoing(self.database, is_own=False):
            return self.database.together([limiting(claim), *steps, RESTORING])[1:-1]


#: The statement that sets the limit of waits for locks again.
RESTORING: Final[Statement] = ("restore_lock_waits", {})


def limiting(claim: UniqueClaim) -> Statement:
    """Return the statement that limits waits for locks as the claim says: the server counts seconds."""
    return "limit_lock_waits", {"wait_seconds": wait_of(claim)}


def wait_of(claim: UniqueClaim) -> int:
    return max(1, round(claim.rule.wait_seconds))


@contextmanager
def undoing(database: MySQLDatabase, *, is_own: bool) -> Iterator[None]:
    """Set the limit of waits for locks again after an error, which ends the statements that would.

    A transaction of its own is rolled back, which the last of them would have committed.
    """
    try:
        yield
    except StoreError:
        if is_own:
            database.roll_back()
        with suppress(StoreError):
            database.rows(RESTORING[0])
        raise


class MySQLStore(SQLStore):
    """The store for MariaDB 10.11, MySQL 8.4 and later, through mysqlclient."""

    features = Features()
    parts = Parts(
        database=MySQLDatabase,
        server=MySQLServer,
        queues=MySQLQueues,
        publications=MySQLPublications,
        unique_keys=MySQLUniqueKeys,
        admission=MySQLAdmission,
        messages=MySQLMessages,
        leases=MySQLLeases,
        deletions=MySQLDeletions,
        sessions=MySQLSessions,
        claims=MySQLClaims,
        settlements=MySQLSettlements,
        parking=MySQLParking,
        maintenance=MySQLMaintenance,
        retention=MySQLRetention,
        rollups=MySQLRollups,
        browser=MySQLBrowser,
        volatile=MySQLVolatileMessages,
    )
