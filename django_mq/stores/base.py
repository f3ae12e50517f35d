"""The store interface, methods in the order a message meets them.

A store is bound to one database connection and used by one thread at a time. Methods
raise only ``StoreError`` and its kin (``StoreUnavailable`` when trying again later may
help), and the publish errors that ``append`` documents.
"""

# ruff: noqa: ARG002 - a default needs no arguments

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, wraps
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

from django_mq.engine.verdict import Verdict
from django_mq.stores import errors
from django_mq.stores.records import Chores, ClaimResult, Settlement

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime
    from typing import Any
    from uuid import UUID

    from django_mq.engine.consumer import Consumer
    from django_mq.engine.worker_mode import WorkerMode
    from django_mq.stores.records import (
        Browsed,
        ClaimRequest,
        Counts,
        Failure,
        Heartbeat,
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
    """Code asks a flag and never the vendor's name."""

    #: Does a message survive the process?
    durable: bool = True
    #: Can the database notice at once that a worker's connection has ended? (see Store.hold_liveness_lock)
    notices_ends: bool = False
    #: Can another process's commit be noticed without a query? (see Store.change_marker)
    notices_changes: bool = False
    #: May a second connection write while this thread holds an open transaction?
    concurrent_writers: bool = True
    #: Has each table settings of its own for how it is kept? (see migration 0005)
    has_table_settings: bool = False
    #: May a consumer ask for some messages only (by a selector, by credit for bytes), decline one, and be woken?
    serves_consumers: bool = False
    #: Does the renewal of a session say whether something waits for it, so that it need not ask apart?
    looks_when_renewed: bool = False


class Store(Protocol):
    """All that may happen to durable messages."""

    features: ClassVar[Features]
    #: The database alias; part of the key of whatever is remembered about queues.
    alias: str

    @staticmethod
    def handing(part: str, name: str) -> Callable[..., Any]:
        """Return a method that hands its call to the method of this name of a part."""

        def call(store: Store, *args: Any, **named: Any) -> Any:
            return getattr(getattr(store, part), name)(*args, **named)

        return wraps(vars(Store)[name])(call)

    # Queues.

    def declare(self, name: str, options: Mapping[str, Any]) -> bool:
        """Create the queue unless it exists; return whether it was created. Existing options are kept."""

    def queue(self, name: str) -> QueueRecord | None:
        """Return the queue's record as it is now, None if there is no such queue."""

    def delete_queue(self, name: str, *, force: bool = False) -> int:
        """Delete an empty queue; with ``force`` its messages too, except those claimed now; return how many went.

        They go to the queue's dead-letter queue ("queue deleted"), or are dropped without one. Raises
        UnknownQueue, or QueueInUse while messages are left, or where another queue names it as its dead-letter
        queue.
        """

    def bind(self, *, exchange: str, exchange_type: str, pattern: str, queue: str) -> None:
        """Bind a queue to an exchange; binding again changes nothing. Raises UnknownQueue."""

    def unbind(self, *, exchange: str, pattern: str, queue: str) -> bool:
        """Remove a binding; return whether there was one."""

    def bindings(self, exchange: str) -> list[tuple[str, str, str]]:
        """Return (exchange type, pattern, queue) of every durable binding of the exchange."""

    # Publishing: joins the transaction of the connection, if one is open.

    def append(self, message: NewMessage, *, again: bool = False) -> int:
        """Write one message and return its row id, its arrival number.

        Raises UnknownQueue, QueueClosed, QueueFull or DuplicateMessage, having written nothing. With ``again``
        (after an ambiguous commit) a live message with the same id counts as written, and 0 is returned. Inside a
        transaction the memory store returns 0, too.
        """

    def append_many(self, messages: Sequence[NewMessage], *, again: bool = False) -> list[int]:
        """Write all messages or, raising as ``append`` does, none; return row ids in the given order.

        With ``again`` an empty list says that all of them had been written before.
        """

    def append_alike(
        self, like: NewMessage, message_ids: Sequence[bytes], bodies: Sequence[bytes], times: Times | None = None
    ) -> None:
        """Write messages like this one but for ids of 16 bytes, bodies, and times if given; all or none.

        The queue has no rules for publishers. Raises as ``append`` does.
        """
        self.append_many([*like.multiplied(message_ids, bodies, times)])

    def append_by_rules(self, messages: Sequence[NewMessage], *, again: bool = False) -> list[int]:
        """As ``append_many``, by the rules of the queues; 0 stands for a message that was dropped.

        Raises QueueFull. Publishers into one such queue wait here for each other's transactions, so that together
        they stay within its limits.
        """

    # Sessions.

    def open_session(self, info: SessionInfo, *, deadline_seconds: float) -> int:
        """Open a session and return its id, which is never used again."""

    def renew(self, session_id: int, heartbeat: Heartbeat) -> Renewal | None:
        """Move the deadline; None means that the session was reaped and holds nothing any more."""

    def prolong(self, session_id: int, *, deadline_seconds: float) -> bool:
        """Move the deadline of a silent worker; False where it has passed, or the connection has ended."""

    def hold_liveness_lock(self, session_id: int, *, deadline_seconds: float) -> bool:
        """Move the deadline, and take the liveness lock of the session, which ends with this connection.

        False asks to be called again soon, because the session's former connection is not quite gone.
        """
        return True

    def has_hung_up(self) -> bool:
        """Whether the connection that stands for a session ended, as far as can be seen without asking."""
        return False

    def send_command(self, session_id: int, *, mode: WorkerMode | None = None, credit: int | None = None) -> bool:
        """Tell a session what to do, at its next heartbeat; None changes nothing. Return whether there is one.

        ``credit`` 0 gives its consumers their own again.
        """

    def revive(
        self, session_id: int, info: SessionInfo, held: Sequence[Receipt], *, deadline_seconds: float
    ) -> frozenset[int] | None:
        """Open a reaped session again, with what it held and nothing has become of since.

        Returns the row ids of all that it holds of ``held``; None, and does nothing, where the session exists.
        """

    def close_session(self, session_id: int) -> int:
        """Give back, uncounted, what the session still holds, and forget it. Returns how many were given back."""

    def subscribe(self, session_id: int, name: str, consumer: Consumer | None = None) -> None:
        """Give the session an exclusive queue before it takes a message; where all are welcome, do nothing.

        A ``consumer`` is the session's until the session ends: claims for it bring what its selector wants and its
        credit allows, and it is woken. It takes a slot, or stands by for one. Subscribe it again after a change of
        its credit or a pause. The consumers of a target (``Target.consumer``) read several queues on one credit.
        Raises AlreadySubscribed if the target reads the queue by another consumer, AccessRefused while another
        session has the queue, another SubscriptionRefused as the engine's queues do, UnknownQueue, SessionLost,
        and UnsupportedRule where the store serves no consumers.
        """

    # Consuming.

    def bound_lock_waits(self, seconds: float) -> None:
        """Wait for a lock only so long from the next connection on, where statements wait longer otherwise."""

    def settle_and_claim(
        self, session_id: int, settlements: Sequence[Settlement], request: ClaimRequest | None
    ) -> ClaimResult:
        """Settle, promote what is due and claim, in one transaction where the database allows it.

        After an error nothing of it happened, and it may be repeated.
        """
        void = self.settle(session_id, settlements) if settlements else frozenset()
        result = self.claim(session_id, request) if request is not None else ClaimResult()
        result.void = void
        return result

    def claim(self, session_id: int, request: ClaimRequest) -> ClaimResult:
        """Promote what is due in these queues, then lease ready messages to the session, in strict order.

        A paused queue yields nothing. Raises SessionLost, and UnsupportedRule for a consumer where the store
        serves none.
        """

    def settle(self, session_id: int, settlements: Sequence[Settlement]) -> frozenset[int]:
        """Write the verdicts; return the row ids of those that were void because the lease was lost.

        A message given back because the deadline had passed is settled all the same, even after the session's end,
        while it carries the claim's token. Raises UnsupportedRule for DECLINE where the store serves no consumers.
        """

    def begin_settle(
        self,
        session_id: int,
        receipts: Sequence[Receipt],
    ) -> frozenset[int]:
        """Begin the handling of claimed messages; return the row ids of those the session has lost.

        Until then an expiry, a ring, ``purge``, ``cancel`` and ``delete_queue`` may take back what a ``stealable``
        consumer was sent; its settlement is void, and gives the credit back. Raises UnsupportedRule.
        """
        raise errors.unsupported("a stealable consumer")

    def give_back(self, session_id: int, settlements: Sequence[Settlement]) -> None:
        """Give messages back, uncounted, for which no verdict can be written, and write no other table."""
        self.settle(session_id, [Settlement(item.id, item.claim, Verdict.RELEASE) for item in settlements])

    def resync(self, session_id: int, held: Sequence[int]) -> int:
        """Give back, uncounted, what the session holds but not among the row ids it knows of; return how many.

        Call it after a round trip whose commit is unknown.
        """

    # Maintenance: safe to run in every worker, at any time, twice.

    def chores(self) -> Chores:
        """Say which duties have something to do, so that the others need not be tried; one statement."""
        return Chores()

    def shorten_deadlines(self) -> int:
        """Shorten the deadline of each session whose liveness lock has ended; return how many.

        A worker that only lost its connection has the time to come back and take the lock again.
        """
        return 0

    def promote(self, limit: int = 1000) -> int:
        """Make due scheduled messages ready; returns how many."""

    def reap(self, *, spare: int = 0) -> list[Reaped]:
        """Forget sessions past their deadline, but ``spare``; give their messages back, marked suspect.

        A message held *as a suspect* keeps the counted attempt; at its queue's maximum it is dead: "worker lost".
        """

    def expire(self, limit: int = 1000) -> int:
        """Finish scheduled and ready messages whose time to live is over; returns how many."""

    def trim(self) -> int:
        """Replace ready messages of rings that hold too much, as publishing does; return how many.

        The newest message of a ring stays. A ring that a publisher has locked is left to the publisher.
        """

    def prune(self, limit: int = 5000, *, whole: bool = False) -> int:
        """Delete history, attempts, summed-up minutes and volatile rows past their time; return how many.

        What a queue wrote before it stopped keeping history goes when it is older than what any other queue keeps,
        or than a week; ``whole`` looks for it in all of the history.
        """

    def roll_up(self) -> int:
        """Sum up the minutes that are over and have not been, for the charts; returns how many."""
        return 0

    # Looking.

    def counts(self, names: Sequence[str] | None = None, *, limit: int = 10_000) -> dict[str, Counts]:
        """Count messages per queue and state, each count stopping at ``limit``; one statement."""

    def occupied(self) -> list[int]:
        """Return the ids of the queues that messages are in, in any order, be there such a queue or not."""

    def count_unknown(self, *, limit: int) -> int:
        """Count messages in a state that this version does not know, stopping at ``limit``."""
        return 0

    def browse(
        self, name: str, *, states: Sequence[int], limit: int = 100, after: Browsed | None = None
    ) -> list[Browsed]:
        """Return messages of one queue in delivery order without taking them."""

    # Following: what arrives, each once. For a connection of one's own, outside transactions.

    def arrivals(self, name: str, *, after: int, limit: int = 100) -> list[Browsed]:
        """Return messages of one queue beyond an arrival number, in that order, whatever their state."""

    def last_arrival(self) -> int:
        """Return the last arrival number of all queues that was given."""

    def unfinished(self, known: frozenset[str] | None, *, after: int, last: int) -> frozenset[str]:
        """Name the open transactions that may still commit an arrival beyond ``after``, up to ``last``.

        Call it first with None, after ``last_arrival``, then with its last answer; once it names none, all there
        is up to ``last`` can be seen.
        """
        return frozenset()

    def last_finished(self) -> int:
        """Return the last number of the history that was given."""
        return 0

    def finishing(self, known: frozenset[str] | None, *, after: int, last: int) -> frozenset[str]:
        """Name the open transactions that may still commit a row of the history, as ``unfinished`` does."""
        return frozenset()

    # Steering: ids are row ids; each returns how many messages it changed.

    def purge(self, name: str) -> int:
        """Remove what no session holds: scheduled, ready, dead. What comes meanwhile stays."""

    def cancel(self, ids: Sequence[int]) -> int:
        """Remove messages that no session holds."""

    def correlated(self, ids: Sequence[str]) -> list[Browsed]:
        """Return the waiting messages whose correlation id, or whose message id, is one of these."""

    def release_held(self, ids: Sequence[int]) -> int:
        """Take claimed messages from their session and make them ready; the session's late verdict is void."""

    def move(self, ids: Sequence[int], target: str) -> int:
        """Move unheld messages to the tail of another queue, attempts restarting, by that queue's rules.

        As many as fit, in order; a ring makes room for all. Raises UnknownQueue, QueueClosed,
        and QueueFull if the first does not fit.
        """

    def deliver_now(self, ids: Sequence[int]) -> int:
        """Make scheduled messages ready, in due order."""

    def reschedule(self, ids: Sequence[int], deliver_at: datetime) -> int:
        """Have scheduled or ready messages delivered at another, aware, time, at the place of that time.

        If it is over, they are ready. Values of a last-value queue are left alone.
        """

    def prioritise(self, ids: Sequence[int], priority: int) -> int:
        """Give ready or scheduled messages another priority, at the tail of their new level."""

    def retry_dead(self, ids: Sequence[int]) -> int:
        """Make dead messages ready again, attempts restarting, in their old place."""

    def set_paused(self, name: str, *, paused: bool, reason: str = "", seconds: float | None = None) -> None:
        """Pause the queue (for ``seconds``, or until resumed), or resume it. Raises UnknownQueue."""

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
        """Remember a failed attempt that no settlement carries."""

    # Transient queues: remote control, events and replies, in rows that go with their reader.

    def volatile_bind(
        self, *, exchange: str, exchange_type: str, pattern: str, queue: str, seconds: float
    ) -> None:
        """Bind a volatile queue for so long; binding again renews it."""

    def volatile_bindings(self, exchange: str) -> list[tuple[str, str]]:
        """Return (pattern, queue) of every live volatile binding of the exchange."""

    def volatile_put(self, queues: Sequence[str], payload: str, *, seconds: float) -> None:
        """Leave a copy for each queue, for so long."""

    def volatile_take(self, queues: Sequence[str], *, limit: int = 100) -> list[tuple[str, str]]:
        """Take (queue, payload) pairs, oldest first, of messages that still live."""

    def volatile_drop(self, queue: str) -> int:
        """Forget a volatile queue: its bindings and messages. Returns how many messages went."""

    # The caller's transaction.

    def transaction(self) -> AbstractContextManager[None]:
        """All that happens inside, or nothing; a part of the caller's transaction, if one is open."""

    @property
    def in_transaction(self) -> bool:
        """Whether what is appended now waits for the caller's commit."""
        return False

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Call back when the caller's transaction commits, at once outside one, never with autocommit off."""
        callback()

    def last_after_commit(self) -> Callable[[], None] | None:
        """Return the last callback that still waits for the commit."""
        return None

    # The connection.

    def disconnect(self) -> bool:
        """Close the connection, the caller's too, unless inside a transaction; return whether it was closed."""
        return False

    def reconnect(self) -> bool:
        """As ``disconnect``, but only a connection that cannot be used any more."""
        return False

    def change_marker(self) -> int | None:
        """Return a number that moves when another connection commits, None where the database has none."""
        return None

    def now_skew_seconds(self) -> float:
        """Return the database's clock minus this machine's."""

    def spaces(self) -> list[Space]:
        """Return what our tables take; none of them is read. A store in memory has no tables."""
        return []

    def space_problems(self, spaces: Sequence[Space]) -> list[tuple[str, str]]:
        """Return (problem, hint) for tables that grow without need. The hint may be a statement to run."""
        return []

    def setting_problems(self) -> list[tuple[str, str]]:
        """Return (problem, hint) for database settings that make the queue slow or fragile."""
        return []

    def privilege_problems(self) -> list[tuple[str, str]]:
        """Return (problem, hint) for privileges without which the queue works, but slowly."""
        return []

    def close(self) -> None:
        """Close a private connection; harmless on a shared one."""


Kind = TypeVar("Kind", bound=type[Store])


def assembled(**others: type) -> Callable[[Kind], Kind]:
    """Complete the class of a store: hand each call that it does not answer itself to the part that does.

    The parts are its cached properties, and attributes of these ``others``. That of a subject has the methods of
    ``Store`` by their names; a subclass of the store may have another kind of the part.
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
