"""Credit in bytes whose last message may cost more than is left, as Artemis counts it."""

from django_mq.engine.credit.amount import UNLIMITED, check_amount, total
from django_mq.engine.credit.base import Credit
from django_mq.errors import UncountedUnit


class OverdraftCredit(Credit):
    """A balance of bytes, open while it is above zero; each message is paid after the fact.

    So a message of any size goes through, and the balance may fall below zero, which additions
    work off first. Settling gives nothing back.
    """

    __slots__ = ("size_bytes",)

    def __init__(self, size_bytes: int | None = 0) -> None:
        check_amount(size_bytes)
        self.size_bytes = size_bytes

    @property
    def is_open(self) -> bool:
        return self.size_bytes is None or self.size_bytes > 0

    @property
    def free(self) -> int | None:
        return UNLIMITED if self.is_open else 0

    def allows(self, size: int) -> bool:  # noqa: ARG002 (the last one may be of any size)
        return self.is_open

    def take(self, size: int) -> bool:
        if not self.is_open:
            return False
        if self.size_bytes is not None:
            self.size_bytes -= size
        return True

    def give_back(self, size: int) -> None:
        """Nothing: the client sends more when it has consumed enough."""

    def add(self, messages: int | None = 0, size_bytes: int | None = 0) -> None:
        if messages != 0:
            raise UncountedUnit
        check_amount(size_bytes)
        self.size_bytes = total(self.size_bytes, size_bytes)

    def resize(self, messages: int | None, size_bytes: int | None = UNLIMITED) -> None:
        """Set the balance, whatever it was."""
        if messages is not UNLIMITED:
            raise UncountedUnit
        check_amount(size_bytes)
        self.size_bytes = size_bytes

    def stop(self) -> None:
        """As declared; an overdraft is forgiven, for the client starts from nothing too."""
        self.size_bytes = 0
