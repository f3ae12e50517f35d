"""Worker sessions: opened, renewed, closed, reaped."""

from __future__ import annotations

import json
import logging
import time
from typing import TYPE_CHECKING, Any

from django_mq.engine.conduct import Conduct
from django_mq.engine.last_value import BY_LATER_VALUE
from django_mq.stores.records import Instructions, Renewal
from django_mq.stores.sql.steering import Steering
from django_mq.stores.values import storable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from django_mq.stores.records import ConsumerInfo, Heartbeat, Receipt, SessionInfo


logger = logging.getLogger("django_mq.stores")

#: What of a ConsumerInfo becomes a parameter of the statement.
CONSUMER_FIELDS = (
    "queue_name",
    "handler",
    "priority",
    "state",
    "credit_limit",
    "credit_used",
    "delivered",
)


class Sessions(Steering):
    """Open, renew and close worker sessions."""

    def open_session(self, info: SessionInfo, *, deadline_seconds: float) -> int:
        while True:
            # Not counted by the database: its numbers begin anew when the tables are flushed, and two
            # workers would share a session. Microseconds stay below 2 to the power of 53, which JSON carries.
            session_id = time.time_ns() // 1000
            if self._open(session_id, info, deadline_seconds):
                return session_id

    def revive(
        self, session_id: int, info: SessionInfo, held: Sequence[Receipt], *, deadline_seconds: float
    ) -> frozenset[int] | None:
        with self._transaction():
            if not self._open(session_id, info, deadline_seconds):
                return None
            self._shown = None
            return frozenset(self._retake(session_id, held)) if held else frozenset()

    def _open(self, session_id: int, info: SessionInfo, deadline_seconds: float) -> bool:
        """Write the session's row; return False if there is one with this id."""
        return bool(
            self._insert_session(
                session=session_id,
                name=storable(info.name, 255),
                kind=info.kind,
                host=storable(info.host, 255),
                pid=info.pid,
                version=info.version,
                queues=json.dumps(list(info.queues)),
                credit=info.credit,
                deadline_seconds=deadline_seconds,
                conduct=info.told.conduct.value,
                given_credit=info.told.credit,
            )
        )

    def _insert_session(self, **columns: Any) -> list[tuple[Any, ...]]:
        return self._rows("open_session", **columns)

    def _retake(self, session_id: int, receipts: Sequence[Receipt]) -> set[int]:
        """Claim again what carries the token of the session's claim; return the ids of what it holds of them."""
        ids, claims = map(list, zip(*receipts, strict=True))
        return {row[0] for row in self._rows("retake", session=session_id, ids=ids, claims=claims)}

    #: The session and the consumers that this store has written last.
    _shown: tuple[int, tuple[ConsumerInfo, ...]] | None = None

    def renew(self, session_id: int, heartbeat: Heartbeat) -> Renewal | None:
        shown = (session_id, heartbeat.consumers)
        if shown == self._shown:
            return self._renewal(session_id, heartbeat)
        with self._transaction():
            renewal = self._renewal(session_id, heartbeat)
            if renewal is not None:
                self._show_consumers(session_id, heartbeat.consumers)
        self._shown = None if renewal is None else shown
        return renewal

    def prolong(self, session_id: int, *, deadline_seconds: float) -> bool:
        return bool(self._rows("prolong", session=session_id, deadline_seconds=deadline_seconds))

    def _renewal(self, session_id: int, heartbeat: Heartbeat) -> Renewal | None:
        renewed = self._rows(
            "renew",
            session=session_id,
            deadline_seconds=heartbeat.deadline_seconds,
            held=heartbeat.held,
            queues=json.dumps(list(heartbeat.queues)),
            credit=heartbeat.credit,
            busy=heartbeat.busy,
            slots=heartbeat.slots,
            memory_bytes=heartbeat.memory_bytes,
            look=heartbeat.look,
        )
        return self._answer(session_id, heartbeat, *renewed[0]) if renewed else None

    def _answer(self, session_id: int, heartbeat: Heartbeat, *renewed: Any) -> Renewal:
        """Return what a renewal's row says; asked apart where it does not say who is the eldest."""
        _, conduct, credit = renewed
        eldest = not self._rows("elder", session=session_id, silent_seconds=-heartbeat.deadline_seconds)
        return Renewal(eldest=eldest, instructions=self._instructions(conduct, credit))

    #: What the session was told last that this version understands, and a word that it does not.
    _conduct = Conduct.WORK
    _unknown_word: str | None = None

    def _instructions(self, word: str, credit: int | None) -> Instructions:
        """Return what an operator has told the session; a word of a newer version is ignored, and logged once."""
        if word in set(Conduct):
            self._conduct = Conduct(word)
        elif word != self._unknown_word:
            self._unknown_word = word
            logger.warning("This worker is told %r, which its version does not know: it goes on as before", word)
        return Instructions(self._conduct, credit)

    def instruct(self, session_id: int, *, conduct: Conduct | None = None, credit: int | None = None) -> bool:
        word = None if conduct is None else conduct.value
        return bool(self._rows("instruct", session=session_id, conduct=word, credit=credit))

    def _show_consumers(self, session_id: int, consumers: Iterable[ConsumerInfo]) -> None:
        self._rows("drop_consumers", sessions=[session_id])
        for consumer in consumers:
            shown = {name: getattr(consumer, name) for name in CONSUMER_FIELDS}
            self._rows("add_consumer", session=session_id, **shown | {"handler": storable(consumer.handler, 255)})

    def close_session(self, session_id: int) -> int:
        with self._transaction():
            replaced = self._held_replaced(session_id)
            released = len(self._rows("release_session", session=session_id))
            self._drop_replaced(replaced)
            self._drop_sessions([session_id])
        return released

    def _held_replaced(self, session_id: int) -> list[int]:
        """Return what the session holds of messages that a later value has replaced."""
        return [row[0] for row in self._rows("held_replaced", session=session_id, replaced=BY_LATER_VALUE)]

    def _drop_sessions(self, ids: list[int]) -> None:
        self._rows("drop_consumers", sessions=ids)
        lost = [row[0] for row in self._rows("lost_owners")]
        self._rows("drop_ownerships", sessions=[*ids, *lost])
        self._rows("drop_sessions", sessions=ids)
