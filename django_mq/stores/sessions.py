"""The part of the store interface that is about worker sessions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.engine.conduct import Conduct
    from django_mq.stores.records import Heartbeat, Receipt, Renewal, SessionInfo


class Sessions(ABC):
    """Open, renew, instruct, revive and close sessions; let one take an exclusive queue."""

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
    def subscribe(self, session_id: int, name: str) -> None:
        """Give the session an exclusive queue before it takes a message; where all are welcome, do nothing.

        Raises AccessRefused while another session has the queue, UnknownQueue, and SessionLost.
        """
