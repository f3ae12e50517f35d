"""Open, renew, command and end the sessions of workers, and give their messages back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from django_mq.engine.decisions.recall import FreeSlots
    from django_mq.engine.decisions.worker_mode import WorkerMode
    from django_mq.stores.records import Heartbeat, Reaped, Receipt, Renewal, SessionInfo


class Sessions(ABC):
    """Open, renew, command and end the sessions of workers, and give their messages back."""

    @abstractmethod
    def open(self, info: SessionInfo, *, deadline_seconds: float) -> int:
        """Open a session and return its id, which is never used again."""

    @abstractmethod
    def renew(self, session_id: int, heartbeat: Heartbeat) -> Renewal | None:
        """Move the deadline; return None if the session was reaped and holds no message."""

    @abstractmethod
    def prolong(self, session_id: int, *, deadline_seconds: float) -> bool:
        """Move the deadline of a silent worker; False if it has passed, or the connection has ended."""

    @abstractmethod
    def hold_liveness_lock(self, session_id: int, *, deadline_seconds: float) -> bool:
        """Move the deadline, and take the session's liveness lock, which ends with this connection.

        False says to call again soon, because the session's former connection has not ended yet.
        """

    @abstractmethod
    def has_hung_up(self) -> bool:
        """Whether the connection with the liveness lock has ended, as far as is known without a query."""

    @abstractmethod
    def free_slots(self, session_id: int, queues: Sequence[str]) -> dict[str, list[FreeSlots]]:
        """Return, for each queue, the free slots of each other session, by its last heartbeat."""

    @abstractmethod
    def send_command(self, session_id: int, *, mode: WorkerMode | None = None, credit: int | None = None) -> bool:
        """Tell a session what to do at its next heartbeat; return whether the session exists.

        None changes nothing. With ``credit`` 0 its consumers have their own credit again.
        """

    @abstractmethod
    def ask_to_stop(self, ids: Sequence[int]) -> list[int]:
        """Ask the sessions that hold these messages to stop them; return the ids of those that a session holds.

        A session that ends before it has followed does not give such a message back: it is cancelled.
        """

    @abstractmethod
    def ask_to_stop_begun(self, begun: Sequence[tuple[int, Receipt]]) -> list[int]:
        """Ask sessions to stop runs whose messages are gone; return the row ids of those whose session exists.

        Such a run is not tried again, however it ends.
        """

    @abstractmethod
    def forget_stops(self, session_id: int, receipts: Collection[Receipt]) -> None:
        """Forget that a session was asked to stop these claims, because it has them no more."""

    @abstractmethod
    def revive(
        self, session_id: int, info: SessionInfo, held: Sequence[Receipt], *, deadline_seconds: float
    ) -> frozenset[int] | None:
        """Open a reaped session again, with the messages that it held and that have not changed since.

        Returns the row ids that it holds of ``held``. Returns None and does nothing if the session exists.
        """

    @abstractmethod
    def close(self, session_id: int) -> int:
        """Delete the session and give its messages back, uncounted; return how many."""

    @abstractmethod
    def shorten_deadlines(self) -> int:
        """Shorten the deadlines of sessions whose liveness lock has ended; return how many.

        A worker that only lost its connection has time to take the lock again.
        """

    @abstractmethod
    def reap(self, *, spare: int = 0) -> list[Reaped]:
        """Delete sessions past their deadline, except ``spare``; give their messages back, marked suspect.

        A message that was a suspect already keeps the counted attempt; at its queue's maximum it is dead: "worker
        lost".
        """
