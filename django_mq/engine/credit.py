"""How much more may be delivered to a consumer before it settles something.

Credit is counted in messages and in bytes. A mode is a subclass of Credit; a queue asks nothing of a
consumer's credit but what that class declares.
"""

from abc import ABC, abstractmethod
from typing import Final

from django_mq.errors import OutOfRange, UncountedUnit

#: As an amount: any number.
UNLIMITED: Final = None

#: The largest amount; sums stop here.
MOST: Final = 2**63


def check_amount(amount: object) -> None:
    """Raise OutOfRange unless this is a whole number in 0..MOST, or None."""
    if amount is UNLIMITED:
        return
    # True is an int for Python; as an amount it is a slip.
    if isinstance(amount, bool) or not isinstance(amount, int) or not 0 <= amount <= MOST:
        raise OutOfRange(f"Credit is a whole number in 0..2**63, or None for any number, not {amount!r}.")


def total(amount: int | None, more: int | None) -> int | None:
    """The sum. Any number and something more is any number; sums above MOST are MOST."""
    if amount is UNLIMITED or more is UNLIMITED:
        return UNLIMITED
    return min(amount + more, MOST)


class Credit(ABC):
    """What a consumer may still be sent. Not safe by itself: the queue's lock guards it.

    Amounts are whole numbers in 0..2**63; None is any number. Whatever a method raises, it has
    changed nothing.
    """

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
        """Whether a message of ``size`` bytes may be delivered now; never if it is not open."""

    @abstractmethod
    def take(self, size: int) -> bool:
        """Use credit for one message; False, with nothing used, if it does not suffice."""

    @abstractmethod
    def give_back(self, size: int) -> None:
        """One delivered message of ``size`` bytes was settled."""

    @abstractmethod
    def add(self, messages: int | None = 0, size_bytes: int | None = 0) -> None:
        """Allow so much more; None: without limit from now on, and later additions change nothing.

        Raises OutOfRange for what is no amount, and UncountedUnit for a unit that the mode
        does not count.
        """

    @abstractmethod
    def resize(self, messages: int | None, size_bytes: int | None = None) -> None:
        """Set new limits; what is outstanding stays, and is worked off if it is too much.

        Raises as ``add`` does; a unit that the mode does not count is None.
        """

    @abstractmethod
    def stop(self) -> None:
        """Allow nothing more until ``resize`` or ``add``, whatever is given back meanwhile.

        Every limit is 0 then, also one that was None: additions must be made to all of them.
        """


class WindowCredit(Credit):
    """Ceilings on what is outstanding; settling a message opens the window again.

    A message larger than the byte ceiling is never delivered: see ``PrefetchCredit``.
    """

    __slots__ = (
        "_byte_ceiling",
        "_message_ceiling",
        "is_open",
        "messages",
        "outstanding",
        "outstanding_bytes",
        "size_bytes",
    )

    #: Kept up to date instead of computed: it is read more often than it changes.
    is_open: bool

    def __init__(self, messages: int | None = UNLIMITED, size_bytes: int | None = UNLIMITED) -> None:
        self.outstanding = 0
        self.outstanding_bytes = 0
        self.resize(messages, size_bytes)

    @property
    def free(self) -> int | None:
        if not self.is_open:
            return 0
        return None if self.messages is None else self.messages - self.outstanding

    def allows(self, size: int) -> bool:
        return self.is_open and self.outstanding_bytes + size <= self._byte_ceiling

    def take(self, size: int) -> bool:
        outstanding_bytes = self.outstanding_bytes + size
        if not self.is_open or outstanding_bytes > self._byte_ceiling:
            return False
        self.outstanding += 1
        self.outstanding_bytes = outstanding_bytes
        self.is_open = self.outstanding < self._message_ceiling and outstanding_bytes < self._byte_ceiling
        return True

    def give_back(self, size: int) -> None:
        # Never below nothing: a settlement counted twice must not widen the window.
        if self.outstanding:
            self.outstanding -= 1
            left = self.outstanding_bytes - size
            # The call of max would cost as much as all the rest.
            self.outstanding_bytes = left = left if left > 0 else 0  # noqa: FURB136
            self.is_open = self.outstanding < self._message_ceiling and left < self._byte_ceiling

    def add(self, messages: int | None = 0, size_bytes: int | None = 0) -> None:
        """Raise the ceilings."""
        check_amount(messages)
        check_amount(size_bytes)
        self.resize(total(self.messages, messages), total(self.size_bytes, size_bytes))

    def resize(self, messages: int | None, size_bytes: int | None = UNLIMITED) -> None:
        check_amount(messages)
        check_amount(size_bytes)
        self.messages = messages
        self.size_bytes = size_bytes
        # A number also where there is no limit: ``take`` then compares and asks nothing else.
        self._message_ceiling = _ceiling(messages)
        self._byte_ceiling = _ceiling(size_bytes)
        self._look_again()

    def _look_again(self) -> None:
        self.is_open = self.outstanding < self._message_ceiling and self.outstanding_bytes < self._byte_ceiling

    def stop(self) -> None:
        self.resize(0, 0)


def _ceiling(limit: int | None) -> int:
    return MOST if limit is None else limit


class PrefetchCredit(WindowCredit):
    """A window that lets one message of any size through while no bytes are outstanding.

    Without that exception a message larger than the byte limit would never be delivered.
    """

    __slots__ = ()

    def allows(self, size: int) -> bool:
        return self.is_open and (not self.outstanding_bytes or super().allows(size))

    def take(self, size: int) -> bool:
        if self.outstanding_bytes:
            return super().take(size)
        if not self.is_open:
            return False
        self.outstanding += 1
        self.outstanding_bytes = size
        self._look_again()
        return True


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
