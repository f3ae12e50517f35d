"""Queues: declared, read, remembered for a moment, deleted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from django_mq.engine.fate import QUEUE_DELETED
from django_mq.stores import option_columns, refusals
from django_mq.stores.records import QueueRecord
from django_mq.stores.refusals import no_such_queue
from django_mq.stores.sql.runner import Runner
from django_mq.stores.sql.steering import PURGE_CHUNK, Steering

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


#: How long it may take until a running worker notices that a queue was given rules, in seconds. A
#: worker that reads its queues' rows every few seconds anyway never asks for this alone.
REMEMBER_SECONDS = 6.0
#: The same for a worker that has nothing to do, which is to ask for little.
IDLE_SECONDS = 30.0
#: Messages on the first page of a claim at most.
PAGE = 200


class Remembering(Runner):
    """Remember what was last read of each queue: the question must not slow down claims from plain ones."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        #: Queue to when its row was read, whether it is constrained, and whether it may keep much from a session.
        self._rules: dict[str, tuple[float, bool, bool]] = {}

    def _remember(self, name: str, *, is_constrained: bool, wide: bool) -> None:
        self._rules[name] = (time.monotonic(), is_constrained, wide)

    def _page_size(self, name: str, credit: int) -> int:
        """Return how many messages to read at first: what is asked for, where little else can be in between."""
        wide = name in self._rules and self._rules[name][2]
        return PAGE if wide else max(1, min(PAGE, credit))

    def _has_rules(self, names: Iterable[str], *, idle: bool = False) -> bool:
        """Whether one of the queues has rules, as of a few seconds ago; of more, if the worker is ``idle``."""
        return any(self._is_ruled(name, IDLE_SECONDS if idle else REMEMBER_SECONDS) for name in names)

    def _is_ruled(self, name: str, within_seconds: float = REMEMBER_SECONDS) -> bool:
        known = self._rules.get(name)
        if known is not None and time.monotonic() - known[0] < within_seconds:
            return known[1]
        try:
            record = self.queue(name)
        except BaseException:
            # As after any failed exchange of a worker: the next one opens another connection.
            if self.private and not self._in_transaction:
                self.connection.close()
            raise
        return record is not None and record.has_rules


#: No id is larger.
LAST_ID = 2**63 - 1


class Queues(Steering, Remembering):
    """Declare, read and delete queues."""

    def declare(self, name: str, options: Mapping[str, Any]) -> bool:
        return bool(self._rows("declare", name=name, **option_columns.written(options)))

    def queue(self, name: str) -> QueueRecord | None:
        rows = self._rows("queue", queue=name)
        if not rows:
            return None
        id_, name, closed, paused, priorities_differ, *values = rows[0]
        record = QueueRecord(
            id=id_,
            name=name,
            closed=bool(closed),
            paused=bool(paused),
            priorities_differ=bool(priorities_differ),
            **option_columns.read(values),
        )
        wide = record.has_groups or record.priorities_differ
        self._remember(name, is_constrained=record.has_rules, wide=wide)
        return record

    def delete_queue(self, name: str, *, force: bool = False) -> int:
        with self._transaction():
            use = self._rows("queue_use", queue=name)
            if not use:
                raise no_such_queue(name)
            if use[0][0]:
                raise refusals.linked(name, use[0][0])
            removed = self._empty(name) if force else 0
            self._wait_for_publishers()
            if self._rows("count_up_to", queue=name, limit=1)[0][0]:
                raise refusals.not_empty(name, claimed=force)
            self._rows("drop_turn", queue=name)
            self._rows("drop_queue", queue=name)
        return removed

    def _empty(self, name: str) -> int:
        """Send the messages that no session holds to the dead-letter queue; drop them if there is none."""
        queue = self.queue(name)
        if queue is None or queue.dead_letter_queue is None:
            return self._purge_within(name, LAST_ID)
        sent = 0
        while ids := [row[0] for row in self._rows("find_unheld", queue=name, newest=LAST_ID, limit=PURGE_CHUNK)]:
            self._rows("bury", ids=ids, reason=QUEUE_DELETED)
            moved = self._move_dead(ids)
            if not moved:
                raise refusals.not_taken(name, queue.dead_letter_queue)
            sent += moved
        return sent

    def _wait_for_publishers(self) -> None:
        """Let those who are writing messages finish, and others wait until this transaction ends."""

    def bind(self, *, exchange: str, exchange_type: str, pattern: str, queue: str) -> None:
        with self._transaction():
            if self.queue(queue) is None:
                raise no_such_queue(queue)
            self._rows("bind", exchange=exchange, exchange_type=exchange_type, pattern=pattern, queue=queue)

    def unbind(self, *, exchange: str, pattern: str, queue: str) -> bool:
        return bool(self._rows("unbind", exchange=exchange, pattern=pattern, queue=queue))

    def bindings(self, exchange: str) -> list[tuple[str, str, str]]:
        return [(row[0], row[1], row[2]) for row in self._rows("bindings", exchange=exchange)]
