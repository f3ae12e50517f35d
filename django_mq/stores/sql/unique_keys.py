"""Unique keys: one row for each, unique by its digest, written in the transaction that publishes.

No statement frees a key at the end of a message: the next publisher looks how the message stands that has it. So a
settlement costs nothing, and no key is stuck, whichever process dies.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from secrets import token_hex
from typing import TYPE_CHECKING, Any
from uuid import UUID
from weakref import WeakSet

from django_mq.engine.decisions.unique import First, standing_of
from django_mq.errors import LockHeld
from django_mq.stores.records import time_of, time_or_none
from django_mq.stores.sql.database import Part, first_of
from django_mq.stores.subjects import unique_keys as subjects
from django_mq.stores.subjects.unique_keys import NO_HOLDER, Holder, first_holder, held

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from django.db.backends.base.base import BaseDatabaseWrapper

    from django_mq.engine.decisions.unique import UniqueClaim
    from django_mq.stores.records import NewMessage
    from django_mq.stores.sql.database import Rows
    from django_mq.stores.sql.operations import Operations
    from django_mq.stores.subjects.unique_keys import Found

#: How many keys maintenance looks at for each that it may delete.
LOOKED_AT = 10


@dataclass(eq=False)
class UniqueKeys(Part, subjects.UniqueKeys):
    operations: Operations

    def insert(self, message: NewMessage, claim: UniqueClaim) -> bool:
        with self.patient(claim):
            return self.taken(message, claim)

    def taken(self, message: NewMessage, claim: UniqueClaim) -> bool:
        return bool(self.rows("take_key", **key_parameters(message, claim)))

    def patient(self, claim: UniqueClaim) -> AbstractContextManager[None]:
        """Wait as long as the claim says for what another transaction has locked. Raises UniqueKeyHeld."""
        return refusing(claim)

    def find(self, claim: UniqueClaim) -> Found | None:
        with self.patient(claim):
            found = self.rows("key_of", digest=claim.digest)
            return found_in(found[0], self._holder(UUID(str(found[0][0])))) if found else None

    def _holder(self, message_id: UUID) -> Holder:
        # What runs is not locked: its worker would wait for this transaction.
        for name in ("lock_waiting_holder", "key_holders"):
            holder = holder_in(self.rows(name, message_id=message_id))
            if holder is not NO_HOLDER:
                return holder
        return NO_HOLDER

    def give(self, message: NewMessage, claim: UniqueClaim) -> None:
        self.rows("give_key", **key_parameters(message, claim))

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
            type=message.type,
            content_type=message.content_type,
            content_encoding=message.content_encoding,
        )

    def reschedule(self, id_: int, deliver_at: datetime) -> None:
        self.operations.reschedule([id_], deliver_at)

    def prioritise(self, id_: int, priority: int) -> None:
        self.operations.prioritise([id_], priority)

    def ahead(self, seconds: float) -> datetime:
        return time_of(self.rows("clock")[0][0]) + timedelta(seconds=seconds)

    def free(self, digest: str) -> bool:
        return bool(self.rows("free_key", digest=digest))

    def prune(self, limit: int) -> int:
        # From any digest on: all rows get their turn, and no run looks at all of them.
        stale = self._stale(token_hex(), limit)
        if len(stale) < limit:
            stale = sorted({*stale, *self._stale("", limit)})[:limit]
        if not stale:
            return 0
        with self.database.transaction():
            # Locked first, and looked at again by a statement that sees what was committed before the lock.
            digests = first_of(self.rows("lock_keys", digests=stale))
            return len(self.rows("drop_stale_keys", digests=digests)) if digests else 0

    def _stale(self, start: str, limit: int) -> list[str]:
        return first_of(self.rows("stale_keys", start=start, most=LOOKED_AT * limit, limit=limit))


def holder_in(rows: Rows) -> Holder:
    """Return the message that has a key, of the rows of ``lock_waiting_holder`` or ``key_holders``."""
    return first_holder(
        Holder(id_, standing_of(state, dead_reason, has_run=bool(has_run), has_expired=bool(has_expired)))
        for id_, state, dead_reason, has_run, has_expired in rows
    )


def found_in(row: tuple[Any, ...], holder: Holder) -> Found:
    """Return a row of ``key_of`` with the message that has the key."""
    message_id, owner, until, first_at, ends_at, now = row
    end = time_or_none(ends_at)
    end_at = None if end is None else end.timestamp()
    first = First(UUID(str(message_id)), owner, until, time_of(first_at).timestamp(), end_at)
    return first, holder, time_of(now).timestamp()


#: The connections whose last unique key had a row: a program has new keys, as orders have, or the same ones again.
returning: WeakSet[BaseDatabaseWrapper] = WeakSet()


def key_columns(keyed: Sequence[tuple[NewMessage, UniqueClaim]]) -> dict[str, list[object]]:
    """Return the parameters of several keys, a list for each."""
    rows = [key_parameters(message, claim) for message, claim in keyed]
    return {name: [row[name] for row in rows] for name in rows[0]}


@contextmanager
def refusing(claim: UniqueClaim, *, several: bool = False) -> Iterator[None]:
    """Raise UniqueKeyHeld where a statement has waited too long for a lock."""
    try:
        yield
    except LockHeld as error:
        raise held(claim, several=several) from error


def key_parameters(message: NewMessage, claim: UniqueClaim) -> dict[str, object]:
    return {
        "digest": claim.digest,
        "label": claim.label,
        "until": claim.rule.until,
        "seconds": claim.rule.seconds,
        "owner": claim.owner,
        "message_id": message.message_id,
    }
