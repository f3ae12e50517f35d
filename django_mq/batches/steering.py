"""Cancel, redrive and delete batches: their members in chunks, each in a transaction.

Operators pass functions that write which messages they have changed, in the same transactions.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django_mq.batches.ends import settle
from django_mq.batches.models import BatchMember, MessageBatch
from django_mq.delivery.operator import actions, begun_runs, redrives
from django_mq.delivery.operator.recalls import recalled
from django_mq.engine.decisions.batches import LIVE, BatchState, MemberState
from django_mq.engine.states import CLAIMED, State
from django_mq.errors import BatchMisused, UnknownBatch
from django_mq.models import Message
from django_mq.models.deletion import delete_first
from django_mq.stores.clock import clock
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from uuid import UUID

    from django_mq.delivery.operator.actions import ActionTarget

#: Members changed by one transaction.
CHUNK: Final = 500
#: Members deleted at once; the maintenance deletes the rest.
MOST_DELETED: Final = 20_000
#: The end of a batch that is being deleted: older than what is kept.
LONG_AGO: Final = datetime(2000, 1, 1, tzinfo=UTC)
LIVE_STATES: Final = tuple(state.value for state in LIVE)


class Steered(NamedTuple):
    """What was done to the members of a batch."""

    changed: int
    #: How many workers were asked to stop.
    asked: int = 0
    #: Whether all members were looked at.
    is_whole: bool = True


def in_transaction(_rows: Sequence[ActionTarget], change: Callable[[], Any], *, using: str) -> Any:
    """Change messages in one transaction, and return what ``change`` returns."""
    with shared_store(using).database.transaction():
        return change()


def unknown(batch: UUID) -> UnknownBatch:
    return UnknownBatch(f"There is no batch {batch}: it was rolled back, or is too old.")


def settled(batch: UUID, *, close: bool, using: str) -> BatchState:
    """Write the state and the counts of a batch, and return the state. Raises UnknownBatch."""
    store = shared_store(using)
    with store.database.transaction():
        state = settle(store, batch, close=close, count=True)
    if state is None:
        raise unknown(batch)
    return state


def cancel(
    batch: UUID,
    *,
    running: bool = False,
    most: int | None = None,
    using: str,
    perform: Callable[..., Any] = in_transaction,
    stop_begun: Callable[..., Any] = begun_runs.stop,
) -> Steered:
    """Cancel a batch, and remove those of its members that no worker has begun, in at most ``most`` chunks.

    With ``running``, workers are asked to stop the others. The maintenance removes what is left. A batch that has
    ended stays as it is. Raises UnknownBatch.
    """
    mine = MessageBatch.objects.using(using).filter(pk=batch)
    if not mine.filter(state__in=LIVE_STATES).update(cancelled_at=clock.now(), state=BatchState.RUNNING.value):
        if not mine.exists():
            raise unknown(batch)
        return Steered(0)
    removed = asked = 0
    for number, ids in enumerate(messages_of(batch, MemberState.WAITING, using=using)):
        if number == most:
            break
        removed += len(_cancel(ids, recalls=not running, using=using, perform=perform))
        asked += _stop(ids, using=using, perform=perform, stop_begun=stop_begun) if running else 0
    else:
        most = None
    settled(batch, close=True, using=using)
    return Steered(removed, asked, most is None)


def _cancel(ids: Sequence[UUID], *, recalls: bool, using: str, perform: Callable[..., Any]) -> Sequence[int]:
    messages = Message.objects.using(using).filter(message_id__in=ids).order_by("queue__name", "pk")
    held = messages.filter(state=CLAIMED.value) if recalls else messages.none()
    with recalled(set(held.values_list("queue__name", flat=True)), using=using):
        rows = [row for row in actions.rows_of(messages) if State(row.state) in actions.STATES["cancel"]]
        found: Sequence[int] = (
            perform(rows, lambda: actions.cancel(rows, using=using), using=using) if rows else ()
        )
    return found


def _stop(ids: Sequence[UUID], *, using: str, perform: Callable[..., Any], stop_begun: Callable[..., Any]) -> int:
    """Have workers stop what they handle of these messages; return how many."""
    messages = Message.objects.using(using).filter(message_id__in=ids)
    held = actions.rows_of(messages.filter(state=CLAIMED.value))
    asked = len(perform(held, lambda: actions.stop(held, using=using), using=using)) if held else 0
    there = set(messages.values_list("message_id", flat=True))
    return asked + len(stop_begun([id_ for id_ in ids if id_ not in there], using=using))


def redrive(
    batch: UUID, *, most: int | None = None, using: str, perform: Callable[..., Any] = in_transaction
) -> Steered:
    """Redrive the dead letters of members that have failed, in at most ``most`` chunks. Raises UnknownBatch."""
    redriven = 0
    for number, ids in enumerate(messages_of(batch, MemberState.FAILED, using=using)):
        if number == most:
            break
        among = redrives.redrivable(None, using=using)
        rows = actions.rows_of(Message.objects.using(using).filter(among, message_id__in=ids).order_by("pk"))
        if rows:
            redriven += len(perform(rows, lambda rows=rows: _redriven(batch, rows, using), using=using))
    else:
        most = None
    settled(batch, close=False, using=using)
    return Steered(redriven, is_whole=most is None)


def _redriven(batch: UUID, rows: Sequence[ActionTarget], using: str) -> Any:
    """Redrive dead letters, and let their members wait again, in the transaction that is open."""
    moved = redrives.redrive_rows([row.id for row in rows], using=using).moved
    gone = {row.id: row.message_id for row in rows}
    members = BatchMember.objects.using(using).filter(batch_id=batch)
    members = members.filter(message_id__in=[gone[each.id] for each in moved], state=MemberState.FAILED.value)
    members.update(state=MemberState.WAITING.value, ended_at=None)
    return moved


def delete(batch: UUID, *, using: str) -> bool:
    """Delete a batch that has ended, with its members; return whether nothing is left to the maintenance.

    Messages stay, and are members of no batch then. Raises UnknownBatch, and BatchMisused for a live batch.
    """
    store: Any = shared_store(using)
    mine = MessageBatch.objects.using(using).filter(pk=batch)
    with store.database.transaction():
        store.database.rows("lock_batch", batch=batch)
        state = mine.values_list("state", flat=True).first()
        if state is None:
            raise unknown(batch)
        if state in LIVE_STATES:
            raise BatchMisused(f"The batch {batch} has not ended, and is not deleted. Cancel it first.")
        # The maintenance goes on if this process ends.
        mine.update(ended_at=LONG_AGO, on_complete="", on_success="", on_failure="", problem="")
    members = BatchMember.objects.using(using).filter(batch_id=batch)
    left = MOST_DELETED
    while left > 0 and (deleted := delete_first(members, min(left, 5000))):
        left -= deleted
    if members.exists():
        return False
    mine.delete()
    return True


def messages_of(batch: UUID, state: MemberState, *, using: str) -> Iterator[list[UUID]]:
    """Yield the ids of the messages of members in this state, in chunks; those of retried tasks, too."""
    last: UUID | None = None
    members = BatchMember.objects.using(using).filter(batch_id=batch, state=state.value).order_by("id")
    while True:
        page = members if last is None else members.filter(pk__gt=last)
        rows = list(page.values_list("pk", "message_id", "task_id")[:CHUNK])
        if not rows:
            return
        last = rows[-1][0]
        tasks = [task for _, _, task in rows if task]
        ids = dict.fromkeys(message_id for _, message_id, _ in rows)
        if tasks:
            found = Message.objects.using(using).filter(correlation_id__in=tasks)
            ids |= dict.fromkeys(found.values_list("message_id", flat=True))
        yield list(ids)
