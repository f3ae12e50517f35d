"""Credit that settling does not give back, as AMQP 0-10 and Artemis' own protocol have it."""

from django_mq.engine.decisions.credit import UNLIMITED, Credit, check_amount, total
from django_mq.errors import UncountedUnit


class SpendingCredit(Credit):
    """Two balances; a message uses both, and settling it gives nothing back.

    Both begin with 0. As in AMQP 0-10 a negative amount means the same as None: unlimited.
    While either balance is 0, not even an empty message is delivered.
    """

    __slots__ = ("messages", "size_bytes")

    messages: int | None
    size_bytes: int | None

    def __init__(self, messages: int | None = 0, size_bytes: int | None = 0) -> None:
        self.resize(messages, size_bytes)

    @property
    def is_open(self) -> bool:
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

    def add(self, messages: int | None = 0, size_bytes: int | None = 0) -> None:
        messages, size_bytes = _amount_or_unlimited(messages), _amount_or_unlimited(size_bytes)
        self.messages = total(self.messages, messages)
        self.size_bytes = total(self.size_bytes, size_bytes)

    def resize(self, messages: int | None, size_bytes: int | None = UNLIMITED) -> None:
        self.messages, self.size_bytes = _amount_or_unlimited(messages), _amount_or_unlimited(size_bytes)


def _amount_or_unlimited(amount: int | None) -> int | None:
    if isinstance(amount, int) and amount < 0:
        return UNLIMITED
    check_amount(amount)
    return amount


class OverdraftCredit(SpendingCredit):
    """A balance of bytes, open while it is above zero; a delivered message is subtracted.

    So a message of any size may be delivered, and the balance may fall below zero. ``add`` adds to the
    negative balance. Settling gives nothing back: the client adds credit when it has consumed enough.
    """

    __slots__ = ()

    def __init__(self, size_bytes: int | None = 0) -> None:
        super().__init__(UNLIMITED, size_bytes)

    @property
    def is_open(self) -> bool:
        return self.size_bytes is None or self.size_bytes > 0

    def allows(self, size: int) -> bool:  # noqa: ARG002 (any size is allowed)
        return self.is_open

    def add(self, messages: int | None = 0, size_bytes: int | None = 0) -> None:
        if messages != 0:
            raise UncountedUnit
        check_amount(size_bytes)
        self.size_bytes = total(self.size_bytes, size_bytes)

    def resize(self, messages: int | None, size_bytes: int | None = UNLIMITED) -> None:
        if messages is not UNLIMITED:
            raise UncountedUnit
        check_amount(size_bytes)
        self.messages, self.size_bytes = messages, size_bytes

    def stop(self) -> None:
        """Set the balance to 0, also a negative one: the client starts from 0 again, too."""
        self.size_bytes = 0
