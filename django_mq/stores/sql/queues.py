"""Queues: declare, read, pause and count them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django_mq.engine.decisions.queue_life import QueueLife
from django_mq.stores import queue_records
from django_mq.stores.errors import no_such_queue
from django_mq.stores.records import (
    AGES_READ,
    RETRYING_READ,
    Counts,
    QueueRecord,
    all_are_read,
    storable,
    time_of,
    time_or_none,
)
from django_mq.stores.sql.database import Part, options_read, options_written
from django_mq.stores.subjects import queues as subjects

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set

    from django_mq.stores.sql.database import Rows

#: Messages on the first page of a claim at most.
PAGE = 200


class Queues(Part, subjects.Queues):
    def declare(self, name: str, options: Mapping[str, Any]) -> bool:
        queue_records.forget(self.database.alias, name)
        return bool(self.database.insert("declare", name=name, **options_written(options)))

    def link(self, name: str, *, dead_letter_queue: str | None = None, expiry_queue: str | None = None) -> None:
        self.rows("link", queue=name, dead_letter_queue=dead_letter_queue, expiry_queue=expiry_queue)
        queue_records.forget(self.database.alias, name)

    def paused(self, names: Sequence[str]) -> Set[str]:
        return {name for (name,) in self.rows("paused_queues", names=list(names))}

    def find(self, name: str) -> QueueRecord | None:
        rows = self.rows("queue", queue=name)
        if not rows:
            return None
        id_, name, closed, paused, priorities_differ, covered_by, *values = rows[0]
        return QueueRecord(
            id=id_,
            name=name,
            closed=bool(closed),
            paused=bool(paused),
            priorities_differ=bool(priorities_differ),
            covered_by=covered_by,
            **options_read(values),
        )

    def known(self, name: str) -> QueueRecord | None:
        """Return the queue's record as of a few seconds ago, None if there is no such queue."""
        with self.database.closing_if_failed():
            return queue_records.known_by(self.find, name, self.database)

    def existing(self, name: str) -> QueueRecord:
        """Return the queue's record. Raises UnknownQueue."""
        queue = self.find(name)
        if queue is None:
            raise no_such_queue(name)
        return queue

    def free_groups(self, name: str, group: str | None = None) -> int:
        queue = self.existing(name)
        freed = self.rows("free_groups", queue_id=queue.id, group=group)
        return len(freed) if queue.groups_stay else 0  # the rows of another grouping that it had before

    def set_paused(self, name: str, *, paused: bool, reason: str = "", seconds: float | None = None) -> None:
        given = {"paused": paused, "reason": storable(reason, 200), "seconds": seconds}
        if not self.rows("set_paused", queue_id=self.existing(name).id, **given):
            raise no_such_queue(name)

    # By what is known of them.

    def have_claim_rules(self, names: Iterable[str]) -> bool:
        """Whether a claim from one of the queues depends on other sessions."""
        return any(self.has_claim_rules(name) for name in names)

    def has_claim_rules(self, name: str) -> bool:
        record = self.known(name)
        return record is not None and record.has_claim_rules

    def keep_last_values(self, names: Iterable[str]) -> bool:
        """Whether one of the queues keeps last values."""
        return any((record := self.known(name)) is not None and record.last_value_key for name in names)

    def are_fair(self, names: Iterable[str]) -> bool:
        """Whether keys share one of the queues."""
        return any((record := self.known(name)) is not None and record.fair_by for name in names)

    def may_lock_publishers(self, name: str) -> bool:
        """Whether publishers of the queue wait for each other, as far as is known."""
        record = self.known(name)
        return record is None or record.locks_publishers

    def promote(self, limit: int = 1000, queues: Sequence[str] | None = None) -> int:
        """Make due messages ready, of these queues or of all; return how many."""
        if queues is None:
            return len(self.rows("promote_all", limit=limit))
        return len(self.rows("promote_due", limit=limit, queues=list(queues)))

    def counts(self, names: Sequence[str] | None = None, *, limit: int = 10_000) -> dict[str, Counts]:
        found: dict[str, Counts] = {}
        for name, scheduled, ready, claimed, dead, age, due, retrying, parked in self._count(names, limit):
            seconds, is_exact = None if age is None else float(age), all_are_read(ready, limit)
            found[name] = Counts(scheduled, ready, claimed, dead, seconds, due, retrying, is_exact, parked)
        return found

    def _count(self, names: Sequence[str] | None, limit: int) -> Rows:
        read = {"read": min(limit, AGES_READ), "retrying": min(limit, RETRYING_READ)}
        return self.rows("counts", every=names is None, names=list(names or ()), limit=limit, **read)

    def occupied(self) -> list[int]:
        return [row[0] for row in self.rows("occupied")]

    def count_unknown(self, *, limit: int) -> int:
        return int(self.rows("count_unknown", limit=limit)[0][0])

    # Queues that end without an operator.

    def note_use(self, names: Sequence[str]) -> None:
        self.rows("note_use", names=list(names))

    def note_departure(self, sessions: Sequence[int]) -> bool:
        """Note that these sessions, which end now, have used their queues; return whether that matters."""
        lives, _ = self.lives()
        if left := self.consumed(sessions) & {life.name for life in lives} if lives else None:
            self.note_use(sorted(left))
        return bool(left)

    def lives(self, names: Sequence[str] | None = None) -> tuple[list[QueueLife], datetime]:
        rows = self.rows("queue_lives", every=names is None, names=list(names or ()))
        lives = [
            QueueLife(name, bool(auto), seconds, time_of(created), time_or_none(used))
            for name, auto, seconds, created, used, _ in rows
        ]
        return lives, time_of(rows[0][-1]) if rows else datetime.min.replace(tzinfo=UTC)

    def consumed(self, sessions: Sequence[int] | None = None) -> frozenset[str]:
        rows = self.rows("consumed", every=sessions is None, sessions=list(sessions or ()))
        return frozenset(name for (queues,) in rows for name in json.loads(queues))
