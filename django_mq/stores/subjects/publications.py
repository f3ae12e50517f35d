"""Write messages, in the transaction of the connection, if one is open."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.engine.decisions.unique import UniqueClaim
    from django_mq.stores.records import NewMessage, Times


class Publications(ABC):
    """Write messages, in the transaction of the connection, if one is open."""

    @abstractmethod
    def append(self, message: NewMessage, *, again: bool = False) -> int:
        """Write one message and return its row id, the number of its arrival.

        Raises UnknownQueue, QueueClosed, QueueFull or DuplicateMessage, and has written nothing then. With
        ``again``, after a commit with an unknown result, a live message with the same id counts as written, and 0
        is returned. Inside a transaction the memory store returns 0, too.
        """

    def append_first(self, message: NewMessage, claim: UniqueClaim) -> bool:  # noqa: ARG002 - most have no short way
        """Write a message that is the first one with its unique key, in one step; return whether it was written.

        False leaves nothing behind, and does not say why: ``Admission.append`` does what is to be done. Raises
        UniqueKeyHeld.
        """
        return False

    @abstractmethod
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


class Admission(ABC):
    """Write messages by the rules of their queues: limits, duplicate ids, last values, sort keys."""

    @abstractmethod
    def append(self, messages: Sequence[NewMessage], *, again: bool = False) -> list[int]:
        """Write messages as ``append_many``, by the rules of the queues; 0 is a message that was dropped.

        Raises QueueFull. Publishers to such a queue wait for each other's transactions, so that together they stay
        within its limits.
        """
