"""Unique keys: one row for each, unique by its digest, written in the transaction that publishes.

No statement frees a key at the end of a message: the next publisher looks how the message stands that has it. So a
settlement costs nothing, and no key is stuck, whichever process dies.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from django_mq.engine.decisions.unique import First, Standing, standing_of
from django_mq.errors import LockHeld
from django_mq.stores.records import time_of, time_or_none
from django_mq.stores.sql.database import Part, first_of
from django_mq.stores.subjects import unique_keys as subjects
from django_mq.stores.subjects.unique_keys import NO_HOLDER, Holder, held

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from django_mq.engine.decisions.unique import UniqueClaim
    from django_mq.stores.records import NewMessage
    from django_mq.stores.sql.operations import Operations


@dataclass(eq=False)
class UniqueKeys(Part, subjects.UniqueKeys):
    operations: Operations

    def insert(self, message: NewMessage, claim: UniqueClaim) -> bool:
        with self.patient(claim):
            return self.taken(message, claim)

    def taken(self, message: NewMessage, claim: UniqueClaim) -> bool:
        return bool(self.rows("take_key", **parameters_of(message, claim)))

    @contextmanager
    def patient(self, claim: UniqueClaim) -> Iterator[None]:
        """Wait as long as the claim says for what another transaction has locked. Raises UniqueKeyHeld."""
        with refusing(claim), self.database.waiting_at_most(claim.rule.wait_seconds):
            yield

    def find(self, claim: UniqueClaim) -> tuple[First, Holder, float] | None:
        with self.patient(claim):
            found = self.rows("key_of", digest=claim.digest)
            holder = self._holder(UUID(str(found[0][0]))) if found else NO_HOLDER
        for message_id, owner, until, first_at, ends_at, now in found:
            end = time_or_none(ends_at)
            first = First(
                UUID(str(message_id)),
                owner,
                until,
                time_of(first_at).timestamp(),
                None if end is None else end.timestamp(),
            )
            return first, holder, time_of(now).timestamp()
        return None

    def _holder(self, message_id: UUID) -> Holder:
        # What runs is not locked: its worker would wait for this transaction.
        for name in ("lock_waiting_holder", "key_holders"):
            holders = [
                Holder(id_, standing_of(state, dead_reason, has_run=bool(has_run)))
                for id_, state, dead_reason, has_run in self.rows(name, message_id=message_id)
            ]
            if live := [each for each in holders if each.standing is not Standing.GONE]:
                return live[0]
        return NO_HOLDER

    def give(self, message: NewMessage, claim: UniqueClaim) -> None:
        self.rows("give_key", **parameters_of(message, claim))

    def go_on(self, message: NewMessage, claim: UniqueClaim) -> None:
        self.rows("continue_key", digest=claim.digest, message_id=message.message_id)

    def take_back(self, messages: Sequence[NewMessage]) -> None:
        for message in messages:
            if message.unique is not None:
                self.rows("take_back_key", digest=message.unique.digest, message_id=message.message_id)

    def replace_body(self, id_: int, message: NewMessage) -> None:
        self.rows(
            "replace_body",
            id=id_,
            body=message.body,
            content_type=message.content_type,
            content_encoding=message.content_encoding,
            headers=message.headers if message.properties is None else None,
        )

    def reschedule(self, id_: int, deliver_at: datetime) -> None:
        self.operations.reschedule([id_], deliver_at)

    def prioritise(self, id_: int, priority: int) -> None:
        self.operations.prioritise([id_], priority)

    def ahead(self, seconds: float) -> datetime:
        return time_of(self.rows("clock")[0][0]) + timedelta(seconds=seconds)

    def prune(self, limit: int) -> int:
        with self.database.transaction():
            # Locked first, and looked at again by a statement that sees what was committed before the lock.
            ids = first_of(self.rows("lock_stale_keys", limit=limit))
            return len(self.rows("drop_stale_keys", ids=ids)) if ids else 0


@contextmanager
def refusing(claim: UniqueClaim) -> Iterator[None]:
    """Raise UniqueKeyHeld where a statement has waited too long for a lock."""
    try:
        yield
    except LockHeld as error:
        raise held(claim) from error


def parameters_of(message: NewMessage, claim: UniqueClaim) -> dict[str, object]:
    return {
        "digest": claim.digest,
        "label": claim.label,
        "until": claim.rule.until,
        "seconds": claim.rule.seconds,
        "owner": claim.owner,
        "message_id": message.message_id,
    }
