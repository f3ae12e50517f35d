"""Messages by their row ids: changes, moves, and settlements.

A move follows the rules of its target queue, in one transaction. It moves as many messages as fit, in order, and
leaves the rest where it is: no message is dropped because another queue is full. A ring makes room for all, and a
later value replaces an older one.

A settlement is fenced by the claim token.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from django_mq.engine.decisions.dead_letters import MAXLEN, REJECTED
from django_mq.engine.decisions.last_value import BY_LATER_VALUE
from django_mq.engine.decisions.verdict import BY_EXPIRY, DECLINE, RELEASE, Verdict
from django_mq.engine.message import Message, header_text
from django_mq.engine.states import SCHEDULED
from django_mq.stores import errors
from django_mq.stores.dead_letters import Copy, DeadLetter, Sent, planned
from django_mq.stores.sql.database import Part
from django_mq.stores.values import headers_in, storable, time_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from django_mq.stores.records import Failure, Receipt, Settlement
    from django_mq.stores.sql.admission import QueueCapacity
    from django_mq.stores.sql.database import Rows, Statement


#: Outcome numbers of the history table; models.History.Outcome names them.
ACCEPTED, EXPIRED, CANCELLED, PURGED, REPLACED, DEAD_LETTERED, MOVED = 1, 2, 3, 4, 5, 6, 7


def first_of(rows: Rows) -> list[int]:
    return [row[0] for row in rows]


def key_in(headers: str, header: str) -> str | None:
    """Return a header's text as the engine reads it; None for no header, null, no scalar, and no JSON."""
    return header_text(Message(id="", headers=headers_in(headers)), header)


class Messages(Part):
    """Remove, move, promote and give back messages."""

    def remove(self, ids: Sequence[int], outcome: int, *, reason: str | None = None) -> list[int]:
        """Remove unheld messages, all or those with this reason; return their ids."""
        return first_of(self.rows("remove", ids=list(ids), outcome=outcome, reason=reason))

    def drop_replaced(self, ids: Sequence[int]) -> list[int]:
        """Remove messages that came back after a later value had replaced them; return their ids."""
        return self.remove(ids, REPLACED, reason=BY_LATER_VALUE) if ids else []

    def move_rows(self, ids: Sequence[int], target: str) -> int:
        return len(self.rows("move", ids=list(ids), target=target, outcome=MOVED))

    def copy_dead(self, copies: Sequence[Copy], target: str) -> set[int]:
        """Write dead messages into another queue, with other headers; return the ids of those that it took."""
        ids, message_ids, *texts = map(list, zip(*copies, strict=True))
        given = dict(zip(("headers", "properties", "causes"), texts, strict=True))
        rows = self.rows("copy_dead", target=target, ids=ids, **given)
        taken = {str(UUID(str(message_id))) for (message_id,) in rows}
        return {
            id_ for id_, message_id in zip(ids, message_ids, strict=True) if str(UUID(str(message_id))) in taken
        }

    def prioritise_rows(self, ids: Sequence[int], priority: int) -> int:
        return len(self.rows("prioritise", ids=list(ids), priority=priority))

    def bury(self, ids: Sequence[int], reason: str) -> None:
        self.rows("bury", ids=list(ids), reason=reason)

    def set_expired_aside(self, ids: Sequence[int]) -> None:
        """Mark expired messages dead, before they go to an expiry queue or are removed."""
        self.rows("set_expired_aside", ids=list(ids), reason=BY_EXPIRY, replaced=BY_LATER_VALUE)

    def arrive_again(self, ids: Sequence[int]) -> list[int]:
        """Make scheduled messages ready as the newest arrivals, in this order; return their new ids."""
        new = self.numbered_anew(ids)
        self.rows("make_ready", ids=new)
        return new

    def numbered_anew(self, ids: Sequence[int]) -> list[int]:
        return first_of(self.rows("arrive_again", ids=list(ids)))

    def promote(self, limit: int = 1000, queues: Sequence[str] | None = None) -> int:
        """Make due messages ready, of these queues or of all; return how many."""
        if queues is None:
            return len(self.rows("promote_all", limit=limit))
        return len(self.rows("promote_due", limit=limit, queues=list(queues)))

    # What sessions hold.

    def retake(self, session_id: int, receipts: Sequence[Receipt]) -> set[int]:
        """Claim messages again that carry the token of the session's claim; return the ids that it holds then."""
        ids, claims = map(list, zip(*receipts, strict=True))
        return set(first_of(self.rows("retake", session=session_id, ids=ids, claims=claims)))

    def held_replaced(self, session_id: int) -> list[int]:
        return first_of(self.rows("held_replaced", session=session_id, replaced=BY_LATER_VALUE))

    def release_held_by_expired(self, sessions: Sequence[int]) -> Rows:
        """Give back the messages of expired sessions, and of sessions that do not exist.

        Returns session id, id, whether the attempt counts, the attempts, and how many the queue allows.
        """
        return self.rows("release_held_by_expired", sessions=list(sessions))

    def record_attempts(self, session_id: int, failed: Sequence[tuple[int, bool, Failure]]) -> None:
        """Record failed attempts of messages that are still there: (id, whether it counts, failure) of each."""
        ids, counted, failures = map(list, zip(*failed, strict=True))
        said = [failure.storable() for failure in failures]
        columns = {f"{name}s": [each[name] for each in said] for name in said[0]}
        self.rows("record_attempts", **named(session_id), ids=ids, counted=counted, **columns)


