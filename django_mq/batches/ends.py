"""Count the ends of members in the transactions in which they end, and end the batch with the last one.

Each member has a row, which its end changes: no end waits for another one, and none counts twice. The row of the
batch is locked only when the batch may end now: when it is closed and few members wait, at a first failure, or
when a dead letter is redriven. Of two last members that end at once, the second transaction waits for the first,
and then sees its end. Where more members end at once than are few, the maintenance ends the batch.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from django_mq.batches.callbacks import publish_once
from django_mq.engine.decisions.batches import (
    LIVE,
    MEMBER_ENDS,
    MEMBER_HEADER,
    BatchCallback,
    BatchCounts,
    BatchState,
    MemberState,
    batch_after,
    callbacks_due,
    member_after,
)
from django_mq.engine.decisions.ends import End
from django_mq.stores.records import headers_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from django_mq.engine.decisions.ends import Ended, RunOutcome
    from django_mq.stores.base import Store

#: With so many members that wait, an end looks at the batch without a lock.
NEAR: Final = 500
ENDS: Final = MEMBER_ENDS


def member_of(headers: Any) -> UUID | None:
    """Return the id of the member that a message is, by its headers; None for a message of no batch."""
    try:
        return UUID(headers[MEMBER_HEADER])
    except (KeyError, ValueError, TypeError, AttributeError):
        return None  # or another program has written the header


def note_ends(store: Store, ended: Sequence[Ended]) -> None:
    """Write what has become of members, and end their batches with the last ones. Raises StoreError."""
    if not store.features.durable:
        return
    told: dict[UUID, list[Ended]] = defaultdict(list)
    for each in ended:
        if (member := member_of(headers_in(each.headers))) is not None:
            told[member].append(each)
    changed: dict[UUID, set[MemberState]] = defaultdict(set)
    for batch, after in _written(store, told):
        changed[batch].add(after)
    # In one order: each may lock the row of its batch.
    for batch in sorted(changed):
        look(store, batch, changed[batch])


def _written(store: Store, told: Mapping[UUID, Sequence[Ended]]) -> Iterator[tuple[UUID, MemberState]]:
    """Write what has become of members; yield the batch and the new state of each that has changed."""
    database: Any = store.database
    found = database.rows("batch_members", members=[each.hex for each in told]) if told else []
    by_state: dict[MemberState, list[str]] = defaultdict(list)
    for id_, batch, state in found:
        member, last = UUID(str(id_)), told[UUID(str(id_))][-1]
        after = before = MemberState(state)
        for each in told[member]:
            after = member_after(after, each.end, each.outcome)
        if after is before:
            continue
        if after is MemberState.FAILED:
            given = {"message_id": last.message_id, "queue": last.queue}
            database.rows("fail_member", member=member, state=after.value, **given)
        else:
            by_state[after].append(member.hex)
        yield UUID(str(batch)), after
    for after, members in by_state.items():
        if after is MemberState.WAITING:
            database.rows("reopen_members", members=members)
        else:
            database.rows("end_members", members=members, state=after.value)


def note_run(store: Store, member: UUID, outcome: RunOutcome) -> None:
    """Write how the run of a member has ended that another broker had, in the open transaction.

    Raises StoreError.
    """
    database: Any = store.database
    for id_, batch, state in database.rows("batch_members", members=[member.hex]):
        before = MemberState(state)
        after = member_after(before, End.ACCEPTED, outcome)
        if after is not before:
            database.rows("end_members", members=[UUID(str(id_)).hex], state=after.value)
            look(store, UUID(str(batch)), {after})


def look(store: Store, batch: UUID, changed: set[MemberState]) -> None:
    """End a batch if these changes of its members may end it, and publish what is due."""
    database: Any = store.database
    for state, _, awaits_failure, is_far in database.rows("batch_facts", batch=batch, near=NEAR):
        may_end = state != BatchState.OPEN.value and not is_far
        if may_end or (awaits_failure and MemberState.FAILED in changed) or MemberState.WAITING in changed:
            settle(store, batch)


def settle(store: Store, batch: UUID, *, close: bool = False, count: bool = False) -> BatchState | None:
    """Write the state of a batch, in the transaction that is open, and publish what is due; return the state.

    With ``close`` an open batch is closed. With ``count`` the counts are written in any case. None: it is gone.
    """
    database: Any = store.database
    # A statement of its own: the next ones must see what the last holder of the lock has committed.
    database.rows("lock_batch", batch=batch)
    found = database.rows("locked_batch", batch=batch)
    if not found:
        return None
    before, is_cancelled, waits, has_failed, *callbacks = found[0]
    closed = close or before != BatchState.OPEN.value
    state = batch_after(BatchCounts(waiting=int(waits)), closed=closed, cancelled=bool(is_cancelled))
    if count or state.value != before:
        counts = counted(store, batch)
        state = batch_after(counts, closed=closed, cancelled=bool(is_cancelled))
        has_ended = state not in LIVE
        database.rows("count_batch", batch=batch, state=state.value, has_ended=has_ended, **counts._asdict())
    texts = dict(zip(BatchCallback, zip(callbacks[::2], callbacks[1::2], strict=True), strict=True))
    published = {what for what, (text, is_published) in texts.items() if is_published or not text}
    for what in callbacks_due(state, has_failed=bool(has_failed), published=published):
        publish_once(store, batch, what, texts[what][0])
    return state


def counted(store: Store, batch: UUID) -> BatchCounts:
    """Count the members of a batch."""
    database: Any = store.database
    found = {MemberState(state): number for state, number in database.rows("count_members", batch=batch)}
    return BatchCounts(*(found.get(state, 0) for state in MemberState))
