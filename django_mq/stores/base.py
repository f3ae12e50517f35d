"""The interface of a store, with methods in the order in which a message meets them.

A store has one database connection, for one thread at a time. Methods raise ``StoreError`` or a subclass
(``StoreUnavailable`` if trying again later may help), and the publish errors that ``append`` documents.
"""

# ruff: noqa: ARG002 - a default needs no arguments

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

from django_mq.engine.decisions.verdict import Verdict
from django_mq.stores import errors
from django_mq.stores.clock import clock
from django_mq.stores.records import ClaimResult, Settlement

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set
    from contextlib import AbstractContextManager
    from datetime import datetime, timedelta
    from typing import Any
    from uuid import UUID

    from django_mq.engine.decisions.recall import FreeSlots
    from django_mq.engine.decisions.routing import Exchange, Route
    from django_mq.engine.decisions.worker_mode import WorkerMode
    from django_mq.stores.records import (
        Browsed,
        ClaimRequest,
        Counts,
        Failure,
        Heartbeat,
        LockHolder,
        NewMessage,
        QueueRecord,
        Reaped,
        Receipt,
        Renewal,
        SessionInfo,
        Space,
        Times,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What a store can do. Code asks a flag, never the name of a vendor."""

    #: Whether messages survive the process.
    durable: bool = True
    #: Whether the database notices at once that a worker's connection has ended (``Store.hold_liveness_lock``).
    notices_ends: bool = False
    #: Whether ``Store.change_marker`` notices the commits of other processes.
    notices_changes: bool = False
    #: Whether a second connection can write while this thread has an open transaction.
    concurrent_writers: bool = True
    #: Whether tables have settings of their own (migration 0005).
    has_table_settings: bool = False
    #: Whether consumers have selectors and credit for bytes, and are woken.
    serves_consumers: bool = False
    #: Whether the renewal of a session says if messages wait for it.
    looks_when_renewed: bool = False
    #: Whether the database itself can notify sessions of other processes (the setting HINTS).
    carries_hints: bool = False


class HasClock(Protocol):
    clock_offset: timedelta


class Store(Protocol):
    features: ClassVar[Features]
    #: The database alias, a part of the key of all that is cached about queues.
    alias: str
    #: What tells the time.
    clock: HasClock

    @property
    def clock_offset(self) -> timedelta:
        """Added to the clock; only tests set it."""
        return self.clock.clock_offset

    @clock_offset.setter
    def clock_offset(self, offset: timedelta) -> None:
        self.clock.clock_offset = offset

    @staticmethod
    def handing(part: str, name: str) -> Callable[..., Any]:
        """Return a method that calls the method with this name of a part."""

        def call(store: Store, *args: Any, **named: Any) -> Any:
            return getattr(getattr(store, part), name)(*args, **named)

        return wraps(vars(Store)[name])(call)

    # Queues.

    def declare(self, name: str, options: Mapping[str, Any]) -> bool:
        """Create the queue unless it exists; return whether it was created. Existing options are kept."""

    def link(self, name: str, *, dead_letter_queue: str | None = None, expiry_queue: str | None = None) -> None:
        """Name other queues for what leaves a queue, which did not exist when it was created."""

    def queue(self, name: str) -> QueueRecord | None:
        """Return the queue's record as it is now, None if there is no such queue."""

    def paused(self, names: Sequence[str]) -> Set[str]:
        """Return which of these queues are paused now."""

    def delete_queue(self, name: str, *, force: bool = False) -> int:
        """Delete an empty queue, or with ``force`` one with unclaimed messages; return the number of messages.

        They go to the queue's dead-letter queue ("queue deleted"), or are dropped without one. Raises
        UnknownQueue, and QueueInUse if messages are left, if the dead-letter queue has not enough room for all, or
        if it is the dead-letter queue of another queue.
        """

    def free_groups(self, name: str, group: str | None = None) -> int:
        """Let all groups of a queue, or one, find new owners; return how many had one. Raises UnknownQueue.

        An owner before finishes what it has claimed; the group waits until then.
        """

    def bind(self, *, exchange: str, exchange_type: str, pattern: str, queue: str, selector: str = "") -> None:
        """Bind a queue to an exchange; binding again changes the selector at most. Raises UnknownQueue."""

    def unbind(self, *, exchange: str, pattern: str, queue: str) -> bool:
        """Remove a binding; return whether there was one."""

    def bindings(self, exchange: str) -> list[Route]:
        """Return every durable binding of the exchange, in the order in which they were made."""

    # Exchanges.

    def declare_exchange(self, name: str, *, exchange_type: str, alternate: str = "") -> bool:
        """Create the exchange unless it was declared; return whether it was created."""

    def exchange(self, name: str) -> Exchange | None:
        """Return the exchange with its bindings as they are now, None if there is no such exchange."""

    def delete_exchange(self, name: str) -> bool:
        """Delete the exchange and its bindings, but those of transient queues; return whether it was declared."""

    def bind_exchange(self, *, exchange: str, pattern: str, destination: str, selector: str = "") -> None:
        """Let an exchange pass messages on to another; binding again changes the selector at most."""

    def unbind_exchange(self, *, exchange: str, pattern: str, destination: str) -> bool:
        """Remove a binding between exchanges; return whether there was one."""

    # Publishing, in the transaction of the connection, if one is open.

    def append(self, message: NewMessage, *, again: bool = False) -> int:
        """Write one message and return its row id, the number of its arrival.

        Raises UnknownQueue, QueueClosed, QueueFull or DuplicateMessage, and has written nothing then. With
        ``again``, after a commit with an unknown result, a live message with the same id counts as written, and 0
        is returned. Inside a transaction the memory store returns 0, too.
        """

    def append_many(self, messages: Sequence[NewMessage], *, again: bool = False) -> list[int]:
        """Write all messages, or none and raise as ``append`` does; return row ids in the given order.

        With ``again``, an empty list says that all of them had been written before.
        """

    def append_alike(
        self, like: NewMessage, message_ids: Sequence[bytes], bodies: Sequence[bytes], times: Times | None = None
    ) -> None:
        """Write messages like this one but for their ids (16 bytes), bodies and times; all or none.

        The queue must have no rules for publishers. Raises as ``append`` does.
        """
        self.append_many([*like.multiplied(message_ids, bodies, times)])

    def append_by_rules(self, messages: Sequence[NewMessage], *, again: bool = False) -> list[int]:
        """Write messages as ``append_many``, by the rules of the queues; 0 is a message that was dropped.

        Raises QueueFull. Publishers to such a queue wait for each other's transactions, so that together they stay
        within its limits.
        """

    # Sessions.

    def open_session(self, info: SessionInfo, *, deadline_seconds: float) -> int:
        """Open a session and return its id, which is never used again."""

    def renew(self, session_id: int, heartbeat: Heartbeat) -> Renewal | None:
        """Move the deadline; return None if the session was reaped and holds no message."""

    def prolong(self, session_id: int, *, deadline_seconds: float) -> bool:
        """Move the deadline of a silent worker; False if it has passed, or the connection has ended."""

    def hold_liveness_lock(self, session_id: int, *, deadline_seconds: float) -> bool:
        """Move the deadline, and take the session's liveness lock, which ends with this connection.

        False says to call again soon, because the session's former connection has not ended yet.
        """
        return True

    def has_hung_up(self) -> bool:
        """Whether the connection with the liveness lock has ended, as far as is known without a query."""
        return False

    def free_slots(self, session_id: int, queues: Sequence[str]) -> dict[str, list[FreeSlots]]:
        """Return, for each queue, the free slots of each other session, by its last heartbeat."""

    def send_command(self, session_id: int, *, mode: WorkerMode | None = None, credit: int | None = None) -> bool:
        """Tell a session what to do at its next heartbeat; return whether the session exists.

        None changes nothing. With ``credit`` 0 its consumers have their own credit again.
        """

    def revive(
        self, session_id: int, info: SessionInfo, held: Sequence[Receipt], *, deadline_seconds: float
    ) -> frozenset[int] | None:
        """Open a reaped session again, with the messages that it held and that have not changed since.

        Returns the row ids that it holds of ``held``. Returns None and does nothing if the session exists.
        """

    def close_session(self, session_id: int) -> int:
        """Delete the session and give its messages back, uncounted; return how many."""

    def subscribe(self, session_id: int, name: str, consumer: object | None = None) -> None:
        """Give the session an exclusive queue before it takes a message; do nothing for other queues.

        A ``consumer`` belongs to the session until it ends: its claims bring what its selector wants and its
        credit allows, and it is woken. It takes a slot or waits for one. Subscribe it again after a change of its
        credit or a pause. The consumers of a target (``Target.consumer``) read several queues with one credit.
        Raises AlreadySubscribed if the target reads the queue by another consumer, AccessRefused while another
        session has the queue, other SubscriptionRefused errors of the engine's queues, UnknownQueue, SessionLost,
        and UnsupportedRule if the store serves no consumers.
        """

    # Consuming.

    def bound_lock_waits(self, seconds: float) -> None:
        """Limit the wait for a lock, from the next connection on, if statements wait longer otherwise."""

    def answering_within(self, seconds: float) -> AbstractContextManager[None]:
        """Give up the connection if an answer takes longer, where the limit can change while it is open."""
        return nullcontext()

    def settle_and_claim(
        self, session_id: int, settlements: Sequence[Settlement], request: ClaimRequest | None
    ) -> ClaimResult:
        """Settle, promote due messages and claim, in one transaction if the database has them.

        After an error nothing has happened, and you may call it again.
        """
        void = self.settle(session_id, settlements) if settlements else frozenset()
        result = self.claim(session_id, request) if request is not None else ClaimResult()
        result.void = void
        return result

    def claim(self, session_id: int, request: ClaimRequest) -> ClaimResult:
        """Promote due messages of these queues, then lease ready messages to the session, in strict order.

        A paused queue yields no message. Raises SessionLost, and UnsupportedRule for a consumer if the store
        serves none.
        """

    def settle(self, session_id: int, settlements: Sequence[Settlement]) -> frozenset[int]:
        """Write the verdicts; return the row ids of void ones, whose lease was lost.

        A message that was given back because the deadline had passed is settled nevertheless, even after the
        session's end, while it has the claim token. No claim of the session brings a message that it has declined.
        In a transaction of the caller, after an error nothing but a rollback is possible.
        """

    def begin_settle(
        self,
        session_id: int,
        receipts: Sequence[Receipt],
    ) -> frozenset[int]:
        """Begin the handling of claimed messages; return the row ids that the session has lost.

        Before, an expiry, a ring, ``purge``, ``cancel`` and ``delete_queue`` may take messages back from a
        ``stealable`` consumer; their settlements are void, and give the credit back. Raises UnsupportedRule.
        """
        raise errors.unsupported("a stealable consumer")

    def give_back(self, session_id: int, settlements: Sequence[Settlement]) -> None:
        """Give messages back, uncounted, if no verdict can be written; write no other table."""
        self.settle(session_id, [Settlement(item.id, item.claim, Verdict.RELEASE) for item in settlements])

    def resync(self, session_id: int, held: Sequence[int]) -> int:
        """Give back, uncounted, the session's messages that it does not know of; return how many.

        Call it after a round trip if you do not know whether it was committed. ``held`` are the known row ids.
        """

    # Maintenance: any worker may run it, at any time, twice.

    def due_duties(self) -> Mapping[str, bool]:
        """Say of duties of maintenance, by one statement, whether they have something to do.

        A duty that is not in the answer is to run.
        """
        return {"take_over": False, "cover": False}

    def shorten_deadlines(self) -> int:
        """Shorten the deadlines of sessions whose liveness lock has ended; return how many.

        A worker that only lost its connection has time to take the lock again.
        """
        return 0

    def end_stuck(self, seconds: float) -> list[str]:
        """End connections of workers that have not taken an answer for so long; return the workers.

        They keep what they have locked, and no limit of the database ends them.
        """
        return []

    def promote(self, limit: int = 1000) -> int:
        """Make due scheduled messages ready; return how many."""

    def reap(self, *, spare: int = 0) -> list[Reaped]:
        """Delete sessions past their deadline, except ``spare``; give their messages back, marked suspect.

        A message that was a suspect already keeps the counted attempt; at its queue's maximum it is dead: "worker
        lost".
        """

    def expire(self, limit: int = 1000) -> int:
        """Remove scheduled and ready messages whose time to live is over, or send them on; return how many.

        They go where ``departure`` of the engine says; what an exchange does not take stays as dead.
        """

    def trim(self) -> int:
        """Replace ready messages of rings above their limits, as publishing does; return how many.

        The newest message of a ring stays. A ring that a publisher has locked is left out.
        """

    def delete_unused(self) -> dict[str, int]:
        """Delete queues whose time of ``expires_seconds`` is over, and empty ones with ``auto_delete``.

        They are deleted as ``delete_queue`` does. Returns how many messages were in each. A queue that cannot be
        deleted is tried again after a minute.
        """

    def note_use(self, names: Sequence[str]) -> None:
        """Let the time of ``expires_seconds`` begin again, for a queue that is declared again."""

    def bury_unwanted(self) -> int:
        """Make ready messages dead that all consumers of their queue have declined; return how many.

        Not before DECLINE_GRACE_SECONDS after the last of them declined, and after a consumer came or went, as far
        as this store has seen in earlier calls.
        """

    def cover(self) -> bool:
        """Ask messages by the selectors that their queues declare, for a moment; return whether some are left.

        It changes nothing but how long a claim by such a selector takes.
        """
        return False

    def prune(self, limit: int = 5000, *, whole: bool = False) -> int:
        """Delete history, attempts, summed-up minutes and volatile rows past their time; return how many.

        The history of a queue that keeps none any more is deleted when it is older than a week, or than any other
        queue keeps; ``whole`` looks for it in all of the history.
        """

    def roll_up(self) -> int:
        """Sum up past minutes that are not summed up yet, for the charts; return how many."""
        return 0

    # Reading.

    def counts(self, names: Sequence[str] | None = None, *, limit: int = 10_000) -> dict[str, Counts]:
        """Count messages per queue and state, each count stopping at ``limit``; one statement.

        Those that are retrying may be counted among the 1,000 scheduled ones of each queue that are due first.
        """

    def occupied(self) -> list[int]:
        """Return the queue ids of all messages, in any order, also of queues that do not exist."""

    def count_unknown(self, *, limit: int) -> int:
        """Count messages in a state that this version does not know, stopping at ``limit``."""
        return 0

    def browse(
        self, name: str, *, states: Sequence[int], limit: int = 100, after: Browsed | None = None
    ) -> list[Browsed]:
        """Return messages of one queue in delivery order, without a claim."""

    # Following new messages, each once. For a private connection, outside transactions.

    def arrivals(self, name: str, *, after: int, limit: int = 100) -> list[Browsed]:
        """Return messages of one queue in any state beyond an arrival number, in the order of arrival."""

    def last_arrival(self) -> int:
        """Return the last arrival number that was given, of all queues."""

    def unfinished(self, known: frozenset[str] | None, *, after: int, last: int) -> frozenset[str]:
        """Return the open transactions that may still commit an arrival beyond ``after``, up to ``last``.

        Call it with None after ``last_arrival``, then with its last answer. When it returns none, all messages up
        to ``last`` are visible.
        """
        return frozenset()

    def last_finished(self) -> int:
        """Return the last number that was given to a row of the history."""
        return 0

    def finishing(self, known: frozenset[str] | None, *, after: int, last: int) -> frozenset[str]:
        """Return the open transactions that may still commit a row of the history, as ``unfinished`` does."""
        return frozenset()

    # Steering: ids are row ids; each method returns how many messages it changed.

    def purge(self, name: str, *, dead: bool = True) -> int:
        """Remove scheduled and ready messages, and ``dead`` ones, but none that arrives meanwhile."""

    def cancel(self, ids: Sequence[int]) -> int:
        """Remove unclaimed messages."""

    def correlated(self, ids: Sequence[str]) -> list[Browsed]:
        """Return the waiting messages with one of these correlation ids or message ids."""

    def release_held(self, ids: Sequence[int]) -> int:
        """Take claimed messages from their session and make them ready; a late verdict is void."""

    def move(self, ids: Sequence[int], target: str) -> int:
        """Move unclaimed messages to the tail of another queue, by its rules; their attempts begin again.

        It moves as many as fit, in order; a ring makes room for all. Raises UnknownQueue, QueueClosed, and
        QueueFull if the first does not fit.
        """

    def deliver_now(self, ids: Sequence[int]) -> int:
        """Make scheduled messages ready, in due order."""

    def reschedule(self, ids: Sequence[int], deliver_at: datetime) -> int:
        """Give scheduled or ready messages another, aware, time of delivery, and its place.

        They are ready if the time is over. Values of a last-value queue do not change.
        """

    def prioritise(self, ids: Sequence[int], priority: int) -> int:
        """Move ready or scheduled messages to the tail of the level of another priority."""

    def redrive_dead(self, ids: Sequence[int]) -> int:
        """Make dead messages ready again at their old places; their attempts begin again."""

    def set_header(self, ids: Sequence[int], name: str, value: int | None) -> int:
        """Give unclaimed messages this value of a header; None removes the header."""

    def set_paused(self, name: str, *, paused: bool, reason: str = "", seconds: float | None = None) -> None:
        """Pause the queue, for ``seconds`` or until you resume it, or resume it. Raises UnknownQueue."""

    # What went wrong.

    def record_attempt(
        self,
        failure: Failure,
        *,
        queue_name: str,
        number: int,
        worker: str,
        message_id: UUID | None = None,
        correlation_id: str | None = None,
        type: str = "",  # noqa: A002 - as the field
    ) -> None:
        """Record a failed attempt that belongs to no settlement."""

    # Transient queues: remote control, events and replies, in rows that end with their reader.

    def volatile_bind(
        self, *, exchange: str, exchange_type: str, pattern: str, queue: str, seconds: float
    ) -> None:
        """Bind a volatile queue for so many seconds; binding again renews it."""

    def volatile_bindings(self, exchange: str) -> list[tuple[str, str]]:
        """Return (pattern, queue) of every live volatile binding of the exchange."""

    def volatile_put(self, queues: Sequence[str], payload: str, *, seconds: float) -> None:
        """Write a copy for each queue, for so many seconds."""

    def volatile_take(self, queues: Sequence[str], *, limit: int = 100) -> list[tuple[str, str]]:
        """Take messages that are not expired as (queue, payload), oldest first."""

    def volatile_waiting(self, queues: Sequence[str]) -> bool:
        """Whether some of these queues have a message that is not expired."""

    def volatile_drop(self, queue: str) -> int:
        """Delete the bindings and messages of a volatile queue; return how many messages."""

    # The caller's transaction.

    def transaction(self) -> AbstractContextManager[None]:
        """Commit all changes inside or none; a part of the caller's transaction, if one is open."""

    @property
    def in_transaction(self) -> bool:
        """Whether a message that is appended now waits for the caller's commit."""
        return False

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Call back when the caller's transaction commits; at once outside one, never if autocommit is off."""
        callback()

    def last_after_commit(self) -> Callable[[], None] | None:
        """Return the last callback that waits for the commit."""
        return None

    # The connection.

    def disconnect(self) -> bool:
        """Close the connection, the caller's too, unless inside a transaction; return whether it was closed."""
        return False

    def reconnect(self) -> bool:
        """Close as ``disconnect`` does, but only a connection that is not usable."""
        return False

    def reconnect_if_ended(self) -> bool:
        """Reconnect, if the server has ended the connection: a look at the socket, and rarely a query."""
        return False

    def reset_connection(self) -> bool:
        """Undo what statements have set on a connection outside transactions; False if it cannot be undone.

        Locks, temporary tables and the like are released, and settings are as they were when Django had connected.
        Raises StoreError.
        """
        return False

    def change_marker(self) -> int | None:
        """Return a number that changes when another connection commits, None if the database has none."""
        return None

    def now_skew_seconds(self) -> float:
        """Return the database's clock minus this machine's."""
        return (self.clock_offset + clock.offset).total_seconds()

    def shape(self) -> Set[tuple[str, str]]:
        """Return (table, name) of each column and index of our tables; none in memory."""
        return frozenset()

    def spaces(self) -> list[Space]:
        """Return the sizes of our tables, without reading them; none in memory."""
        return []

    def space_problems(self, spaces: Sequence[Space]) -> list[tuple[str, str]]:
        """Return (problem, hint) for tables that grow without need; the hint may be a statement to run."""
        return []

    def setting_problems(self) -> list[tuple[str, str]]:
        """Return (problem, hint) for database settings that make the queue slow or fragile."""
        return []

    def lock_holders(self, seconds: float) -> list[LockHolder]:
        """Return the transactions that have held a lock of a queue for so long, as far as the database tells."""
        return []

    def privilege_problems(self) -> list[tuple[str, str]]:
        """Return (problem, hint) for missing privileges that make the queue slow."""
        return []

    def close(self) -> None:
        """Close a private connection; harmless on a shared one."""


Kind = TypeVar("Kind", bound=type[Store])


def assembled(**others: type) -> Callable[[Kind], Kind]:
    """Complete the class of a store: hand each call without a method of its own to the part with that method.

    The parts are the cached properties of the store, and attributes of these ``others`` with their classes.
    """

    def complete(store: Kind) -> Kind:
        parts = {name: made.func for name, made in vars(store).items() if isinstance(made, cached_property)}
        promises = {name: promise for name, promise in vars(Store).items() if not name.startswith("_")}
        for part, subject in (parts | others).items():
            for name, promise in promises.items():
                if hasattr(subject, name) and getattr(store, name) is promise:
                    setattr(store, name, store.handing(part, name))
        return store

    return complete