def named(session_id: int) -> dict[str, Any]:
    """Return the session, and what to call it if its row does not exist any more."""
    return {"session": session_id, "nameless": f"session {session_id}"}


class Coming(NamedTuple):
    id: int
    message_id: Any
    size_bytes: int
    headers: Any
    state: int


class Moves(Part):
    def move(self, ids: Sequence[int], target: str) -> int:
        if self.store.queues.existing(target).closed:
            raise errors.closed(target)
        with self.database.transaction():
            capacity = self._capacities([target]).get(target)
            if capacity is None:
                return self.store.messages.move_rows(ids, target)
            coming = self._coming(ids, capacity)
            fitting = self._fitting(coming, capacity)
            if coming and not fitting and capacity.is_limited:
                raise errors.full(target)
            return self._enter(fitting, capacity, lambda chosen: self.store.messages.move_rows(chosen, target))

    def send_dead(self, ids: Sequence[int], reason: str = REJECTED, *, is_last: bool = False) -> Sent:
        """Send dead messages where their queues say; those that no queue takes stay as they are.

        ``is_last`` says that their queue is about to be deleted.
        """
        if not ids:
            return Sent(set(), set())
        with self.database.transaction():
            rows = self.rows("dying", ids=list(ids))
            dead_letters = [DeadLetter(*(*row[:-1], time_of(row[-1]))) for row in rows]
            plan = planned(self.store, dead_letters, reason, self._described, is_last=is_last)
            left = set[int]()
            for name, copies in sorted(plan.copies.items()):
                left |= self._copy(name, copies, evicts=reason != MAXLEN)
            for outcome, gone in ((EXPIRED, left & plan.expiring), (DEAD_LETTERED, left - plan.expiring)):
                if gone:
                    self.store.messages.remove(sorted(gone), outcome)
        return Sent(left, plan.kept - left)

    def _described(self, letter: DeadLetter) -> Message:
        return self.store.claims.described(letter.queue, [letter.id])[letter.id]

    def _copy(self, name: str, copies: Sequence[Copy], *, evicts: bool) -> set[int]:
        """Write copies into a queue by its rules; return the ids of the messages that it took."""
        capacity = self._capacities([name]).get(name)
        if capacity is None:
            return self.store.messages.copy_dead(copies, name)
        # By arrival, as without rules.
        fitting = self._fitting(sorted(self._coming([copy.id for copy in copies], capacity)), capacity)
        taken = set[int]()

        def write(chosen: list[int]) -> int:
            fits = set(chosen)
            taken.update(self.store.messages.copy_dead([copy for copy in copies if copy.id in fits], name))
            return len(taken)

        self._enter(fitting, capacity, write, evicts=evicts)
        return taken

    def drop(self, ids: Sequence[int], *, buries: bool) -> int:
        """Remove messages that a ring replaces, or make dead letters of them; return how many left the ring."""
        if not buries:
            return len(self.store.messages.remove(ids, REPLACED))
        self.store.messages.bury(ids, MAXLEN)
        self.send_dead(ids, MAXLEN)
        return len(ids)

    def _capacities(self, names: Iterable[str]) -> dict[str, QueueCapacity]:
        """Lock the queues that have limits or last values; return their capacities, and those of sorted queues."""
        capacities = self.store.capacity.of(names)
        for name in names:
            queue = self.store.queues.queue(name)
            if queue is not None and queue.sorting is not None:
                capacities.setdefault(name, self.store.capacity.unlimited(queue)).sorting = queue.sorting
        return capacities

    def send_expired(self, ids: Sequence[int]) -> int:
        """Send expired messages where their queues say, and remove those that may not stay; return how many."""
        sent = self.send_dead(ids, reason=BY_EXPIRY)
        done = sent.left | sent.kept
        over = [id_ for id_ in ids if id_ not in done]
        return len(done) + (len(self.store.messages.remove(over, EXPIRED)) if over else 0)

    def _coming(self, ids: Sequence[int], capacity: QueueCapacity) -> list[Coming]:
        """Lock the messages that are not in the queue yet, in order; of copies of a message, the first."""
        rows = [Coming(*row) for row in self.rows("coming", ids=list(ids), queue_id=capacity.queue_id)]
        first = {row.message_id: row for row in reversed(rows)}
        return [row for row in rows if first[row.message_id] is row]

    def _fitting(self, coming: Sequence[Coming], capacity: QueueCapacity) -> list[Coming]:
        """Return the messages before the first that does not fit, without scheduled values."""
        fitting: list[Coming] = []
        size_bytes = 0
        for row in coming:
            if row.state == SCHEDULED and self._key(row, capacity) is not None:
                continue
            fits = capacity.is_ring or not self.store.capacity.is_exceeded(
                capacity, len(fitting) + 1, size_bytes + row.size_bytes
            )
            if not fits:
                break
            fitting.append(row)
            size_bytes += row.size_bytes
        return fitting

    @staticmethod
    def _key(row: Coming, capacity: QueueCapacity) -> str | None:
        return key_in(str(row.headers), capacity.last_value_key) if capacity.last_value_key else None

    def _enter(
        self,
        fitting: Sequence[Coming],
        capacity: QueueCapacity,
        move: Callable[[list[int]], int],
        *,
        evicts: bool = True,
    ) -> int:
        moved = move([row.id for row in fitting]) if fitting else 0
        if not moved:
            return 0
        hexes = [str(row.message_id).replace("-", "") for row in fitting]
        found = self.rows("moved_here", message_ids=hexes, queue_id=capacity.queue_id)
        arrived = {message_id: id_ for id_, message_id in found}
        keys = {row.message_id: key for row in fitting if (key := self._key(row, capacity)) is not None}
        by_id = {arrived[message_id]: key for message_id, key in keys.items() if message_id in arrived}
        self.store.last_values.replace(capacity, dict(sorted(by_id.items())))
        if capacity.sorting is not None:
            for row in fitting:
                if row.message_id in arrived:
                    place = capacity.sorting.place_or_first(headers_in(str(row.headers)))
                    self.rows("set_place", id=arrived[row.message_id], place=place)
        size_bytes = sum(row.size_bytes for row in fitting)
        self.store.capacity.settle_in(capacity, moved, size_bytes, newest=max(arrived.values()), evicts=evicts)
        return moved

    def redrive_dead(self, ids: Sequence[int]) -> int:
        with self.database.transaction():
            # Before any message is locked, as publishers do: a later value may be about to arrive.
            self.store.capacity.of(row[0] for row in self.rows("value_queues", ids=list(ids)))
            redriven = len(self.rows("redrive_dead", ids=list(ids)))
            self.store.last_values.keep_latest(ids)
        return redriven


