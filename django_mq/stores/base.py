"""The store interface, methods in the order a message meets them.

A store is bound to one database connection and used by one thread at a time. Methods
raise only ``StoreError`` and its kin (``StoreUnavailable`` when trying again later may
help), and the publish errors that ``append`` documents.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from django_mq.engine.verdict import DECLINE, Verdict
from django_mq.stores import refusals
from django_mq.stores.chores import Chores
from django_mq.stores.records import Exchange, Settlement
from django_mq.stores.space import Spacious
from django_mq.stores.volatile import Volatile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime
    from typing import Any
    from uuid import UUID

    from django_mq.engine.conduct import Conduct
    from django_mq.engine.consumer import Consumer
    from django_mq.engine.target import Target
    from django_mq.stores.features import Features
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
        Times,
    )
    from django_mq.stores.waiting import WaitingMessage


class Store(Volatile, Spacious, ABC):
    """All that may happen to durable messages."""

    features: Features
    #: The database alias; part of the key of whatever is remembered about queues.
    alias: str

    # Queues.

    @abstractmethod
    def declare(self, name: str, options: Mapping[str, Any]) -> bool:
        """Create the queue unless it exists; return whether it was created. Existing options are kept."""

    @abstractmethod
    def queue(self, name: str) -> QueueRecord | None:
        """Return the queue's record as it is now, None if there is no such queue."""

    @abstractmethod
    def delete_queue(self, name: str, *, force: bool = False) -> int:
        """Delete an empty queue; with ``force`` its messages too, except those claimed now, which are refused.

        The messages go to the queue's dead-letter queue, with the reason "queue deleted"; without a
        dead-letter queue they are dropped. Returns how many went. Raises UnknownQueue, or QueueInUse
        while messages are there (any without force, claimed ones even with it), if the dead-letter
        queue does not take all of them, or if another queue names it as its dead-letter queue.
        """

    @abstractmethod
    def bind(self, *, exchange: str, exchange_type: str, pattern: str, queue: str) -> None:
        """Bind a queue to an exchange; binding again changes nothing. Raises UnknownQueue."""

    @abstractmethod
    def unbind(self, *, exchange: str, pattern: str, queue: str) -> bool:
        """Remove a binding; return whether there was one."""

    @abstractmethod
    def bindings(self, exchange: str) -> list[tuple[str, str, str]]:
        """Return (exchange type, pattern, queue) of every durable binding of the exchange."""

    # Publishing: joins the transaction of the connection, if one is open.

    @abstractmethod
    def append(self, message: NewMessage, *, again: bool = False) -> int:
        """Write one message and return its row id, its arrival number.

        Raises UnknownQueue, QueueClosed, QueueFull or DuplicateMessage, having written
        nothing. With ``again`` (the retry of a publish whose commit was ambiguous) a live
        message with the same id counts as written and 0 is returned. A transaction of the memory
        store returns 0, too, as its messages arrive with the commit.
        """

    @abstractmethod
    def append_many(self, messages: Sequence[NewMessage], *, again: bool = False) -> list[int]:
        """Write all messages or, raising as ``append`` does, none. Returns row ids in the given order.

        With ``again`` an empty list says that all of them had been written before.
        """

    def append_alike(
        self, like: NewMessage, message_ids: Sequence[bytes], bodies: Sequence[bytes], times: Times | None = None
    ) -> None:
        """Write messages that are like this one but for their ids, 16 bytes each, bodies, and times if given.

        All or, raising as ``append`` does, none; the queue has no rules for publishers.
        """
        self.append_many([*like.multiplied(message_ids, bodies, times)])

    @abstractmethod
    def append_by_rules(self, messages: Sequence[NewMessage], *, again: bool = False) -> list[int]:
        """As ``append_many``, by the rules of the queues; 0 stands for a message that was dropped.

        Raises QueueFull where a queue that refuses, or lets wait, has no room for all of them.
        Publishers into one ruled queue wait here for each other until their transactions end,
        so that they cannot overshoot together; messages into other queues need not come here.
        """

    # Sessions.

    @abstractmethod
    def open_session(self, info: SessionInfo, *, deadline_seconds: float) -> int:
        """Open a session and return its id, which is never used again."""

    @abstractmethod
    def renew(self, session_id: int, heartbeat: Heartbeat) -> Renewal | None:
        """Move the deadline; None means the session was reaped and holds nothing any more."""

    @abstractmethod
    def prolong(self, session_id: int, *, deadline_seconds: float) -> bool:
        """Move the deadline in place of a worker that is silent; of its heartbeat nothing else changes.

        False, and nothing moves, where the deadline has passed or the session's own connection has ended.
        """

    def guard(self, session_id: int, *, deadline_seconds: float) -> bool:  # noqa: ARG002 - for those who can
        """Let this connection stand for the session: when it ends, ``hasten`` shortens the deadline.

        Moves the deadline, too. False asks to be called again soon: the session's former
        connection is not quite gone. True where there is nothing to wait for, be it
        because the database cannot notice.
        """
        return True

    def has_hung_up(self) -> bool:
        """Whether the connection that stands for a session ended, as far as can be seen without asking."""
        return False

    @abstractmethod
    def instruct(self, session_id: int, *, conduct: Conduct | None = None, credit: int | None = None) -> bool:
        """Tell a session, at its next heartbeat, what to do; None leaves it at what it was told before.

        ``credit`` 0 gives its consumers their own again. Returns whether there is such a session.
        """

    @abstractmethod
    def revive(
        self, session_id: int, info: SessionInfo, held: Sequence[Receipt], *, deadline_seconds: float
    ) -> frozenset[int] | None:
        """Open a session again that was reaped, and give it back what it held and nothing has become of since.

        Returns the row ids of all that it holds of ``held``; None, and does nothing, where a session with
        this id exists.
        """

    @abstractmethod
    def close_session(self, session_id: int) -> int:
        """Give back, uncounted, what the session still holds, and forget it. Returns how many were given back."""

    @abstractmethod
    def subscribe(self, session_id: int, name: str, consumer: Consumer | None = None) -> None:
        """Give the session an exclusive queue before it takes a message; where all are welcome, do nothing.

        A ``consumer`` is the session's from now on, until the session ends: claims for it bring what its selector
        wants and its credit allows, and it is woken. Where slots are few, it takes one, or stands by for one.
        Subscribe it again after its credit was changed or it was paused. The consumers of a target
        (``Target.consumer``) read several queues on one credit. Raises AlreadySubscribed if the target
        reads the queue by another consumer, AccessRefused while another
        session has the queue, another SubscriptionRefused as the engine's queues do, UnknownQueue, SessionLost,
        and UnsupportedRule where the store serves no consumers.
        """

    # Consuming.

    def bound_lock_waits(self, seconds: float) -> None:
        """Wait for a lock only so long from the next connection on, where statements wait longer otherwise."""

    def exchange(
        self, session_id: int, settlements: Sequence[Settlement], request: ClaimRequest | None
    ) -> Exchange:
        """Settle, promote what is due and claim, in one transaction where the database allows it.

        Atomic: after an error nothing of it happened, and it may be repeated.
        """
        void = self.settle(session_id, settlements) if settlements else frozenset()
        result = self.claim(session_id, request) if request is not None else Exchange()
        result.void = void
        return result

    @abstractmethod
    def claim(self, session_id: int, request: ClaimRequest) -> Exchange:
        """Promote what is due in these queues, then lease ready messages to the session, in strict order.

        A paused queue yields nothing. Raises SessionLost if the session was reaped, and UnsupportedRule for a
        consumer where the store serves none.
        """

    def refuse_consumers(self, consumer: Consumer | Target | None, settlements: Sequence[Settlement] = ()) -> None:
        """Raise UnsupportedRule for what a consumer asks, unless the store serves consumers."""
        if self.features.serves_consumers:
            return
        if consumer is not None:
            raise refusals.unsupported("a consumer with a selector, credit for bytes or wake-ups")
        if any(item.verdict is DECLINE for item in settlements):
            raise refusals.unsupported("the verdict DECLINE")

    @abstractmethod
    def settle(self, session_id: int, settlements: Sequence[Settlement]) -> frozenset[int]:
        """Write the verdicts; return the row ids of those that were void because the lease was lost.

        A message that was given back because the session's deadline had passed is settled all the same,
        even after the session's end, as long as it carries the token of the session's claim: it was not
        claimed, moved or cancelled since. Raises UnsupportedRule for DECLINE where the store serves no consumers.
        """

    def begin_settle(
        self,
        session_id: int,  # noqa: ARG002 - for stores that serve consumers
        receipts: Sequence[Receipt],  # noqa: ARG002
    ) -> frozenset[int]:
        """Begin the handling of claimed messages; return the row ids of those the session has lost.

        Until then an expiry, a ring, ``purge``, ``cancel`` and ``delete_queue`` may take back what a ``stealable``
        consumer was sent; its settlement is void, and gives the credit back. Raises UnsupportedRule where the
        store serves no consumers.
        """
        raise refusals.unsupported("a stealable consumer")

    def give_back(self, session_id: int, settlements: Sequence[Settlement]) -> None:
        """Give messages back, uncounted, for which no verdict can be written, and write no other table.

        A row that the session no longer holds under the settlement's claim token stays as it is.
        """
        self.settle(session_id, [Settlement(item.id, item.claim, Verdict.RELEASE) for item in settlements])

    @abstractmethod
    def resync(self, session_id: int, held: Sequence[int]) -> int:
        """Give back, uncounted, what is claimed in this session's name but not among the row ids it knows of.

        For after an exchange whose commit was ambiguous: it may have claimed rows that
        never reached the session. Returns how many were given back.
        """

    # Upkeep: safe to run in every worker, at any time, twice.

    def chores(self) -> Chores:
        """Say which duties have something to do, so that the others need not be tried; one statement."""
        return Chores()

    def hasten(self) -> int:
        """Shorten the deadline of every session whose guarding connection has ended; returns how many.

        A worker that only lost its connection has the time to come back and guard again.
        """
        return 0

    @abstractmethod
    def promote(self, limit: int = 1000) -> int:
        """Make due scheduled messages ready; returns how many."""

    @abstractmethod
    def reap(self, *, spare: int = 0) -> list[Reaped]:
        """Give back the messages of every session whose deadline has passed, marked suspect, and forget it.

        The session ``spare`` is left alone: whoever reaps in its name lives.

        A message that such a session held *as a suspect* keeps the counted attempt; at its
        queue's maximum it is dead-lettered with reason "worker lost".
        """

    @abstractmethod
    def expire(self, limit: int = 1000) -> int:
        """Finish scheduled and ready messages whose time to live is over; returns how many."""

    @abstractmethod
    def trim(self) -> int:
        """Replace ready messages of rings that hold too much, as publishing does; returns how many.

        The newest message of a ring stays. A ring that a publisher has locked is left to the publisher.
        """

    @abstractmethod
    def prune(self, limit: int = 5000, *, whole: bool = False) -> int:
        """Delete history, attempts, summed-up minutes and volatile rows past their time; returns how many.

        A queue that keeps no history writes none. What it wrote while it kept some goes as soon as it is older
        than what any other queue keeps, or than a week; ``whole`` looks for it in all of the history.
        """

    @abstractmethod
    def roll_up(self) -> int:
        """Sum up the minutes that are over and have not been, for the charts; returns how many."""

    # Looking.

    @abstractmethod
    def counts(self, names: Sequence[str] | None = None, *, limit: int = 10_000) -> dict[str, Counts]:
        """Count messages per queue and state, each count stopping at ``limit``; one statement."""

    @abstractmethod
    def occupied(self) -> list[int]:
        """Return the ids of the queues that messages are in, in any order, be there such a queue or not."""

    @abstractmethod
    def count_unknown(self, *, limit: int) -> int:
        """Count messages in a state that this version does not know, stopping at ``limit``."""

    @abstractmethod
    def browse(
        self, name: str, *, states: Sequence[int], limit: int = 100, after: Browsed | None = None
    ) -> list[Browsed]:
        """Return messages of one queue in delivery order without taking them."""

    # Following: what arrives, each once. For a connection of one's own, outside transactions.

    @abstractmethod
    def arrivals(self, name: str, *, after: int, limit: int = 100) -> list[Browsed]:
        """Return messages of one queue beyond an arrival number, in that order, whatever their state."""

    @abstractmethod
    def last_arrival(self) -> int:
        """Return the last arrival number of all queues that was given."""

    @abstractmethod
    def unfinished(self, known: frozenset[str] | None, *, after: int, last: int) -> frozenset[str]:
        """Name the open transactions that may still commit an arrival beyond ``after``, up to ``last``.

        Call it first with None, after ``last_arrival``, then with what it said before; once it
        names nobody, whatever is there up to ``last`` can be seen.
        """

    @abstractmethod
    def last_finished(self) -> int:
        """Return the last number of the history that was given."""

    @abstractmethod
    def finishing(self, known: frozenset[str] | None, *, after: int, last: int) -> frozenset[str]:
        """Name the open transactions that may still commit a row of the history, as ``unfinished`` does."""

    # Steering: ids are row ids; each returns how many messages it changed.

    @abstractmethod
    def purge(self, name: str) -> int:
        """Remove all that the queue has and nobody holds: scheduled, ready, dead. What comes meanwhile stays."""

    @abstractmethod
    def cancel(self, ids: Sequence[int]) -> int:
        """Remove messages that nobody holds."""

    @abstractmethod
    def correlated(self, ids: Sequence[str]) -> list[WaitingMessage]:
        """Return the waiting messages whose correlation id, or whose message id, is one of these."""

    @abstractmethod
    def release_held(self, ids: Sequence[int]) -> int:
        """Take claimed messages from their session and make them ready; the session's late verdict is void."""

    @abstractmethod
    def move(self, ids: Sequence[int], target: str) -> int:
        """Move unheld messages to the tail of another queue, attempts restarting, by that queue's rules.

        As many as fit, in order; a ring makes room for all. Raises UnknownQueue, QueueClosed,
        and QueueFull if the first does not fit.
        """

    @abstractmethod
    def deliver_now(self, ids: Sequence[int]) -> int:
        """Make scheduled messages ready, in due order."""

    @abstractmethod
    def reschedule(self, ids: Sequence[int], deliver_at: datetime) -> int:
        """Have scheduled or ready messages delivered at another, aware, time; if it is over, they are ready.

        Their place is that of a message published for that time. Values of a last-value queue are left alone.
        """

    @abstractmethod
    def prioritise(self, ids: Sequence[int], priority: int) -> int:
        """Give ready or scheduled messages another priority, at the tail of their new level."""

    @abstractmethod
    def retry_dead(self, ids: Sequence[int]) -> int:
        """Make dead messages ready again, attempts restarting, in their old place."""

    @abstractmethod
    def set_paused(self, name: str, *, paused: bool, reason: str = "", seconds: float | None = None) -> None:
        """Pause the queue (for ``seconds``, or until resumed), or resume it. Raises UnknownQueue."""

    # What went wrong.

    @abstractmethod
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

    # The caller's transaction.

    @abstractmethod
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

    @abstractmethod
    def change_marker(self) -> int | None:
        """Return a number that moves when another connection commits, None where the database has none."""

    @abstractmethod
    def now_skew_seconds(self) -> float:
        """Return the database's clock minus this machine's."""

    def setting_problems(self) -> list[tuple[str, str]]:
        """Return (problem, hint) for database settings that make the queue slow or fragile."""
        return []

    def privilege_problems(self) -> list[tuple[str, str]]:
        """Return (problem, hint) for privileges without which the queue works, but slowly."""
        return []

    @abstractmethod
    def close(self) -> None:
        """Close a private connection; harmless on a shared one."""
