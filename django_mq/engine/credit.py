"""How much more may be delivered to a consumer before it settles something.

Credit is counted in messages and in bytes at once, and both must allow a delivery. Two modes
stand here, window and prefetch; a mode is a subclass of ``Credit``, and a queue asks nothing
of a consumer's credit but what that class declares.
"""

from abc import ABC, abstractmethod
from typing import Final

from django_mq.errors import OutOfRange

#: As a limit: none.
UNLIMITED: Final = None


class Credit(ABC):
    """What a consumer may still be sent. Not safe by itself: the queue's lock guards it."""

    __slots__ = ()

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether there is any credit, for a message of some size."""

    @property
    @abstractmethod
    def free(self) -> int | None:
        """How many messages may follow if bytes allow; None means any number."""

    @abstractmethod
    def allows(self, size: int) -> bool:
        """Whether a message of ``size`` bytes may be delivered now."""

    @abstractmethod
    def take(self, size: int) -> bool:
        """Use credit for one message; False, with nothing used, if it does not suffice."""

    @abstractmethod
    def give_back(self, size: int) -> None:
        """One delivered message of ``size`` bytes was settled."""

    @abstractmethod
    def resize(self, messages: int | None, size_bytes: int | None) -> None:
        """Set new limits; what is outstanding stays, and is worked off if it is too much."""

    @abstractmethod
    def stop(self) -> None:
        """Allow nothing more until ``resize``, whatever is given back meanwhile."""


class WindowCredit(Credit):
    """Ceilings on what is outstanding; settling a message opens the window again.

    A message larger than the byte ceiling is never delivered: see ``PrefetchCredit``.
    """

    __slots__ = ("messages", "outstanding", "outstanding_bytes", "size_bytes")

    def __init__(self, messages: int | None = UNLIMITED, size_bytes: int | None = UNLIMITED) -> None:
        self.outstanding = 0
        self.outstanding_bytes = 0
        self.resize(messages, size_bytes)

    @property
    def is_open(self) -> bool:
        return (self.messages is None or self.outstanding < self.messages) and (
            self.size_bytes is None or self.outstanding_bytes < self.size_bytes
        )

    @property
    def free(self) -> int | None:
        if not self.is_open:
            return 0
        return None if self.messages is None else self.messages - self.outstanding

    def allows(self, size: int) -> bool:
        return (self.messages is None or self.outstanding < self.messages) and (
            self.size_bytes is None or self.outstanding_bytes + size <= self.size_bytes
        )

    def take(self, size: int) -> bool:
        if not self.allows(size):
            return False
        self.outstanding += 1
        self.outstanding_bytes += size
        return True

    def give_back(self, size: int) -> None:
        # Never below nothing: a settlement counted twice must not widen the window.
        if self.outstanding:
            self.outstanding -= 1
            self.outstanding_bytes = max(0, self.outstanding_bytes - size)

    def resize(self, messages: int | None, size_bytes: int | None = UNLIMITED) -> None:
        """As declared; raises OutOfRange for a negative limit."""
        for limit in (messages, size_bytes):
            if limit is not None and limit < 0:
                raise OutOfRange(f"Credit is not negative: {limit}.")
        self.messages = messages
        self.size_bytes = size_bytes

    def stop(self) -> None:
        self.resize(0, 0)


class PrefetchCredit(WindowCredit):
    """A window that lets one message of any size through while no bytes are outstanding.

    Without that exception a message larger than the byte limit would never be delivered.
    """

    __slots__ = ()

    def allows(self, size: int) -> bool:
        return (self.messages is None or self.outstanding < self.messages) and (
            self.size_bytes is None
            or self.outstanding_bytes + size <= self.size_bytes
            or (self.outstanding_bytes == 0 and self.size_bytes > 0)
        )
