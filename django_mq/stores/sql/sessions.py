"""Worker sessions: opened, renewed, closed, reaped."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from django_mq.stores.sql.runner import Runner

if TYPE_CHECKING:
    from django_mq.stores.records import Heartbeat, SessionInfo


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


class Sessions(Runner):
    """Open, renew and close worker sessions."""

    def open_session(self, info: SessionInfo, *, deadline_seconds: float) -> int:
        rows = self._rows(
            "open_session",
            name=info.name,
            kind=info.kind,
            host=info.host,
            pid=info.pid,
            version=info.version,
            queues=json.dumps(list(info.queues)),
            credit=info.credit,
            deadline_seconds=deadline_seconds,
        )
        return int(rows[0][0])

    def renew(self, session_id: int, heartbeat: Heartbeat) -> bool:
        with self._transaction():
            renewed = self._rows(
                "renew",
                session=session_id,
                deadline_seconds=heartbeat.deadline_seconds,
                held=heartbeat.held,
                queues=json.dumps(list(heartbeat.queues)),
                credit=heartbeat.credit,
            )
            if not renewed:
                return False
            self._rows("drop_consumers", sessions=[session_id])
            for consumer in heartbeat.consumers:
                self._rows(
                    "add_consumer",
                    session=session_id,
                    **{name: getattr(consumer, name) for name in CONSUMER_FIELDS},
                )
        return True

    def close_session(self, session_id: int) -> int:
        with self._transaction():
            released = len(self._rows("release_session", session=session_id))
            self._drop_sessions([session_id])
        return released

    def _drop_sessions(self, ids: list[int]) -> None:
        self._rows("drop_consumers", sessions=ids)
        self._rows("drop_ownerships", sessions=ids)
        self._rows("drop_sessions", sessions=ids)