def fence(session_id: int, settlements: Sequence[Settlement]) -> dict[str, Any]:
    return {
        "session": session_id,
        "ids": [item.id for item in settlements],
        "claims": [item.claim for item in settlements],
    }


def by_claim(settlements: Sequence[Settlement]) -> Iterator[Sequence[Settlement]]:
    """Yield batches with one claim of each message: the id of a settled message then names the settlement."""
    while settlements:
        claims = dict(item.receipt for item in reversed(settlements))
        yield [item for item in settlements if claims[item.id] == item.claim]
        settlements = [item for item in settlements if claims[item.id] != item.claim]


class Settlements(Part):
    def settle(self, session_id: int, settlements: Sequence[Settlement]) -> frozenset[int]:
        done = set[int]()
        # An error ends the caller's transaction: a savepoint would cost a transactional handler two round trips.
        with nullcontext() if self.database.in_transaction else self.database.transaction():
            for batch in by_claim(settlements):
                held = self._settle_held(session_id, batch)
                late = [item for item in batch if item.id not in held]
                receipts = [item.receipt for item in late]
                if late and (retaken := self.store.last_values.retake(session_id, receipts)):
                    held |= self._settle_held(session_id, [item for item in late if item.id in retaken])
                done |= held
        return frozenset(item.id for item in settlements) - done

    def _settle_held(self, session_id: int, settlements: Sequence[Settlement]) -> set[int]:
        held = self._held(session_id, settlements)
        expired = [item for item in held if item.verdict is Verdict.EXPIRE]
        leaving = self._leaving([item.id for item in expired])
        staying = [item for item in held if item.verdict is not Verdict.EXPIRE or item.id not in leaving]
        done = set[int]()
        for name, params in verdicts(session_id, staying):
            done.update(self._write(name, **params))
        self._after_settling(staying, done, session_id)
        # What goes to other queues goes last: the others may have made room there.
        done |= self._let_leave(session_id, [item for item in expired if item.id in leaving], leaving)
        if dead := [item.id for item in staying if item.verdict is Verdict.DEAD and item.id in done]:
            self.store.moves.send_dead(dead)
        return done

    def _held(self, session_id: int, settlements: Sequence[Settlement]) -> Sequence[Settlement]:  # noqa: ARG002
        """Lock the messages and leave out lost ones, where the statements do not do so."""
        return settlements

    def _write(self, name: str, **fenced: Any) -> list[int]:
        return first_of(self.rows(name, **fenced))

    def _leaving(self, ids: Sequence[int]) -> dict[int, bool]:
        """Return the expired messages that leave their queue, and whether a later value has replaced each."""
        return dict(self.rows("leaving", ids=list(ids), replaced=BY_LATER_VALUE)) if ids else {}

    def _let_leave(self, session_id: int, expired: Sequence[Settlement], replaced: Mapping[int, bool]) -> set[int]:
        """Send expired messages to their expiry queues, or write that they were replaced; return the ids."""
        gone: set[int] = set()
        if over := [item for item in expired if replaced[item.id]]:
            gone.update(self._write("settle_finished", **fence(session_id, over), outcome=REPLACED))
        if going := [item for item in expired if not replaced[item.id]]:
            how = {"reason": [BY_EXPIRY] * len(going), "counted": [False] * len(going)}
            sent = self._write("settle_dead", **fence(session_id, going), **how)
            self.store.moves.send_expired(sent)
            gone.update(sent)
        return gone

    def _after_settling(self, settlements: Sequence[Settlement], done: set[int], session_id: int) -> None:
        """Record failed attempts while the rows are there; then remove replaced values."""
        settled = [item for item in settlements if item.id in done]
        if failed := [(item.id, item.counted, item.failure) for item in settled if item.failure]:
            self.store.messages.record_attempts(session_id, failed)
        self.store.messages.drop_replaced([item.id for item in settled if item.verdict is RELEASE])
        if declined := [item.id for item in settled if item.verdict is DECLINE]:
            self.store.messages.drop_replaced(declined)
            self.store.claims.note_declined(session_id, declined)

    def give_back(self, session_id: int, settlements: Sequence[Settlement]) -> None:
        if held := self._held(session_id, settlements):
            how = {"delay_seconds": [0.0] * len(held), "counted": [False] * len(held)}
            ids = [item.id for item in held]
            self.rows("end_replaced", session=session_id, ids=ids, replaced=BY_LATER_VALUE)
            self._write("settle_released", **fence(session_id, held), **how)

    def resync(self, session_id: int, held: Sequence[int]) -> int:
        self.store.claims.look_again()
        with self.database.transaction():
            replaced = self.store.messages.held_replaced(session_id)
            released = len(self.rows("release_unknown", session=session_id, held=list(held)))
            self.store.messages.drop_replaced(replaced)
        return released


