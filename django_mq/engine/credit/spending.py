"""Credit that is used up, message by message and byte by byte."""

from django_mq.engine.credit.amount import UNLIMITED, check_amount, total
from django_mq.engine.credit.base import Credit


class SpendingCredit(Credit):
    """Two balances; a message needs both, and settling it gives nothing back.

    It starts with nothing. As in AMQP 0-10 a negative amount means the same as None: any
    number. While either balance is nothing, not even an empty message is delivered.
    """

    __slots__ = ("messages", "size_bytes")

    messages: int | None
    size_bytes: int | None

    def __init__(self, messages: int | None = 0, size_bytes: int | None = 0) -> None:
        self.resize(messages, size_bytes)

    @property
    def is_open(self) -> bool:
        # None is any number; nothing is 0.
        return self.messages != 0 and self.size_bytes != 0

    @property
    def free(self) -> int | None:
        return self.messages if self.is_open else 0

    def allows(self, size: int) -> bool:
        return self.is_open and (self.size_bytes is None or size <= self.size_bytes)

    def take(self, size: int) -> bool:
        if not self.allows(size):
            return False
        if self.messages is not None:
            self.messages -= 1
        if self.size_bytes is not None:
            self.size_bytes -= size
        return True

    def give_back(self, size: int) -> None:
        """Nothing: what is spent is spent."""

    def add(self, messages: int | None = 0, size_bytes: int | None = 0) -> None:
        messages, size_bytes = _amount(messages), _amount(size_bytes)
        self.messages = total(self.messages, messages)
        self.size_bytes = total(self.size_bytes, size_bytes)

    def resize(self, messages: int | None, size_bytes: int | None = UNLIMITED) -> None:
        """Set both balances, whatever they were."""
        self.messages, self.size_bytes = _amount(messages), _amount(size_bytes)

    def stop(self) -> None:
        self.resize(0, 0)


def _amount(amount: int | None) -> int | None:
    if isinstance(amount, int) and amount < 0:
        return UNLIMITED
    check_amount(amount)
    return amount
