"""Lease ready messages to a session."""

# ruff: noqa: ARG002 - a default needs no arguments

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from django_mq.stores import errors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from django_mq.stores.records import ClaimRequest, ClaimResult, Failure, Receipt, Settlement


class Claims(ABC):
    """Lease ready messages to a session."""

    @abstractmethod
    def subscribe(self, session_id: int, name: str, consumer: object | None = None) -> None:
        """Give the session an exclusive queue before it takes a message; do nothing for other queues.

        A ``consumer`` belongs to the session until it ends: its claims bring what its selector wants and its
        credit allows, and it is woken. It takes a slot or waits for one. Subscribe it again after a change of its
        credit or a pause. The consumers of a target (``Target.consumer``) read several queues with one credit.
        Raises AlreadySubscribed if the target reads the queue by another consumer, AccessRefused while another
        session has the queue, other SubscriptionRefused errors of the in-process broker, UnknownQueue,
        SessionLost, and UnsupportedRule if the store serves no consumers.
        """

    @abstractmethod
    def settle_and_claim(
        self, session_id: int, settlements: Sequence[Settlement], request: ClaimRequest | None
    ) -> ClaimResult:
        """Settle, promote due messages and claim, in one transaction if the database has them.

        After an error nothing has happened, and you may call it again.
        """

    @abstractmethod
    def claim(self, session_id: int, request: ClaimRequest) -> ClaimResult:
        """Promote due messages of these queues, then lease ready messages to the session, in strict order.

        A paused queue yields no message. Raises SessionLost, and UnsupportedRule for a consumer if the store
        serves none.
        """

    @abstractmethod
    def resync(self, session_id: int, held: Sequence[int]) -> int:
        """Give back, uncounted, the session's messages that it does not know of; return how many.

        Call it after a round trip if you do not know whether it was committed. ``held`` are the known row ids.
        """


class Settlements(ABC):
    """Write the verdicts over claimed messages."""

    @abstractmethod
    def settle(self, session_id: int, settlements: Sequence[Settlement]) -> frozenset[int]:
        """Write the verdicts; return the row ids of void ones, whose lease was lost.

        A message that was given back because the deadline had passed is settled nevertheless, even after the
        session's end, while it has the claim token. No claim of the session brings a message that it has declined.
        In a transaction of the caller, after an error nothing but a rollback is possible.
        """

    def begin_settle(self, session_id: int, receipts: Sequence[Receipt]) -> frozenset[int]:
        """Begin the handling of claimed messages; return the row ids that the session has lost.

        Before, an expiry, a ring, ``purge``, ``cancel`` and ``delete_queue`` may take messages back from a
        ``stealable`` consumer; their settlements are void, and give the credit back. Raises UnsupportedRule.
        """
        raise errors.unsupported("a stealable consumer")

    @abstractmethod
    def give_back(self, session_id: int, settlements: Sequence[Settlement]) -> None:
        """Give messages back, uncounted, if no verdict can be written; write no other table."""

    @abstractmethod
    def mark(self, session_id: int, receipt: Receipt, told_to: str | None) -> None:
        """Write which listenings are told the ends of a message that the session holds.

        A settlement that ``marks`` does the same with its verdict.
        """

    def hold(self, session_id: int, receipt: Receipt) -> bool:
        """Lock a claimed message until the caller's transaction ends; whether the session may settle it.

        What the transaction writes then commits before another session has the message, or never. Raises
        UnsupportedRule.
        """
        raise errors.unsupported_in_memory("a durable handler")

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
        """Record a failed attempt that belongs to no settlement."""