def statements(session_id: int, settlements: Sequence[Settlement]) -> Iterator[Statement]:
    """Yield the statements for settlements without failures and dead messages."""
    yield from verdicts(session_id, settlements)
    if ids := [item.id for item in settlements if item.verdict is RELEASE]:
        # A released message that a later value has replaced is removed.
        yield "remove", {"ids": ids, "outcome": REPLACED, "reason": BY_LATER_VALUE}


def verdicts(session_id: int, settlements: Sequence[Settlement]) -> Iterator[Statement]:
    for verdict, name, how in KINDS:
        if chosen := [item for item in settlements if item.verdict is verdict]:
            yield name, fence(session_id, chosen) | how(chosen)


#: Each verdict, the statement that writes it, and the parameters of that.
KINDS: tuple[tuple[Verdict, str, Callable[[Sequence[Settlement]], dict[str, Any]]], ...] = (
    (Verdict.ACCEPT, "settle_finished", lambda _: {"outcome": ACCEPTED}),
    (Verdict.EXPIRE, "settle_finished", lambda _: {"outcome": EXPIRED}),
    (Verdict.CANCEL, "settle_finished", lambda _: {"outcome": CANCELLED}),
    *(
        (
            verdict,
            "settle_released",
            lambda items: {
                "delay_seconds": [float(item.delay_seconds) for item in items],
                "counted": [item.counted for item in items],
            },
        )
        for verdict in (RELEASE, DECLINE)
    ),
    (
        Verdict.DEAD,
        "settle_dead",
        lambda items: {
            "reason": [storable(item.reason, 255) for item in items],
            "counted": [item.counted for item in items],
        },
    ),
)
