"""Claims and settlements, together in one transaction."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from django_mq.engine.claim import left_behind, limit_of
from django_mq.engine.last_value import BY_LATER_VALUE
from django_mq.engine.places import order_of
from django_mq.engine.verdict import BY_EXPIRY, RELEASE, Verdict
from django_mq.errors import SessionLost
from django_mq.stores import refusals
from django_mq.stores.records import Claimed, Exchange
from django_mq.stores.sql.ruling import PROMOTE_LIMIT, Ruling
from django_mq.stores.sql.sessions import Sessions
from django_mq.stores.sql.steering import FINISHING, REPLACED, REPLACED_MEANWHILE, Steering
from django_mq.stores.values import storable, told

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from django_mq.engine.consumer import Consumer
    from django_mq.stores.records import ClaimRequest, Settlement


#: Where a claim's rows say how many messages it saw; before it stand the fields of Claimed.
SEEN_COLUMN = len(fields(Claimed))


class Consuming(Sessions, Steering, Ruling):
    """Claim in strict order, settle behind the fence."""

    def exchange(
        self, session_id: int, settlements: Sequence[Settlement], request: ClaimRequest | None
    ) -> Exchange:
        with self._transaction():
            return super().exchange(session_id, settlements, request)

    def claim(self, session_id: int, request: ClaimRequest) -> Exchange:
        self.refuse_consumers(request.consumer)
        if self._has_rules(request.queues):
            return self._claim_by_rules(session_id, request)[0]
        with self._transaction():
            self._check_alive(session_id)
            if request.promote:
                self._rows("promote_due", queues=list(request.queues), limit=PROMOTE_LIMIT)
            rows = self._claim_rows(session_id, request)
            due = self._rows("next_due", queues=list(request.queues))[0][0]
        return self._exchange_of(rows, request, due)

    def subscribe(self, session_id: int, name: str, consumer: Consumer | None = None) -> None:
        self.refuse_consumers(consumer)
        with self._transaction():
            for statement, params in self._locking([name]):
                self._rows(statement, **params)
            facts = self._held(self._facts(session_id, {name: 0}))[name]
            if facts.queue_id is None:
                raise refusals.no_such_queue(name)
            if facts.options.exclusive:
                if facts.in_slots - {session_id}:
                    raise refusals.exclusive(name)
                if not facts.in_slots:
                    self._rows("own", queue_id=facts.queue_id, session=session_id)

    def _check_alive(self, session_id: int) -> None:
        if not self._rows("session_alive", session=session_id):
            raise SessionLost

    def _claim_rows(self, session_id: int, request: ClaimRequest) -> list[tuple[Any, ...]]:
        name, params = self._claim_statement(session_id, request)
        return self._rows(name, **params)

    def _claim_statement(self, session_id: int, request: ClaimRequest) -> tuple[str, dict[str, Any]]:
        params: dict[str, Any] = {
            "session": session_id,
            "claim": next(self._claims),
            "credit": request.credit,
            "slots": request.slots,
            "max_bytes": request.max_bytes,
        }
        if len(request.queues) == 1:
            [queue] = request.queues
            return "claim", params | {"queue": queue, "credit": limit_of(request, queue)}
        limits = [limit_of(request, queue) for queue in request.queues]
        return "claim_across", params | {
            "queues": list(request.queues),
            "listed": request.listed,
            "limits": limits,
            # Candidates beyond the limits step over rows that others have locked meanwhile.
            "candidates": max(limits) * 4,
        }

    def _exchange_of(self, rows: list[tuple[Any, ...]], request: ClaimRequest, due: float | None) -> Exchange:
        across = len(request.queues) > 1
        if across:
            rows.sort(key=lambda row: row[-1])
        claimed = [self._claimed(row) for row in rows]
        if not across:
            claimed.sort(key=lambda item: order_of(item.level, item.place, item.id))
        seen = rows[0][SEEN_COLUMN] if rows else 0
        return Exchange(
            claimed=claimed,
            left=left_behind(request, [item.queue_name for item in claimed], seen),
            next_due_seconds=None if due is None else max(0.0, float(due)),
        )

    def _claimed(self, row: tuple[Any, ...]) -> Claimed:
        return Claimed(*row[:SEEN_COLUMN])

    def settle(self, session_id: int, settlements: Sequence[Settlement]) -> frozenset[int]:
        self.refuse_consumers(None, settlements)
        with self._transaction():
            done = self._settle_held(session_id, settlements)
            late = [item for item in settlements if item.id not in done]
            if late and (retaken := self._retake(session_id, [(item.id, item.claim) for item in late])):
                done |= self._settle_held(session_id, [item for item in late if item.id in retaken])
        return frozenset(item.id for item in settlements) - done

    def _settle_late(self, session_id: int, settlements: Sequence[Settlement], result: Exchange) -> Exchange:
        """Settle what came too late for an exchange and counts all the same; that is seldom, and asked apart."""
        if result.void:
            result.void = self.settle(session_id, [item for item in settlements if item.id in result.void])
        return result

    def _settle_held(self, session_id: int, settlements: Sequence[Settlement]) -> set[int]:
        """Settle what the session holds; return the ids."""
        done, settlements = self._let_leave(session_id, settlements)
        for name, params in self._verdicts(session_id, settlements):
            done.update(row[0] for row in self._rows(name, **params))
        self._after_settling(settlements, done, session_id)
        return done

    def _let_leave(self, session_id: int, settlements: Sequence[Settlement]) -> tuple[set[int], list[Settlement]]:
        """Send the expired to their expiry queues; return the ids of what went, and the verdicts that are left.

        What a later value has replaced goes nowhere: the history says that it was replaced.
        """
        expired = [item for item in settlements if item.verdict is Verdict.EXPIRE]
        leaving = self._leaving([item.id for item in expired])
        if not leaving:
            return set(), list(settlements)
        gone: set[int] = set()
        if replaced := [item for item in expired if leaving.get(item.id)]:
            fence = self._fence(session_id, replaced)
            gone.update(row[0] for row in self._rows("settle_finished", **fence, outcome=REPLACED))
        if going := [item for item in expired if item.id in leaving and not leaving[item.id]]:
            verdicts = {"reasons": [BY_EXPIRY] * len(going), "counted": [False] * len(going)}
            sent = [row[0] for row in self._rows("settle_dead", **self._fence(session_id, going), **verdicts)]
            self._send_expired(sent)
            gone.update(sent)
        staying = [item for item in settlements if item.verdict is not Verdict.EXPIRE or item.id not in leaving]
        return gone, staying

    def _leaving(self, ids: Sequence[int]) -> dict[int, bool]:
        """Return the expired messages that leave their queue, each with whether a later value has replaced it."""
        return dict(self._rows("leaving", ids=list(ids), replaced=BY_LATER_VALUE)) if ids else {}

    def _settle_statements(
        self, session_id: int, settlements: Sequence[Settlement]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield what settles messages where no failed attempt is to be recorded and none is dead."""
        yield from self._verdicts(session_id, settlements)
        if ids := [item.id for item in settlements if item.verdict is RELEASE]:
            # An older value of a last-value queue is given up with its release.
            yield "remove", {"ids": ids, **REPLACED_MEANWHILE}

    def _verdicts(
        self, session_id: int, settlements: Sequence[Settlement]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield one statement for each kind of verdict that occurs."""
        for verdict, outcome in FINISHING:
            chosen = [item for item in settlements if item.verdict is verdict]
            if chosen:
                yield "settle_finished", self._fence(session_id, chosen) | {"outcome": outcome}
        released = [item for item in settlements if item.verdict is RELEASE]
        if released:
            yield (
                "settle_released",
                self._fence(session_id, released)
                | {
                    "delay_seconds": [float(item.delay_seconds) for item in released],
                    "counted": [item.counted for item in released],
                },
            )
        dead = [item for item in settlements if item.verdict is Verdict.DEAD]
        if dead:
            yield (
                "settle_dead",
                self._fence(session_id, dead)
                | {
                    "reasons": [storable(item.reason, 255) for item in dead],
                    "counted": [item.counted for item in dead],
                },
            )

    @staticmethod
    def _fence(session_id: int, settlements: Sequence[Settlement]) -> dict[str, Any]:
        return {
            "session": session_id,
            "ids": [item.id for item in settlements],
            "claims": [item.claim for item in settlements],
        }

    def _after_settling(self, settlements: Sequence[Settlement], done: set[int], session_id: int) -> None:
        """Record why attempts failed while the rows are there; then remove replaced values, and move the dead."""
        failed = [item for item in settlements if item.failure and item.id in done]
        if failed:
            self._rows("record_attempts", worker=f"session {session_id}", **self._failures(failed))
        settled = [item for item in settlements if item.id in done]
        self._drop_replaced([item.id for item in settled if item.verdict is RELEASE])
        dead = [item.id for item in settled if item.verdict is Verdict.DEAD]
        if dead:
            self._move_dead(dead)

    @staticmethod
    def _failures(settlements: Sequence[Settlement]) -> dict[str, list[Any]]:
        found = [(item, item.failure) for item in settlements if item.failure]
        return {
            "ids": [item.id for item, _ in found],
            "counted": [item.counted for item, _ in found],
            "errors": [storable(failure.error, 255) for _, failure in found],
            "details": [told(failure.detail) for _, failure in found],
            "tracebacks": [told(failure.traceback) for _, failure in found],
        }

    def give_back(self, session_id: int, settlements: Sequence[Settlement]) -> None:
        amount = len(settlements)
        how = {"delay_seconds": [0.0] * amount, "counted": [False] * amount}
        self._rows("settle_released", **self._fence(session_id, settlements), **how)

    def resync(self, session_id: int, held: Sequence[int]) -> int:
        with self._transaction():
            replaced = self._held_replaced(session_id)
            released = len(self._rows("release_unknown", session=session_id, held=list(held)))
            self._drop_replaced(replaced)
        return released
