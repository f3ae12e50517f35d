"""Credit that settling a message gives back."""

from django_mq.engine.credit.base import UNLIMITED, Credit
from django_mq.errors import OutOfRange


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
