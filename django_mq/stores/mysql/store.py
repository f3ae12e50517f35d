"""MariaDB and MySQL: rows locked one by one and read without gaps, several statements to a step."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django_mq.engine.claim import fitting, limit_of
from django_mq.engine.conduct import Conduct
from django_mq.engine.merge import merged, next_batch
from django_mq.engine.verdict import BY_EXPIRY, RELEASE, Verdict
from django_mq.errors import StoreError
from django_mq.stores import option_columns
from django_mq.stores.features import Features
from django_mq.stores.mysql.acting import Acting
from django_mq.stores.mysql.documents import document, portions
from django_mq.stores.mysql.retrying import retried
from django_mq.stores.mysql.settings import problems
from django_mq.stores.mysql.values import time_of
from django_mq.stores.records import Browsed, Claimed, Counts, Exchange
from django_mq.stores.refusals import no_such_queue
from django_mq.stores.space import Space
from django_mq.stores.sql.steering import FINISHING, REPLACED
from django_mq.stores.values import storable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django_mq.engine.consumer import Consumer
    from django_mq.stores.records import (
        ClaimRequest,
        Heartbeat,
        NewMessage,
        Reaped,
        Receipt,
        Renewal,
        SessionInfo,
        Settlement,
    )

#: Where a claim's rows say that a message is suspect, and where its body is.
SUSPECT, BODY = ([field.name for field in fields(Claimed)].index(name) for name in ("suspect", "body"))
#: Where it says how long the body is, which may be left out.
SIZE = BODY + 1
#: How long the deletion of a queue waits for open transactions that wrote messages. Nobody can
#: publish meanwhile; afterwards StoreUnavailable says to try again.
DELETION_WAIT_SECONDS = 2


class MySQLStore(Acting):
    """The store for MariaDB 10.11, MySQL 8.4 and later, through mysqlclient."""

    features = Features(concurrent_claims=True, raw_limits=("raw_mysql", "RawTable"))

    # Queues.

    def declare(self, name: str, options: Mapping[str, Any]) -> bool:
        return bool(self._written("declare", name=name, **option_columns.written(options)))

    def delete_queue(self, name: str, *, force: bool = False) -> int:
        before = self._rows("waiting_limit")[0][0]
        self._rows("limit_waiting", limit=DELETION_WAIT_SECONDS)
        try:
            return super().delete_queue(name, force=force)
        finally:
            with suppress(StoreError):  # the caller must hear of a dead-lock that ended his transaction
                self._rows("limit_waiting", limit=before)

    def set_paused(self, name: str, *, paused: bool, reason: str = "", seconds: float | None = None) -> None:
        queue = self.queue(name)
        reason = storable(reason, 200)
        if queue is None or not self._rows(
            "set_paused", queue_id=queue.id, paused=paused, reason=reason, seconds=seconds
        ):
            raise no_such_queue(name)

    # Publishing.

    @retried
    def append(self, message: NewMessage, *, again: bool = False) -> int:
        return super().append(message, again=again)

    def _append_one(self, message: NewMessage) -> list[tuple[Any, ...]]:
        return self._written("append", **self._message_params(message))

    @retried
    def append_many(self, messages: Sequence[NewMessage], *, again: bool = False) -> list[int]:
        return super().append_many(messages, again=again)

    @retried
    def append_by_rules(self, messages: Sequence[NewMessage], *, again: bool = False) -> list[int]:
        return super().append_by_rules(messages, again=again)

    def _remember_duplicate(self, message: NewMessage) -> bool:
        row = {"queue": message.queue_name, "dedup_id": message.dedup_id, "message_id": message.message_id}
        return bool(self._written("remember_duplicate", **row))

    def _append_all(self, messages: Sequence[NewMessage]) -> list[int]:
        names = sorted({message.queue_name for message in messages})
        queue_ids: dict[str, int] = dict(self._rows("hold_queues", names=names))
        if any(message.queue_name not in queue_ids for message in messages):
            return []
        for portion in portions(messages):
            if len(self._written("append_many", messages=document(portion, queue_ids))) < len(portion):
                return []
        found = self._rows("written", message_ids=[message.message_id.hex for message in messages])
        ids = {(UUID(str(message_id)), queue_id): id_ for message_id, queue_id, id_ in found}
        return [ids[message.message_id, queue_ids[message.queue_name]] for message in messages]

    # Sessions.

    @retried
    def renew(self, session_id: int, heartbeat: Heartbeat) -> Renewal | None:
        return super().renew(session_id, heartbeat)

    def _answer(self, session_id: int, heartbeat: Heartbeat, *_: Any) -> Renewal:
        [told] = self._rows("told", session=session_id) or [(Conduct.WORK.value, None)]
        return super()._answer(session_id, heartbeat, session_id, *told)

    @retried
    def instruct(self, session_id: int, *, conduct: Conduct | None = None, credit: int | None = None) -> bool:
        return super().instruct(session_id, conduct=conduct, credit=credit)

    @retried
    def close_session(self, session_id: int) -> int:
        return super().close_session(session_id)

    # Consuming.

    @retried
    def exchange(
        self, session_id: int, settlements: Sequence[Settlement], request: ClaimRequest | None
    ) -> Exchange:
        return super().exchange(session_id, settlements, request)

    @retried
    def claim(self, session_id: int, request: ClaimRequest) -> Exchange:
        return super().claim(session_id, request)

    def _claim_rows(self, session_id: int, request: ClaimRequest) -> list[tuple[Any, ...]]:
        name, params = self._claim_statement(session_id, request)
        # What the credit allows fits, if no body has more than its share. Larger ones are read once it is
        # known which of them fit.
        params["share_bytes"] = request.max_bytes // max(1, request.credit)
        locked = self._rows(name, **params) if name == "claim" else self._locked_across(request, params)
        line = ((row[SUSPECT], row[SIZE]) for row in locked)
        chosen = self._with_bodies(locked[: fitting(line, request.slots, request.max_bytes)])
        if chosen:
            ids = [row[0] for row in chosen]
            self._rows("lease", ids=ids, session=session_id, claim=params["claim"])
        return [(*row, len(locked), rank) for rank, row in enumerate(chosen)]

    def _with_bodies(self, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Return the rows without their sizes, with the bodies that were left out."""
        missing = [row[0] for row in rows if row[BODY] is None]
        bodies: dict[int, bytes] = dict(self._rows("bodies", ids=missing)) if missing else {}
        return [(*row[:BODY], bodies.get(row[0], row[BODY])) for row in rows]

    def _locked_across(self, request: ClaimRequest, params: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Lock the best of several queues, as many as asked for; what others have locked is stepped over."""
        most, left = params["candidates"], {queue: limit_of(request, queue) for queue in request.queues}
        given = {name: params[name] for name in ("claim", "share_bytes")}
        heads = [self._rows("candidates", queue=queue, candidates=most) for queue in request.queues]
        queue_of = {row[0]: queue for queue, head in zip(request.queues, heads, strict=True) for row in head}
        ranked: list[int] = merged(heads, listed=request.listed)
        untried, locked = dict.fromkeys(ranked), dict[int, tuple[Any, ...]]()
        while batch := next_batch(untried, request.credit - len(locked), queue_of, left):
            found = {row[0]: row for row in self._rows("lock_chosen", **given, ids=batch)}
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
            setattr(claimed, time, time_of(getattr(claimed, time)))
        claimed.message_id = UUID(str(claimed.message_id))
        return claimed

    @retried
    def subscribe(self, session_id: int, name: str, consumer: Consumer | None = None) -> None:
        super().subscribe(session_id, name, consumer)

    @retried
    def settle(self, session_id: int, settlements: Sequence[Settlement]) -> frozenset[int]:
        return super().settle(session_id, settlements)

    @retried
    def revive(
        self, session_id: int, info: SessionInfo, held: Sequence[Receipt], *, deadline_seconds: float
    ) -> frozenset[int] | None:
        return super().revive(session_id, info, held, deadline_seconds=deadline_seconds)

    def _insert_session(self, **columns: Any) -> list[tuple[Any, ...]]:
        return self._written("open_session", **columns)

    def _retake(self, session_id: int, receipts: Sequence[Receipt]) -> set[int]:
        given = sorted({id_ for id_, _ in receipts})
        carrying = set(self._rows("lock_given_back", ids=given, session=session_id)).intersection(receipts)
        ids = {id_ for id_, _ in carrying}
        if ids:
            self._rows("retake", ids=sorted(ids), session=session_id)
        return ids

    def _settle_held(self, session_id: int, settlements: Sequence[Settlement]) -> set[int]:
        ids = sorted({item.id for item in settlements})
        held = set(self._rows("lock_held", ids=ids, session=session_id)) if ids else set()
        mine = [item for item in settlements if (item.id, item.claim) in held]
        expired = [item.id for item in mine if item.verdict is Verdict.EXPIRE]
        leaving = self._leaving(expired)
        self._finish(sorted(id_ for id_, replaced in leaving.items() if replaced), REPLACED, "remember_finished")
        if going := sorted(id_ for id_, replaced in leaving.items() if not replaced):
            self._rows("settle_dead", ids=going, reason=BY_EXPIRY, counted=False)
            self._send_expired(going)
        for verdict, outcome in FINISHING:
            over = [item.id for item in mine if item.verdict is verdict and item.id not in leaving]
            self._finish(over, outcome, "remember_finished")
        self._give_back(mine)
        self._mark_dead(mine)
        done = {item.id for item in mine}
        self._after_settling(mine, done, session_id)
        return done

    @retried
    def give_back(self, session_id: int, settlements: Sequence[Settlement]) -> None:
        with self._transaction():
            held = set(self._rows("lock_held", ids=sorted(item.id for item in settlements), session=session_id))
            mine = [item.id for item in settlements if (item.id, item.claim) in held]
            if mine:
                self._rows("settle_released", ids=mine, delay_seconds=0.0, counted=False)

    def _give_back(self, settlements: Sequence[Settlement]) -> None:
        released = [item for item in settlements if item.verdict is RELEASE]

        def how(item: Settlement) -> tuple[float, bool]:
            return float(item.delay_seconds), item.counted

        for (delay, counted), items in groupby(sorted(released, key=how), how):
            self._rows("settle_released", ids=[item.id for item in items], delay_seconds=delay, counted=counted)

    def _mark_dead(self, settlements: Sequence[Settlement]) -> None:
        dead = [item for item in settlements if item.verdict is Verdict.DEAD]

        def how(item: Settlement) -> tuple[str, bool]:
            return storable(item.reason, 255), item.counted

        for (reason, counted), items in groupby(sorted(dead, key=how), how):
            self._rows("settle_dead", ids=[item.id for item in items], reason=reason, counted=counted)

    @retried
    def resync(self, session_id: int, held: Sequence[int]) -> int:
        return super().resync(session_id, held)

    # Upkeep.

    @retried
    def promote(self, limit: int = 1000) -> int:
        return super().promote(limit)

    @retried
    def reap(self, *, spare: int = 0) -> list[Reaped]:
        return super().reap(spare=spare)

    def _grace(self) -> dict[str, Any]:
        running = float(self._rows("uptime")[0][1]) + self.clock_offset.total_seconds()
        return super()._grace() | {"running_seconds": running}

    @retried
    def expire(self, limit: int = 1000) -> int:
        return super().expire(limit)

    @retried
    def trim(self) -> int:
        return super().trim()

    @retried
    def prune(self, limit: int = 5000, *, whole: bool = False) -> int:
        return super().prune(limit, whole=whole)

    # Looking.

    def counts(self, names: Sequence[str] | None = None, *, limit: int = 10_000) -> dict[str, Counts]:
        rows = self._rows("counts", every=names is None, names=list(names or ()), limit=limit)
        return {
            name: Counts(scheduled, ready, claimed, dead, None if age is None else float(age), due)
            for name, scheduled, ready, claimed, dead, age, due in rows
        }

    def unfinished(self, known: frozenset[str] | None, *, after: int, last: int) -> frozenset[str]:  # noqa: ARG002
        return self._uncommitted("arriving", after, last)

    def finishing(self, known: frozenset[str] | None, *, after: int, last: int) -> frozenset[str]:  # noqa: ARG002
        return self._uncommitted("finishing", after, last)

    def _uncommitted(self, statement: str, after: int, last: int) -> frozenset[str]:
        # Asked anew each time: a number is given a moment before its row can be seen by anybody.
        numbers = {"after": after, "last": last}
        self._rows("see_unfinished")
        try:
            written = {row[0] for row in self._rows(statement, **numbers)}
        finally:
            self._rows("see_committed")
        committed = {row[0] for row in self._rows(statement, **numbers)}
        return frozenset(str(number) for number in written - committed)

    def _browsed(self, row: tuple[Any, ...]) -> Browsed:
        id_, message_id, *middle = row
        middle[4:7] = map(time_of, middle[4:7])
        return Browsed(id_, UUID(str(message_id)), *middle)

    # The volatile lane.

    @retried
    def volatile_take(self, queues: Sequence[str], *, limit: int = 100) -> list[tuple[str, str]]:
        if not self._rows("volatile_waiting", queues=list(queues)):
            return []
        return super().volatile_take(queues, limit=limit)

    # The connection.

    def _take_minute(self, minute: datetime, newest: int | None) -> bool:
        return bool(self._written("take_minute", minute=minute, newest=newest))

    def now_skew_seconds(self) -> float:
        clock: datetime = self._rows("clock")[0][0]
        return (clock.replace(tzinfo=UTC) - datetime.now(UTC)).total_seconds()

    def spaces(self) -> list[Space]:
        return [Space(table, int(size), int(loose), int(rows)) for table, size, loose, rows in self._rows("space")]

    def space_problems(self, spaces: Sequence[Space]) -> list[tuple[str, str]]:
        return [
            (
                f"{space.table} keeps {space.loose // 2**20:,} MiB that hold nothing.",
                f"OPTIMIZE TABLE {space.table}; it is rebuilt, which takes as much room meanwhile.",
            )
            for space in spaces
            if space.is_mostly_loose
        ]

    def setting_problems(self) -> list[tuple[str, str]]:
        wrapper: Any = self.connection
        variables = {name.lower(): value for name, value in self._rows("variables")}
        return list(problems(wrapper.display_name, wrapper.mysql_version, variables))
